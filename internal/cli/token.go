package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/token"
	"github.com/spf13/cobra"
)

// rootFlag has the commands about this machine work below a directory, for tests.
func rootFlag(c *cobra.Command, p *setup.Paths) {
	c.PersistentFlags().StringVar(&p.Root, "root", "/", "work below this directory")
	_ = c.PersistentFlags().MarkHidden("root") // it is defined
}

// tokenCommand is about the tokens by which hosts join.
func tokenCommand() *cobra.Command {
	var r reach
	var p setup.Paths
	c := &cobra.Command{
		Use: "token", Short: "Make, list and revoke the tokens by which hosts join",
		Long: `token is about join tokens. Whoever has a valid one and reaches a daemon gets the keys
of the cluster's three authorities, unless it was made with --leaf-only: treat it as you
treat those. Run it as root on a host of the cluster; tokens are made where the
authorities' keys are.`,
		Example: `  etcdadm token create --uses 2 --ttl 1h
  etcdadm token list
  etcdadm token revoke k3v9qd`,
		Args: words(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	r.outputFlag(c)
	rootFlag(c, &p)
	c.AddCommand(tokenCreateCommand(&r, &p), tokenListCommand(&r, &p), tokenRevokeCommand(&r, &p))
	return c
}

// tokenMade is a new token for programs. Its secret is shown this once.
type tokenMade struct {
	ID          string    `json:"id"`
	Token       string    `json:"token"`
	CAHash      string    `json:"caHash"`
	Join        string    `json:"join"` // the command
	Expires     time.Time `json:"expires"`
	Uses        int       `json:"uses,omitempty"` // 0: any number
	LeafOnly    bool      `json:"leafOnly,omitempty"`
	For         string    `json:"host,omitempty"` // the only host that may join by it
	Description string    `json:"description,omitempty"`
}

func tokenCreateCommand(r *reach, p *setup.Paths) *cobra.Command {
	n := setup.NewToken{Life: token.DefaultLife}
	var dryRun bool
	c := &cobra.Command{
		Use: "create [--uses N] [--ttl TIME] [--leaf-only] [--host ID]", Short: "Make a join token, and print the command that joins by it",
		Long: `create makes a join token and prints it once, with the command to run on the host that
is to join. By default any number of hosts may join by it within 24 hours.

A host that joins gets the keys of the authorities, so that the loss of another one loses
nothing. With --leaf-only it gets certificates of its own names and no key: hosts that
hold the keys sign and renew them. Let two hosts at least hold the keys.`,
		Example: `  etcdadm token create --uses 1 --ttl 1h --description "replacement of host c"
  etcdadm token create --leaf-only --host d`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := tokenMistake(&n); err != nil {
				return err
			}
			s, hash, err := thisHost(*p)
			if err != nil {
				return err
			}
			if dryRun {
				fmt.Fprintf(c.OutOrStdout(), "would make a join token for %s, valid for %s\n", usesWords(n.Uses), duration.Format(n.Life))
				return nil
			}
			made, err := setup.MakeToken(c.Context(), s, n)
			if err != nil {
				return tokenFailure(err)
			}
			out := tokenMade{
				ID: made.Record.ID, Token: made.Token.Reveal(), CAHash: hash, Join: joinLine(s.Endpoint(), made.Token.Reveal(), hash),
				Expires: made.Record.Expires, Uses: made.Record.Uses, LeafOnly: n.LeafOnly, For: n.Host, Description: made.Record.Description,
			}
			return r.print(c.OutOrStdout(), out, func(w io.Writer) {
				fmt.Fprintf(w, "join token %s for %s, valid until %s; run on the host that is to join:\n\n  %s\n\n", out.ID, usesWords(out.Uses), untilWords(out.Expires, time.Now()), out.Join)
				gets := "gets the keys of the cluster"
				if out.LeafOnly {
					gets = "becomes a host of the cluster, without the authorities' keys"
				}
				fmt.Fprintf(w, "whoever has this line and reaches a daemon %s; to take it back: etcdadm token revoke %s\n", gets, out.ID)
			})
		},
	}
	c.Flags().IntVar(&n.Uses, "uses", 0, "how many hosts may join by it; 0: any number until it expires")
	c.Flags().Var(dayDuration{&n.Life}, "ttl", "how long it is valid, such as 30m, 24h or 7d; 30d at most")
	c.Flags().BoolVar(&n.LeafOnly, "leaf-only", false, "who joins by it gets no authority's key")
	c.Flags().StringVar(&n.Host, "host", "", "the only host that may join by it, by its ID")
	c.Flags().StringVar(&n.Description, "description", "", "what it is for; the list shows it")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be made, and make nothing")
	return c
}

func tokenMistake(n *setup.NewToken) error {
	n.Description = strings.TrimSpace(n.Description)
	switch {
	case n.Uses < 0 || n.Uses > token.MaxUses:
		return usage("such as --uses 2; leave it out for any number", "--uses=%d is no number from 1 to %d", n.Uses, token.MaxUses)
	case n.Life < time.Minute || n.Life > token.MaxLife:
		return usage("such as --ttl 24h", "--ttl=%s is not between 1m and %s", duration.Format(n.Life), duration.Format(token.MaxLife))
	case n.Host != "" && (pki.Identity{Cluster: "any", Role: pki.RoleHost, ID: n.Host}).Validate() != nil:
		return usage("such as --host host-4", "--host=%q is no host's ID", n.Host)
	case len([]rune(n.Description)) > token.MaxDescription || strings.ContainsFunc(n.Description, unicode.IsControl):
		return usage(fmt.Sprintf("use one line of %d characters at most", token.MaxDescription), "--description is too long, or has more than one line")
	}
	return nil
}

func usesWords(uses int) string {
	if uses == 0 {
		return "any number of hosts"
	}
	return counted(uses, "host")
}

// joinLine is the command for the host that is to join.
func joinLine(endpoint, secret, hash string) string {
	return fmt.Sprintf("etcdadm join %s --token %s --ca-hash %s", endpoint, secret, hash)
}

// thisHost is what this machine has as a host of a cluster.
func thisHost(p setup.Paths) (setup.Settings, string, error) {
	s, err := setup.ReadSettings(p)
	if errors.Is(err, setup.ErrNotSetUp) {
		return nil, "", &Failure{Code: ExitNoCluster, Err: err, Advice: "run it on a host that etcdadm init or join has set up"}
	}
	if err != nil {
		return nil, "", err
	}
	a, err := pki.LoadAuthority(s.PKI(p), pki.ManagerCA, time.Now())
	if err != nil {
		return nil, "", fmt.Errorf("read the authority of the agents: %w", err)
	}
	return s, a.Hash(), nil
}

func tokenFailure(err error) error {
	switch {
	case errors.Is(err, pki.ErrNoKey):
		return &Failure{Code: ExitUnsafe, Err: err, Advice: hintOf(err)}
	case errors.Is(err, control.ErrTokensFull):
		return &Failure{Code: ExitError, Err: err, Advice: "revoke those that nobody needs: etcdadm token list, etcdadm token revoke ID"}
	case errors.Is(err, token.ErrUnknown):
		return &Failure{Code: ExitError, Err: err, Advice: "etcdadm token list has those that there are"}
	}
	return err
}

// tokenListed is a token as people see it: nothing in it lets anybody in.
type tokenListed struct {
	ID          string      `json:"id"`
	State       token.State `json:"state"`
	Created     time.Time   `json:"created"`
	Expires     time.Time   `json:"expires"`
	Revoked     time.Time   `json:"revoked,omitzero"`
	Uses        int         `json:"uses,omitempty"` // 0: any number
	LeafOnly    bool        `json:"leafOnly,omitempty"`
	Host        string      `json:"host,omitempty"` // the only one that may join by it
	Joined      []joinedBy  `json:"joined,omitempty"`
	Description string      `json:"description,omitempty"`
}

// joinedBy is a host that joined by a token.
type joinedBy struct {
	Host cluster.HostID `json:"host"`
	At   time.Time      `json:"at"`
}

func listedToken(r token.Record, now time.Time) tokenListed {
	out := tokenListed{ID: r.ID, State: r.State(now), Created: r.Created, Expires: r.Expires, Revoked: r.Revoked, Uses: r.Uses, LeafOnly: r.LeafOnly, Host: r.Host, Description: r.Description}
	for _, u := range r.Used {
		out.Joined = append(out.Joined, joinedBy{cluster.HostID(u.Host), u.At})
	}
	return out
}

// tokenFolder opens the store in which this machine's cluster keeps its tokens.
func tokenFolder(ctx context.Context, p setup.Paths) (*control.Folder, error) {
	s, _, err := thisHost(p)
	if err != nil {
		return nil, err
	}
	return setup.OpenFolder(ctx, s)
}

func tokenListCommand(r *reach, p *setup.Paths) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the join tokens, also those that ended within the last 7 days",
		Example: "  etcdadm token list -o json",
		Args:    words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), storeTimeout)
			defer cancel()
			folder, err := tokenFolder(ctx, *p)
			if err != nil {
				return err
			}
			all, err := folder.Tokens().All(ctx)
			if err != nil {
				return err
			}
			now := time.Now()
			listed := []tokenListed{}
			for _, one := range all {
				listed = append(listed, listedToken(one, now))
			}
			return r.print(c.OutOrStdout(), listed, func(w io.Writer) { printTokens(w, listed, now) })
		},
	}
}

func printTokens(w io.Writer, all []tokenListed, now time.Time) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no join tokens; to make one: etcdadm token create")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tEXPIRES\tGIVES\tUSED\tBY\tDESCRIPTION")
	for _, one := range all {
		used, by := fmt.Sprint(len(one.Joined)), []string{}
		if one.Uses > 0 {
			used += fmt.Sprintf(" of %d", one.Uses)
		}
		for _, j := range one.Joined {
			by = append(by, string(j.Host))
		}
		gives := "keys"
		if one.LeafOnly {
			gives = "leaves"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", one.ID, one.State, untilWords(one.Expires, now), gives, used, orNone(strings.Join(by, ", ")), one.Description)
	}
	t.Flush()
}

func tokenRevokeCommand(r *reach, p *setup.Paths) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use: "revoke ID", Short: "Have a join token refused from now on",
		Long: `revoke has a join token refused from now on. Hosts that have joined by it stay. Whoever
joined by a stolen token has the authorities' keys, unless it was made with --leaf-only:
rotate those (docs/operations/tls.md).`,
		Example: "  etcdadm token revoke k3v9qd",
		Args:    words(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			id, _, _ := strings.Cut(args[0], ".") // who pastes a whole token means it
			if !token.ValidID(id) {
				return usage("etcdadm token list has the IDs", "%q is no token's ID", id)
			}
			ctx, cancel := context.WithTimeout(c.Context(), storeTimeout)
			defer cancel()
			folder, err := tokenFolder(ctx, *p)
			if err != nil {
				return err
			}
			if dryRun {
				fmt.Fprintf(c.OutOrStdout(), "would revoke join token %s\n", id)
				return nil
			}
			was, err := folder.Tokens().Revoke(ctx, id, time.Now().UTC().Truncate(time.Second))
			if err != nil {
				return tokenFailure(err)
			}
			return r.print(c.OutOrStdout(), listedToken(was, time.Now()), func(w io.Writer) {
				fmt.Fprintf(w, "join token %s is revoked; %s joined by it\n", id, counted(len(was.Used), "host"))
			})
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be revoked, and revoke nothing")
	return c
}

// secretOf is a join token from a flag, a file or the environment, of which one is enough.
func secretOf(flagged, file string) (token.Token, error) {
	const hint = "copy the line that etcdadm token create printed; the token may also be in $ETCDADM_TOKEN or in a file: --token-file"
	text := flagged
	switch {
	case flagged != "" && file != "":
		return token.Token{}, usage(hint, "give one of --token and --token-file")
	case file != "":
		data, err := readSecret(file)
		if err != nil {
			return token.Token{}, usage(hint, "read --token-file: %w", err)
		}
		text = data
	case flagged == "":
		text = os.Getenv("ETCDADM_TOKEN")
	}
	if text == "" {
		return token.Token{}, usage(hint, "say which join token: --token")
	}
	t, err := token.Parse(text)
	if err != nil {
		return token.Token{}, usage(hint, "%w", err)
	}
	return t, nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"etcdadm.io/internal/certs"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/signing"
	"github.com/spf13/cobra"
)

// certsCommand is about the certificates of this host.
func certsCommand() *cobra.Command {
	h := certsHost{}
	c := &cobra.Command{
		Use: "certs", Short: "List, issue and renew certificates, and rotate the authorities",
		Long: `certs is about the certificates on this host: the authorities, those of the agent and its
member, and those that "certs issue" made for clients of etcd. Run it as root. The agent
renews its own; what "certs issue" made is renewed by "certs renew". "certs rotate-ca"
replaces the authorities of the whole cluster while it serves.`,
		Example: `  etcdadm certs list
  etcdadm certs issue --for kube-apiserver
  etcdadm certs renew`,
		Args: words(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f := c.PersistentFlags()
	f.StringVar(&h.pkiDir, "pki-dir", "", "where the authorities are; default: where etcdadm init or join put them")
	f.StringVar(&h.dataDir, "data-dir", "", "data directory of the agent; default: that of etcdadm init or join")
	h.outputFlag(c)
	rootFlag(c, &h.paths)
	c.AddCommand(h.listCommand(), h.issueCommand(), h.renewCommand(), h.rotateCommand())
	return c
}

// certsHost is the host whose certificates are looked after.
type certsHost struct {
	reach
	paths  setup.Paths
	pkiDir string
}

// host is what was said, and what init or join has set up here.
func (h *certsHost) host(ctx context.Context) (certs.Host, error) {
	s, err := setup.ReadSettings(h.paths)
	if err != nil && (h.pkiDir == "" || !errors.Is(err, setup.ErrNotSetUp)) {
		if errors.Is(err, setup.ErrNotSetUp) {
			return certs.Host{}, &Failure{Code: ExitNoCluster, Err: err, Advice: "run it on a host that etcdadm init or join has set up; on another one give --pki-dir, and --data-dir of its daemon"}
		}
		return certs.Host{}, err
	}
	life, err := pki.LifetimeFromEnv(func(name string) string { return s[name] })
	if err != nil {
		return certs.Host{}, err
	}
	out := certs.Host{Root: h.paths.Root, PKI: h.pkiDir, Data: h.dataDir, Life: life}
	if out.PKI == "" {
		out.PKI = s.PKI(h.paths)
	}
	if out.Data == "" {
		out.Data = s.Flag("data-dir")
	}
	if s != nil {
		out.Ask = func(kind signing.Kind, request []byte) ([]byte, error) {
			return s.Sign(ctx, h.paths, kind, request)
		}
	}
	return out, nil
}

// certsFailure gives an error of the certificates its exit code.
func certsFailure(err error) error {
	if errors.Is(err, certs.ErrForeign) || errors.Is(err, certs.ErrNoAuthority) {
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("%w; nothing was changed", err), Advice: hintOf(err)}
	}
	return err
}

func (h *certsHost) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List all certificates of this host with their ends",
		Long: fmt.Sprintf(`list shows every certificate of this host: what it is for, which authority issued it (the
start of its SHA-256 fingerprint), when it ends, and what renews it:

  agent    the agent renews it by itself, at two thirds of its life
  holder   the agent has it renewed by a host that holds the authorities' keys, from a
           third of its life on; this host holds none
  command  etcdadm certs renew renews it
  rotate   an authority, which etcdadm certs rotate-ca replaces; "(key)" says that this
           host holds its key

The exit code is %d when one needs a look: damaged, not trusted, replaced, not valid yet,
expired, or ends within 30 days (or within the last quarter of a shorter life).`, ExitExpiring),
		Example: `  etcdadm certs list
  etcdadm certs list -o json`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			host, err := h.host(c.Context())
			if err != nil {
				return err
			}
			now := time.Now()
			all, err := host.List(now)
			if err != nil {
				return err
			}
			if err := h.print(c.OutOrStdout(), all, func(w io.Writer) { printCertificates(w, all, now) }); err != nil {
				return err
			}
			return attention(all)
		},
	}
}

func printCertificates(w io.Writer, all []certs.Certificate, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FILE\tFOR\tISSUED BY\tEXPIRES\tRENEWS\tSTATE")
	for _, one := range all {
		state := string(one.State)
		if one.Why != "" {
			state += ": " + one.Why
		}
		renews := string(one.Renews)
		if one.Key {
			renews += " (key)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", one.File, one.For, issuerWords(one), endWords(one.NotAfter, now), renews, state)
	}
	t.Flush()
}

// issuerWords are the authority and the first four bytes of its fingerprint, as openssl has them.
func issuerWords(c certs.Certificate) string {
	short := ""
	for i := 0; i+2 <= min(len(c.IssuedBy), 8); i += 2 {
		if short != "" {
			short += ":"
		}
		short += c.IssuedBy[i : i+2]
	}
	switch {
	case c.Issuer == "":
		return "?"
	case short == "":
		return c.Issuer
	}
	return c.Issuer + " " + short
}

// endWords is a day, and how many days it is away.
func endWords(at, now time.Time) string {
	if at.IsZero() {
		return "?"
	}
	days, words := int(at.Sub(now).Hours()/24), ""
	switch {
	case at.Before(now):
		words = counted(-days, "day") + " ago"
	case days == 0:
		words = "today, at " + at.UTC().Format("15:04")
	default:
		words = "in " + counted(days, "day")
	}
	return fmt.Sprintf("%s (%s)", at.UTC().Format(time.DateOnly), words)
}

// attention is a failure that names how many certificates a person has to do something about.
func attention(all []certs.Certificate) error {
	first, n := certs.Certificate{}, 0
	for _, one := range all {
		if one.State.Attention() {
			if n == 0 {
				first = one
			}
			n++
		}
	}
	if n == 0 {
		return nil
	}
	advice := "see why the agent does not renew it: journalctl -u etcdadm; or renew it now: etcdadm certs renew"
	switch {
	case first.Renews == certs.ByNobody:
		advice = "rotate the authorities: etcdadm certs rotate-ca; or put back its file"
	case first.State == certs.Replaced:
		advice = "to take its place: etcdadm certs issue --set-aside"
	case first.Renews == certs.ByPerson && first.State == certs.Damaged:
		advice = "issue it again: etcdadm certs issue"
	case first.Renews == certs.ByPerson:
		advice = "renew it: etcdadm certs renew"
	case first.State == certs.NotYetValid:
		advice = "check this host's clock"
	}
	more := ""
	if n > 1 {
		more = fmt.Sprintf(" (and %d more)", n-1)
	}
	return &Failure{Code: ExitExpiring, Err: fmt.Errorf("certificate of %s: %s%s", first.For, first.State, more), Advice: advice}
}

func (h *certsHost) issueCommand() *cobra.Command {
	o := certs.Order{}
	life := pki.DefaultLifetime().Duration
	c := &cobra.Command{
		Use: "issue --for kube-apiserver|healthcheck|etcdctl|NAME [--out DIR]", Short: "Make a certificate for a client of etcd",
		Long: `issue makes a certificate and key with which a client reaches etcd, and puts them with
the authority's certificate where that client looks for them:

  kube-apiserver  /etc/kubernetes/pki/apiserver-etcd-client.{crt,key}, etcd/ca.crt
  healthcheck     /etc/kubernetes/pki/etcd/healthcheck-client.{crt,key}, etcd/ca.crt
  etcdctl         /etc/etcd/pki/etcdctl-etcd-client.{crt,key}, ca.crt
  NAME            DIR/NAME.{crt,key}, ca.crt

--out puts the same files below another directory, to be copied to another machine. NAME
is the common name, which is etcd's user when authentication is on. It needs the key of
the clients' authority, which every host has that etcdadm init or join has set up, but
for leaf-only hosts.

Run again it changes nothing while the certificate is good, and renews it when it is due.
Files that etcdadm did not make stay where they are, unless --set-aside moves them to a
name beside them.`,
		Example: `  etcdadm certs issue --for kube-apiserver
  etcdadm certs issue --for kube-apiserver --out ./control-plane
  etcdadm certs issue --for backup --out ./backup --lifetime 90d`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			const example = "such as etcdadm certs issue --for kube-apiserver"
			switch {
			case o.For == "":
				return usage(example, "say for whom: --for")
			case o.Dir == "" && !certs.NamesPlace(o.For):
				return usage("such as --out ./"+o.For, "the certificate of %s has no place of its own: say where it is to lie with --out", o.For)
			}
			host, err := h.host(c.Context())
			if err != nil {
				return err
			}
			if c.Flags().Changed("lifetime") { // else it stays as it was issued before
				o.Life = pki.Lifetime{Duration: life, MinTimeLeft: min(life/3, pki.DefaultLifetime().MinTimeLeft)}
				if err := o.Life.Validate(); err != nil {
					return usage("such as --lifetime 90d", "%w", err)
				}
			}
			done, err := host.Issue(o, time.Now())
			if err != nil {
				return certsFailure(err)
			}
			return h.print(c.OutOrStdout(), done, func(w io.Writer) { printIssued(w, done, o.DryRun) })
		},
	}
	f := c.Flags()
	f.StringVar(&o.For, "for", "", "kube-apiserver, healthcheck, etcdctl, or a common name")
	f.StringVar(&o.Dir, "out", "", "directory instead of the client's own")
	f.Var(dayDuration{&life}, "lifetime", "how long it is good, such as 90d or 1y")
	f.BoolVar(&o.SetAside, "set-aside", false, "move files that etcdadm did not make to a name beside them")
	f.BoolVar(&o.DryRun, "dry-run", false, "print what would be issued, and write nothing")
	return c
}

func printIssued(w io.Writer, done certs.Issued, dryRun bool) {
	for _, path := range done.Aside {
		if dryRun {
			fmt.Fprintf(w, "would set aside: %s\n", path)
			continue
		}
		fmt.Fprintf(w, "set aside: %s\n", path)
	}
	switch until := done.NotAfter.UTC().Format(time.DateOnly); {
	case dryRun && done.Issued == "":
		fmt.Fprintf(w, "would change nothing: the certificate of %s is good\n", done.CommonName)
	case dryRun:
		fmt.Fprintf(w, "would issue %s: %s\n", done.CommonName, done.Issued)
	case done.Issued == "":
		fmt.Fprintf(w, "the certificate of %s is good until %s\n", done.CommonName, until)
	default:
		fmt.Fprintf(w, "issued %s, good until %s\n", done.CommonName, until)
	}
	for _, path := range []string{done.CA, done.Cert, done.Key} {
		fmt.Fprintf(w, "  %s\n", path)
	}
	if !dryRun {
		fmt.Fprintln(w, "nothing renews it by itself: run etcdadm certs renew once a week")
	}
}

func (h *certsHost) renewCommand() *cobra.Command {
	var o certs.Renewal
	c := &cobra.Command{
		Use: "renew [--all]", Short: "Renew the certificates of this host that are due",
		Long: `renew issues certificates anew that are past two thirds of their life: those that
"certs issue" made, and those of the agent and its member, which the agent renews by
itself while it runs. --all renews the others too. Keys and names stay. etcd takes a new
certificate at its next handshake, the agent within ten minutes; neither is restarted.
Authorities are not renewed.`,
		Example: `  etcdadm certs renew --dry-run
  etcdadm certs renew`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			host, err := h.host(c.Context())
			if err != nil {
				return err
			}
			all, err := host.Renew(o, time.Now())
			if err != nil {
				return err
			}
			if err := h.print(c.OutOrStdout(), all, func(w io.Writer) { printRenewed(w, all, o.DryRun) }); err != nil {
				return err
			}
			return notRenewed(all)
		},
	}
	c.Flags().BoolVar(&o.All, "all", false, "renew also those that are not due")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "print what would be renewed, and write nothing")
	return c
}

func printRenewed(w io.Writer, all []certs.Renewed, dryRun bool) {
	n := 0
	for _, r := range all {
		if r.Trust {
			fmt.Fprintf(w, "wrote the authority's certificates beside %s\n", r.File)
			n++
		}
		switch {
		case r.Failed != "" || r.Renewed == "":
			continue
		case dryRun:
			fmt.Fprintf(w, "would renew %s: %s\n", r.File, r.Renewed)
		default:
			fmt.Fprintf(w, "renewed %s, good until %s\n", r.File, r.NotAfter.UTC().Format(time.DateOnly))
		}
		n++
	}
	if n == 0 {
		fmt.Fprintf(w, "nothing to renew: %s looked at\n", counted(len(all), "certificate"))
	}
}

func notRenewed(all []certs.Renewed) error {
	var failed []error
	for _, r := range all {
		if r.Failed != "" {
			failed = append(failed, fmt.Errorf("not renewed: %s: %s", r.For, r.Failed))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &Failure{Code: ExitError, Err: errors.Join(failed...), Advice: "the others were looked at; mend that and run it again: etcdadm certs list has their ends"}
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"github.com/spf13/cobra"
)

// listedBackup is a backup as list prints it for programs.
type listedBackup struct {
	Name     string          `json:"name"`
	At       time.Time       `json:"at"`
	Size     int64           `json:"size"` // bytes in the store
	Version  cluster.Version `json:"etcdVersion,omitzero"`
	Revision int64           `json:"revision,omitempty"`
	// AtLeast: the snapshot itself was not looked at, and may go further.
	AtLeast bool   `json:"revisionAtLeast,omitempty"`
	Keys    *int64 `json:"keys,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Encrypted: the secret key is needed to read it.
	Encrypted bool   `json:"encrypted"`
	Pinned    string `json:"pinned,omitempty"` // why it is never to be pruned
	// KeepUntil is when it may be pruned at the earliest, where that was asked for.
	KeepUntil time.Time `json:"keepUntil,omitzero"`
	Proven    string    `json:"proven,omitempty"` // how deep the last verification went
	Problem   string    `json:"problem,omitempty"`
}

// notKnown stands where there is nothing to print.
const notKnown = "–"

func (b *backups) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the backups, newest first", Args: words(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []backupstore.Backup
			err := tells(cmd, func(ctx context.Context) error {
				c, err := b.catalogue(ctx)
				if err != nil {
					return err
				}
				entries, err := c.List(ctx)
				if err != nil {
					return err
				}
				all, err = c.Describe(ctx, entries)
				return err
			})
			if err != nil {
				return b.elsewhere(err)
			}
			rows := []listedBackup{}
			for _, x := range all {
				rows = append(rows, listedAs(x))
			}
			return b.print(cmd.OutOrStdout(), rows, func(w io.Writer) { printBackups(w, rows) })
		},
	}
}

func listedAs(x backupstore.Backup) listedBackup {
	row := listedBackup{Name: x.Name.String(), At: x.Name.Time(), Size: x.Size, Version: x.Version(), Keys: x.Manifest.Keys(), Encrypted: x.Encoding.Encrypted, Problem: x.Doubt()}
	exact := false
	row.Revision, exact = x.Manifest.Revision()
	row.AtLeast = row.Revision > 0 && !exact
	if m := x.Manifest; m != nil {
		row.Reason, row.Pinned, row.KeepUntil = string(m.Reason), m.Pinned, m.KeepUntil
		if x.Proven() {
			row.Proven = string(m.Verifications[len(m.Verifications)-1].Depth)
		}
	}
	return row
}

// printBackups has one line for each, and behind them what is wrong.
func printBackups(w io.Writer, rows []listedBackup) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tAGE\tSIZE\tETCD\tREVISION\tKEYS\tREASON\tENCRYPTED\tPROVEN\tPINNED")
	atLeast := false
	for _, r := range rows {
		proven := cmp.Or(r.Proven, "no")
		if r.Problem != "" {
			proven = "BAD"
		}
		atLeast = atLeast || r.AtLeast
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, tookWords(time.Since(r.At)), sizeWords(r.Size), versionWords(r.Version),
			revisionWords(r), numberWords(r.Keys), cmp.Or(r.Reason, notKnown), yesWords(r.Encrypted), proven, backupstore.OneLine(cmp.Or(r.Pinned, keepWords(r.KeepUntil))))
	}
	_ = t.Flush()
	if atLeast {
		fmt.Fprintln(w, "≥: what the member said before its snapshot began, which may hold more; etcdadm backup verify NAME finds out")
	}
	for _, r := range rows {
		if r.Problem != "" {
			fmt.Fprintf(w, "%s is BAD: %s\n", r.Name, r.Problem)
		}
	}
}

func yesWords(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// keepWords stand where a pin does: it is one for a time.
func keepWords(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return "until " + at.UTC().Format(time.DateTime)
}

func versionWords(v cluster.Version) string {
	if v.IsZero() {
		return notKnown
	}
	return v.String()
}

func revisionWords(r listedBackup) string {
	switch {
	case r.Revision == 0:
		return notKnown
	case r.AtLeast:
		return fmt.Sprintf("≥ %d", r.Revision)
	}
	return fmt.Sprint(r.Revision)
}

func numberWords(n *int64) string {
	if n == nil {
		return notKnown
	}
	return fmt.Sprint(*n)
}

// etcdWords names the release that wrote a backup.
func etcdWords(x backupstore.Backup) string {
	if v := x.Version(); !v.IsZero() {
		return "etcd " + v.String()
	}
	return "an etcd of unknown version (run etcdadm snapshot status FILE)"
}

func (b *backups) show(ctx context.Context, c *backupstore.Catalogue, name backup.Name, _ []string, out io.Writer) error {
	x, err := c.Get(ctx, name)
	if err != nil {
		return err
	}
	shown := struct {
		listedBackup
		File     string           `json:"file"`
		Meta     backup.Meta      `json:"meta"`
		Manifest *backup.Manifest `json:"manifest,omitempty"`
	}{listedAs(x), x.File, x.Meta, x.Manifest}
	return b.print(out, shown, func(w io.Writer) { printShown(w, x, shown.listedBackup) })
}

// printShown is everything that is known of a backup, for people.
func printShown(w io.Writer, x backupstore.Backup, r listedBackup) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, backupstore.OneLine(fmt.Sprintf(format, args...)))
	}
	row("name", "%s", x.Name)
	row("taken", "%s, %s ago", x.Name.Time().Format(time.RFC3339), tookWords(time.Since(r.At)))
	if r.Problem != "" {
		row("BAD", "%s", r.Problem)
	}
	row("etcd", "%s", versionWords(r.Version))
	switch {
	case r.Revision == 0:
		row("revision", "%s (run etcdadm backup verify %s to find out)", notKnown, x.Name)
	case r.AtLeast:
		row("revision", "at least %d, where the member was before its snapshot began; etcdadm backup verify %s finds out", r.Revision, x.Name)
	default:
		row("revision", "%d", r.Revision)
	}
	if r.Keys == nil {
		row("keys", "%s (nobody counted them; etcdadm backup drill %s does)", notKnown, x.Name)
	} else {
		row("keys", "%d", *r.Keys)
	}
	row("file", "%s, %s in the store", cmp.Or(x.File, "none"), sizeWords(x.Size))
	m := x.Manifest
	if m == nil {
		row("manifest", "none: it is of another program, or its file is damaged")
		return
	}
	row("snapshot", "%s, SHA-256 %s", sizeWords(m.Snapshot.Size), cmp.Or(m.Snapshot.SHA256, notKnown))
	row("reason", "%s", cmp.Or(r.Reason, notKnown))
	row("cluster", "%s, %s, member %s on host %s", cmp.Or(m.Cluster, notKnown), m.ClusterID, m.MemberID, cmp.Or(string(m.Host), notKnown))
	row("raft", "term %d, index %d at least", m.Position.Term, m.Position.Index)
	if m.Duration > 0 {
		row("took", "%s", tookWords(m.Duration))
	}
	if len(m.Recipients) > 0 {
		row("encrypted", "to %v", m.Recipients)
	}
	row("pinned", "%s", cmp.Or(m.Pinned, "no"))
	if !m.KeepUntil.IsZero() {
		row("kept until", "%s at least", m.KeepUntil.Format(time.RFC3339))
	}
	if len(m.Verifications) == 0 {
		row("verified", "never")
	}
	for _, v := range m.Verifications {
		how := "good"
		if !v.OK {
			how = "BAD: " + v.Problem
		}
		by := ""
		if v.Host != "" {
			by = " on host " + string(v.Host)
		}
		row("looked at", "%s, %s%s, in %s: %s", v.At.Format(time.RFC3339), v.Depth, by, tookWords(v.Duration), how)
	}
}

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
	"github.com/spf13/cobra"
)

// personLifetime is how long a person's certificate is good when nothing is said:
// there is no list of withdrawn ones, so that its end is what takes it back.
const personLifetime = 90 * duration.Day

// pkiCommand makes authorities and the certificates of people.
func pkiCommand() *cobra.Command {
	c := group("pki", "Make the authorities of a cluster, or a certificate for a person")
	c.AddCommand(pkiInitCommand(), pkiIssueCommand())
	return c
}

// pkiFile is a certificate as a person is told of it.
type pkiFile struct {
	Name     string    `json:"name"`
	File     string    `json:"file"`
	NotAfter time.Time `json:"notAfter"`
}

func pkiInitCommand() *cobra.Command {
	var r reach
	var dir string
	var dryRun, addMissing bool
	c := &cobra.Command{
		Use: "init --pki-dir DIR", Short: "Make the three authorities of a cluster",
		Long: `init creates a cluster's three certificate authorities; copy them to every host. If all
three exist, nothing changes. If only some of their files exist, it refuses: no other
host would trust a new authority beside the old ones. --add-missing creates them anyway,
for example after an interrupted init; copy the key of an existing certificate from
another host. No existing file is overwritten.`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := wholeAuthorities(dir, addMissing); err != nil {
				return err
			}
			if dryRun {
				return r.print(c.OutOrStdout(), missingAuthorities(dir), func(w io.Writer) {
					for _, name := range missingAuthorities(dir) {
						fmt.Fprintf(w, "would make %s\n", filepath.Join(dir, name+".crt"))
					}
				})
			}
			all, err := pki.Create(dir, time.Now())
			if err != nil {
				return fmt.Errorf("make authorities: %w", err)
			}
			var files []pkiFile
			for _, e := range all.Expiries() {
				files = append(files, pkiFile{Name: e.Name, File: filepath.Join(dir, e.Name+".crt"), NotAfter: e.NotAfter})
			}
			return r.print(c.OutOrStdout(), files, func(w io.Writer) {
				for _, f := range files {
					fmt.Fprintf(w, "%s, good until %s\n", f.File, f.NotAfter.UTC().Format(time.DateOnly))
				}
				fmt.Fprintln(w, "copy all six files to every host, readable for root only")
			})
		},
	}
	c.Flags().StringVar(&dir, "pki-dir", "/etc/kubernetes/pki/etcd-manager", "where the authorities are")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be created, and create nothing")
	c.Flags().BoolVar(&addMissing, "add-missing", false, "create the missing files beside the existing ones; the other hosts do not trust them until they have them too")
	r.outputFlag(c)
	return c
}

// wholeAuthorities refuses a directory that has some of the authorities' six files and not
// the others: it was used, and what is missing was lost. addMissing makes authorities that
// are missing all the same; the key of a certificate that is there nobody makes again.
func wholeAuthorities(dir string, addMissing bool) error {
	var there, missing, keys []string
	for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
		had := false // the certificate, which is looked for first
		for _, file := range []string{name + ".crt", name + ".key"} {
			if _, err := os.Lstat(filepath.Join(dir, file)); !errors.Is(err, fs.ErrNotExist) {
				there = append(there, file)
				had = true
				continue
			}
			missing = append(missing, filepath.Join(dir, file))
			if had {
				keys = append(keys, filepath.Join(dir, file))
			}
		}
	}
	switch {
	case len(missing) == 0 || len(there) == 0:
		return nil
	case len(keys) == 1 && len(missing) == 1:
		return &Failure{
			Code: ExitUnsafe, Err: fmt.Errorf("%s is missing; nothing was created", keys[0]),
			Advice: "copy it from another host of the cluster; --add-missing cannot recreate the key of an existing certificate",
		}
	case len(keys) > 0:
		return &Failure{
			Code: ExitUnsafe, Err: fmt.Errorf("%s are missing; nothing was created", strings.Join(missing, ", ")),
			Advice: "copy them from another host of the cluster; --add-missing cannot recreate the key of an existing certificate, such as " + strings.Join(keys, ", "),
		}
	case addMissing:
		return nil
	}
	return &Failure{
		Code:   ExitUnsafe,
		Err:    fmt.Errorf("%s is incomplete: it has %s, but not %s; nothing was created", dir, strings.Join(there, ", "), strings.Join(missing, ", ")),
		Advice: "copy what is missing from another host of the cluster; if no host has it, or an init was cut short: etcdadm pki init --add-missing --pki-dir " + cluster.ShellWord(dir) + ", and copy all six files to every host",
	}
}

func missingAuthorities(dir string) []string {
	missing := []string{}
	for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
		if _, err := os.Lstat(filepath.Join(dir, name+".crt")); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, name)
		}
	}
	return missing
}

// issued is a person's certificate.
type issued struct {
	Identity string    `json:"identity"`
	Dir      string    `json:"dir"`
	NotAfter time.Time `json:"notAfter"`
	Issued   string    `json:"issued,omitempty"` // why; empty: the one that was there is good
}

// personRequest is what `pki issue` was called with.
type personRequest struct {
	cluster, role, name, dir, out string
	life                          time.Duration
}

func pkiIssueCommand() *cobra.Command {
	var r reach
	var p personRequest
	var dryRun bool
	c := &cobra.Command{
		Use: "issue NAME --cluster-name C --role operator|reader --out DIR", Short: "Make a certificate with which a person reaches the daemons",
		Long: `issue creates a certificate and key for one person, for --credentials of the other
commands. An operator may make every change; a reader may only look. Run it where the
authority's key is, and give DIR to the person.

Run again with the same arguments it renews a certificate after two thirds of its life.
Certificates cannot be revoked one by one: each ends with its life, and all of them
when the authority is rotated.`,
		Args: words(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			p.name = args[0]
			done, err := p.issue(dryRun, time.Now())
			if err != nil {
				return err
			}
			return r.print(c.OutOrStdout(), done, func(w io.Writer) {
				switch {
				case dryRun:
					fmt.Fprintf(w, "would issue %s in %s\n", done.Identity, done.Dir)
					return
				case done.Issued == "":
					fmt.Fprintf(w, "%s in %s is good until %s\n", done.Identity, done.Dir, done.NotAfter.UTC().Format(time.DateOnly))
				default:
					fmt.Fprintf(w, "issued %s in %s, good until %s\n", done.Identity, done.Dir, done.NotAfter.UTC().Format(time.DateOnly))
				}
				fmt.Fprintf(w, "use it: etcdadm status --endpoint HOST:PORT --cluster-name %s --credentials %s\n", p.cluster, done.Dir)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&p.cluster, "cluster-name", "", "name of the cluster")
	f.StringVar(&p.role, "role", string(pki.RoleReader), "operator or reader")
	f.StringVar(&p.dir, "pki-dir", "/etc/kubernetes/pki/etcd-manager", "where the authorities are")
	f.StringVar(&p.out, "out", "", "directory for me.crt, me.key and ca.crt")
	p.life = personLifetime
	f.Var(dayDuration{&p.life}, "lifetime", "how long it is good, such as 12h, 90d or 1y")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be issued, and write nothing")
	r.outputFlag(c)
	return c
}

// holder names whose certificate was found.
func holder(is pki.Identity, err error) string {
	if err != nil {
		return "somebody who is no caller of daemons"
	}
	return is.String()
}

// issue keeps the person's key pair in its directory.
func (p personRequest) issue(dryRun bool, now time.Time) (issued, error) {
	const example = "such as etcdadm pki issue alice --cluster-name C --role reader --out ./alice"
	id := pki.Identity{Cluster: p.cluster, Role: pki.Role(p.role), ID: p.name}
	if p.out == "" || p.cluster == "" {
		return issued{}, usage(example, "--cluster-name and --out have to be said")
	}
	want, err := pki.CallerRequest(id, pki.Lifetime{Duration: p.life, MinTimeLeft: p.life / 3})
	if err == nil {
		err = want.Lifetime.Validate()
	}
	if err != nil {
		return issued{}, usage(example, "%w", err)
	}
	if had, err := pki.LoadKeypair(p.out, pki.PeerNames); err == nil {
		if is, err := pki.IdentityOf(had.Leaf()); err != nil || is != id {
			return issued{}, usage("name another --out", "%s holds the certificate of %s, and %s is asked for", p.out, holder(is, err), id)
		}
	}
	done := issued{Identity: id.String(), Dir: p.out}
	if dryRun {
		return done, nil
	}
	authority, err := pki.LoadAuthority(p.dir, pki.ManagerCA, now)
	if err != nil {
		return issued{}, fmt.Errorf("issue certificate: %w", err)
	}
	kept, err := pki.Ensure(p.out, pki.PeerNames, authority, want, now)
	if err == nil {
		err = kept.Overdue
	}
	if err != nil {
		return issued{}, fmt.Errorf("issue certificate: %w", err)
	}
	done.NotAfter, done.Issued = kept.Pair.Leaf().NotAfter, kept.Issued
	return done, nil
}

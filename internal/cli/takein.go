package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/handover"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/unit"
	"github.com/spf13/cobra"
)

// takeIn is what init and join do with what is on the machine already.
type takeIn struct {
	adopt, setAside, yes bool
	from, dataDir        string
	certsDir             string
	endpoints            []string
	access               console.EtcdAccess
}

func (t *takeIn) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&t.adopt, "adopt", false, "take over the etcd that runs here already: it goes on as this host's member")
	f.StringVar(&t.from, "etcd-data-dir", "/var/lib/etcd", "with --adopt: its data directory")
	f.StringSliceVar(&t.endpoints, "etcd-endpoints", nil, "with --adopt: its client URLs; default: as it was started")
	alsoNamed(f, "etcd-endpoints", "etcd-endpoint")
	f.StringVar(&t.access.CA, "cacert", "", "with --adopt: certificate of its authority; default: what lies beside its certificates")
	f.StringVar(&t.access.Cert, "cert", "", "with --adopt: client certificate to show to it")
	f.StringVar(&t.access.Key, "key", "", "with --adopt: its key")
	f.StringVar(&t.certsDir, "certs-dir", "", "with --adopt: directory of ca.crt, server.{crt,key} and peer.{crt,key}; else of an authority of your own, ca.{crt,key}")
	f.StringVar(&t.dataDir, "data-dir", "", "data directory of the agent (default /var/lib/etcdadm)")
	f.BoolVar(&t.setAside, "set-aside", false, "move away data of another cluster that are in the way; nothing is deleted")
	f.BoolVar(&t.yes, "yes", false, "do not ask")
}

// checkTakeIn is what is wrong with the flags alone, and makes paths absolute.
func (t *takeIn) check(c *cobra.Command) error {
	for _, path := range []*string{&t.from, &t.dataDir, &t.certsDir} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	if t.adopt {
		return nil
	}
	for _, name := range []string{"etcd-data-dir", "etcd-endpoints", "cacert", "cert", "key"} {
		if c.Flags().Changed(name) {
			return usage("add --adopt, if an etcd that runs here is meant", "--%s is of an etcd that is taken over", name)
		}
	}
	return nil
}

// existing is the etcd that runs here; nil: none is to be taken over, or an earlier run has done it.
func (t *takeIn) existing(ctx context.Context, u *setUp, m *setup.Machine, joins, stored bool) (setup.Existing, error) {
	if !t.adopt {
		return nil, nil
	}
	dataDir := t.dataDir
	if dataDir == "" {
		dataDir = m.Paths.Data()
	}
	switch s, err := setup.ReadSettings(m.Paths); {
	case err == nil && !handover.WentBack(t.from, s.Flag("data-dir")):
		return nil, nil
	case err == nil:
		dataDir = s.Flag("data-dir")
	case !errors.Is(err, setup.ErrNotSetUp):
		return nil, err
	}
	found, err := handover.Look(ctx, handover.Options{
		From: t.from, DataDir: dataDir, CertsDir: t.certsDir, PKIDir: m.Paths.PKI(), PKIGiven: joins, First: !joins && !stored, Manifests: cmp.Or(u.how.Manifests, setup.DefaultManifests),
		Endpoints: t.endpoints, Access: t.access, StopUnit: unit.End, Say: m.Say,
		Has: func(ctx context.Context, version string) error {
			_, err := finderOf(u.program, nil).Find(ctx, version)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// agreed asks a person about what is not to be done unasked, after the checks.
func (t *takeIn) agreed(c *cobra.Command, r setup.Report, e setup.Existing) error {
	if t.yes || len(r.Aside) == 0 && e == nil {
		return nil
	}
	w := c.ErrOrStderr()
	for i, s := range r.Steps {
		fmt.Fprintf(w, "  %d. %s\n", i+1, s)
	}
	question := "Set this aside, and go on?"
	if e != nil {
		question = fmt.Sprintf("Take over the member of this host, one of %s?", counted(e.Members(), "member"))
	}
	return confirm(c, question)
}

// printTakenOver says what became of the etcd that ran here, and the way back.
func printTakenOver(w io.Writer, t *setup.TakenOver, id cluster.HostID) {
	if t == nil {
		return
	}
	fmt.Fprintf(w, "the etcd that ran here is the member of host %s now, of %s; its data and certificates are as they were\n", id, counted(t.Members, "member"))
	fmt.Fprintln(w, "to go back, while a member is not taken over yet:")
	for _, line := range t.Back {
		fmt.Fprintln(w, "  "+line)
	}
}

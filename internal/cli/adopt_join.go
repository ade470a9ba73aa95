package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/daemon"
	"github.com/spf13/cobra"
)

// joinFlags are what adopt --join was asked for beside what adopt knows.
type joinFlags struct {
	on, keep, dryRun   bool
	urls               cluster.URLs
	members            int
	wait               time.Duration
	user, passwordFile string
	password           password
	releaseDirs        []string
	recipients         []string
	id                 string   // the cluster that is meant; empty: whichever answers
	release            string   // of etcd, that is asked for; empty: as the members run
	options            []string // for the spec
	leaves             string   // directory of this host's certificates, which somebody else renews; empty: they are issued here
	daemon             string   // how this host's daemon is started; empty: by the line that is printed
	program            daemon.Program
	hosts              []string // peer URLs of hosts of ours, whether or not they have joined
	whileInput         bool     // end with standard input
}

func (j *joinFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&j.on, "join", false, "take over a cluster whose members are on other hosts: join it, and remove its members")
	f.StringSliceVar(&j.urls.Peer, "peer-urls", nil, "with --join: where this host's member will be for its peers")
	f.StringSliceVar(&j.urls.Client, "client-urls", nil, "with --join: where it will be for clients")
	f.StringSliceVar(&j.urls.Quarantine, "quarantine-client-urls", nil, "with --join: where it will be while clients are kept out; else those of clients with port 8001")
	f.IntVar(&j.members, "members", 0, "with --join: of how many hosts of ours the cluster shall be; else of as many as it has members")
	f.BoolVar(&j.keep, "keep", false, "with --join: remove no member")
	f.DurationVar(&j.wait, "wait", 5*time.Minute, "with --join: how long to wait for each step")
	f.StringVar(&j.user, "user", "", "etcd user of the role root, where authentication is on")
	f.StringVar(&j.passwordFile, "password-file", "", "file with that user's password")
	f.StringSliceVar(&j.releaseDirs, "release-dir", nil, "directory with etcd releases (repeatable)")
	f.StringSliceVar(&j.recipients, "backup-recipient", nil, "with --join: public key of age that the backup is encrypted to (repeatable)")
	f.StringVar(&j.id, "cluster-id", "", "with --join: the ID of the cluster that is meant, in hex; another one is refused")
	f.StringVar(&j.release, "etcd-version", "", "with --join: the release of etcd that is wanted; members of another minor release are refused, and adopted with their own first")
	f.StringArrayVar(&j.options, "option", nil, "with --join: a setting of etcd for the spec that is written, as NAME=VALUE (repeatable)")
	f.StringSliceVar(&j.hosts, "host-url", nil, "with --join: peer URL of a host of ours, which cannot have joined unless the store says so (repeatable)")
	f.BoolVar(&j.whileInput, "while-input", false, "with --join: end when standard input does, whose first line is the password where --password-file is /dev/stdin")
	f.BoolVar(&j.dryRun, "dry-run", false, "show what would happen, also with --yes")
}

// runJoin is adopt --join.
func (a *adoptFlags) runJoin(ctx context.Context, out io.Writer) error {
	if err := a.checkJoin(); err != nil {
		return err
	}
	do := a.yes && !a.join.dryRun
	e, err := a.openForeign(ctx)
	if err != nil {
		return err
	}
	e.say = a.say
	id, err := a.join.clusterID()
	if err != nil {
		return err
	}
	release, options, err := a.join.spec()
	if err != nil {
		return err
	}
	store, err := openForWords(ctx, a.store, beginIf(do))
	record := store
	if err == nil && a.control != "" {
		record, err = openForWords(ctx, a.control, readIf(!do))
	}
	switch {
	case err == nil:
		e.catalogue = backupstore.New(store)
	case do:
		return err
	default: // a directory is made only when something is done
		fmt.Fprintf(out, "The store cannot be checked in a dry run: %v\n", err)
	}
	j := &adoption.Join{
		DataDir: a.request.DataDir, URLs: a.join.urls, Count: a.join.members, Keep: a.join.keep, Within: a.join.wait,
		Members: e, Has: a.hasRelease(ctx), Say: func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) },
		Hosts: a.join.hosts, Daemon: cmp.Or(a.join.daemon, a.daemonWords(&adoption.Plan{URLs: a.join.urls})), Of: id, Release: release, Options: options,
	}
	if err == nil {
		j.Folder = control.New(record, a.name)
	}
	p, err := j.Plan(ctx)
	if err != nil {
		return err
	}
	show(out, p)
	if len(p.Missing) > 0 {
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was done: " + strings.Join(p.Missing, "; ")), Advice: "see above"}
	}
	if len(p.Steps) == 0 {
		return nil
	}
	if !do {
		fmt.Fprintln(out, "\nNothing was changed. Add --yes to do it.")
		return nil
	}
	if a.request.CertsDir != "" {
		if err := adoption.CopyAuthorities(a.request.CertsDir, a.request.PKIDir); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	err = j.Run(ctx)
	switch {
	case errors.Is(err, adoption.ErrRefused):
		return &Failure{Code: ExitUnsafe, Err: err, Advice: "what was done stands; run the same again when that is settled"}
	case errors.Is(err, adoption.ErrAgain):
		return &Failure{Code: ExitError, Err: err, Advice: "what was done stands"}
	}
	return err
}

func (a *adoptFlags) checkJoin() error {
	u := &a.join.urls
	for _, f := range []struct {
		name string
		urls []string
	}{{"--peer-urls", u.Peer}, {"--client-urls", u.Client}} {
		if len(f.urls) == 0 {
			return usage("as in "+f.name+"=https://10.0.0.4:2380", "%s says where this host's member will be", f.name)
		}
	}
	for _, raw := range slices.Concat(u.Peer, u.Client, u.Quarantine) {
		if !strings.HasPrefix(raw, "http://") && !strings.HasPrefix(raw, "https://") || strings.Contains(raw, "__") {
			return usage("as in https://10.0.0.4:2380", "%q is not a URL of http or https as others can reach it", raw)
		}
	}
	for _, urls := range [][]string{u.Peer, u.Client} {
		if slices.ContainsFunc(urls, func(raw string) bool { return strings.HasPrefix(raw, "https:") != strings.HasPrefix(urls[0], "https:") }) {
			return usage("give all of them with https, or all with http", "%s are with TLS and without", strings.Join(urls, ","))
		}
	}
	if strings.HasPrefix(u.Peer[0], "https:") != strings.HasPrefix(u.Client[0], "https:") {
		return usage("change the one or the other", "the daemons serve peers and clients both with TLS or both without, and %s and %s differ", u.Peer[0], u.Client[0])
	}
	if a.join.members < 0 || a.join.wait <= 0 {
		return usage("leave them out", "--members and --wait are positive")
	}
	if len(u.Quarantine) == 0 {
		u.Quarantine = adoption.Quarantined(u.Client)
	}
	for _, urls := range [][]string{u.Peer, u.Client, u.Quarantine} {
		slices.Sort(urls)
	}
	r := &a.request
	dir, err := filepath.Abs(cmp.Or(r.DataDir, r.From))
	r.DataDir = dir
	return err
}

func (a *adoptFlags) hasRelease(ctx context.Context) func(cluster.Version) bool {
	finder := finderOf(a.join.program, a.join.releaseDirs)
	return func(v cluster.Version) bool {
		r, err := finder.Find(ctx, v.String())
		return err == nil && r.Version == v.String()
	}
}

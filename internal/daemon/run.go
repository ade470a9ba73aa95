package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/moving"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/sources"
	"etcdadm.io/internal/wake"
)

// ErrLeaveEtcd is the cause of a context whose end shall leave etcd running,
// for the next daemon to adopt.
var ErrLeaveEtcd = errors.New("the daemon ends and etcd goes on")

// Run runs a daemon until ctx ends; then etcd is stopped as well, gracefully,
// unless the context's cause is ErrLeaveEtcd. What keeps it from starting is
// an error with one sentence and a hint, and nothing was changed; it is kept beside
// the data directory, for people ([console.Refusal]). A host whose state is wiped under the running daemon begins anew, as after a restart.
func Run(ctx context.Context, cfg Config, program Program, log *slog.Logger) error {
	for {
		err := runOnce(ctx, cfg, program, log)
		switch {
		case errors.Is(err, errStateGone):
			log.Warn("begin anew as a new disk", "because", err)
		case errors.Is(err, moving.ErrFollowed):
			log.Info("begin anew where the record is; etcd goes on meanwhile", "because", err)
		default:
			keepRefusal(ctx, cfg, err, log)
			return err
		}
	}
}

func runOnce(ctx context.Context, cfg Config, program Program, log *slog.Logger) (err error) {
	d := &daemon{cfg: cfg, program: program, log: log, parts: group{log: log}}
	d.watch = newWatch(cfg.ClusterName, program, d.report, d.begun.words)
	d.watch.countDropped(program.LogDropped)
	served := false
	defer func() {
		if err != nil && !served && ctx.Err() != nil && !leavesEtcd(ctx) {
			log.Warn("this daemon did not start; an etcd that the daemon before left may still run", "because", err,
				"hint", "remove what is in its way and start the daemon again: it adopts that etcd")
		}
	}()
	var seedDir string
	var static *Static
	if err := d.take(ctx, step{"the data volume to be found", []string{d.cfg.disks()}, func(context.Context) (err error) { seedDir, err = d.cfg.applyVolume(); return err }}); err != nil {
		return err
	}
	// The address is known from here on, and all that follows may wait for a disk. A port
	// that cannot be had now may be that of a daemon which ends, and is asked for again
	// once the data directory is this one's.
	_ = d.showMetrics(ctx, namesTimeout)
	defer func() {
		if !served {
			d.parts.stop(time.Now().Add(metricsEnd), partMetrics)
		}
	}()
	if err := d.take(ctx, step{"the environment file, and the names in a static configuration", []string{d.cfg.EnvFile}, func(ctx context.Context) (err error) { static, err = d.configure(ctx); return err }}); err != nil {
		return err
	}
	data := []string{d.cfg.DataDir}
	// The lock comes before anything that another daemon could be doing, and
	// is kept until the program ends (see package runtime).
	var lock *runtime.DirLock
	var made []string
	if err := d.take(ctx, step{"the lock of the data directory", data, func(context.Context) (err error) { lock, made, err = d.lockState(); return err }}); err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, errLeft) { // what was left behind may still write
			return
		}
		back := await(ctx, log, "end", step{"the data directory to be given back", data, func(context.Context) error {
			if !served {
				unmake(made)
			}
			return lock.Unlock()
		}})
		if errors.Is(back, errLeft) {
			err = back
		}
	}()
	listener, err := d.listenInTurn(ctx)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, errLeft) {
			return nil // asked to end while it waited
		}
		return err
	}
	defer listener.Close()
	for _, s := range d.beginnings(data) {
		switch err := d.take(ctx, s); {
		case ctx.Err() != nil && errors.Is(err, context.Canceled):
			return nil // asked to end while it waited
		case err != nil:
			return err
		case ctx.Err() != nil && (!d.experienced || leavesEtcd(ctx)):
			return nil // asked to end before anything runs that is to end, too
		}
		// Also where it was asked to end: what is left of the start is what it takes
		// to end an etcd that an earlier daemon left.
	}
	server, err := d.makeManager(static, seedDir)
	if err != nil {
		return err
	}
	served = true
	return d.serve(ctx, server, listener)
}

// beginnings are what a daemon does, in this order, before it makes its manager and serves.
func (d *daemon) beginnings(data []string) []step {
	return []step{
		{"the state of this host to be read", data, d.openDisk},
		{"a look at what runs on the data directory", data, d.checkPorts},
		{"the certificate authorities to be read", []string{d.cfg.AuthoritiesDir()}, d.checkAuthorities},
		{"the store", []string{ShownURL(d.cfg.RecordStore()), ShownURL(d.cfg.backupsElsewhere())}, d.openStore},
		{"this host's ID to be read", data, d.identify},
		{"certificates to be issued", []string{d.cfg.AuthoritiesDir(), d.cfg.DataDir}, d.trust},
		{"the releases of etcd to be found", append(slices.Clone(d.cfg.ReleaseDirs), filepath.Join(release.SystemRoot, "opt"), release.CacheDir), d.findReleases},
		{"what a daemon before has left to be looked through", data, d.makeHost},
	}
}

// configure reads what the configuration names: environment, static hosts.
func (d *daemon) configure(ctx context.Context) (*Static, error) {
	if err := d.cfg.Validate(); err != nil {
		return nil, err
	}
	if err := d.cfg.atHome(); err != nil {
		return nil, err
	}
	env, read, own, err := etcdEnvironment(d.cfg.EnvFile, !d.cfg.EtcdInsecure)
	if err != nil {
		return nil, err
	}
	if d.cfg.EnvFile != "" {
		d.env = &follower{path: d.cfg.EnvFile, log: d.log, kept: d.cfg.restartWords(), started: read, own: own, taken: read, last: read}
		if open.Credentialed(d.cfg.RecordStore()) || open.Credentialed(d.cfg.BackupStore) {
			d.env.renew = d.renewStore
		}
	}
	if d.etcdEnv = env.Environ; len(env.Withheld) > 0 {
		d.log.Warn("not passed on to etcd, which has no such flags and would write their values into its log: they look like secrets", "variables", env.Withheld)
	}
	if d.cfg.NetworkCIDR != "" {
		d.log.Warn("--network-cidr is for openstack and has no effect here")
	}
	if d.cfg.StaticConfig == "" {
		return nil, nil
	}
	static, err := ParseStatic(d.cfg.StaticConfig)
	if err != nil {
		return nil, err
	}
	if d.cfg.HostID == "" {
		lookCtx, cancel := context.WithTimeout(ctx, namesTimeout)
		defer cancel()
		if d.cfg.HostID, err = static.Self(lookCtx, d.cfg.Address); err != nil {
			return nil, err
		}
	}
	return static, nil
}

// openDisk opens the data directory, unless it is another cluster's. A state
// that cannot be read is the host's to tell of, while the daemon answers.
func (d *daemon) openDisk(context.Context) error {
	var err error
	if d.disk, err = datadir.Open(d.cfg.DataDir, runtime.CheckUnlocked, nil); err != nil {
		return &Error{Problem: "open the data directory", Err: err, Advice: "--data-dir names a directory that this user can write"}
	}
	state, ok, err := d.disk.Load()
	if err == nil && ok && state.Cluster != d.cfg.ClusterName {
		return mistake(fmt.Sprintf("give this daemon an empty --data-dir. If the disk is a copy, as of a machine's image, never start it for %q: its member may run elsewhere", state.Cluster),
			"the data directory %s belongs to the cluster %q, and this daemon was started for %q", d.cfg.DataDir, state.Cluster, d.cfg.ClusterName)
	}
	switch left, err := d.disk.Sweep(); { // the lock is held: nobody writes them any more
	case err != nil:
		d.log.Warn("what a killed daemon had left half written is not all removed", "removed", left, "err", err)
	case len(left) > 0:
		d.log.Info("removed what a killed daemon had left half written", "files", left)
	}
	// What cannot be read is no sign of a first start.
	d.experienced = err != nil || ok && (state.Intent != nil || state.Local.State != cluster.MemberNone)
	return nil
}

// checkAuthorities reads the authorities before anything is written.
func (d *daemon) checkAuthorities(context.Context) error {
	if d.cfg.Insecure && d.cfg.EtcdInsecure {
		return nil
	}
	_, err := pki.Load(d.cfg.AuthoritiesDir(), time.Now())
	return authorityError(err)
}

// authorityError adds the way out to an error that has none.
func authorityError(err error) error {
	var told *pki.Error
	if errors.Is(err, fs.ErrNotExist) && !errors.As(err, &told) {
		return &Error{Problem: "read the certificate authorities", Err: err, Advice: "put them into --pki-dir, or run without TLS: --insecure --etcd-insecure"}
	}
	return err
}

func (d *daemon) identify(context.Context) error {
	var err error
	d.id = d.cfg.HostID
	if d.id == "" {
		if d.id, err = datadir.HostID(d.cfg.DataDir, host.Mint); err != nil {
			return &Error{Problem: "find out this host's ID", Err: err}
		}
	}
	d.urls = d.cfg.URLs(d.id)
	return nil
}

func (d *daemon) trust(context.Context) error {
	var err error
	if d.certs, err = newCerts(&d.cfg, d.id, d.etcdEnv, d.log); err != nil {
		return authorityError(err)
	}
	return d.certs.access(&d.cfg, d.urls).Write(d.disk.StateDir())
}

func (d *daemon) makeHost(context.Context) error {
	packing, err := d.cfg.Backups.Packing()
	if err != nil {
		return err
	}
	getenv := os.Getenv
	if d.keeping != nil {
		getenv = keptFor(os.Getenv)
	}
	policy, err := d.cfg.Backups.Policy(getenv)
	if err != nil {
		return &Error{Problem: "how long backups are kept", Err: err, Advice: "a duration such as 7d or 2y"}
	}
	d.catalogue = backupstore.New(d.backups)
	d.sources = sources.New(sources.Options{
		Host: d.id, Cluster: d.cfg.ClusterName, DataDir: d.cfg.DataDir, Disk: d.disk,
		Catalogue: d.catalogue, Folder: d.folder, Packing: packing, Policy: policy, Choices: d.cfg.Backups,
		Finder: d.releases.finder, Versions: d.releases.versions, Etcd: d.etcdConfig,
		Log: d.log, Backed: counted(d.watch.backups), Drilled: counted(d.watch.drills), Restored: d.watch.restores.Inc,
	})
	if d.process, err = NewProcess(d.disk.StateDir(), d.log, d.spec, d.releases.finder.Genuine, d.certs.adopted); err != nil {
		return err
	}
	d.host = host.New(host.Options{
		ID: d.id, ClusterName: d.cfg.ClusterName, Address: d.cfg.Address, URLs: d.urls,
		Releases: d.releases.versions, Variables: d.etcdEnv,
		Disk: memberDisk{d.disk, d.certs}, Files: d.disk, Process: d.process, Member: d.member, Intents: control.Intents{Folder: d.folder}, Promoted: d.folder.Promoted,
		Reacher: reacher{}, AskPeers: func(ctx context.Context, of []cluster.HostID) []cluster.Ping { return d.manager.AskPeers(ctx, of) }, Elsewhere: func() *cluster.Elsewhere { return d.manager.Elsewhere() }, MayStart: func(ctx context.Context) (*cluster.Intent, error) { return d.moves.mayStart(ctx, d.keeping) }, Forgets: func(ctx context.Context) error { return d.moves.forgets(ctx, d.keeping) }, Sources: d.sources, Decrypts: d.sources.Decrypts, PruneAfter: d.cfg.PruneAfter, Settings: d.cfg.common(packing.Compression, policy), AuthorityKeys: d.certs.holdsKeys, Problems: d.problems, PeerTLS: d.peerTLS, Authorities: d.certs.told, Trusts: d.certs.epoch.Load, Log: d.log,
	})
	d.certs.follows = rotationOf(d)
	d.releases.changed = d.host.Noticed // nothing looks beside this yet
	return nil
}

func (d *daemon) makeManager(static *Static, seedDir string) (*peer.Server, error) {
	self := pki.Identity{Cluster: d.cfg.ClusterName, Role: pki.RoleHost, ID: string(d.id)}
	var err error
	if d.pool, err = peer.NewPool(self, d.certs.daemons); err != nil {
		return nil, err
	}
	d.certs.mayAsk(d.askHolders)
	record := d.moves.record(d.keeping)
	d.pool.Record, d.pool.Disks = d.moves.called(d.keeping), d.host
	seeds, err := d.seeds(static, seedDir)
	if err != nil {
		return nil, err
	}
	d.moves.seeds = seeds
	opts := withBackups(d, manager.Options{
		Local: d.host, Contact: cluster.Contact{Host: d.id, Endpoint: d.cfg.Endpoint()}, Place: d.place, ClusterName: d.cfg.ClusterName,
		DeadAfter: d.cfg.DeadAfter, AutoRecoverAfter: d.cfg.AutoRecoverAfter,
		Network: network{d.pool}, Seeds: seeds, Control: d.folder, StoreURL: ShownURL(d.cfg.RecordStore()), BackupsURL: ShownURL(d.cfg.backupsElsewhere()),
		LastWord: d.words.of, Upkeep: d.cfg.Upkeep, MemberIDs: memberIDs, NextAuthorities: d.certs.makeNext,
		Log: d.log, Decided: d.watch.decided, Intervals: d.cfg.intervals(),
	})
	if static != nil {
		spec, err := static.Spec()
		if err != nil {
			return nil, err
		}
		spec.DeadAfter, spec.AutoRecoverAfter = d.cfg.DeadAfter, d.cfg.AutoRecoverAfter
		opts.Spec = &spec
	}
	if d.manager, err = manager.New(opts); err != nil {
		return nil, err
	}
	return peer.NewServer(peer.ServerOptions{Cluster: d.cfg.ClusterName, Host: d.id, Handler: handler{d}, Admitter: admitter{d}, Signer: &signer{d: d}, Live: d.certs.daemons, Record: record, Disks: d.host, AtHosts: d.keeping != nil, Heard: d.moves.heard, Log: d.log})
}

// askedEvery is how often a part looks whether its host has asked the others about its disk.
const askedEvery = 100 * time.Millisecond

// onceAsked runs what writes on the disk once the host has asked the others about it: until then it may be another daemon's.
func onceAsked(h *host.Host, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for !h.Asked() {
			if !wake.After(ctx, askedEvery) {
				return ctx.Err()
			}
		}
		return run(ctx)
	}
}

// serve runs the parts, and takes them down in the reverse order: first
// nothing new is decided, then nothing is answered, then etcd is stopped.
func (d *daemon) serve(ctx context.Context, server *peer.Server, l net.Listener) error {
	g := &d.parts
	g.start(ctx, "process", d.process.Run)
	g.start(ctx, "certificates", d.certs.run)
	g.start(ctx, "peers", func(ctx context.Context) error { return answerPeers(ctx, server, l) })
	g.start(ctx, "host", d.host.Run)
	g.start(ctx, "hosts file", d.keepHostsFile)
	g.start(ctx, "announcement", d.announce)
	g.start(ctx, "record", onceAsked(d.host, d.keeping.Run))
	g.start(ctx, partMoves, onceAsked(d.host, d.moves.follower.Run))
	g.start(ctx, "manager", d.manager.Run)
	g.start(ctx, "state", d.watchState)
	g.start(ctx, "etcd's log", d.followLog)
	g.start(ctx, "environment file", d.env.follow)
	d.begun.over()
	g.start(ctx, "systemd", d.notify)
	if err := console.DropRefusal(d.cfg.DataDir); err != nil {
		d.log.Warn("cannot remove what says why a daemon before did not start", "err", err)
	}
	if err := d.showMetrics(ctx, ownNameTimeout); err != nil {
		g.start(ctx, partMetrics, func(context.Context) error { return err })
	}
	d.log.Info("daemon is up", "host", d.id, "cluster", d.cfg.ClusterName, "address", d.cfg.Endpoint(), "data", d.cfg.DataDir, "store", ShownURL(d.cfg.RecordStore()), "backups", ShownURL(d.cfg.BackupStore))
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-g.failed():
	}
	stopEtcd := failure == nil && !leavesEtcd(ctx)
	d.log.Info("daemon ends", "with etcd", stopEtcd)
	d.host.Rest()
	began := time.Now()
	g.stop(began.Add(decidingEnds), "systemd", "etcd's log", "environment file", "state", partMetrics, "manager", partMover, partMoves, "record", "announcement", "hosts file")
	if stopEtcd {
		d.handOver(context.WithoutCancel(ctx))
	}
	g.stop(began.Add(hostEnds), "host")
	if stopEtcd {
		d.stopEtcd(context.WithoutCancel(ctx))
	}
	g.stop(began.Add(partsEnd), "peers")
	g.stop(began.Add(partsEnd), partMover) // one that was asked for meanwhile
	g.stop(began.Add(partsEnd), "certificates", "process")
	d.pool.Close()
	if len(g.left) > 0 {
		if failure != nil {
			d.log.Error("what ended this daemon", "err", failure)
		}
		return fmt.Errorf("%w: %s", errLeft, strings.Join(g.left, ", "))
	}
	d.log.Info("daemon has ended")
	return failure
}

// leavesEtcd: the end that ctx has come to is not that of etcd.
func leavesEtcd(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrLeaveEtcd) }

// answerPeers serves, and says what its end left behind: a handler that heeds no
// deadline may still write the state of this host.
func answerPeers(ctx context.Context, server *peer.Server, l net.Listener) error {
	err := server.Serve(ctx, l)
	if errors.Is(err, peer.ErrCallsRun) {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	return err
}

// showMetrics has the metrics port answered from now on, if that is wanted and not done yet.
func (d *daemon) showMetrics(ctx context.Context, within time.Duration) error {
	if d.cfg.MetricsPort <= 0 || d.parts.has(partMetrics) {
		return nil
	}
	look, cancel := context.WithTimeout(ctx, within) // --address may be a name
	defer cancel()
	l, err := new(net.ListenConfig).Listen(look, "tcp", net.JoinHostPort(cmp.Or(d.cfg.MetricsAddress, d.cfg.Address), strconv.Itoa(d.cfg.MetricsPort)))
	if err != nil {
		return &Error{Problem: "listen for metrics", Err: err, Advice: "choose another --etcd-manager-metrics-port, or 0 for none"}
	}
	d.parts.start(ctx, partMetrics, func(ctx context.Context) error {
		return d.watch.serve(ctx, d.log, l, d.ready, func(ctx context.Context) error { return voter(ctx, d) })
	})
	return nil
}

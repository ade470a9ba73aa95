package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/keeping"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/moving"
	"etcdadm.io/internal/register"
)

// openStore opens the store of the control record and looks whether it belongs
// to us, and that of the backups where it is another. On a host that was never
// part of a cluster a store that cannot be opened is a mistake, and a missing one
// is made. On any other it may be a disk that is not mounted or a network that is
// away: nothing is made in its place, and it is no reason to keep the own member
// down, nor to leave one running that is to end with the start.
func (d *daemon) openStore(ctx context.Context) error {
	file, err := moving.OpenFile(filepath.Join(d.cfg.DataDir, "etcdadm"))
	if err != nil {
		return &Error{Problem: "where the cluster's record is", Err: err, Advice: "nothing is guessed in its place; etcdadm store status on another host says where it is. A file of a later release: install that release. A damaged one: etcdadm reset --force here, then etcdadm join"}
	}
	if p := file.Notes().Place; p != nil && d.cfg.ControlStore != "" {
		return &Error{Problem: "--control-store", Err: fmt.Errorf("etcdadm store set moved the cluster's record to %s", ShownURL(p.URL)), Advice: "leave --control-store out: this host goes by the move"}
	}
	var elsewhere bool
	if d.cfg.BackupStore, elsewhere = placed(file.Notes(), d.cfg.DataDir, d.cfg.BackupStore); elsewhere {
		d.begun.at(step{what: "the store", at: []string{ShownURL(d.cfg.BackupStore)}})
		if d.env != nil {
			d.env.renew = nil // the place has variables of its own
		}
	}
	d.moves.host, d.moves.insecure, d.moves.store = func() cluster.HostID { return d.id }, d.cfg.Insecure, ShownURL(d.cfg.RecordStore())
	_, byHosts := kept.DataDir(d.cfg.BackupStore)
	d.experienced = d.experienced || file.Notes().Place != nil
	var part *keeping.Part
	if byHosts || file.Notes().Place != nil {
		part, err = d.makePart(ctx)
		switch p := file.Notes().Place; {
		case err == nil:
		case byHosts || !p.InForce:
			return err
		default: // the record is elsewhere: what is left of the one before keeps no member down
			d.log.Warn("this host does not answer for the record that was moved", "err", err)
		}
	}
	makeMoves(d, part, file, byHosts)
	if byHosts {
		d.keeping, d.store, d.folder = part, part.Store(), part.Folder()
		d.backups = d.store
		return nil
	}
	var store, backups blob.Store
	var folder *control.Folder
	ended := make(chan error, 1)
	go func() {
		var err error
		if store, folder, err = d.lookAtStore(ctx); err == nil {
			backups, err = d.cfg.backupsBeside(store, func(url string) (blob.Store, error) {
				ctx, cancel := context.WithTimeout(ctx, openTimeout)
				defer cancel()
				s, _, err := openOrLate(ctx, d, url)
				return s, err
			})
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		d.store, d.folder, d.backups = store, folder, backups
		return err
	case <-ctx.Done():
	}
	if !d.experienced {
		return <-ended // which take bounds
	}
	// The look goes on with the store alone: what its trial wrote it takes away again.
	d.store = newLateStore(d.cfg.RecordStore())
	d.folder = control.New(d.moves.arrived(d.store), d.cfg.ClusterName)
	d.backups, err = d.cfg.backupsBeside(d.store, func(url string) (blob.Store, error) { return newLateStore(url), nil })
	return err
}

// makePart makes this host's part in keeping a record. It asks nobody yet.
func (d *daemon) makePart(ctx context.Context) (*keeping.Part, error) {
	own, err := kept.Own(ctx, d.cfg.DataDir)
	if err != nil {
		return nil, &Error{Problem: "the directory for this host's copies of backups", Err: err, Advice: "--data-dir names a directory that this user can write"}
	}
	k, err := keeper.Open(d.disk.StateDir(), durable.OS())
	if err != nil {
		return nil, &Error{Problem: "this host's part of the cluster's record", Err: err, Advice: "nothing is guessed in its place. If the disk is sound, move " +
			filepath.Join(d.disk.StateDir(), keeper.FileName) + " away: the host then becomes a new keeper, as long as most of the others are there"}
	}
	dir := kept.OwnDir(d.cfg.DataDir)
	return keeping.New(keeping.Options{
		Self: func() cluster.HostID { return d.id }, Cluster: d.cfg.ClusterName,
		Contacts: d.contacts, Seeds: d.moves.given, Leading: func() bool { return d.manager.Status().Leading },
		To: func(c cluster.Contact) (kept.Client, error) {
			if d.pool == nil {
				return nil, errors.New("this daemon is starting")
			}
			return d.pool.To(c)
		},
		WentBack: func() bool { return d.host.WentBack() },
		Asked:    func() bool { return d.host.Asked() },
		Sure:     func() bool { return d.host.Sure() },
		Unheard:  func() []cluster.HostID { return d.host.Unheard() },
		Serves:   d.hasQuorum,
		Runs:     func() bool { return d.host.Served() },
		KeepIntent: func(ctx context.Context, in *cluster.Intent) {
			d.host.Observe(ctx, cluster.ObserveRequest{Intent: in})
		},
		Room: func(ctx context.Context) error { return roomFor(ctx, d.id, dir) },
		BeforeAgain: func(ctx context.Context, nonce string, dryRun bool) (func(), string) {
			return d.moves.follower.BeforeAgain(ctx, nonce, dryRun)
		},
		Anyway: func(ctx context.Context, last register.Entry, dryRun bool) string {
			return d.moves.follower.GoAnyway(ctx, last, dryRun)
		},
		Offered: func(to string) bool {
			o := d.moves.follower.File.Notes().Offer
			return o != nil && o.Name == to
		},
		Keeper: k, Own: own, Mint: host.Mint, Log: d.log,
	}), nil
}

// backupsBeside is the store of the backups: that of the record, another one, which is opened, or none.
func (c *Config) backupsBeside(record blob.Store, open func(url string) (blob.Store, error)) (blob.Store, error) {
	switch {
	case c.BackupStore == "":
		return noBackups{}, nil
	case c.backupsElsewhere() == "":
		return record, nil
	}
	return open(c.BackupStore)
}

// openOrLate opens a store; absent: it could not be opened, and is tried again with each call.
func openOrLate(ctx context.Context, d *daemon, url string) (store blob.Store, absent bool, err error) {
	// The ConfigMaps of a cluster in Kubernetes are made by who makes its hosts: see package kubernetes.
	store, err = open.Open(ctx, url, open.Options{Create: !d.experienced && !open.InKubernetes(url)})
	switch {
	case err == nil:
	case !d.experienced:
		return nil, false, err
	default:
		d.log.Warn("a store cannot be opened; going on without it until it can", "store", ShownURL(url), "err", err)
	}
	absent = err != nil
	if absent || d.env != nil && d.env.renew != nil && open.Credentialed(url) {
		late := newLateStore(url)
		if opened := store; !absent {
			late.real.Store(&opened)
		}
		store = late
	}
	return store, absent, nil
}

func (d *daemon) lookAtStore(ctx context.Context) (blob.Store, *control.Folder, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	url := d.cfg.RecordStore()
	store, absent, err := openOrLate(ctx, d, url)
	if err != nil {
		return nil, nil, err
	}
	folder := control.New(d.moves.arrived(store), d.cfg.ClusterName)
	// Whose it is comes first: trying it out writes.
	in, _, _, err := folder.ReadIntent(ctx)
	switch {
	case err == nil && in != nil:
		if err := d.moves.follower.ReadName(ctx, store); err != nil {
			d.log.Warn("the store's name is not known yet; it is looked for again every minute", "err", err)
		}
	case errors.Is(err, control.ErrElsewhere): // before others hear of this host
		d.moves.follower.IsLeft(ctx, store)
	}
	if errors.Is(err, control.ErrOtherCluster) {
		return nil, nil, &Error{Problem: "the store " + ShownURL(url), Err: err, Advice: fmt.Sprintf(
			"give cluster %s its own empty store. Only to make this host part of cluster %s: move the data directory away (mv %s %s.aside), so that it is a new host, and start it with --cluster-name=%s. A copy of another host's disk, as in a machine image, is never run",
			d.cfg.ClusterName, in.Name, cluster.ShellWord(d.cfg.DataDir), cluster.ShellWord(filepath.Clean(d.cfg.DataDir)), cluster.ShellWord(in.Name))}
	}
	if absent {
		return store, folder, nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return store, folder, nil // the daemon is to end, and needs no trial
	}
	caps, err := folder.Probe(ctx)
	if err != nil {
		d.log.Warn("the backup store could not be tried out; going on without it until it can be", "store", ShownURL(url), "err", err)
		return store, folder, nil
	}
	for _, p := range caps.Problems {
		d.log.Warn("the backup store has a limitation", "problem", p)
	}
	return store, folder, nil
}

// lateStore is a store that could not be opened yet, or that is opened anew when its
// credentials change. Every call tries again, one at a time, and none waits for another
// longer than its own context.
type lateStore struct {
	url  string
	turn chan struct{} // held to open it
	real atomic.Pointer[blob.Store]
}

func newLateStore(url string) *lateStore {
	return &lateStore{url: url, turn: make(chan struct{}, 1)}
}

func (a *lateStore) store(ctx context.Context) (blob.Store, error) {
	if s := a.real.Load(); s != nil {
		return *s, nil
	}
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("open the store, which another call is waiting for: %w", ctx.Err())
	}
	defer func() { <-a.turn }()
	if s := a.real.Load(); s != nil {
		return *s, nil
	}
	s, err := open.Open(ctx, a.url, open.Options{})
	if err != nil {
		return nil, err
	}
	a.real.Store(&s)
	return s, nil
}

// renew opens the store with the environment that set makes, and uses it from then on if
// it answers; else the one before stays, and so does its environment. Both are this store's
// alone meanwhile: nobody else opens it.
func (a *lateStore) renew(ctx context.Context, set func() (undo func()), answers func(context.Context, blob.Store) error) error {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("open the store, which another call is waiting for: %w", ctx.Err())
	}
	defer func() { <-a.turn }()
	undo := set()
	// One that a mount held up before has the credentials of its time.
	s, err := open.Open(ctx, a.url, open.Options{Anew: renewals.Add(1)})
	if err == nil {
		err = answers(ctx, s)
	}
	if err != nil {
		undo()
		return err
	}
	a.real.Store(&s)
	return nil
}

// Get implements blob.Store.
func (a *lateStore) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	s, err := a.store(ctx)
	if err != nil {
		return nil, a.away(err)
	}
	return s.Get(ctx, key, o)
}

// Put implements blob.Store.
func (a *lateStore) Put(ctx context.Context, key string, body io.Reader, c blob.Condition) (blob.ETag, error) {
	s, err := a.store(ctx)
	if err != nil {
		return "", a.away(err)
	}
	return s.Put(ctx, key, body, c)
}

// List implements blob.Store.
func (a *lateStore) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	s, err := a.store(ctx)
	if err != nil {
		return nil, a.away(err)
	}
	return s.List(ctx, prefix)
}

// Delete implements blob.Store.
func (a *lateStore) Delete(ctx context.Context, key string) error {
	s, err := a.store(ctx)
	if err != nil {
		return a.away(err)
	}
	return s.Delete(ctx, key)
}

// away hides what the error is about the store as a whole from callers that
// ask for one object: that the store is not there says nothing of the object.
func (a *lateStore) away(err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("the store is away: %s", err.Error())
	}
	return err
}

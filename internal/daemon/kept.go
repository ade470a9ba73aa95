package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/hosts"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/register"
)

const (
	// keptDir is where this host has its copies of backups, below the data directory.
	keptDir = "kept"
	// whereEvery is how often a host that does not know the record asks the others for it.
	whereEvery = 2 * time.Second
	// keepersEvery is how often the leading daemon looks whether the right hosts keep the record.
	keepersEvery = 3 * time.Second
	// keeperTimeout bounds a question to another host about the record.
	keeperTimeout = 2 * time.Second
	// keepersTimeout bounds a look, and the change that comes of it.
	keepersTimeout = 15 * time.Second
)

// keeping is this host's part in keeping what a cluster without a shared store has.
type keeping struct {
	keeper *keeper.Keeper
	record *hosts.Store
	own    blob.Store
	store  *kept.Store

	mu    sync.Mutex
	heard []register.Seat // whom others named, while this host knows nobody; guarded by mu
}

// openKept opens the store that the hosts are. It asks nobody yet.
func (d *daemon) openKept(ctx context.Context) error {
	own, err := file.Open(ctx, filepath.Join(d.cfg.DataDir, keptDir), file.Options{Create: true})
	if err != nil {
		return &Error{Problem: "the directory for this host's copies of backups", Err: err, Advice: "--data-dir names a directory that this user can write"}
	}
	k, err := keeper.Open(d.disk.StateDir(), durable.OS())
	if err != nil {
		return &Error{Problem: "this host's part of the cluster's record", Err: err, Advice: "nothing is guessed in its place. If the disk is sound, move " +
			filepath.Join(d.disk.StateDir(), keeper.FileName) + " away: the host then becomes a new keeper, as long as most of the others are there"}
	}
	d.keeping = &keeping{keeper: k, own: own}
	d.keeping.record = hosts.New(hosts.Options{Known: d.knownKeepers, Say: d.sayToKeeper, Learned: d.learned, Mint: host.Mint, Now: time.Now})
	d.keeping.store = kept.New(kept.Options{
		Self: func() cluster.HostID { return d.id }, Record: d.keeping.record, Own: own,
		Hosts: func() (out []cluster.HostID) {
			for _, c := range d.contacts() {
				out = append(out, c.Host)
			}
			return out
		},
		To: func(h cluster.HostID) (kept.Client, error) { return d.clientOf(h) },
	})
	d.store = d.keeping.store
	d.folder = control.New(d.store, d.cfg.ClusterName).Known()
	return nil
}

func (d *daemon) clientOf(h cluster.HostID) (*peer.Client, error) {
	contacts := d.contacts()
	i := slices.IndexFunc(contacts, func(c cluster.Contact) bool { return c.Host == h })
	if i < 0 || d.pool == nil {
		return nil, fmt.Errorf("the address of host %s is not known yet", h)
	}
	return d.pool.To(contacts[i])
}

// knownKeepers names the record and whom to ask for it.
func (d *daemon) knownKeepers() (string, []register.Seat) {
	ctx, cancel := context.WithTimeout(context.Background(), keeperTimeout)
	defer cancel()
	record, seats, err := d.keeping.keeper.Known(ctx)
	if err == nil && len(seats) == 0 {
		d.keeping.mu.Lock()
		seats = d.keeping.heard
		d.keeping.mu.Unlock()
	}
	return record, seats
}

func (d *daemon) sayToKeeper(ctx context.Context, m register.Message) (register.Reply, error) {
	if m.To.Host == d.id {
		return d.keeping.keeper.Handle(ctx, m)
	}
	c, err := d.clientOf(m.To.Host)
	if err != nil {
		return register.Reply{}, err
	}
	reply, err := c.Keep(ctx, peer.KeepRequest{Message: &m})
	if err != nil {
		return register.Reply{}, err
	}
	if reply.Reply == nil {
		return register.Reply{}, errors.New("the daemon answered something else")
	}
	return *reply.Reply, nil
}

// learned keeps what is chosen, beside whoever waits for it.
func (d *daemon) learned(e register.Entry) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), keeperTimeout)
		defer cancel()
		_ = d.keeping.keeper.Learned(ctx, e) // it is only where to ask next time
	}()
}

// Keep answers for what this host keeps.
func (h handler) Keep(ctx context.Context, c peer.Caller, r peer.KeepRequest) (peer.KeepReply, error) {
	d := h.d
	if d.keeping == nil {
		return peer.KeepReply{}, errors.New("this cluster has a shared store, and its hosts keep nothing of it")
	}
	if isHost := c.Identity.Role == pki.RoleHost; !isHost && (r.Object == nil || r.Object.Own) {
		return peer.KeepReply{}, fmt.Errorf("%w: the record of the cluster is for its hosts", peer.ErrRole)
	}
	switch {
	case r.Message != nil:
		reply, err := d.keeping.keeper.Handle(ctx, *r.Message)
		return peer.KeepReply{Reply: &reply}, err
	case r.Enrol != "":
		seat, err := d.keeping.keeper.Enrol(ctx, d.id, r.Enrol, host.Mint)
		return peer.KeepReply{Seat: &seat}, err
	case r.Object != nil:
		return peer.KeepReply{Object: d.keptObject(ctx, c, *r.Object)}, nil
	case r.Where:
		record, keepers := d.knownKeepers()
		return peer.KeepReply{Record: record, Keepers: keepers}, nil
	}
	return peer.KeepReply{}, errors.New("nothing was asked")
}

func (d *daemon) keptObject(ctx context.Context, c peer.Caller, q peer.ObjectRequest) *peer.ObjectReply {
	switch {
	case q.Op == peer.ObjectFetch:
		from, err := d.clientOf(cluster.HostID(c.Identity.ID))
		if err == nil {
			err = d.keeping.store.Fetch(ctx, from, q.Key)
		}
		if err != nil {
			return &peer.ObjectReply{Error: err.Error()}
		}
		return new(peer.ObjectReply)
	case q.Own:
		return kept.Serve(ctx, d.keeping.own, q)
	}
	return kept.Serve(ctx, d.keeping.store, q)
}

// keepRecord has this host know where the record is and, while it leads, the right hosts keep it.
func (d *daemon) keepRecord(ctx context.Context) error {
	if d.keeping == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	t := time.NewTicker(whereEvery)
	defer t.Stop()
	var looked time.Time
	said := ""
	for {
		look, cancel := context.WithTimeout(ctx, keepersTimeout)
		err := d.findRecord(look)
		if err == nil && d.manager.Status().Leading && time.Since(looked) >= keepersEvery {
			looked = time.Now()
			err = d.lookAfterKeepers(look)
		}
		cancel()
		switch {
		case err != nil && err.Error() != said && ctx.Err() == nil:
			d.log.Warn("the hosts that keep the cluster's record are not as they should be", "err", err)
			said = err.Error()
		case err == nil:
			said = ""
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// findRecord asks the other daemons which record there is, on a host that knows none.
func (d *daemon) findRecord(ctx context.Context) error {
	if record, seats := d.knownKeepers(); record != "" && len(seats) > 0 {
		return nil
	}
	for _, c := range d.contacts() {
		if c.Host == d.id {
			continue
		}
		reply, err := d.where(ctx, c)
		if err != nil || reply.Record == "" || len(reply.Keepers) == 0 {
			continue
		}
		if _, err := d.keeping.keeper.Enrol(ctx, d.id, reply.Record, host.Mint); err != nil {
			return fmt.Errorf("host %s keeps record %s: %w", c.Host, reply.Record, err)
		}
		d.keeping.mu.Lock()
		d.keeping.heard = reply.Keepers
		d.keeping.mu.Unlock()
		return nil
	}
	return errors.New("no other daemon tells this host where the record of the cluster is")
}

func (d *daemon) where(ctx context.Context, c cluster.Contact) (peer.KeepReply, error) {
	ctx, cancel := context.WithTimeout(ctx, keeperTimeout)
	defer cancel()
	client, err := d.pool.To(c)
	if err != nil {
		return peer.KeepReply{}, err
	}
	return client.Keep(ctx, peer.KeepRequest{Where: true})
}

// lookAfterKeepers makes at most one change of who keeps the record.
func (d *daemon) lookAfterKeepers(ctx context.Context) error {
	in, _, _, err := d.folder.ReadIntent(ctx)
	if err != nil || in == nil || in.State != cluster.IntentFounded {
		return err
	}
	var voters []cluster.HostID
	for _, v := range in.Voters {
		if v.Host != "" {
			voters = append(voters, v.Host)
		}
	}
	doc, err := d.keeping.record.Document(ctx)
	if err != nil {
		return err
	}
	change := register.Wanted(doc, voters, d.readyKeepers(ctx, doc, voters))
	if change == nil {
		return nil
	}
	next, err := d.keeping.record.ChangeKeepers(ctx, change)
	if err != nil {
		return err
	}
	var names []cluster.HostID
	for _, s := range next.Keepers {
		names = append(names, s.Host)
	}
	d.log.Info("the hosts that keep the cluster's record changed", "keepers", names)
	return nil
}

// readyKeepers asks the hosts of voters and keepers for their seats.
func (d *daemon) readyKeepers(ctx context.Context, doc *register.Document, voters []cluster.HostID) (ready []register.Seat) {
	ask := slices.Clone(voters)
	for _, s := range doc.Keepers {
		ask = append(ask, s.Host)
	}
	slices.Sort(ask)
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, h := range slices.Compact(ask) {
		all.Go(func() {
			seat, err := d.enrol(ctx, h, doc.Record)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ready = append(ready, seat)
		})
	}
	all.Wait()
	slices.SortFunc(ready, func(a, b register.Seat) int { return slices.Index(ask, a.Host) - slices.Index(ask, b.Host) })
	return ready
}

func (d *daemon) enrol(ctx context.Context, h cluster.HostID, record string) (register.Seat, error) {
	ctx, cancel := context.WithTimeout(ctx, keeperTimeout)
	defer cancel()
	if h == d.id {
		return d.keeping.keeper.Enrol(ctx, d.id, record, host.Mint)
	}
	c, err := d.clientOf(h)
	if err != nil {
		return register.Seat{}, err
	}
	reply, err := c.Keep(ctx, peer.KeepRequest{Enrol: record})
	if err != nil || reply.Seat == nil {
		return register.Seat{}, errors.Join(err, errors.New("no seat"))
	}
	return *reply.Seat, nil
}

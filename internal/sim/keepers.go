package sim

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/keeping"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/register"
)

// Worlds without a shared store: the hosts keep the record, each on its disk, by the code that ships (internal/keeping), and
// their messages go over the network of the daemons. The world's store is then what an onlooker sees: what is chosen.

const (
	// withHostsKeep is the share of the seeds without a shared store, among those that make no generations and adopt nothing: about
	// one in four of all.
	withHostsKeep = 0.45
	// hostsKeepBegins is where the numbers of a seed for that begin.
	hostsKeepBegins = 1 << 51
)

// HostsKeep tells whether the world of a seed has no shared store.
func HostsKeep(seed uint64) bool {
	d := dice(mix(seed))
	return !d.roll(luckBegins).chance(withGenerations) && !Adopts(seed) && d.roll(hostsKeepBegins).chance(withHostsKeep)
}

// medium is a machine's disk as a keeper's.
type medium struct{ m *machine }

// Read implements keeper.Medium.
func (x medium) Read(path string) ([]byte, error) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	data, ok := x.m.disk.keeper[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return data, nil
}

// Replace implements keeper.Medium.
func (x medium) Replace(path string, data []byte) error {
	x.m.mu.Lock()
	before := x.m.disk.keeper[path]
	x.m.disk.keeper[path] = data
	x.m.mu.Unlock()
	if path == keeper.FileName {
		x.m.w.accepted(x.m, before, data)
	}
	return nil
}

// keeperDisk is the disk as a daemon's keeper reaches it.
type keeperDisk struct{ d *daemon }

func (x keeperDisk) Read(path string) ([]byte, error) { return medium{x.d.m}.Read(path) }

func (x keeperDisk) Replace(path string, data []byte) error {
	return x.d.do(kindKeeper, "", func() error { return medium{x.d.m}.Replace(path, data) })
}

// keep makes a daemon's part in keeping the record.
func (d *daemon) keep() {
	file, err := keeper.OpenOn("", keeperDisk{d})
	if err != nil {
		panic("what a keeper wrote cannot be read: " + err.Error())
	}
	d.m.mu.Lock()
	own := d.m.disk.own
	d.m.mu.Unlock()
	d.keeping = keeping.New(keeping.Options{
		Self: func() cluster.HostID { return d.id }, Cluster: clusterName,
		Contacts: d.contacts,
		To:       func(c cluster.Contact) (kept.Client, error) { return keepClient{d, c}, nil },
		Leading:  func() bool { return d.manager.Status().Leading },
		WentBack: func() bool { return d.host.WentBack() },
		Asked:    func() bool { return d.host.Asked() },
		Sure:     func() bool { return d.host.Sure() },
		Unheard:  func() []cluster.HostID { return d.host.Unheard() },
		Serves:   d.hasQuorum,
		Runs:     func() bool { return d.host.Served() },
		KeepIntent: func(ctx context.Context, in *cluster.Intent) {
			d.host.Observe(ctx, cluster.ObserveRequest{Intent: in})
		},
		Room:   func(context.Context) error { return nil },
		Keeper: file, Own: own, Mint: d.mint, Rand: d.rand, Log: d.log(),
	})
}

// contacts are all daemons that this one heard from, itself among them, sorted.
func (d *daemon) contacts() []cluster.Contact {
	out := []cluster.Contact{{Host: d.id, Endpoint: d.m.endpoint()}}
	for _, p := range d.host.Peers() {
		if p.Address != "" && !slices.ContainsFunc(out, func(c cluster.Contact) bool { return c.Host == p.Host }) {
			out = append(out, cluster.Contact{Host: p.Host, Endpoint: p.Address})
		}
	}
	slices.SortFunc(out, func(a, b cluster.Contact) int { return strings.Compare(string(a.Host), string(b.Host)) })
	return out
}

// hasQuorum tells whether the own member reads through raft.
func (d *daemon) hasQuorum(ctx context.Context, but *cluster.Intent) (bool, error) {
	s := d.host.Observe(ctx, cluster.ObserveRequest{}).State
	if s == nil {
		return false, fmt.Errorf("host %s cannot be observed", d.id)
	}
	return keeping.HasQuorum(ctx, s, but, simReacher{d})
}

// keepClient asks another daemon for what it keeps.
type keepClient struct {
	d  *daemon
	to cluster.Contact
}

// Keep implements kept.Client.
func (c keepClient) Keep(ctx context.Context, q peer.KeepRequest) (peer.KeepReply, error) {
	l := Letter{Kind: kindKeep, From: c.d.id, To: c.to.Host}
	as := peer.Caller{Identity: pki.Identity{Cluster: clusterName, Role: pki.RoleHost, ID: string(c.d.id)}, Record: c.d.keeping.Record()}
	// The header of each call says what the caller remembers of the disk, and each answer the same; see peer.Disks.
	type answer struct {
		peer.KeepReply
		disk  cluster.DiskID
		epoch uint64
	}
	disk, epoch := c.d.host.Remembered(c.to.Host, "")
	out, err := exchange(ctx, c.d, l, c.to.Endpoint, "", func(ctx context.Context, t *daemon) (a answer, err error) {
		t.host.Heard(c.d.id, disk, epoch)
		a.disk, a.epoch = t.host.Remembered(c.d.id, "")
		a.KeepReply, err = t.keeping.Answer(ctx, as, q)
		return a, err
	})
	if err == nil {
		c.d.host.Heard(c.to.Host, out.disk, out.epoch)
	}
	return out.KeepReply, err
}

// store is the store as a daemon reaches it.
func (d *daemon) store() blob.Store {
	if d.keeping != nil {
		return keptView{d}
	}
	return storeView{d}
}

// folder is the control folder in it.
func (d *daemon) folder() *control.Folder {
	f := control.New(d.store(), clusterName)
	if d.keeping != nil {
		f.Known()
	}
	return f
}

// FoundRecord makes the record of a new cluster on the disk of a machine, whose daemon has not started yet, as init does.
func (w *World) FoundRecord(m *machine, s cluster.Spec) {
	first := memory.New()
	if err := control.New(first, clusterName).Known().WriteSpec(w.ctx, s); err != nil {
		w.violate("found the record: %v", err)
		return
	}
	n := uint64(0)
	mint := func() string {
		n++
		return fmt.Sprintf("%016x", mix(w.seed^n))
	}
	infos, err := first.List(w.ctx, "")
	objects := map[string]register.Object{}
	for _, i := range infos {
		data, _, failed := blob.ReadAll(w.ctx, first, i.Key, 1<<20)
		if failed != nil {
			err = failed
		}
		objects[i.Key] = register.Object{Tag: mint(), Data: data, Modified: time.Now().UnixNano()}
	}
	if err == nil {
		var k *keeper.Keeper
		if k, err = keeper.OpenOn("", medium{m}); err == nil {
			_, err = k.Found(w.ctx, m.ID(), mint, objects)
		}
	}
	if err != nil {
		w.violate("found the record: %v", err)
	}
	w.mu.Lock()
	w.asked = s.MemberCount
	w.mu.Unlock()
}

// keptWithout reports whether the record is kept without a machine: of the keepers of each document that is chosen, or may yet
// be, a majority has its file. Where there is a shared store it is always so.
func (w *World) keptWithout(m *machine) bool {
	if !w.hostsKeep {
		return true
	}
	w.mu.Lock()
	docs := []*register.Document{w.register.newest}
	w.mu.Unlock()
	if docs[0] == nil {
		return false
	}
	var whole []register.Seat
	for _, x := range w.hosts() {
		data, err := medium{x}.Read(keeper.FileName)
		if err != nil || x.gone.Load() {
			continue
		}
		state, err := keeper.Decode(data)
		if err != nil {
			continue
		}
		w.mu.Lock()
		forgot := state.Promised.Compare(w.register.promised[state.Seat]) < 0 // its disk went back
		w.mu.Unlock()
		if x != m && !forgot {
			whole = append(whole, state.Seat)
		}
		if d := state.Accepted.Doc; d != nil {
			docs = append(docs, d)
		}
	}
	for _, d := range docs {
		n := 0
		for _, s := range d.Keepers {
			if slices.Contains(whole, s) {
				n++
			}
		}
		if 2*n <= len(d.Keepers) {
			return false
		}
	}
	return true
}

package manager

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/say"
	"etcdadm.io/internal/wake"
)

// Manager is the loop of one daemon. Make one with New; its methods may be
// called from several goroutines at once, also before and after Run.
type Manager struct {
	o      Options
	log    *slog.Logger
	self   cluster.HostID
	said   *say.Once
	gossip *Gossip
	watch  *Watcher
	report *Writer

	wake  chan struct{} // look again, if leading
	goals chan *request // a person's steps, for the leader's loop
}

// New makes a manager that does nothing yet. It fails on missing options.
func New(o Options) (*Manager, error) {
	switch {
	case o.Local == nil || o.Network == nil:
		return nil, errors.New("new manager: Local and Network are required")
	case o.ClusterName == "" || o.Contact.Host == "":
		return nil, errors.New("new manager: the cluster's name and this host's ID are required")
	}
	o = o.withDefaults()
	m := &Manager{o: o, log: o.Log, self: o.Contact.Host, said: say.NewOnce(o.Log), wake: make(chan struct{}, 1), goals: make(chan *request)}
	again, i := func() { wake.Up(m.wake) }, o.Intervals
	m.gossip = NewGossip(GossipOptions{
		Local: o.Local, Contact: o.Contact, Place: o.Place, ClusterName: o.ClusterName, Network: o.Network, Seeds: o.Seeds,
		Named: func(id cluster.HostID) bool { return o.Spec != nil && slices.Contains(o.Spec.Hosts, id) },
		Wake:  again, Say: m.said.Say, Log: o.Log,
		Intervals: GossipIntervals{Quick: i.Quick, Idle: i.Idle, Silent: i.Silent, Discovery: i.Discovery, PingTimeout: i.PingTimeout},
	})
	m.report = NewWriter(ReportOptions{
		Control: o.Control, Record: i.Record, RecordCalm: i.RecordCalm, Status: i.Status, Heartbeat: i.Heartbeat, WriteTimeout: i.WriteTimeout, Say: m.said.Say,
		Foreign: func() bool { return m.watch.Foreign() },
	})
	m.watch = NewWatcher(WatchOptions{
		Control: o.Control, Catalogue: o.Catalogue, BackupInterval: o.BackupInterval, DrillInterval: o.DrillInterval,
		Spec: o.Spec, AutoRecoverAfter: o.AutoRecoverAfter, LastSpec: o.Local.Spec, Remember: o.Local.RememberSpec,
		Gossip: m.gossip, Unwritten: m.report.NotWritten, Wake: again, Say: m.said.Say, Log: o.Log,
		Observed:  func() *cluster.Observation { return m.report.Last().Observation },
		Intervals: WatchIntervals{Store: i.Store, StoreNotified: i.StoreNotified, StoreTimeout: i.StoreTimeout, Aside: SightEvery},
	})
	return m, nil
}

// Run gossips, and leads when it is this host's turn, until ctx ends. It then
// tells the others that it leaves, and returns once all is joined.
func (m *Manager) Run(ctx context.Context) error {
	m.gossip.Begin()
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){m.gossip.Run, m.watch.Run, m.lead} {
		loops.Go(func() { loop(inner) })
	}
	<-ctx.Done()
	m.gossip.Leave(inner)
	cancel()
	loops.Wait()
	return ctx.Err()
}

// Status gives a snapshot.
func (m *Manager) Status() Status {
	s := m.report.Last()
	s.Cluster, s.Self = m.o.ClusterName, m.self
	s.Leader, s.Leading, _ = m.gossip.Leader()
	s.Unfit = m.gossip.Unfit()
	for _, p := range m.gossip.Known() {
		s.Peers = append(s.Peers, PeerStatus{Contact: p.contact, Live: p.live, Heard: p.heard.Round(0), Skew: p.skew})
	}
	return s
}

// Ping takes in a ping from another daemon and answers with this one's.
func (m *Manager) Ping(ctx context.Context, p cluster.Ping) (cluster.Ping, error) {
	return m.gossip.Ping(ctx, p)
}

// AskPeers collects what the other daemons remember of this host (see [Gossip.AskPeers]).
func (m *Manager) AskPeers(ctx context.Context, of []cluster.HostID) []cluster.Ping {
	return m.gossip.AskPeers(ctx, of)
}

// Elsewhere is another daemon under this host's ID, as others hear it at this moment; nil: nobody does.
func (m *Manager) Elsewhere() *cluster.Elsewhere { return m.gossip.doubles.elsewhere(time.Now()) }

// Forget drops a host out of what this daemon knows and remembers (see [Gossip.Forget]).
func (m *Manager) Forget(id cluster.HostID) error { return m.gossip.Forget(id) }

// Fences are the highest fence that a leader may bring of those that this daemon has heard
// of, and which hosts it hears now.
func (m *Manager) Fences() (top cluster.Fence, live []cluster.HostID) { return m.gossip.Fences() }

package manager

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/discovery"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/plan"
)

// Local is this machine; *host.Host is it.
type Local interface {
	Identity() record.Identity
	// Changes receives a value after something happened that a leader should
	// look at. The manager is its one receiver.
	Changes() <-chan struct{}
	Observe(ctx context.Context, r cluster.ObserveRequest) cluster.ObserveReply
	Apply(ctx context.Context, r cluster.ApplyRequest) cluster.ApplyReply
	// Alarms are those that the own member tells of, without asking the others;
	// false: none answered.
	Alarms(ctx context.Context) ([]string, bool)
	Remember(pings []cluster.Ping)
	Remembered(id cluster.HostID, disk cluster.DiskID) (cluster.DiskID, uint64)
	Peers() []record.Peer
	// Rotation is the one of the authorities on record; nil: none ever was.
	Rotation() *cluster.Rotation
	// Forget drops what is remembered of a host that nothing counts on.
	Forget(id cluster.HostID) error
	RememberSpec(s cluster.Spec)
	Spec() *cluster.Spec
}

var _ Local = (*host.Host)(nil)

// Network reaches the other daemons. Every call ends soon after its context.
type Network interface {
	// Ping talks to whoever answers at the endpoint.
	Ping(ctx context.Context, endpoint string, p cluster.Ping) (cluster.Ping, error)
	Observe(ctx context.Context, to cluster.Contact, r cluster.ObserveRequest) (cluster.ObserveReply, error)
	Apply(ctx context.Context, to cluster.Contact, r cluster.ApplyRequest) (cluster.ApplyReply, error)
	// Goal hands a GoalRequest to another daemon's manager as JSON, and brings
	// back its GoalResult.
	Goal(ctx context.Context, to cluster.Contact, wish json.RawMessage) (json.RawMessage, error)
}

// Planner decides; plan.Next is the one.
type Planner func(plan.Goal, *cluster.Observation) plan.Decision

// MemberIDs works out the IDs that etcd will give to the founders of a
// cluster with this token, in their order, and to the cluster.
type MemberIDs func(token string, founders []cluster.Founder) ([]cluster.MemberID, cluster.ClusterID, error)

// Intervals are how often and how long. Zero fields get their default.
type Intervals struct {
	Quick  time.Duration // 100 ms: between pings after a start or a change
	Idle   time.Duration // 2 s: between pings otherwise
	Silent time.Duration // 5 s: between pings to who has not answered for long
	// Tick is 7 s: from the end of a look, and of what was done after it, to the
	// next look when nothing happens. A host hears this leader's fence in each
	// look, and with ObserveTimeout that is within the 10 s after which another
	// leader may take the fence for unused (SAFETY.md, rule 6). It is not where the
	// store takes its time beside a look (4 s), or an op of another host does
	// (ApplyTimeout): a refused leader may raise its own fence then. That costs a
	// term, and nothing relies on it.
	Tick  time.Duration
	Store time.Duration // 2 s: between looks at the control folder
	// StoreNotified is the same where the store tells of changes by itself; 10 s.
	StoreNotified time.Duration
	Alarms        time.Duration // 1 s: between looks of a leader at its own member's alarms
	Record        time.Duration // 10 s: between writes of the record
	RecordCalm    time.Duration // the same while no recovery by itself goes by it; Record
	Status        time.Duration // 2 s: between writes of the status, in the long run; a few follow each other 2 s apart
	Heartbeat     time.Duration // 5 min: between them, at most
	Discovery     time.Duration // 60 s: between looks for seeds

	PingTimeout    time.Duration // 1 s
	ObserveTimeout time.Duration // 2 s
	StoreTimeout   time.Duration // 2 s: to read
	WriteTimeout   time.Duration // 5 s: to write to the store
	ApplyTimeout   time.Duration // 15 s: for one op
	GoalTimeout    time.Duration // 60 s: for a person's step that names no time
}

// Options are what a manager is made of. Local, Contact, ClusterName and
// Network are required.
type Options struct {
	Local       Local
	Contact     cluster.Contact // how others reach this daemon
	Place       string          // see [cluster.Ping]; empty: not known
	ClusterName string
	Network     Network
	Seeds       discovery.Seeds // nil: others have to come to us
	Control     *control.Folder // nil: there is no store
	StoreURL    string          // as people are shown it; without secrets
	BackupsURL  string          // of the store of the backups, where that is another one
	Catalogue   Catalogue       // nil: nothing is known of backups
	// BackupInterval is how often a backup is taken by itself; zero: never.
	BackupInterval time.Duration
	// DrillInterval is how often a backup is tried out; zero: never by itself.
	DrillInterval time.Duration
	// Upkeep is what is done about etcd's own ills.
	Upkeep cluster.Upkeep
	// Spec, when set, takes the place of the spec in the store.
	Spec *cluster.Spec
	// DeadAfter, when positive, goes for a spec that names none.
	DeadAfter time.Duration
	// AutoRecoverAfter, when positive, goes for a spec that names none.
	AutoRecoverAfter time.Duration
	Planner          Planner // nil: plan.Next
	MemberIDs        MemberIDs
	// NextAuthorities makes the next authorities of a rotation of this ID on this machine, their keys durably, and
	// gives the certificates; nil: there is no TLS.
	NextAuthorities func(id string, of []cluster.AuthorityChange) ([]cluster.AuthorityChange, error)
	Mint            func() string                     // nil: host.Mint
	Rand            func(time.Duration) time.Duration // uniform in [0, d); nil: math/rand
	Log             *slog.Logger                      // nil: slog.Default
	// LastWord is why the daemon of a host that is not in sight does not run, as it said
	// itself; empty: nobody said. It must not block. nil: nobody does.
	LastWord func(cluster.HostID) string
	// Decided is told every decision, said or not, with what it was made from
	// (metrics, recordings), but for what was only planned for a person. It must not block. Neither value may be changed.
	Decided   func(*cluster.Observation, plan.Decision)
	Intervals Intervals
}

func (o Options) withDefaults() Options {
	if o.Planner == nil {
		o.Planner = plan.Next
	}
	if o.Mint == nil {
		o.Mint = host.Mint
	}
	if o.Rand == nil {
		o.Rand = func(d time.Duration) time.Duration { return rand.N(d) }
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.LastWord == nil {
		o.LastWord = func(cluster.HostID) string { return "" }
	}
	if o.Decided == nil {
		o.Decided = func(*cluster.Observation, plan.Decision) {}
	}
	i := &o.Intervals
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&i.Quick, 100 * time.Millisecond}, {&i.Idle, 2 * time.Second}, {&i.Silent, 5 * time.Second},
		{&i.Tick, 7 * time.Second}, {&i.Store, 2 * time.Second}, {&i.StoreNotified, 10 * time.Second}, {&i.Alarms, time.Second}, {&i.Record, 10 * time.Second}, {&i.Status, 2 * time.Second}, {&i.Heartbeat, 5 * time.Minute}, {&i.Discovery, time.Minute},
		{&i.PingTimeout, time.Second}, {&i.ObserveTimeout, 2 * time.Second}, {&i.StoreTimeout, 2 * time.Second},
		{&i.WriteTimeout, 5 * time.Second}, {&i.ApplyTimeout, 15 * time.Second}, {&i.GoalTimeout, time.Minute},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return o
}

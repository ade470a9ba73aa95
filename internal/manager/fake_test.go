package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/discovery"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/testlog"
	"etcdadm.io/internal/wake"
	"etcdadm.io/plan"
)

const clusterName = "etcd"

var version = cluster.MustVersion("3.6.16")

// fakeHost promises as a host does, and founds when it is told to.
type fakeHost struct {
	id      cluster.HostID
	world   *world
	changes chan struct{}

	mu       sync.Mutex
	disk     cluster.DiskID
	promised cluster.Fence
	used     time.Time
	changeNo uint64
	unfit    string
	asks     bool
	unsure   bool
	intent   *cluster.Intent
	local    cluster.LocalMember
	stamp    int
	memory   map[cluster.HostID]cluster.Ping
	peers    []record.Peer // from an earlier run
	rotation *cluster.Rotation
	askedOf  []cluster.DiskID // what others showed when they asked
	forgot   []cluster.HostID
	hang     bool          // does not answer until the context ends
	stuck    chan struct{} // does not answer until this is closed, whatever the context
	observed int
	fences   []cluster.Fence
	reached  []cluster.Member
	told     *cluster.Standing // by the last leader that looked
	applied  []cluster.ApplyRequest
	apply    func(context.Context, cluster.ApplyRequest) cluster.ApplyReply
	alarms   []string
}

func (h *fakeHost) Identity() record.Identity {
	h.mu.Lock()
	defer h.mu.Unlock()
	return record.Identity{Host: h.id, Disk: h.disk, Epoch: 1, Promised: h.promised, Changes: h.changeNo, Unfit: h.unfit, Asks: h.asks, Unsure: h.unsure}
}

func (h *fakeHost) Changes() <-chan struct{} { return h.changes }

func (h *fakeHost) change() {
	h.mu.Lock()
	h.changeNo++
	h.mu.Unlock()
	wake.Up(h.changes)
}

func (h *fakeHost) Observe(ctx context.Context, r cluster.ObserveRequest) cluster.ObserveReply {
	h.mu.Lock()
	hang, stuck := h.hang, h.stuck
	h.observed++
	h.reached, h.told = r.Reach, r.Standing
	h.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	if hang {
		<-ctx.Done()
		return cluster.ObserveReply{Busy: &cluster.Busy{Op: cluster.Op{Kind: "boot"}}}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Fence.Less(h.promised) {
		return cluster.ObserveReply{Refused: &cluster.Refused{Promised: h.promised, Age: time.Since(h.used)}}
	}
	if h.promised != r.Fence {
		h.fences = append(h.fences, r.Fence)
	}
	h.promised, h.used = r.Fence, time.Now()
	if r.Intent.Order(h.intent) > 0 {
		h.intent = r.Intent
	}
	h.stamp++
	s := &cluster.HostState{
		Host: h.id, Disk: h.disk, Cluster: clusterName, Promised: h.promised, Intent: h.intent, Releases: []cluster.Version{version},
		URLs: cluster.URLs{Peer: []string{"http://" + string(h.id) + ":2380"}}, Local: h.local, Clock: time.Now(),
	}
	h.world.etcd(s)
	return cluster.ObserveReply{State: s, Stamp: fmt.Sprint(h.id, h.stamp)}
}

func (h *fakeHost) Alarms(context.Context) ([]string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.alarms, true
}

func (h *fakeHost) Apply(ctx context.Context, r cluster.ApplyRequest) cluster.ApplyReply {
	h.mu.Lock()
	h.applied = append(h.applied, r)
	do := h.apply
	h.mu.Unlock()
	if do != nil {
		return do(ctx, r)
	}
	h.mu.Lock()
	if r.Fence != h.promised || r.Disk != h.disk {
		h.mu.Unlock()
		return cluster.ApplyReply{Outcome: cluster.OutcomeRefused, Reason: "fence or disk"}
	}
	if r.Op.Kind == cluster.OpStart {
		h.local = cluster.LocalMember{State: cluster.MemberStarted, Generation: r.Op.Generation, Nonce: r.Op.Nonce, Token: r.Op.Token,
			Cluster: r.Op.Cluster, Member: r.Op.Member, Run: true, Version: r.Op.Version, HasData: true}
		h.world.start(h.id)
	}
	h.mu.Unlock()
	h.change()
	return cluster.ApplyReply{Outcome: cluster.OutcomeDone}
}

func (h *fakeHost) Remember(pings []cluster.Ping) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range pings {
		if was := h.memory[p.Host]; was.Disk == p.Disk {
			p.Epoch = max(p.Epoch, was.Epoch)
		}
		h.memory[p.Host] = p
	}
}

func (h *fakeHost) Remembered(id cluster.HostID, disk cluster.DiskID) (cluster.DiskID, uint64) {
	if disk != "" {
		get(h, func() int { h.askedOf = append(h.askedOf, disk); return 0 })
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.memory[id].Disk, h.memory[id].Epoch
}

func (h *fakeHost) Rotation() *cluster.Rotation {
	return get(h, func() *cluster.Rotation { return h.rotation })
}

func (h *fakeHost) Peers() []record.Peer { return get(h, func() []record.Peer { return h.peers }) }
func (h *fakeHost) Forget(id cluster.HostID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgot = append(h.forgot, id)
	return nil
}
func (h *fakeHost) RememberSpec(cluster.Spec) {}
func (h *fakeHost) Spec() *cluster.Spec       { return nil }

// get reads something of the fake under its lock.
func get[T any](h *fakeHost, f func() T) T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return f()
}

// node is one daemon of a world.
type node struct {
	*Manager
	host  *fakeHost
	store *memory.Store
	logs  *testlog.Lines
	kill  context.CancelFunc
	done  chan struct{}
}

// world is daemons over an in-memory network.
type world struct {
	t     *testing.T
	store *memory.Store
	nodes map[cluster.HostID]*node

	mu      sync.Mutex
	cut     map[[2]cluster.HostID]bool  // sorted pairs
	refused map[[2]cluster.HostID]error // what one of them says to the other
	dead    map[cluster.HostID]bool
	started []cluster.HostID
}

func newWorld(t *testing.T) *world {
	return &world{t: t, store: memory.New(), nodes: map[cluster.HostID]*node{}, cut: map[[2]cluster.HostID]bool{}, refused: map[[2]cluster.HostID]error{}, dead: map[cluster.HostID]bool{}}
}

func endpoint(h cluster.HostID) string { return string(h) + ":8000" }

// add makes a daemon; start starts it.
func (w *world) add(id cluster.HostID, change ...func(*Options)) *node {
	n := &node{store: w.store, logs: &testlog.Lines{}}
	n.host = &fakeHost{id: id, disk: cluster.DiskID("disk-" + id), world: w, changes: make(chan struct{}, 1), memory: map[cluster.HostID]cluster.Ping{}}
	minted := 0
	o := Options{
		Local: n.host, Contact: cluster.Contact{Host: id, Endpoint: endpoint(id)}, ClusterName: clusterName,
		Network: link{w, id}, Seeds: seeds{"a", "b", "c"}, Log: slog.New(slog.NewTextHandler(n.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Planner: func(plan.Goal, *cluster.Observation) plan.Decision {
			return plan.Decision{Rule: "test", Reason: plan.Say("nothing to do"), Done: true}
		},
		Control: control.New(w.store, clusterName),
		Mint:    func() string { minted++; return fmt.Sprintf("%s-%d", id, minted) },
		Rand:    func(d time.Duration) time.Duration { return d / 2 },
		MemberIDs: func(token string, founders []cluster.Founder) ([]cluster.MemberID, cluster.ClusterID, error) {
			var ids []cluster.MemberID
			for _, f := range founders {
				ids = append(ids, cluster.MemberID(f.Host[0]))
			}
			return ids, 99, nil
		},
	}
	for _, c := range change {
		c(&o)
	}
	m, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	n.Manager = m
	w.mu.Lock()
	w.nodes[id] = n
	w.mu.Unlock()
	return n
}

func (w *world) run(nodes ...*node) {
	for _, n := range nodes {
		ctx, cancel := context.WithCancel(w.t.Context())
		w.mu.Lock()
		n.kill, n.done = cancel, make(chan struct{})
		w.mu.Unlock()
		go func() {
			defer close(n.done)
			if err := n.Run(ctx); !errors.Is(err, context.Canceled) {
				w.t.Error("run ended with", err)
			}
		}()
	}
}

// stop ends all daemons; a bubble ends only when nothing is left in it.
func (w *world) stop() {
	for _, n := range w.nodes {
		if n.kill != nil {
			n.kill()
		}
	}
	for _, n := range w.nodes {
		if n.done != nil {
			<-n.done
		}
	}
}

// crash takes a daemon off the network, so that nobody hears it leave.
func (w *world) crash(n *node) {
	w.mu.Lock()
	w.dead[n.self] = true
	w.mu.Unlock()
	n.kill()
	<-n.done
}

func (w *world) sever(a, b cluster.HostID, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[pair(a, b)] = cut
}

func pair(a, b cluster.HostID) [2]cluster.HostID {
	if b < a {
		a, b = b, a
	}
	return [2]cluster.HostID{a, b}
}

// leaders are the hosts that lead.
func (w *world) leaders() []cluster.HostID {
	var out []cluster.HostID
	for id, n := range w.nodes {
		if _, leading, _ := n.gossip.Leader(); leading && !w.isDead(id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func (w *world) isDead(id cluster.HostID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead[id]
}

// until waits for something to become true, at most for so long.
func (w *world) until(most time.Duration, what string, ok func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > most {
			for id, n := range w.nodes {
				w.t.Logf("log of %s:\n%s", id, n.logs.String())
			}
			w.t.Fatalf("after %s still not: %s", most, what)
		}
		time.Sleep(10 * time.Millisecond) // virtual time
		synctest.Wait()
	}
	return time.Since(began)
}

func (w *world) untilLeads(most time.Duration, id cluster.HostID) time.Duration {
	w.t.Helper()
	return w.until(most, string(id)+" leads alone", func() bool { return slices.Equal(w.leaders(), []cluster.HostID{id}) })
}

// start and etcd are a cluster that serves once enough founders were started.
func (w *world) start(id cluster.HostID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = append(w.started, id)
	slices.Sort(w.started)
}

func (w *world) etcd(s *cluster.HostState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Local.State != cluster.MemberStarted {
		return
	}
	s.Process = cluster.Process{State: cluster.ProcessRunning}
	if s.Intent == nil || len(w.started) < cluster.Quorum(len(s.Intent.Founders)) {
		return
	}
	s.Local.Cluster = s.Intent.Cluster
	s.Status = &cluster.MemberStatus{Member: s.Local.Member, Cluster: s.Intent.Cluster, Version: version, Leader: s.Intent.Founders[0].Member, Term: 2, Index: 10, Revision: 7, Healthy: true}
	v := &cluster.MemberView{Cluster: s.Intent.Cluster, Linearizable: true}
	for _, f := range s.Intent.Founders {
		v.Members = append(v.Members, cluster.Member{ID: f.Member, Name: string(f.Host), PeerURLs: f.URLs.Peer})
	}
	s.View = v
}

// link is one daemon's way to the others. A message takes a millisecond.
type link struct {
	w    *world
	from cluster.HostID
}

func (l link) to(ctx context.Context, endpoint string) (*node, error) {
	id := cluster.HostID(strings.TrimSuffix(endpoint, ":8000"))
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Millisecond):
	}
	l.w.mu.Lock()
	if why := l.w.refused[[2]cluster.HostID{l.from, id}]; why != nil {
		l.w.mu.Unlock()
		return nil, why
	}
	cut := l.w.cut[pair(l.from, id)] || l.w.dead[id] || l.w.dead[l.from]
	n := l.w.nodes[id]
	gone := n == nil || n.done == nil
	l.w.mu.Unlock()
	if cut || gone {
		return nil, errors.New("connection refused")
	}
	return n, nil
}

func (l link) Ping(ctx context.Context, endpoint string, p cluster.Ping) (cluster.Ping, error) {
	n, err := l.to(ctx, endpoint)
	if err != nil {
		return cluster.Ping{}, err
	}
	return n.Ping(ctx, p)
}

func (l link) Observe(ctx context.Context, to cluster.Contact, r cluster.ObserveRequest) (cluster.ObserveReply, error) {
	n, err := l.to(ctx, to.Endpoint)
	if err != nil {
		return cluster.ObserveReply{}, err
	}
	return n.host.Observe(ctx, r), ctx.Err()
}

func (l link) Apply(ctx context.Context, to cluster.Contact, r cluster.ApplyRequest) (cluster.ApplyReply, error) {
	n, err := l.to(ctx, to.Endpoint)
	if err != nil {
		return cluster.ApplyReply{}, err
	}
	return n.host.Apply(ctx, r), ctx.Err()
}

func (l link) Goal(ctx context.Context, to cluster.Contact, wish json.RawMessage) (json.RawMessage, error) {
	n, err := l.to(ctx, to.Endpoint)
	if err != nil {
		return nil, err
	}
	return n.HandleGoal(ctx, wish)
}

type seeds []string

func (s seeds) Seeds(context.Context) ([]discovery.Seed, error) {
	var out []discovery.Seed
	for _, id := range s {
		out = append(out, discovery.Seed{ID: id, Endpoint: endpoint(cluster.HostID(id))})
	}
	return out, nil
}

// addresses are seeds of which no host is known, as a name service gives them.
type addresses []string

func (a addresses) Seeds(context.Context) ([]discovery.Seed, error) {
	var out []discovery.Seed
	for _, id := range a {
		out = append(out, discovery.Seed{Endpoint: endpoint(cluster.HostID(id))})
	}
	return out, nil
}

func (w *world) put(key, data string) {
	w.t.Helper()
	if _, err := blob.PutBytes(w.t.Context(), w.store, key, []byte(data), blob.Any); err != nil {
		w.t.Fatal(err)
	}
}

// times notes when something happened.
type times struct {
	mu sync.Mutex
	at []time.Time
}

func (x *times) note() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at = append(x.at, time.Now())
	return len(x.at)
}

func (x *times) all() []time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.at)
}

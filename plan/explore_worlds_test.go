package plan

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/sight"
)

var (
	exploreFaults = flag.Int("explore.faults", 1, "explore small worlds with that many faults")
	exploreStates = flag.Int("explore.states", 1<<18, "explore no more states of a small world than these")
	exploreFor    = flag.Duration("explore.for", time.Minute, "explore all small worlds together for no longer than that; what was left out is said")
	exploreWay    = flag.String("explore.way", "", "take these moves in the small world that -run names, and show what is decided on the way: step, wipe a, ...")
)

// commanded are the small worlds in which a person takes steps in between, too.
var commanded = []string{"growing", "shrinking", "replacing", "upgrading"}

// smallWorlds are what is going on when things go wrong.
var smallWorlds = []struct {
	name string
	make func(t testing.TB) *world
}{
	{"founding", func(t testing.TB) *world { return hostsOf("3.6.16", 3, "a", "b", "c") }},
	{"named", func(t testing.TB) *world { // the store cannot write on a condition
		w := hostsOf("3.6.16", 3, "a", "b", "c")
		w.store.unconditional, w.spec.Hosts = true, []cluster.HostID{"a", "b", "c"}
		return w
	}},
	{"growing", func(t testing.TB) *world {
		w := hostsOf("3.6.16", 1, "a", "b", "c")
		mustRun(t, w)
		w.ask(3, "3.6.16")
		return w
	}},
	{"shrinking", func(t testing.TB) *world {
		w := formedOf(t, "3.6.16", "a", "b", "c")
		w.ask(1, "3.6.16")
		return w
	}},
	{"replacing", func(t testing.TB) *world {
		w := formedOf(t, "3.6.16", "a", "b", "c")
		w.wipe(w.host("b"), "")
		return w
	}},
	{"moving", func(t testing.TB) *world { // b is to make way for d
		w := formedOf(t, "3.6.16", "a", "b", "c")
		w.addHost("d", cluster.MustVersion("3.6.16"))
		w.spec.Hosts = []cluster.HostID{"a", "c", "d"}
		return w
	}},
	{"pausing", func(t testing.TB) *world { // two hosts are asked for beside a roll, and one of them is away at times
		w := formedOf(t, "3.6.16", "a", "b", "c")
		w.pauses.stored = []cluster.Pause{
			{ID: "p1", Host: "b", For: 4 * time.Second, Reason: "kernel"}, {ID: "p2", Host: "a", For: 4 * time.Second, Reason: "disk"},
		}
		for _, h := range w.hosts {
			h.Options = []string{"--snapshot-count=20000"}
		}
		return w
	}},
	{"manual", func(t testing.TB) *world { // self-management is off, and a person types what is offered
		w := formedOf(t, "3.6.16", "a", "b", "c")
		w.manual.stored = &cluster.Manual{Since: w.now}
		w.wipe(w.host("b"), "")
		return w
	}},
	{"upgrading", func(t testing.TB) *world {
		w := formedOf(t, "3.5.35", "a", "b", "c")
		w.ask(3, "3.6.16")
		return w
	}},
	{"downgrading", func(t testing.TB) *world {
		w := formedOf(t, "3.6.16", "a", "b", "c")
		w.ask(3, "3.5.35")
		return w
	}},
	{"restoring", func(t testing.TB) *world {
		w := formedOf(t, "3.6.16", "a", "b", "c")
		w.queue.backups = []cluster.Backup{{Name: "B", At: w.now, Version: cluster.MustVersion("3.6.16"), Revision: 1000, SHA256: "digest-B"}}
		w.queue.commands = []cluster.Command{{Name: "cmd", At: w.now, Kind: cluster.CommandRestore, Backup: "B", NoBackup: true}}
		return w
	}},
	{"options", func(t testing.TB) *world {
		w := formedOf(t, "3.6.16", "a", "b", "c")
		for _, h := range w.hosts {
			h.Options = []string{"--snapshot-count=20000"}
		}
		return w
	}},
	{"halting", func(t testing.TB) *world { // the way over 3.6 is not installed
		w := newWorld()
		for _, n := range []cluster.HostID{"a", "b", "c"} {
			w.addHost(n, cluster.MustVersion("3.5.35"), cluster.MustVersion("3.7.3"))
		}
		w.ask(3, "3.5.35")
		mustRun(t, w)
		w.ask(3, "3.7.3")
		w.spec.AcceptOutage = cluster.Consent(w.spec.EtcdVersion, w.now)
		return w
	}},
	{"full", func(t testing.TB) *world { // NOSPACE
		w := hostsOf("3.6.16", 3, "a", "b", "c")
		for _, h := range w.hosts {
			h.Options = []string{"--quota-backend-bytes=104857600"}
		}
		mustRun(t, w)
		for _, h := range w.hosts {
			h.db = worldDB{size: 100 << 20, inUse: 95 << 20, live: 10 << 20}
		}
		w.raise(cluster.AlarmNoSpace, w.host("b"))
		return w
	}},
	{"adopting", func(t testing.TB) *world { // of etcd-manager
		w := formedOf(t, "3.6.16", "a", "b", "c")
		w.store.intent, w.handed = &cluster.Intent{State: cluster.IntentFounded, Timestamp: 1}, nil
		for _, h := range w.hosts {
			h.Intent = nil
			h.Local.Generation, h.Local.Nonce, h.Local.Adopted = 0, "", true
		}
		return w
	}},
	{"tls", func(t testing.TB) *world {
		w := hostsOf("3.6.16", 3, "a", "b", "c")
		for _, h := range w.hosts {
			h.plain = true
			h.setURLs()
		}
		mustRun(t, w)
		for _, h := range w.hosts {
			h.plain = false
			h.setURLs()
			h.Process.Differs = []string{"--cert-file", sight.PeerAuthority}
		}
		return w
	}},
}

func hostsOf(version string, members int, names ...cluster.HostID) *world {
	w := newWorld()
	for _, n := range names {
		w.addHost(n, cluster.MustVersion("3.5.35"), cluster.MustVersion("3.6.16"))
	}
	w.ask(members, version)
	return w
}

func (w *world) ask(members int, version string) {
	w.spec = &cluster.Spec{MemberCount: members, EtcdVersion: cluster.MustVersion(version), DeadAfter: 5 * time.Second}
}

func formedOf(t testing.TB, version string, names ...cluster.HostID) *world {
	w := hostsOf(version, len(names), names...)
	mustRun(t, w)
	return w
}

func TestEveryStateOfSmallWorlds(t *testing.T) {
	whole := time.Now() // what one world leaves of its share goes to the next
	for i, c := range smallWorlds {
		if underRace && i > 0 {
			return // there is nothing concurrent in it
		}
		t.Run(c.name, func(t *testing.T) {
			begin := &smallWorld{world: c.make(t), people: slices.Contains(commanded, c.name), faults: *exploreFaults, born: map[birth]birthplace{}}
			if *exploreWay != "" {
				t.Log(begin.along(strings.Split(*exploreWay, ", ")))
				return
			}
			began := time.Now()
			x := &explorer{ids: map[stateKey]int32{}, begin: begin, most: *exploreStates, end: whole.Add(*exploreFor * time.Duration(i+1) / time.Duration(len(smallWorlds)))}
			x.explore()
			took := time.Since(began)
			t.Logf("%d states and %d moves with up to %d faults, %d deep, in %s (%.0f moves/s)", len(x.nodes), x.moved, *exploreFaults, x.depth, took.Round(time.Millisecond), float64(x.moved)/took.Seconds())
			if x.left > 0 {
				t.Logf("time ran out: what comes after %d of these states was not tried", x.left)
			}
			for _, b := range x.broken {
				t.Error(b)
			}
			for _, b := range x.stuck() {
				t.Error(b)
			}
		})
	}
}

// explorer goes through the states of a small world.
type explorer struct {
	ids    map[stateKey]int32
	nodes  []node
	keys   keyWriter
	moved  int // moves that were made
	looked int // looks and decisions
	depth  int
	broken []string
	seen   map[string]bool
	begin  *smallWorld
	most   int // states
	end    time.Time
	left   int // states after which nothing was tried, for want of time
}

type node struct {
	from  int32 // the state before, -1: none
	by    move
	good  bool        // at rest, as the spec asks
	lost  bool        // only a person can help
	free  []int32     // what comes next without a further fault
	state *smallWorld // nil: what comes next was looked at
}

// mostBroken is how many failures are told.
const mostBroken = 5

func (x *explorer) explore() {
	x.seen = map[string]bool{}
	x.add(x.begin.clone(), -1, move{})
	for level := []int32{0}; len(level) > 0 && len(x.nodes) < x.most; x.depth++ {
		var next []int32
		for i, id := range level {
			if time.Now().After(x.end) {
				x.left = len(level) - i + len(next)
				return
			}
			next = append(next, x.expand(id)...)
		}
		level = next
	}
}

func (x *explorer) add(s *smallWorld, from int32, by move) (id int32, fresh bool) {
	k := x.keys.key(s)
	if id, known := x.ids[k]; known {
		return id, false
	}
	id = int32(len(x.nodes))
	x.ids[k] = id
	x.nodes = append(x.nodes, node{from: from, by: by, state: s})
	return id, true
}

func (x *explorer) expand(id int32) (next []int32) {
	s := x.nodes[id].state
	x.nodes[id].state = nil
	x.nodes[id].lost = s.ruined()
	seen := s.clone()
	dec, wrong := seen.look()
	x.looked++
	for _, m := range s.moves() {
		var n *smallWorld
		var broken []string
		if m.leads() {
			n = seen.clone()
			var err error
			if broken, err = n.decided(m.name, dec); err != nil {
				continue
			}
			broken = append(broken, wrong...)
		} else {
			n = s.clone()
			broken = n.make(m)
		}
		x.moved++
		broken = append(broken, n.unsound()...)
		for _, b := range broken {
			x.tell(b, id, m)
		}
		if len(broken) > 0 {
			continue
		}
		if m.name == "step" && (dec.Done || n.takenBack(dec)) && n.healed() {
			x.nodes[id].good = true
		}
		to, fresh := x.add(n, id, m)
		if n.faults == s.faults {
			x.nodes[id].free = append(x.nodes[id].free, to)
		}
		if fresh {
			next = append(next, to)
		}
	}
	return next
}

// tell notes what was broken, once, with the shortest way to it.
func (x *explorer) tell(what string, at int32, by move) {
	kind := what
	if i := strings.Index(kind, " ["); i > 0 {
		kind = kind[:i]
	}
	if len(x.broken) >= mostBroken || x.seen[kind] {
		return
	}
	x.seen[kind] = true
	x.broken = append(x.broken, fmt.Sprintf("%s\n\tafter %s, %s", what, x.way(at), by))
}

// along takes a way, and 20 steps after it.
func (s *smallWorld) along(way []string) string {
	var b strings.Builder
	s = s.clone()
	for i := range len(way) + 20 {
		m := move{name: "step"}
		if i < len(way) {
			name, host, _ := strings.Cut(way[i], " ")
			m = move{name, cluster.HostID(host)}
		}
		if !m.leads() {
			fmt.Fprintf(&b, "\n== %s %v\n", m, s.make(m))
			continue
		}
		dec, broken := s.look()
		more, err := s.decided(m.name, dec)
		fmt.Fprintf(&b, "\n== %s %v %v %v\n%s", m, broken, more, err, describe(dec))
	}
	return b.String() + s.show()
}

func (x *explorer) way(at int32) string {
	var moves []string
	for ; at >= 0 && x.nodes[at].from >= 0; at = x.nodes[at].from {
		moves = append(moves, x.nodes[at].by.String())
	}
	slices.Reverse(moves)
	return strings.Join(moves, ", ")
}

// stuck are states from which the cluster does not come to rest although every
// fault ends, and although its disks are there.
func (x *explorer) stuck() (out []string) {
	back := make([][]int32, len(x.nodes))
	var queue []int32
	reached := make([]bool, len(x.nodes))
	for i := range x.nodes {
		for _, to := range x.nodes[i].free {
			back[to] = append(back[to], int32(i))
		}
		if x.nodes[i].good || x.nodes[i].lost || x.nodes[i].state != nil {
			reached[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, from := range back[at] {
			if !reached[from] {
				reached[from] = true
				queue = append(queue, from)
			}
		}
	}
	n := 0
	for i := range x.nodes {
		if reached[i] {
			continue
		}
		if n++; len(out) < mostBroken {
			out = append(out, fmt.Sprintf("the cluster does not come to rest after %s", x.way(int32(i))))
		}
	}
	if n > 0 {
		out = append(out, fmt.Sprintf("%d states of %d do not come to rest", n, len(x.nodes)))
	}
	return out
}

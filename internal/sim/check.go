package sim

import (
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/sim/fakeetcd"
)

// excuse is how long a fault counts as the reason for a voter that is missing:
// an op may rely on an observation that is five seconds old, takes five
// seconds, and its reply as long.
const excuse = 15 * time.Second

// excused reports whether a fault counts as the reason for a voter that is missing
// when a daemon does something. One that stood still between its look and its call
// cannot know what befell the others meanwhile.
func (d *daemon) excused(harmed time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	since := time.Now().Add(-excuse)
	if d.wentOn.After(since) {
		since = d.stood.Add(-excuse)
	}
	return harmed.After(since)
}

// checker holds what the invariants are about.
type checker struct {
	mu    sync.Mutex // guards the rest
	lines map[cluster.ClusterID]*lineage
	// closed are the clusters that a record in the store closed, which a store that goes back forgets.
	closed  []cluster.ClusterID
	now     *lineage // the highest generation that was seen to serve; nil: none
	origin  map[cluster.MemberID]*fakeetcd.Data
	harmed  map[cluster.MemberID]time.Time // by a fault
	dirs    []*dir
	fresh   []*lineage // served for the first time, and not looked at
	changes int
	// keeps is the intent on the disk that carries a member.
	keeps map[cluster.MemberID]*cluster.Intent
	generations
}

// lineage is one cluster, as etcd knows it: a generation of ours.
type lineage struct {
	id      cluster.ClusterID
	number  uint64 // of the generation; zero: the store never had its intent
	applied uint64
	list    []cluster.Member // the membership, as the furthest member has applied it
	before  []cluster.Member // as list was before its last change
	serves  time.Time        // since when a quorum does; zero: none
	acked   time.Time        // when a client was told of a write last
}

func (c *checker) init() {
	c.lines = map[cluster.ClusterID]*lineage{}
	c.origin, c.harmed = map[cluster.MemberID]*fakeetcd.Data{}, map[cluster.MemberID]time.Time{}
	c.keeps = map[cluster.MemberID]*cluster.Intent{}
	c.generations.init()
}

func (w *World) keepTrack(d *dir) {
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	w.check.dirs = append(w.check.dirs, d)
}

// step looks at the world after a call that changed it.
func (w *World) step() {
	for _, l := range w.look() {
		w.checkRecovered(l)
	}
}

// look is step but for what needs the disks of the hosts; it gives the generations that
// are served for the first time.
func (w *World) look() (fresh []*lineage) {
	seen, away := w.etcd.Look(), w.away(time.Now())
	c := &w.check
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range seen {
		if s.Member == 0 {
			continue
		}
		if s.Serving && c.lines[s.Cluster] == nil {
			w.firstServed(s.Cluster)
		}
		switch was := c.origin[s.Member]; {
		case was == nil:
			c.origin[s.Member] = s.WithData
		case was != s.WithData && c.joiner(s.Member):
			// The store knows of no disk that begins to join a cluster of something else. Its
			// learner's vote counts nowhere, and it does not get on without its log.
			c.origin[s.Member] = s.WithData
		case was != s.WithData && c.removed(s):
			// A joiner took the ID of a former member from an old list. It is stopped at once,
			// and nobody heeds its vote.
		case was != s.WithData:
			w.violate("member %s runs on %s with data that is not its own: its disk forgot it", s.Member, s.Host)
			c.origin[s.Member] = s.WithData
		}
	}
	serving := map[cluster.MemberID]bool{}
	for _, s := range seen {
		serving[s.Member] = s.Serving && s.Leader != 0 && !s.Paused
	}
	for _, l := range c.sorted() {
		w.follow(l, seen)
		l.followQuorum(serving)
	}
	w.checkExclusive(seen, away)
	fresh, c.fresh = c.fresh, nil
	return fresh
}

// removed reports whether the cluster does not list the member any more; c.mu is held.
func (c *checker) removed(s fakeetcd.Seen) bool {
	l := c.lines[s.Cluster]
	return l != nil && len(l.list) > 0 && !slices.ContainsFunc(l.list, func(m cluster.Member) bool { return m.ID == s.Member })
}

// joiner reports whether the member is a learner that joins a cluster of something else,
// and so never voted; c.mu is held.
func (c *checker) joiner(id cluster.MemberID) bool {
	for _, l := range c.lines {
		if l.number == 0 && slices.ContainsFunc(l.list, func(m cluster.Member) bool { return m.ID == id && m.Learner }) {
			return true
		}
	}
	return false
}

// follow keeps the membership as the furthest member has it, and checks each
// change of the voters; c.mu is held.
func (w *World) follow(l *lineage, seen []fakeetcd.Seen) {
	c := &w.check
	var best *fakeetcd.Seen
	for i := range seen {
		s := &seen[i]
		if s.Cluster == l.id && s.Applied > l.applied && (best == nil || s.Applied > best.Applied) {
			best = s
		}
	}
	if best == nil {
		return
	}
	before := l.list
	l.applied, l.list = best.Applied, best.Members
	if before == nil || sameVoters(before, l.list) {
		return
	}
	c.changes++
	l.before = before
	now := time.Now()
	sound := func(ms []cluster.Member) (n, up int) {
		for _, m := range ms {
			if m.Learner {
				continue
			}
			n++
			harmed, ok := c.harmed[m.ID]
			if runs(seen, m.ID) || ok && now.Sub(harmed) < excuse {
				up++
			}
		}
		return n, up
	}
	n, up := sound(before)
	m, left := sound(l.list)
	if up >= cluster.Quorum(n) && left < cluster.Quorum(m) {
		w.violate("a membership change took the quorum: %d of %d voters were up, %d of %d are now", up, n, left, m)
	}
	w.checkRecorded(l)
}

// checkRecorded: a change of the voters is in the intent before it is made
// (SAFETY.md, rule 11).
func (w *World) checkRecorded(l *lineage) {
	in := w.recorded()
	if in == nil && l.id == w.foreign.id {
		w.checkJoining(l)
		return
	}
	if in == nil {
		w.violate("the voters changed, and the store has no intent")
		return
	}
	before := l.before
	var now []cluster.Voter
	for _, m := range l.list {
		if !m.Learner {
			now = append(now, cluster.Voter{Member: m.ID})
		}
	}
	sets := setsOf(in, l.id)
	if top := w.highest(); top != nil && top.Order(in) > 0 { // the store went back since that was written down
		sets = slices.Concat(sets, setsOf(top, l.id))
	}
	if !slices.ContainsFunc(sets, func(s []cluster.Voter) bool { return cluster.SameVoters(s, now) }) && !w.kept(before, now) {
		w.violate("the voters are %s, and the intent knows only %s", names(now), setNames(sets))
	}
}

// setsOf are the voter sets that a record has of a cluster.
func setsOf(in *cluster.Intent, id cluster.ClusterID) [][]cluster.Voter {
	sets := in.VoterSets()
	for _, g := range in.History {
		if g.Cluster == id && in.Cluster != id {
			sets = g.Voters
		}
	}
	return sets
}

// kept: where a person allowed a change without the store, the disks of a
// quorum of the voters before it have it; c.mu is held.
func (w *World) kept(before []cluster.Member, now []cluster.Voter) bool {
	voters, keep := 0, 0
	for _, m := range before {
		if m.Learner {
			continue
		}
		voters++
		if in := w.check.keeps[m.ID]; in != nil && !in.Unstored.IsZero() && cluster.SameVoters(in.Next, now) {
			keep++
		}
	}
	return voters > 0 && keep >= cluster.Quorum(voters)
}

func setNames(sets [][]cluster.Voter) string {
	var out []string
	for _, s := range sets {
		out = append(out, names(s))
	}
	return strings.Join(out, " and ")
}

func runs(seen []fakeetcd.Seen, id cluster.MemberID) bool {
	return slices.ContainsFunc(seen, func(s fakeetcd.Seen) bool { return s.Member == id && !s.Paused })
}

func sameVoters(a, b []cluster.Member) bool {
	ids := func(ms []cluster.Member) (out []cluster.MemberID) {
		for _, m := range ms {
			if !m.Learner {
				out = append(out, m.ID)
			}
		}
		return out
	}
	return slices.Equal(ids(a), ids(b))
}

// checkStop: a stop by us leaves a quorum if there was one, and there are more
// than two voters (rule 1). A stop for a higher generation is exempt, and one by a halt
// that is written down.
func (w *World) checkStop(d *daemon) {
	seen := w.etcd.Look()
	keeps, _ := d.m.state() // the store may have gone back since
	c := &w.check
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(seen, func(s fakeetcd.Seen) bool { return s.Host == d.id })
	if at < 0 {
		return
	}
	own := seen[at]
	l := c.lines[own.Cluster]
	if in := w.recorded(); l == nil || in != nil && in.Generation > l.number || in.Halted() != nil {
		return
	}
	if in := keeps.Intent; in != nil && in.Generation > l.number || in.Halted() != nil {
		return
	}
	n, up, listed := 0, 0, false
	for _, m := range l.list {
		if m.Learner {
			continue
		}
		n++
		harmed, ok := c.harmed[m.ID]
		switch {
		case m.ID == own.Member:
			listed = true
		case runs(seen, m.ID) || ok && d.excused(harmed):
			up++
		}
	}
	led := slices.ContainsFunc(seen, func(s fakeetcd.Seen) bool { return s.Leader != 0 && s.Cluster == own.Cluster })
	if listed && led && n > 2 && up+1 >= cluster.Quorum(n) && up < cluster.Quorum(n) {
		w.violate("%s stops voter %s, and %d of %d voters are left", d.id, own.Member, up, n)
	}
	if listed && led {
		w.checkRelease(d, own, l, seen)
	}
}

// checkSaved: what a host promised does not go down while the disk is the same.
func (w *World) checkSaved(d *daemon, before, now record.State, had bool) {
	if now.Local.Member != 0 {
		w.check.mu.Lock()
		w.check.keeps[now.Local.Member] = now.Intent
		w.check.mu.Unlock()
	}
	w.checkKept(d, before, now, had)
	if !had || before.Disk != now.Disk {
		return
	}
	switch {
	case now.Promised.Less(before.Promised):
		w.violate("%s takes back promise %s for %s", d.id, before.Promised, now.Promised)
	case now.LowestGeneration < before.LowestGeneration:
		w.violate("%s accepts generation %d again after %d", d.id, now.LowestGeneration, before.LowestGeneration)
	case now.Epoch < before.Epoch:
		w.violate("%s goes back from epoch %d to %d", d.id, before.Epoch, now.Epoch)
	case now.Intent.Order(before.Intent) < 0:
		w.violate("%s forgets a newer intent", d.id)
	}
}

// checkPromise: a promise that is told is on the disk.
func (w *World) checkPromise(d *daemon, q cluster.ObserveRequest, r cluster.ObserveReply) {
	if r.Stamp == "" || !d.lives() {
		return
	}
	if s, _ := d.m.state(); s.Promised.Less(q.Fence) {
		w.violate("%s told promise %s, and its disk has %s", d.id, q.Fence, s.Promised)
	}
}

// checkSetAside: data of a listed member is set aside only where the disk lost
// or forgot something, or its generation is closed (rule 21); m.mu is held.
func (w *World) checkSetAside(d *daemon, have *dir, reason string, id cluster.MemberID) {
	if !w.etcd.HasWAL(have.data) || have.stale {
		return
	}
	c := &w.check
	c.mu.Lock()
	defer c.mu.Unlock()
	member, own := have.data.Member()
	l := c.lines[own]
	keeps, _ := d.m.disk.decoded()
	if in := w.recorded(); l == nil || in != nil && in.ClosedCluster(own) || keeps.Intent != nil && keeps.Intent.ClosedCluster(own) || slices.Contains(c.closed, own) {
		return
	}
	if slices.ContainsFunc(l.list, func(m cluster.Member) bool { return m.ID == member }) {
		w.violate("%s sets the data of the listed member %s aside (%s): %s", d.id, member, id, reason)
	}
}

// checkDirs: every data directory that was made is in place or set aside,
// unless a fault took it, or it was pruned, which is looked at when that is done.
func (w *World) checkDirs() {
	there := map[*dir]bool{}
	for _, m := range w.hosts() {
		m.mu.Lock()
		for _, d := range m.disk.dirs {
			there[d] = true
		}
		for _, d := range m.disk.aside {
			there[d] = true
		}
		m.mu.Unlock()
	}
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	for _, d := range w.check.dirs {
		if !there[d] && !d.lost {
			w.violate("the data directory %s is gone", d.token)
		}
	}
}

// serves reports whether a cluster was ever seen to serve.
func (w *World) serves() bool {
	w.step()
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	return w.check.now != nil
}

// recorded is the intent in the store, as it was written last; nil: none.
func (w *World) recorded() *cluster.Intent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.intent
}

// changed counts the changes of the voters so far.
func (w *World) changed() int {
	w.step()
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	return w.check.changes
}

// applied is what the furthest member has applied.
func (w *World) applied() uint64 {
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	if w.check.now == nil {
		return 0
	}
	return w.check.now.applied
}

// voters are the members that vote, and the learners, as far as is known.
func (w *World) voters() (voters, learners []cluster.Member) {
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	if w.check.now == nil {
		return nil, nil
	}
	for _, m := range w.check.now.list {
		if m.Learner {
			learners = append(learners, m)
		} else {
			voters = append(voters, m)
		}
	}
	return voters, learners
}

// carrier is the machine that has a member's data.
func (w *World) carrier(id cluster.MemberID) *machine {
	for _, m := range w.hosts() {
		if s, ok := m.state(); ok && s.Local.Member == id && s.Local.State != cluster.MemberNone {
			return m
		}
	}
	return nil
}

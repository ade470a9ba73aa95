package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/sim/fakeetcd"
)

// generations is what the checker knows of them, from the writes of the intent
// that took effect in the store.
type generations struct {
	numbers map[cluster.ClusterID]uint64
	tokens  map[string]string            // the nonce of the intent that named a token
	run     map[string]cluster.ClusterID // the founded generation of a command
	acked   uint64                       // the highest generation that acknowledged a write
	top     int64                        // the highest revision that a client was given
	lastAck time.Time
	source  map[cluster.ClusterID]string    // the token of one that was made from data
	begun   map[cluster.ClusterID]time.Time // when it was written down
	dropped int                             // restores and recoveries that were written
	// recovered counts the recoveries that daemons queued by themselves.
	recovered int
}

func (g *generations) init() {
	g.numbers, g.tokens = map[cluster.ClusterID]uint64{}, map[string]string{}
	g.run, g.source = map[string]cluster.ClusterID{}, map[cluster.ClusterID]string{}
	g.begun = map[cluster.ClusterID]time.Time{}
}

// sorted are the lineages by generation.
func (c *checker) sorted() []*lineage {
	return slices.SortedFunc(maps.Values(c.lines), func(a, b *lineage) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.id, b.id))
	})
}

// firstServed notes a cluster that was never seen before; c.mu is held. Only
// data that a command named makes a second one.
func (w *World) firstServed(id cluster.ClusterID) {
	c := &w.check
	l := &lineage{id: id, number: c.numbers[id]}
	switch {
	case id == w.foreign.id:
	case l.number == 0:
		w.violate("cluster %s serves, and no intent ever named it", id)
	case c.now == nil:
	case c.source[id] == "":
		w.violate("a second cluster that was made from nothing serves: %s beside %s", id, c.now.id)
	case c.now.number >= l.number:
		w.violate("generation %d serves for the first time after generation %d", l.number, c.now.number)
	}
	c.lines[id] = l
	if c.now == nil || l.number > c.now.number {
		c.now = l
	}
	w.checkOvertakes(l)
	c.fresh = append(c.fresh, l)
}

// checkExclusive: while a member of a generation runs, no lower one has a
// quorum left that could acknowledge anything (rule 13); c.mu is held.
func (w *World) checkExclusive(seen []fakeetcd.Seen, away map[cluster.MemberID]bool) {
	c := &w.check
	var high uint64
	for _, s := range seen {
		high = max(high, c.numbers[s.Cluster])
	}
	for _, l := range c.sorted() {
		if n, up := l.running(seen, away); l.number < high && n > 0 && up >= cluster.Quorum(n) {
			w.violate("a member of generation %d runs, and %d of %d voters of generation %d do", high, up, n, l.number)
		}
	}
}

// running counts the voters, and those that run or could go on any moment, but for some.
func (l *lineage) running(seen []fakeetcd.Seen, but map[cluster.MemberID]bool) (n, up int) {
	for _, m := range l.list {
		if m.Learner {
			continue
		}
		n++
		if !but[m.ID] && slices.ContainsFunc(seen, func(s fakeetcd.Seen) bool { return s.Member == m.ID && s.Cluster == l.id }) {
			up++
		}
	}
	return n, up
}

// present counts the voters, and those that are not away.
func (l *lineage) present(away map[cluster.MemberID]bool) (n, there int) {
	for _, m := range l.list {
		if m.Learner {
			continue
		}
		if n++; !away[m.ID] {
			there++
		}
	}
	return n, there
}

// checkIntent looks at a write of the intent that took effect.
func (w *World) checkIntent(d *daemon, in, before *cluster.Intent, sent time.Time) {
	seen, away := w.etcd.Look(), w.away(sent)
	c := &w.check
	c.mu.Lock()
	defer c.mu.Unlock()
	// A store that went back may have forgotten that a token was named; as long as no member
	// was made under it, that is no second one.
	if nonce, used := c.tokens[in.Token]; used && nonce != in.Nonce && c.lines[in.Cluster] != nil {
		w.violate("%s names the token %s in a second generation, %d", d.id, in.Token, in.Generation)
	}
	fresh := c.tokens[in.Token] != in.Nonce
	c.tokens[in.Token] = in.Nonce
	if in.Cluster != 0 {
		c.numbers[in.Cluster] = in.Generation
	}
	switch was := c.run[in.CommandID]; {
	case in.CommandID == "":
	case was != 0 && was != in.Cluster:
		w.violate("%s runs command %s a second time, as generation %d", d.id, in.CommandID, in.Generation)
	case in.State == cluster.IntentFounded:
		c.run[in.CommandID] = in.Cluster
	}
	if !fresh && in.State == cluster.IntentFounding && before != nil && before.Generation < in.Generation {
		w.checkWrittenBack(d, in, before, sent)
	}
	if fresh && in.Source.FromData() {
		c.begun[in.Cluster] = time.Now()
		c.dropped++
		c.source[in.Cluster] = in.Token
		w.checkSource(d, in, before, sent)
	}
	for _, g := range in.History {
		was := before != nil && before.ClosedCluster(g.Cluster)
		l := c.lines[g.Cluster]
		if !g.Closed || was || l == nil {
			continue
		}
		if n, up := l.running(seen, away); up >= cluster.Quorum(n) {
			w.violate("%s closes generation %d while %d of its %d voters run", d.id, g.Generation, up, n)
		}
	}
}

// checkSource: a generation is made from what its command names, and an undo takes
// back the generation that the person saw.
func (w *World) checkSource(d *daemon, in, before *cluster.Intent, sent time.Time) {
	from := w.origin(in.Token)
	o, known := w.ordered(in.CommandID)
	switch {
	case from == nil:
		w.violate("%s writes generation %d, and nothing was made ready for it", d.id, in.Generation)
		return
	case in.Source.Kind == cluster.SourceHalted && in.Halt != nil && in.Halt.ID == in.CommandID && in.Quarantined,
		in.Halt != nil && in.Halt.Ended != "" && in.CommandID == fmt.Sprintf("back-%d", in.Generation-1):
		return // nobody queued that: what it has to hold is what was acknowledged, as acknowledged and required see to
	case !known:
		w.violate("%s writes generation %d for a command that nobody queued: %s", d.id, in.Generation, in.CommandID)
		return
	}
	d.tracef("generation %d begins with %d keys, at revision %d or above", in.Generation, len(from.Keys()), in.Source.RevisionTarget)
	w.checkConsent(d, o, in, before, sent)
	if o.kind == cluster.CommandRestore {
		if snap, _ := w.backup(o.backup); snap != from || in.Source.Backup != o.backup { // it may have been damaged since
			w.violate("%s was to restore %s, and generation %d is made from something else", d.id, o.backup, in.Generation)
		}
	}
	if o.kind == cluster.CommandUndo && o.seen.Generation != 0 && before != nil && before.Generation != o.seen.Generation && before.CommandID != in.CommandID {
		w.violate("%s was to do %s over generation %d, and does it over generation %d", d.id, o, o.seen.Generation, before.Generation)
	}
	if o.kind == cluster.CommandRecover && in.Source.Kind != cluster.SourceSurvivor || o.kind == cluster.CommandUndo && in.Source.Dir != o.dir {
		w.violate("%s was to do %s, and generation %d is made from %s %s", d.id, o, in.Generation, in.Source.Kind, in.Source.Dir)
	}
}

// acknowledged is what a client was told.
func (w *World) acknowledged(a ack) {
	away := w.away(time.Now())
	c := &w.check
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.numbers[a.Cluster]
	if l := c.lines[a.Cluster]; n < c.acked && l != nil && len(away) > 0 {
		if voters, there := l.present(away); there < cluster.Quorum(voters) {
			w.tracef("", "write %s of generation %d is given up: hosts that were named lost have come back", a.key, n)
			return
		}
	}
	if n < c.acked {
		w.violate("generation %d acknowledges write %s after generation %d has acknowledged one", n, a.key, c.acked)
	}
	if a.Revision <= c.top {
		w.violate("write %s of generation %d got revision %d after a client has seen %d", a.key, n, a.Revision, c.top)
	}
	if l := c.lines[a.Cluster]; l != nil {
		l.acked = time.Now()
	}
	c.acked, c.top, c.lastAck = max(c.acked, n), max(c.top, a.Revision), time.Now()
}

// required are the keys that have to be there now: what the present generation
// was made from, and what it has acknowledged itself.
func (w *World) required(acked []ack) []string {
	w.check.mu.Lock()
	now := w.check.now
	var token string
	if now != nil {
		token = w.check.source[now.id]
	}
	w.check.mu.Unlock()
	if now == nil {
		return nil
	}
	var keys []string
	if from := w.origin(token); from != nil {
		keys = from.Keys()
	}
	for _, a := range acked {
		if a.Cluster == now.id {
			keys = append(keys, a.key)
		}
	}
	return keys
}

// ungenerated says what of commands and generations is not done.
func (w *World) ungenerated(seen []fakeetcd.Seen) (why []string) {
	if q := w.queued(); len(q) > 0 {
		why = append(why, fmt.Sprintf("commands are in the queue: %v", q))
	}
	in := w.recorded()
	w.check.mu.Lock()
	now := w.check.now
	w.check.mu.Unlock()
	if now == nil || in == nil {
		return append(why, "no generation serves")
	}
	if in.Count != nil && !in.Count.Done {
		why = append(why, fmt.Sprintf("the spec does not have the count of the command: %+v", *in.Count))
	}
	if in.Cluster != now.id || in.Quarantined {
		why = append(why, fmt.Sprintf("the intent is of generation %d (quarantined: %t), and generation %d serves", in.Generation, in.Quarantined, now.number))
	}
	for _, s := range seen {
		if s.Quarantined || s.Cluster != now.id {
			why = append(why, fmt.Sprintf("%s runs member %s of cluster %s (quarantined: %t)", s.Host, s.Member, s.Cluster, s.Quarantined))
		}
	}
	return why
}

// survivors are the machines that hold data of the present generation, the
// furthest in raft's order first.
func (w *World) survivors() []*machine {
	in := w.recorded()
	if in == nil {
		return nil
	}
	return w.survivorsOf(in.Cluster)
}

// survivorsOf are those of any cluster.
func (w *World) survivorsOf(id cluster.ClusterID) []*machine {
	type end struct {
		m           *machine
		term, index uint64
	}
	var ends []end
	for _, m := range w.hosts() {
		s, ok := m.state()
		if m.gone.Load() || !ok || id == 0 || s.Local.Cluster != id || s.Local.State != cluster.MemberStarted {
			continue
		}
		if have := m.dir(s.Local.Token); have != nil && have.mark == s.Disk && w.etcd.HasWAL(have.data) {
			e := end{m: m}
			e.term, e.index, _ = w.etcd.End(have.data)
			ends = append(ends, e)
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int {
		return cmp.Or(cmp.Compare(b.term, a.term), cmp.Compare(b.index, a.index))
	})
	var out []*machine
	for _, e := range ends {
		out = append(out, e.m)
	}
	return out
}

// aside is the name of what a machine set aside last; empty: nothing.
func (w *World) aside(m *machine) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.disk.aside) - 1; i >= 0; i-- {
		if w.etcd.HasWAL(m.disk.aside[i].data) {
			return m.disk.aside[i].note.Dir
		}
	}
	return ""
}

// lost are the hosts that a person may name as lost, sorted: those that will
// never be back, and those of voters whose disk has nothing of the member.
func (w *World) lost() []cluster.HostID {
	out := []cluster.HostID{}
	for _, m := range w.hosts() {
		if m.gone.Load() && !m.elsewhere {
			out = append(out, m.ID())
		}
	}
	in := w.recorded()
	if in == nil {
		return out
	}
	sets := in.VoterSets()
	for _, g := range in.History {
		if !g.Closed {
			sets = append(sets, g.Voters...)
		}
	}
	for _, v := range slices.Concat(sets...) {
		if w.carrier(v.Member) == nil {
			out = append(out, v.Host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// quorumLeft reports whether the present voters that keep their data are a
// quorum of every set that is written down.
func (w *World) quorumLeft() bool {
	in := w.recorded()
	if in == nil || in.State != cluster.IntentFounded {
		return true
	}
	alive := map[cluster.MemberID]bool{}
	for _, m := range w.survivors() {
		s, _ := m.state()
		alive[s.Local.Member] = true
	}
	voters, _ := w.voters()
	n := 0
	for _, v := range voters {
		if alive[v.ID] {
			n++
		}
	}
	return len(voters) == 0 || n >= cluster.Quorum(len(voters))
}

package sim

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/sim/fakeetcd"
	"etcdadm.io/plan"
)

const (
	// withDefragments is the share of the seeds in which a person has databases
	// written anew.
	withDefragments = 0.25
	// defragmentsBegin is where the numbers of a seed for them begin.
	defragmentsBegin = 1 << 39
)

// askDefragment is etcdadm defrag at some daemon: of one voter, or of all.
func (g *generator) askDefragment() {
	x := &g.defragments
	at, on := g.up()[x.next().below(len(g.up()))], g.up()[x.next().below(len(g.up()))]
	wait := x.next().within(0, 5*time.Second)
	within := x.next().within(5*time.Second, 2*time.Minute).Round(time.Millisecond)
	goal := plan.Goal{Kind: plan.Defragment}
	switch id := on.member(); x.next().below(4) {
	case 0:
		goal.Host = on.ID()
	case 1:
		goal.Member = id // zero, on a host without a member: all of them
	}
	g.w.later(wait, func() { g.w.typed(at, manager.GoalRequest{Goal: goal, Within: within}) })
}

// asking is what the world was like when a person's step was handed over.
type asking struct {
	at     time.Time
	voters []cluster.Member
}

func (w *World) asking() asking {
	w.step()
	voters, _ := w.voters()
	return asking{time.Now(), voters}
}

// checkDefragmented: a person who is told that databases were written anew has new
// ones of all voters that were meant, then as now. Where clocks are off nothing is
// said: in the world's time a leader sees other times after its clock has jumped, and
// the next leader too, while a host's own word for one stays the same.
func (w *World) checkDefragmented(goal plan.Goal, before asking) {
	if slices.ContainsFunc(w.hosts(), func(m *machine) bool { return m.clock.wasOff() }) {
		return
	}
	voters, _ := w.voters()
	for _, v := range voters {
		m := w.carrier(v.ID)
		then := slices.ContainsFunc(before.voters, func(b cluster.Member) bool { return b.ID == v.ID && !b.Learner })
		meant := goal.Host == "" && goal.Member == 0 || goal.Member == v.ID || m != nil && goal.Host == m.ID()
		if !then || !meant {
			continue
		}
		w.mu.Lock()
		last := w.anew[v.ID]
		w.mu.Unlock()
		if last.Before(before.at) {
			w.violate("%s is told to be done, and the database of voter %s was written anew last at %s", goal, v.ID, last.Format(time.TimeOnly))
		}
	}
}

// checkDefragment: a member is at it alone, and its quorum serves meanwhile, where
// more than two vote.
func (w *World) checkDefragment(d *daemon) {
	seen := w.etcd.Look()
	at := slices.IndexFunc(seen, func(s fakeetcd.Seen) bool { return s.Host == d.id })
	if at < 0 {
		return
	}
	own := seen[at]
	w.mu.Lock()
	if w.anew == nil {
		w.anew = map[cluster.MemberID]time.Time{}
	}
	w.anew[own.Member] = time.Now()
	w.mu.Unlock()
	w.count("databases written anew")
	c := &w.check
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[own.Cluster]
	if l == nil {
		return
	}
	n, up, listed := 0, 0, false
	for _, m := range l.list {
		if m.Learner {
			continue
		}
		n++
		if m.ID == own.Member {
			listed = true
			continue
		}
		harmed, ok := c.harmed[m.ID]
		busy := slices.ContainsFunc(seen, func(s fakeetcd.Seen) bool { return s.Member == m.ID && s.Defragmenting })
		switch {
		case busy:
			w.violate("%s has the database of %s written anew while that of voter %s is", d.id, own.Member, m.ID)
		case runs(seen, m.ID) || ok && d.excused(harmed):
			up++
		}
	}
	led := slices.ContainsFunc(seen, func(s fakeetcd.Seen) bool { return s.Leader != 0 && s.Cluster == own.Cluster })
	if listed && led && n > 2 && up+1 >= cluster.Quorum(n) && up < cluster.Quorum(n) {
		w.violate("%s has the database of voter %s written anew, and %d of %d voters are left", d.id, own.Member, up, n)
	}
}

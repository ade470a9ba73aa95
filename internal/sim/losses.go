package sim

import (
	"fmt"
	"time"

	"etcdadm.io/cluster"
)

// mayLose reports whether a machine's data can be lost, and the cluster come
// to its spec by itself: the voters that keep theirs are a quorum, and the
// cluster has been written down as founded.
func (g *generator) mayLose(m *machine) bool {
	w := g.w
	w.step()
	if w.awaitsStore() || !w.keptWithout(m) {
		return false
	}
	in := w.recorded()
	s, ok := m.state()
	if ok && s.Local.State == cluster.MemberNone && in != nil && in.State == cluster.IntentFounded {
		return true
	}
	voters, learners := w.voters()
	if in == nil || in.State != cluster.IntentFounded || len(voters) < 3 || len(learners) > 0 || in.Next != nil {
		return false
	}
	return w.wholeWithout(m)
}

// lose destroys a disk in one of several ways.
func (g *generator) lose(m *machine, short time.Duration) {
	w := g.w
	if !g.mayLose(m) {
		return
	}
	how := g.next().below(5)
	if how == 4 && len(g.up()) <= g.spec.MemberCount {
		how = 0
	}
	w.Halt(m)
	switch how {
	case 0, 1:
		w.Wipe(m)
	case 2:
		w.WipeData(m)
	case 3:
		g.renamed++
		w.Rename(m, cluster.HostID(fmt.Sprintf("%s%d", m.name, g.renamed)))
	case 4:
		w.Leave(m)
		if g.next().chance(0.7) {
			g.newMachine()
		}
		return
	}
	w.later(short, func() { w.Start(m) })
}

// goBack rolls a disk back. Its peers can be asked when it boots, since their
// silence would be consent.
func (g *generator) goBack(m *machine, short time.Duration) {
	w := g.w
	if !g.mayLose(m) {
		return
	}
	w.Heal()
	w.Halt(m)
	w.RollBack(m, 25*time.Second)
	w.sleep(w.ctx, short)
	for _, x := range g.up() {
		if d := x.daemon.Load(); d != nil {
			w.apart()
			d.unpause()
		}
	}
	w.apart()
	w.Start(m)
	w.sleep(w.ctx, 4*time.Second)
}

// cut partitions the network for a while.
func (g *generator) cut(long time.Duration) {
	w := g.w
	var a, b []*machine
	for _, m := range g.up() {
		if g.next().chance(0.4) {
			a = append(a, m)
		} else {
			b = append(b, m)
		}
	}
	if len(a) == 0 || len(b) == 0 {
		return
	}
	planes := [][]plane{{daemons}, {members}, {daemons, members}}[g.next().below(3)]
	if g.next().chance(0.3) {
		w.tracef("", "cut one way from %s to %s: %v", machineNames(a), machineNames(b), planes)
		for _, x := range a {
			for _, y := range b {
				w.Cut(x, y, planes...)
			}
		}
	} else {
		w.Split(a, b, planes...)
	}
	w.later(long, w.Heal)
}

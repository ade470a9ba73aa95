package sim

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// What befalls a cluster while a person takes it over.

// strikeForeign strikes at what something else runs, or at a host that joins.
func (g *generator) strikeForeign() {
	x, w := &g.foreign, g.w
	m := x.at[x.next().below(len(x.at))]
	ms := g.up()
	own := ms[x.next().below(len(ms))]
	short, long := x.next().within(50*time.Millisecond, 5*time.Second), x.next().within(time.Second, 40*time.Second)
	what, how := x.next().below(9), x.next().below(3)
	if m.gone.Load() || w.adopted() {
		return
	}
	switch what {
	case 0, 1:
		w.KillEtcd(m)
	case 2:
		w.PauseEtcd(m, short)
	case 3:
		w.Halt(m)
		w.later(long, func() { w.Start(m) })
	case 4:
		var ways []way
		for _, o := range w.hosts() {
			if o != m {
				ways = append(ways, way{members, m.ID(), o.ID()}, way{members, o.ID(), m.ID()})
			}
		}
		w.tracef(m.ID(), "the member is cut off for %s", long)
		w.cuts.set(true, ways...)
		w.later(long, func() { w.cuts.set(false, ways...) })
	case 5:
		if x.joins && w.spares(m.theirMember(), x.wanted) {
			w.count("members of theirs gone for good")
			w.Leave(m)
		}
	default:
		if x.joins && w.spares(own.member(), x.wanted) {
			g.loseJoiner(own, how, short)
		}
	}
}

// loseJoiner takes the disk of a host that joins, or has it go back.
func (g *generator) loseJoiner(m *machine, how int, short time.Duration) {
	w := g.w
	w.count("disks of joining hosts lost")
	w.Halt(m)
	switch how {
	case 0:
		w.Wipe(m)
	case 1:
		w.WipeData(m)
	default:
		w.Heal() // its peers' silence would be consent
		w.RollBack(m, 5*time.Second)
	}
	w.later(short, func() { w.Start(m) })
}

// spares: the cluster that is not ours yet can do without a member for good, also if a
// change is under way.
func (w *World) spares(id cluster.MemberID, wanted int) bool {
	w.step()
	voters, _ := w.voters()
	if !slices.ContainsFunc(voters, func(v cluster.Member) bool { return v.ID == id }) {
		return true
	}
	seen := w.etcd.Look()
	serving, ours := 0, 0
	for _, v := range voters {
		for _, s := range seen {
			if s.Member == v.ID && v.ID != id && s.Serving && s.Leader != 0 && !s.Paused {
				serving++
			}
		}
		if w.carrier(v.ID) != nil {
			ours++
		}
	}
	need := cluster.Quorum(len(voters))
	if ours >= wanted {
		need++ // a removal may be under way
	}
	return serving >= need
}

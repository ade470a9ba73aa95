package sim

import (
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

const (
	// withStoreless is the share of the seeds in which a person changes the voters
	// while the store answers nobody.
	withStoreless = 0.25
	// storelessBegin is where the numbers of a seed for them begin.
	storelessBegin = 1 << 40
)

// goStoreless cuts every host from the store for a while, in which a person takes
// members out and in with --no-store. What that gives up is a keeper's disk while the
// store is behind, so that none is lost then (see awaitsStore).
func (g *generator) goStoreless() {
	x := &g.storeless
	w := g.w
	long := x.next().within(20*time.Second, 2*time.Minute)
	for _, m := range g.up() {
		w.CutStore(m)
		at := m.ID()
		w.later(long, func() { w.cuts.set(false, way{stores, at, ""}) })
	}
	w.count("stores lost to all")
	for range 1 + x.next().below(3) {
		at, on := g.up()[x.next().below(len(g.up()))], g.up()[x.next().below(len(g.up()))]
		kinds := []plan.GoalKind{plan.Join, plan.Leave, plan.Leave, plan.Promote}
		goal := plan.Goal{Kind: kinds[x.next().below(len(kinds))], Host: on.ID(), NoStore: true, NoBackup: true, Hold: x.next().chance(0.3)}
		if id := on.member(); goal.Kind == plan.Leave && id != 0 && x.next().chance(0.5) {
			goal.Host, goal.Member = "", id
		}
		wait := x.next().within(0, long/2)
		within := x.next().within(5*time.Second, long).Round(time.Millisecond)
		w.loops.Go(func() {
			if !w.sleep(w.ctx, wait) {
				return
			}
			w.unkept.Add(1)
			defer w.unkept.Add(-1)
			w.typed(at, manager.GoalRequest{Goal: goal, Within: within})
		})
	}
}

// awaitsStore: the hosts keep a record that the store does not have yet, or may be
// about to.
func (w *World) awaitsStore() bool {
	if w.unkept.Load() > 0 {
		return true
	}
	in := w.recorded()
	w.mu.Lock()
	back := w.wentBack
	w.mu.Unlock()
	for _, m := range w.hosts() {
		s, ok := m.state()
		if ok && !m.gone.Load() && s.Intent != nil && (back || s.Intent.Unstored != (cluster.Fence{})) && s.Intent.Order(in) > 0 {
			return true
		}
	}
	return false
}

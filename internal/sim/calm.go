package sim

import (
	"time"

	"etcdadm.io/cluster"
)

// calm ends all faults and demands convergence.
func (g *generator) calm() {
	w := g.w
	if len(w.Broken()) > 0 {
		return
	}
	w.tracef("", "the faults end")
	w.chaos.Store(nil)
	w.OnPoint(nil)
	g.recorders.end(w)
	w.staging.Store(0)
	w.Heal()
	for _, m := range g.up() {
		w.apart()
		m.slow.Store(0)
		if d := m.daemon.Load(); d != nil {
			d.unpause()
		}
		if p := m.running(); p != nil {
			p.Resume()
		}
		w.Start(m)
	}
	g.lastWish()
	if !g.awaitTaken() {
		return
	}
	if g.holds() {
		g.liftHold()
	}
	g.secureAll()
	if !w.Until("what persons want is written", deskWithin, w.deskDone) {
		return
	}
	began := time.Now()
	bound := ConvergeWithin
	if g.generations || g.foreign.on {
		bound = WithAPersonWithin
	}
	bound += 3 * w.upkeep.HashInterval // until keys are compared twice
	counts := func() (count, wanted int) {
		n := w.wanted().MemberCount
		return min(n, len(g.up())), n
	}
	if !w.awaitWith(counts, bound, g.person) {
		return
	}
	g.converged = time.Since(began)
	w.verifyWrites()
	w.checkRegular()
	if refused := w.Refused(); g.wishes.undisturbed && len(refused) > 0 {
		w.violate("etcd refused to start, and nothing was disturbed: %v", refused)
	}
}

// pruneAll lets what is set aside come of age after the faults, and has the
// backups listed now and then, which the end of a command does.
func (g *generator) pruneAll() {
	for range 4 {
		if !g.prunes || len(g.w.Broken()) > 0 {
			return
		}
		g.w.Queue(order{kind: cluster.CommandBackup})
		g.w.sleep(g.w.ctx, 45*time.Second)
	}
}

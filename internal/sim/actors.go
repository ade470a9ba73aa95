package sim

import "maps"

// actor does something of its own in some seeds, beside the faults. It has
// numbers of its own, so that seeds without it keep theirs.
type actor struct {
	seed      dice
	begins, n uint64
	on        bool
}

// begin draws whether the actor is in a seed; its numbers begin there.
func (x *actor) begin(seed dice, begins uint64, share float64) {
	x.seed, x.begins = seed, begins
	x.on = x.next().chance(share)
}

func (x *actor) next() dice {
	x.n++
	return x.seed.roll(x.begins + x.n)
}

// act has the actors of the seed do something now and then. It is called between
// faults; what they do begins at a time of its own.
func (g *generator) act() {
	for _, a := range []struct {
		*actor
		often float64
		do    func()
	}{
		{&g.jumps, 0.3, g.jumpClock},
		{&g.steps, 0.4, g.takeStep},
		{&g.fills, 0.25, g.fill},
		{&g.odds, 0.2, g.spoilKeys},
		{&g.secures, 1, g.secure},
		{&g.defragments, 0.3, g.askDefragment},
		{&g.storeless, 0.15, g.goStoreless},
		{&g.networks, 0.2, g.loseNetwork},
		{&g.foreign.actor, 0.5, g.strikeForeign},
		{&g.stalls, 0.6, g.stall},
		{&g.fickle, 0.6, g.changeMind},
		{&g.returns, 0.3, g.giveUp},
		{&g.goneBack, 0.4, g.goStoreBack},
		{&g.kinds, 0.25, g.failKind},
		{&g.tardy, 0.25, g.answerLate},
		{&g.stops, 0.15, g.stop},
		{&g.pauses, 0.3, g.askPause},
		{&g.manual, 0.2, g.askManual},
	} {
		if a.on && a.next().chance(a.often) && len(g.w.Broken()) == 0 {
			a.do()
		}
	}
}

// count notes that an actor did something.
func (w *World) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.acts == nil {
		w.acts = map[string]int{}
	}
	w.acts[what]++
}

// actsSoFar are how often actors did what.
func (w *World) actsSoFar() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.acts)
}

package sim

import (
	"maps"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

// insist is a person whose command somebody took back while the generation that it asks
// for was being made, or whose generation nobody follows: it is said once more. What only
// one host remembers, and stops nobody, is given up with that host's disk. It reports
// whether anything was done.
func (g *generator) insist() bool {
	w := g.w
	if !recordGuarded || !g.generations {
		return false
	}
	in := w.recorded() // nil also where the person moved it away and nobody could write it back yet
	if g.goFurther(in) || g.takeStoresAway() {
		return true
	}
	o, ok := order{}, false
	if in != nil {
		o, ok = w.ordered(in.CommandID)
	}
	if ok && in.State == cluster.IntentFounding && in.Source.FromData() && !slices.Contains(w.queued(), in.CommandID) && !g.knownFounded(in) {
		if served := w.servesBelow(in.Generation); served && o.kind == cluster.CommandRecover {
			o = order{kind: cluster.CommandRestore, backup: g.goodBackup()}
		}
		if o.lost = w.lost(); o.kind == cluster.CommandRestore && o.backup == "" {
			return false
		}
		g.ask(o)
		return true
	}
	for _, m := range g.up() { // of the generation that serves, if the store has lost its record
		if s, ok := m.state(); ok && s.Intent != nil && s.Intent.State == cluster.IntentFounded && s.Intent.Order(in) > 0 {
			in = s.Intent
		}
	}
	if in == nil {
		return false
	}
	for _, m := range g.up() {
		s, ok := m.state()
		if !ok || s.Intent == nil || !s.Intent.Unstored.IsZero() || !w.wholeWithout(m) && !w.carriesNothing(m, in) {
			continue
		}
		ahead := s.Intent.Generation > in.Generation && s.Intent.State == cluster.IntentFounding && w.servesBelow(s.Intent.Generation)
		other := !in.Follows(s.Intent) && (in.State == cluster.IntentFounded || w.carriesNothing(m, in))
		if !ahead && !other {
			continue
		}
		w.tracef(m.ID(), "a person gives up what this host alone remembers")
		g.persons++
		w.Halt(m)
		w.Wipe(m)
		w.apart()
		w.Start(m)
		return true
	}
	return false
}

// knownFounded: a host remembers that this generation was founded, which the store has
// forgotten: it is written back.
func (g *generator) knownFounded(in *cluster.Intent) bool {
	return slices.ContainsFunc(g.up(), func(m *machine) bool {
		s, ok := m.state()
		return ok && s.Intent != nil && s.Intent.State == cluster.IntentFounded && s.Intent.Generation == in.Generation && s.Intent.Nonce == in.Nonce
	})
}

// servesBelow: a quorum of a lower generation serves, and has for a while.
func (w *World) servesBelow(generation uint64) bool {
	w.step()
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	for _, l := range w.check.sorted() {
		if l.number < generation && !l.serves.IsZero() && time.Since(l.serves) > patience/2 {
			return true
		}
	}
	return false
}

// wholeWithout: the voters but this host's serve, are a quorum, and hold the keys that they
// should.
func (w *World) wholeWithout(m *machine) bool {
	voters, _ := w.voters()
	whole := 0
	for _, v := range voters {
		c := w.carrier(v.ID)
		w.mu.Lock()
		rotten := w.odds.rotten[v.ID]
		w.mu.Unlock()
		if c == nil || c == m || c.gone.Load() || rotten {
			continue
		}
		if seen, ok := w.seenOn(c); ok && seen.Serving && seen.Leader != 0 {
			whole++
		}
	}
	return whole >= cluster.Quorum(len(voters))
}

// goFurther is a person whose recovery is not begun, since a host came back with a log that
// goes further than the survivor's: it is recovered from that one.
func (g *generator) goFurther(in *cluster.Intent) bool {
	if !in.Recovers() {
		return false
	}
	from := g.w.survivorsOf(in.Superseded())
	if len(from) < 2 || from[0].ID() == in.Founders[0].Host {
		return false
	}
	g.ask(order{kind: cluster.CommandRecover, host: from[0].ID(), lost: g.w.lost()})
	return true
}

// takeStoresAway is a person who finds two foundings of one number, since the store went
// back in between: the one that most hosts remember goes on. A host that remembers another
// is begun anew, and the store's record is moved away if it is that one.
func (g *generator) takeStoresAway() bool {
	w := g.w
	most := g.mostFollowed()
	if most == nil {
		return false
	}
	var odd []*machine
	for _, m := range g.up() {
		if s, ok := m.state(); ok && s.Intent != nil && (!most.Follows(s.Intent) || !s.Intent.Follows(most)) {
			odd = append(odd, m)
		}
	}
	there, _, _, err := control.New(w.store, clusterName).ReadIntent(w.ctx)
	stored := err == nil && most.Follows(there)
	if stored && (len(odd) == 0 || most.State != cluster.IntentFounding) {
		return false
	}
	if most.State != cluster.IntentFounding {
		odd = slices.DeleteFunc(odd, func(m *machine) bool { return !w.wholeWithout(m) && !w.carriesNothing(m, most) })
	}
	w.tracef("", "a person gives up what is not of generation %d that most hosts remember", most.Generation)
	g.persons++
	for _, m := range odd {
		w.Halt(m)
		w.Wipe(m)
	}
	if !stored {
		if err := w.store.Delete(w.ctx, intentKey); err != nil {
			w.violate("move the record away: %v", err)
		}
		w.mu.Lock()
		w.intent = nil
		w.mu.Unlock()
	}
	for _, m := range odd {
		w.apart()
		w.Start(m)
	}
	return true
}

// mostFollowed is the founding that a majority of the hosts remember. Where two were begun
// beside each other over one that more hosts remember, it is the one that more of them
// remember, if the others remember what came before it.
func (g *generator) mostFollowed() *cluster.Intent {
	var kept []*cluster.Intent
	newest := map[string]*cluster.Intent{}
	for _, m := range g.up() {
		if s, ok := m.state(); ok && s.Intent != nil {
			kept = append(kept, s.Intent)
			if s.Intent.Order(newest[s.Intent.Nonce]) > 0 {
				newest[s.Intent.Nonce] = s.Intent
			}
		}
	}
	quorum := cluster.Quorum(max(len(kept), 1))
	var most *cluster.Intent
	hosts := 0
	for _, nonce := range slices.Sorted(maps.Keys(newest)) {
		in, itself, before := newest[nonce], 0, 0
		for _, k := range kept {
			switch {
			case k.Nonce == nonce:
				itself++
			case k.Generation < in.Generation && in.Follows(k):
				before++
			}
		}
		if itself >= quorum {
			return in
		}
		if itself+before >= quorum && itself > hosts {
			most, hosts = in, itself
		}
	}
	return most
}

// carriesNothing: the machine's member, if it has one, is no voter of a generation that
// anybody has on record; or of one that the record which is to go on has closed, and a
// founded generation took the place of. What this host alone remembers has it open still.
func (w *World) carriesNothing(m *machine, keep *cluster.Intent) bool {
	s, ok := m.state()
	if !ok || s.Local.State == cluster.MemberNone {
		return true
	}
	if keep.State == cluster.IntentFounded && keep.ClosedCluster(s.Local.Cluster) {
		return true
	}
	listed := func(in *cluster.Intent) bool {
		if in == nil {
			return false
		}
		sets := in.VoterSets()
		for _, g := range in.History {
			sets = append(sets, g.Voters...)
		}
		return slices.ContainsFunc(slices.Concat(sets...), func(v cluster.Voter) bool { return v.Member == s.Local.Member })
	}
	if listed(w.recorded()) {
		return false
	}
	return !slices.ContainsFunc(w.hosts(), func(o *machine) bool {
		k, ok := o.state()
		return ok && listed(k.Intent)
	})
}

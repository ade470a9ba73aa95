package sim

import (
	"context"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

const (
	// withOdds is the share of the seeds in which members come to hold other keys.
	withOdds = 0.25
	// oddsBegin is where the numbers of a seed for them begin.
	oddsBegin = 1 << 37
)

// odds is what the world knows of members that hold other keys; w.mu guards it.
type odds struct {
	rotten  map[cluster.MemberID]bool // their data was damaged
	accused map[cluster.MemberID]bool // a CORRUPT alarm named them
	misread map[cluster.MemberID]bool // one hash of theirs was wrong
}

// beginOdds draws whether keys are compared, and how often.
func (g *generator) beginOdds(seed dice) cluster.Upkeep {
	x := &g.odds
	x.begin(seed, oddsBegin, withOdds)
	if !x.on {
		return cluster.Upkeep{}
	}
	return cluster.Upkeep{HashInterval: x.next().within(30*time.Second, 3*time.Minute).Round(time.Second)}
}

// spoilKeys damages a member's data, has one hash of it be wrong, or raises an
// alarm about it, where the others are whole and so many that they can tell.
func (g *generator) spoilKeys() {
	x := &g.odds
	w := g.w
	first, what := x.next().below(12), x.next().below(6)
	voters := w.wholeVoters()
	if len(voters) < 3 {
		return
	}
	m := w.carrier(voters[first%len(voters)].ID)
	if m == nil {
		return
	}
	id := m.member()
	switch {
	case what < 3:
		g.w.count("damaged data")
		w.tracef(m.ID(), "the data of member %s is damaged", id)
		w.rot(m)
		if what == 0 {
			w.note(&w.odds.accused, id)
			w.later(x.next().within(time.Second, 20*time.Second), func() { w.accuse(m, id) })
		}
	case what < 5:
		w.mu.Lock()
		again := w.odds.misread[id]
		w.mu.Unlock()
		if again { // twice is what a conviction takes
			return
		}
		g.w.count("hashes misread")
		w.tracef(m.ID(), "the next hash of member %s is wrong", id)
		w.note(&w.odds.misread, id)
		w.etcd.Misread(m.ID())
	default:
		g.w.count("false CORRUPT alarms")
		w.note(&w.odds.accused, id)
		w.later(x.next().within(0, 5*time.Second), func() { w.accuse(m, id) })
	}
}

// rot damages the data of a machine's member, which serves on.
func (w *World) rot(m *machine) {
	s, ok := w.seenOn(m)
	if !ok {
		w.violate("no member runs on %s", m.name)
		return
	}
	w.note(&w.odds.rotten, s.Member)
	w.etcd.Rot(s.WithData)
}

// note keeps that something was done to a member.
func (w *World) note(of *map[cluster.MemberID]bool, id cluster.MemberID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *of == nil {
		*of = map[cluster.MemberID]bool{}
	}
	(*of)[id] = true
}

// accuse raises etcd's alarm about a member.
func (w *World) accuse(m *machine, id cluster.MemberID) {
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
	defer cancel()
	err := w.etcd.Client(m.ID()).Alarm(ctx, cluster.AlarmCorrupt, id, true)
	w.tracef(m.ID(), "alarm CORRUPT of member %s: %v", id, err)
}

// wholeVoters are the voters of a cluster that is at rest, all of which serve and
// hold the same keys; nil: it is not.
func (w *World) wholeVoters() []cluster.Member {
	w.step()
	in := w.recorded()
	voters, learners := w.voters()
	if in == nil || in.State != cluster.IntentFounded || in.Quarantined || len(in.Next) > 0 || len(learners) > 0 {
		return nil
	}
	seen := w.etcd.Look()
	for _, v := range voters {
		serves := false
		for _, s := range seen {
			serves = serves || s.Member == v.ID && s.Serving && s.Leader != 0
		}
		if !serves || w.isOdd(v.ID) {
			return nil
		}
	}
	return voters
}

// isOdd reports whether a member's data was damaged, or it is accused of that.
func (w *World) isOdd(id cluster.MemberID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.odds.rotten[id] || w.odds.accused[id]
}

// checkConvicted: who is taken for odd is so, or etcd itself said so.
func (w *World) checkConvicted(d *daemon, o *cluster.Observation) {
	for _, m := range o.Memory.Members {
		if !m.CorruptSince.IsZero() && !w.isOdd(m.Member) {
			w.violate("%s takes the keys of member %s for odd, and they are not", d.id, m.Member)
		}
	}
}

// odd says which voters hold other keys than the rest, where these are a majority
// that can be compared; empty: none. While versions are mixed no keys are compared,
// and a change that is paused may rest so.
func (w *World) odd(voters []cluster.Member, mixed bool) string {
	if len(voters) < 3 || mixed {
		return ""
	}
	for _, v := range voters {
		w.mu.Lock()
		rotten := w.odds.rotten[v.ID]
		w.mu.Unlock()
		if rotten {
			return "voter " + v.Name + " " + v.ID.String() + " holds other keys than the rest"
		}
	}
	return ""
}

// acquit is a person's answer to CORRUPT alarms that no comparison explains: they
// take them back.
func (g *generator) acquit() {
	w := g.w
	if !g.odds.on {
		return
	}
	voters, _ := w.voters()
	for _, a := range w.alarms() {
		alarm := cluster.ParseAlarm(a)
		w.mu.Lock()
		rotten := w.odds.rotten[alarm.Member]
		w.mu.Unlock()
		listed := slices.ContainsFunc(voters, func(v cluster.Member) bool { return v.ID == alarm.Member })
		if alarm.Kind != cluster.AlarmCorrupt || rotten && listed && len(voters) > 2 {
			continue
		}
		w.tracef("", "the person takes back: %s", a)
		g.persons++
		for _, m := range g.up() {
			ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
			err := w.etcd.Client(m.ID()).Alarm(ctx, alarm.Kind, alarm.Member, false)
			if cancel(); err == nil {
				break
			}
		}
	}
}

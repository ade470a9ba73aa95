package sim

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/plan"
)

// Actors for what the record is written on (docs/adr/023): leaders that hang
// between their decision and its write, people who change their minds, hosts that were
// given up and come back, and stores that go back, answer late, or do some things only.

const (
	// The shares of the seeds in which each of them is, and where its numbers begin.
	withStalls, stallsBegin      = 0.25, 1 << 43
	withFickle, fickleBegins     = 0.5, 1 << 44 // of those in which generations are made
	withReturns, returnsBegin    = 0.5, 1 << 45
	withGoneBack, goneBackBegins = 0.3, 1 << 46
	withKinds, kindsBegin        = 0.25, 1 << 47
	withTardy, tardyBegins       = 0.25, 1 << 48
	withStops, stopsBegin        = 0.25, 1 << 49
	copiesMost                   = 60
	olderMost                    = time.Hour
)

// recorders are these actors.
type recorders struct {
	stalls, fickle, returns, goneBack, kinds, tardy, stops actor

	copies []*storeCopy
	over   atomic.Bool // the faults have ended
}

func (r *recorders) begin(seed dice, generations bool) {
	if !recordGuarded {
		return
	}
	r.stalls.begin(seed, stallsBegin, withStalls)
	r.fickle.begin(seed, fickleBegins, withFickle)
	r.returns.begin(seed, returnsBegin, withReturns)
	r.goneBack.begin(seed, goneBackBegins, withGoneBack)
	r.kinds.begin(seed, kindsBegin, withKinds)
	r.tardy.begin(seed, tardyBegins, withTardy)
	r.stops.begin(seed, stopsBegin, withStops)
	r.fickle.on, r.returns.on = r.fickle.on && generations, r.returns.on && generations
}

// end is the end of all that they do.
func (r *recorders) end(w *World) {
	r.over.Store(true)
	w.OnHold(nil)
	w.tardy.Store(nil)
	w.mendStore()
}

// soon is World.later for what must not happen after the faults.
func (g *generator) soon(d time.Duration, f func()) {
	g.w.later(d, func() {
		if !g.recorders.over.Load() && len(g.w.Broken()) == 0 {
			f()
		}
	})
}

// stall holds a leading daemon up at one of its next decisions: its loop alone, or all
// of it; before a write of the record more often than elsewhere.
func (g *generator) stall() {
	x, w := &g.stalls, g.w
	left := x.next().below(6)
	records, inLog := x.next().chance(0.6), x.next().chance(0.5)
	long := x.next().within(time.Second, []time.Duration{8 * time.Second, 30 * time.Second, 2 * time.Minute}[x.next().below(3)])
	s := Stall{For: long, All: x.next().chance(0.25)}
	if records {
		left /= 3
	}
	w.OnHold(func(at Held) Stall {
		acts := at.Decision != nil && at.Decision.Action != nil
		writes := acts && at.Decision.Action.Kind == plan.ActIntent || strings.Contains(at.Line, "action=write the intent")
		if (at.Line != "") != inLog || records && !writes || !inLog && !acts {
			return Stall{}
		}
		if left--; left >= 0 {
			return Stall{}
		}
		w.OnHold(nil)
		w.count("loops held up")
		return s
	})
}

// heldAtGeneration holds the leader up at the next decision to write a generation down,
// or in the line that says so, and has something happen meanwhile.
func (g *generator) heldAtGeneration(x *actor, meanwhile func(long time.Duration)) {
	w := g.w
	inLog := x.next().chance(0.4)
	s := Stall{For: x.next().within(time.Second, []time.Duration{6 * time.Second, 40 * time.Second, 2 * time.Minute}[x.next().below(3)]), All: x.next().chance(0.4)}
	w.OnHold(func(at Held) Stall {
		if inLog != strings.Contains(at.Line, "record generation ") || !inLog && (at.Decision == nil || !makesGeneration(at.Decision)) {
			return Stall{}
		}
		w.OnHold(nil)
		w.count("loops held up over a generation")
		meanwhile(s.For)
		return s
	})
}

// makesGeneration: the leader is about to write a generation down that is made from data.
func makesGeneration(d *plan.Decision) bool {
	a := d.Action
	return a != nil && a.Kind == plan.ActIntent && a.Intent != nil && a.Intent.Replace != nil &&
		a.Intent.Replace.Source.FromData() && a.Intent.Replace.State == cluster.IntentFounding && a.Intent.Replace.Nonce == ""
}

// changeMind is a person who takes commands back, or never meant them: a queued one is
// deleted, in one of both ways, and often queued again.
func (g *generator) changeMind() {
	x, w := &g.fickle, g.w
	take := w.Delete
	if x.next().chance(0.4) {
		take = w.Unlink
	}
	wait := x.next().within(0, []time.Duration{2 * time.Second, 10 * time.Second, 40 * time.Second}[x.next().below(3)])
	again := x.next().chance(0.4)
	pause := x.next().within(0, 30*time.Second)
	which := x.next()
	begins := func(wait time.Duration) {
		g.soon(wait, func() { g.takeBack(which, take, again, pause) })
	}
	if x.next().chance(0.5) {
		amid := x.next()
		g.heldAtGeneration(x, func(long time.Duration) { begins(amid.within(0, long)) })
		return
	}
	begins(wait)
}

// takeBack deletes one of the commands in the queue.
func (g *generator) takeBack(which dice, take func(string), again bool, pause time.Duration) {
	w := g.w
	names := slices.DeleteFunc(w.queued(), func(name string) bool {
		o, ok := w.ordered(name)
		return !ok || o.kind == cluster.CommandBackup
	})
	if len(names) == 0 || g.joining() {
		return
	}
	name := names[which.below(len(names))]
	o, _ := w.ordered(name)
	w.count("commands deleted")
	take(name)
	if again {
		o.byItself = false
		g.soon(pause, func() { w.Queue(o) })
	}
}

// giveUp cuts the power of as many voters as make the quorum go, has the cluster
// recovered without them, and gives them their power back at some moment: before the
// generation is written, while it is, and after that.
func (g *generator) giveUp() {
	x, w := &g.returns, g.w
	w.step()
	in := w.recorded()
	voters, learners := w.voters()
	if w.awaitsStore() || in == nil || in.State != cluster.IntentFounded || in.Quarantined || len(in.Next) > 0 || len(voters) < 3 || len(learners) > 0 || len(w.survivors()) < len(voters) || g.joining() {
		return
	}
	var lost []*machine
	var ids []cluster.HostID
	first := x.next().below(len(voters))
	for i := range len(voters) - cluster.Quorum(len(voters)) + 1 {
		m := w.carrier(voters[(first+i)%len(voters)].ID)
		if m == nil || m.gone.Load() {
			return
		}
		lost, ids = append(lost, m), append(ids, m.ID())
	}
	slices.Sort(ids)
	w.count("hosts given up that come back")
	for _, m := range lost {
		w.Halt(m)
	}
	asks := x.next().within(0, 20*time.Second)
	back := make([]time.Duration, len(lost))
	together, long := x.next().chance(0.5), x.next().within(2*time.Second, 2*time.Minute)
	for i := range back {
		if back[i] = long; !together {
			back[i] = x.next().within(time.Second, 2*time.Minute)
		}
	}
	onWrite, after := x.next().chance(0.3), x.next().within(0, 8*time.Second)
	if !onWrite && x.next().chance(0.5) { // while the leader is held up before it
		amid := x.next()
		g.heldAtGeneration(x, func(long time.Duration) {
			for i, m := range lost {
				w.later(amid.roll(uint64(i)).within(0, long), func() { w.Start(m) })
			}
		})
	}
	begun := in.Generation
	w.loops.Go(func() {
		if !w.sleep(w.ctx, asks) {
			return
		}
		if from := g.furthestBut(ids); from != nil && !g.recorders.over.Load() {
			w.Queue(order{kind: cluster.CommandRecover, host: from.ID(), lost: ids})
		}
		for waited := time.Duration(0); onWrite && waited < 90*time.Second; waited += 200 * time.Millisecond {
			if in := w.recorded(); in != nil && in.Generation > begun || !w.sleep(w.ctx, 200*time.Millisecond) {
				break
			}
		}
		for i, m := range lost {
			wait := back[i]
			if onWrite {
				wait = after + time.Duration(i)*time.Millisecond
			}
			w.later(wait, func() { w.Start(m) })
		}
	})
}

// furthestBut is whose data a person recovers from that has lost these; nil: nobody's.
func (g *generator) furthestBut(lost []cluster.HostID) *machine {
	for _, m := range g.w.survivors() {
		if !slices.Contains(lost, m.ID()) && m.daemon.Load() != nil {
			return m
		}
	}
	return nil
}

// goStoreBack keeps copies of the store, and now and then has it go back to one: for
// good, or only until it goes forward again; also while a host has no power that heard
// of what came after. What a person wants of the cluster is written once more: the spec
// stays as it is.
func (g *generator) goStoreBack() {
	x, w := &g.goneBack, g.w
	if in := w.recorded(); in == nil || in.State == "" || g.foreign.on || w.static != nil {
		return
	}
	g.recorders.copies = append(g.recorders.copies, w.CopyStore())
	g.recorders.copies = g.recorders.copies[max(0, len(g.recorders.copies)-copiesMost):]
	switch n := x.next().below(20); {
	case n < 4 && g.generations:
		g.failOver()
		return
	case n < 7 && g.generations:
		g.bringBack()
		return
	case n >= 11:
		return
	}
	old := g.recorders.copies[x.next().below(len(g.recorders.copies))]
	if time.Since(old.at) > olderMost {
		return
	}
	over := x.next().chance(0.5)
	long := x.next().within(5*time.Second, 3*time.Minute)
	if x.next().chance(0.4) {
		m := g.up()[x.next().below(len(g.up()))]
		w.Halt(m)
		w.later(x.next().within(time.Second, 4*time.Minute), func() { w.Start(m) })
	}
	primary := w.CopyStore()
	w.count("stores gone back")
	w.StoreGoesTo(old.withSpecOf(primary))
	if over {
		g.soon(long, func() {
			w.count("stores gone forward again")
			w.StoreGoesTo(primary.withSpecOf(w.CopyStore()))
		})
	}
}

// anyRestore queues a restore of some backup; empty: there is none yet.
func (g *generator) anyRestore(x *actor) string {
	names := g.w.backupsTaken()
	if len(names) == 0 || g.joining() || g.prunes {
		g.w.Queue(order{kind: cluster.CommandBackup})
		return ""
	}
	return g.w.Queue(order{kind: cluster.CommandRestore, backup: names[x.next().below(len(names))]})
}

// failOver has the store fail over to a replica from before a restore, which one host
// alone has heard of that leads, and has no power then.
func (g *generator) failOver() {
	x, w := &g.goneBack, g.w
	replica := w.CopyStore()
	if g.anyRestore(x) == "" {
		return
	}
	long, over := x.next().within(20*time.Second, 5*time.Minute), x.next().chance(0.3)
	w.OnHold(func(at Held) Stall {
		if at.Decision == nil || !makesGeneration(at.Decision) {
			return Stall{}
		}
		w.OnHold(nil)
		a := w.hostNow(at.Host)
		if a == nil {
			return Stall{}
		}
		for _, m := range g.up() {
			if m != a {
				w.Split([]*machine{a}, []*machine{m}, daemons)
				w.CutStore(m)
			}
		}
		begun := w.recorded().Generation
		w.loops.Go(func() {
			for waited := time.Duration(0); waited < 10*time.Second; waited += 50 * time.Millisecond {
				if s, ok := a.state(); ok && s.Intent != nil && s.Intent.Generation > begun || !w.sleep(w.ctx, 50*time.Millisecond) {
					break
				}
			}
			w.Halt(a)
			primary := w.CopyStore()
			if !g.recorders.over.Load() {
				w.count("stores failed over from a generation")
				w.StoreGoesTo(replica.withSpecOf(primary))
			}
			w.Heal()
			if over {
				g.soon(long/2, func() { w.StoreGoesTo(primary.withSpecOf(w.CopyStore())) })
			}
			w.later(long, func() { w.Start(a) })
		})
		return Stall{}
	})
}

// bringBack is a person who queues a restore and takes it back at once, and a store that
// goes back to when it was in the queue.
func (g *generator) bringBack() {
	x, w := &g.goneBack, g.w
	w.staging.Store(int64(20 * time.Second))
	name := g.anyRestore(x)
	then := w.CopyStore()
	take := w.Delete
	if x.next().chance(0.3) {
		take = w.Unlink
	}
	after := x.next().within(0, 5*time.Second)
	g.recorders.copies = append(g.recorders.copies, then)
	w.later(after, func() {
		if name != "" && !g.recorders.over.Load() {
			take(name)
		}
		w.staging.Store(0)
	})
	g.soon(after+x.next().within(time.Second, 4*time.Minute), func() {
		w.count("deleted commands brought back")
		w.StoreGoesTo(then.withSpecOf(w.CopyStore()))
	})
}

// longAgo lets a cluster be for most of an hour, and then has the store go back by that.
func (g *generator) longAgo() {
	x, w := &g.goneBack, g.w
	if !x.on || len(g.recorders.copies) == 0 || !x.next().chance(0.4) || len(w.Broken()) > 0 {
		return
	}
	w.sleep(w.ctx, x.next().within(8*time.Minute, 50*time.Minute))
	old := g.recorders.copies[x.next().below(len(g.recorders.copies))]
	if time.Since(old.at) > olderMost || g.foreign.on {
		return
	}
	w.count("stores gone back for long")
	w.StoreGoesTo(old.withSpecOf(w.CopyStore()))
	w.sleep(w.ctx, x.next().within(time.Second, time.Minute))
}

// deletedUnseen is a person who takes a restore back while the store does not list its
// objects, or not the one that says so.
func (g *generator) deletedUnseen() {
	x, w := &g.kinds, g.w
	w.staging.Store(int64(x.next().within(15*time.Second, time.Minute)))
	name := g.anyRestore(x)
	f := StoreFault{Op: memory.List}
	if x.next().chance(0.3) {
		f = StoreFault{Op: memory.Get, Key: "control/" + w.Queue(order{kind: cluster.CommandBackup})}
	}
	take := w.Delete
	if x.next().chance(0.5) {
		take = w.Unlink
	}
	fails := x.next().within(0, 12*time.Second)
	long := x.next().within(10*time.Second, 3*time.Minute)
	g.soon(fails, func() {
		mend := w.FailStore(f)
		w.later(long, mend)
	})
	g.soon(fails+x.next().within(0, 10*time.Second), func() {
		if name != "" {
			w.count("commands deleted while the store does not list")
			take(name)
		}
	})
	g.soon(long, func() { w.staging.Store(0) })
}

// failKind has the store refuse one kind of call, of all objects or of one.
func (g *generator) failKind() {
	x, w := &g.kinds, g.w
	if g.generations && x.next().chance(0.3) {
		g.deletedUnseen()
		return
	}
	f := StoreFault{Op: []memory.Op{memory.List, memory.Get, memory.Put, memory.Delete}[x.next().below(4)]}
	if x.next().chance(0.5) {
		f.Host = g.up()[x.next().below(len(g.up()))].ID()
	}
	if f.Op != memory.List && x.next().chance(0.6) {
		keys := []string{intentKey, specKey, endedKey, "control/etcdadm-record.json"}
		for _, name := range w.queued() {
			keys = append(keys, "control/"+name+"/")
		}
		f.Key = keys[x.next().below(len(keys))]
	}
	w.count("stores that refuse one kind of call")
	mend := w.FailStore(f)
	w.later(x.next().within(5*time.Second, 3*time.Minute), mend)
}

// Tardy is how a store answers late: a put arrives late, when nobody waits for it, or
// it has been done and the answer comes late.
type Tardy struct {
	Arrives, Answers float64
	Most             time.Duration
}

// answerLate has puts be done or answered late for a while.
func (g *generator) answerLate() {
	x, w := &g.tardy, g.w
	t := &Tardy{Most: x.next().within(2*time.Second, time.Minute)}
	if p := float64(x.next().below(300)) / 1000; x.next().chance(0.5) {
		t.Arrives = p
	} else {
		t.Answers = p
	}
	w.count("stores that answer late")
	w.tardy.Store(t)
	w.later(x.next().within(10*time.Second, 2*time.Minute), func() { w.tardy.CompareAndSwap(t, nil) })
}

// stop has a daemon stand still for longer than a fault does, the leading one as often
// as any; or all that runs on its machine.
func (g *generator) stop() {
	x, w := &g.stops, g.w
	m := g.up()[x.next().below(len(g.up()))]
	if x.next().chance(0.5) {
		for _, o := range g.up() {
			if d := o.daemon.Load(); d != nil && d.manager.Status().Leading {
				m = o
				break
			}
		}
	}
	long := x.next().within(20*time.Second, 2*time.Minute)
	w.count("daemons stopped for long")
	w.Pause(m, long)
	if x.next().chance(0.3) {
		w.count("machines stopped for long")
		w.PauseEtcd(m, long)
	}
}

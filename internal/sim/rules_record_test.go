package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
)

// Schedules of SAFETY.md, 13, 17 and 18, and of docs/adr/023: the record is
// written on what is true at that moment.

// generationIs finds the moment in which a leader writes a generation down: when
// it says so, or when it has decided so.
func generationIs(n uint64) func(Held) bool {
	return func(at Held) bool {
		if at.Decision == nil {
			return strings.HasPrefix(at.Line, "decision ") && strings.Contains(at.Line, fmt.Sprintf("record generation %d", n))
		}
		return intentOf(at, func(in *cluster.Intent) bool { return in.Generation == n && in.State == cluster.IntentFounding })
	}
}

// intentOf: the leader has decided to write an intent of this kind.
func intentOf(at Held, fits func(*cluster.Intent) bool) bool {
	if at.Decision == nil || at.Decision.Action == nil || at.Decision.Action.Kind != plan.ActIntent || at.Decision.Action.Intent == nil {
		return false
	}
	c := at.Decision.Action.Intent
	return c.Replace != nil && fits(c.Replace) || c.Create != nil && fits(c.Create)
}

// place is where a loop is held up.
type place bool

const (
	decided place = false
	inLog   place = true
)

func (p place) String() string {
	if p == inLog {
		return "in its log"
	}
	return "after its decision"
}

// holdUp holds the leader up at the first place that fits; then is called as that
// begins. It returns what waits until it has begun.
func (w *World) holdUp(where place, fits func(Held) bool, s Stall, then func(leader *machine)) (begun func()) {
	held := false
	w.OnHold(func(at Held) Stall {
		if (at.Line != "") != bool(where) || !fits(at) {
			return Stall{}
		}
		w.OnHold(nil)
		held = true
		if then != nil {
			then(w.Host(string(at.Host)))
		}
		return s
	})
	return func() { w.Until("the leader was held up", soonEnough, func() bool { return held }) }
}

// deletions are how a person takes a command out of the queue.
var deletions = []struct {
	name string
	do   func(w *World, command string)
}{
	{"delete-command", (*World).Delete},
	{"the objects alone", (*World).Unlink},
}

// keepsAll wants every write that a client was told of to be there, whatever was
// asked for.
func (w *World) keepsAll() { w.keepsSince(0) }

// keepsSince is the same but for the first so many.
func (w *World) keepsSince(first int) {
	var keys []string
	for _, a := range w.load.acks()[first:] {
		keys = append(keys, a.key)
	}
	w.readBack(keys)
}

// staysAt wants the cluster at its spec, in the generation that it had, with all
// that was written.
func (w *World) staysAt(generation uint64, voters int) {
	w.Await(voters, soonEnough)
	w.only(generation)
	w.keepsAll()
}

// TestRecordLostHostsReturn: most voters lose power, and a person names them lost.
// The loop of the leader stands still for two minutes between its decision to write
// the recovery down and the write, or in the line that says so, and its gossip goes
// on. The hosts come back meanwhile, and serve. Nothing is recovered: the command is
// rejected, and what clients wrote stays.
func TestRecordLostHostsReturn(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		voters, more []string // hosts; the lowest of all leads
		from         string
		lost         []string
	}{
		"the leader":          {voters: []string{"a", "b", "c"}, from: "a", lost: []string{"b", "c"}},
		"another than leads":  {voters: []string{"b", "c", "d"}, more: []string{"a"}, from: "b", lost: []string{"c", "d"}},
		"of five voters":      {voters: []string{"a", "b", "c", "d", "e"}, from: "a", lost: []string{"c", "d", "e"}},
		"the last one of all": {voters: []string{"a", "b", "c"}, from: "c", lost: []string{"a", "b"}},
	} {
		for _, where := range []place{decided, inLog} {
			t.Run(name+" "+where.String(), func(t *testing.T) {
				inWorld(t, Options{}, func(w *World) {
					w.formed(len(x.voters), x.voters...)
					for _, m := range x.more {
						w.Add(m)
					}
					w.run(5 * time.Second)
					begun := w.holdUp(where, generationIs(2), Stall{For: 2 * time.Minute}, nil)
					w.loseNamed(x.from, x.lost, begun)
					w.run(2 * time.Minute)
					w.staysAt(1, len(x.voters))
				})
			})
		}
	}
}

// loseNamed cuts the power of hosts, has the cluster recovered from another one,
// and gives the hosts their power back once the leader is held up.
func (w *World) loseNamed(from string, lost []string, begun func()) (command string) {
	var ids []cluster.HostID
	for _, name := range lost {
		w.Halt(w.Host(name))
		ids = append(ids, cluster.HostID(name))
	}
	w.run(15 * time.Second)
	command = w.Queue(recoverFrom(w.Host(from), ids...))
	begun()
	w.run(5 * time.Second)
	for _, name := range lost {
		w.apart()
		w.Start(w.Host(name))
	}
	return command
}

// TestRecordPausedLeadersRecovery: the same, and the leader's daemon stands still as
// a whole for a minute, as by SIGSTOP. Another one leads meanwhile, and rejects the
// command, since there is a quorum. When the first goes on, it has heard of nobody
// for a minute.
func TestRecordPausedLeadersRecovery(t *testing.T) {
	t.Parallel()
	for _, where := range []place{decided, inLog} {
		for _, long := range []time.Duration{20 * time.Second, time.Minute, 2 * time.Minute} {
			t.Run(fmt.Sprint(long, " ", where), func(t *testing.T) {
				inWorld(t, Options{}, func(w *World) {
					w.formed(3, "a", "b", "c")
					w.run(5 * time.Second)
					begun := w.holdUp(where, generationIs(2), Stall{For: long, All: true}, nil)
					command := w.loseNamed("a", []string{"b", "c"}, begun)
					w.run(long)
					w.staysAt(1, 3)
					if e, ok := w.ended(command); !ok || e.Result == "done" {
						w.violate("the recovery ended as %q: %s", e.Result, e.Reason)
					}
				})
			})
		}
	}
}

// TestRecordDeletedMeanwhile: a restore lies ready. The leader stands still for a
// minute before it writes it down, alone with its loop or as a whole, and a person
// deletes the command. It is not run, by whoever leads then.
func TestRecordDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, how := range deletions {
		for _, where := range []place{decided, inLog} {
			for _, all := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s all %t", how.name, where, all), func(t *testing.T) {
					inWorld(t, Options{}, func(w *World) {
						w.formed(3, "a", "b", "c")
						w.run(2 * time.Second)
						b := w.Backup()
						w.run(2 * time.Second)
						begun := w.holdUp(where, generationIs(2), Stall{For: time.Minute, All: all}, nil)
						name := w.Queue(restore(b))
						begun()
						w.run(time.Second)
						how.do(w, name)
						w.run(70 * time.Second)
						w.staysAt(1, 3)
					})
				})
			}
		}
	}
}

// TestRecordDeletedJustBefore: the same with a leader that hangs for four
// seconds only, so that what it goes by is young enough.
func TestRecordDeletedJustBefore(t *testing.T) {
	t.Parallel()
	for _, how := range deletions {
		t.Run(how.name, func(t *testing.T) {
			inWorld(t, Options{}, func(w *World) {
				w.formed(3, "a", "b", "c")
				w.run(2 * time.Second)
				b := w.Backup()
				w.run(2 * time.Second)
				begun := w.holdUp(decided, generationIs(2), Stall{For: 4 * time.Second}, nil)
				name := w.Queue(restore(b))
				begun()
				w.run(2 * time.Second)
				how.do(w, name)
				w.run(20 * time.Second)
				w.staysAt(1, 3)
			})
		})
	}
}

// TestRecordUndoDeletedMeanwhile: the same with an undo: a restore has been made, and
// a person who wanted it taken back does not any more.
func TestRecordUndoDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, how := range deletions {
		for _, where := range []place{decided, inLog} {
			t.Run(fmt.Sprintf("%s %s", how.name, where), func(t *testing.T) {
				inWorld(t, Options{}, func(w *World) {
					w.formed(3, "a", "b", "c")
					w.run(2 * time.Second)
					w.Queue(restore(w.Backup()))
					w.Await(3, soonEnough)
					first := len(w.load.acks())
					w.run(2 * time.Second)
					begun := w.holdUp(where, generationIs(3), Stall{For: time.Minute}, nil)
					name := w.Queue(order{kind: cluster.CommandUndo, host: "a", dir: w.aside(w.Host("a"))})
					begun()
					how.do(w, name)
					w.run(70 * time.Second)
					w.Await(3, soonEnough)
					w.only(2)
					w.keepsSince(first)
				})
			})
		}
	}
}

// TestRecordOutageTakenBack: the members are to be stopped for a change of version
// that needs it. Before the leader writes that down it stands still for a minute, and
// the person takes the word for an outage back. Nothing is stopped.
func TestRecordOutageTakenBack(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprintf("all %t", all), func(t *testing.T) {
			inWorld(t, Options{}, func(w *World) {
				begun := w.holdUp(decided, halts, Stall{For: time.Minute, All: all}, nil)
				w.overALine(sim35, sim37, "a", "b", "c")
				begun()
				w.run(time.Second)
				w.Spec(specOf(3, sim35))
				w.run(70 * time.Second)
				if in := w.recorded(); in.Halt != nil {
					w.violate("the members are halted, and nobody wants that any more: %+v", *in.Halt)
				}
				w.staysAt(1, 3)
			})
		})
	}
}

// halts: the leader is about to write down that all members stop.
func halts(at Held) bool {
	return intentOf(at, func(in *cluster.Intent) bool { return in.Halted() != nil })
}

// rival makes a write of the intent in the store, as another leader of the same
// generation does that had looked at the same one.
func (w *World) rival(by *machine) {
	data, tag, err := blob.ReadAll(w.ctx, w.store, intentKey, 1<<20)
	fields := map[string]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		w.violate("read the intent: %v", err)
		return
	}
	in := w.recorded()
	set := func(key string, value any) {
		if fields[key], err = json.Marshal(value); err != nil {
			panic(err) // they are plain values
		}
	}
	set("write", in.Write+1)
	set("commandsRun", append(append([]string{}, in.CommandsRun...), "2001-01-01T00:00:00Z-000001"))
	var mine cluster.Fence
	if json.Unmarshal(fields["by"], &mine) == nil && mine.Number > 0 { // the record names its writer
		set("by", cluster.Fence{Number: mine.Number + 1, Host: by.ID()})
	}
	if data, err = json.Marshal(fields); err != nil {
		panic(err)
	}
	if _, err := blob.PutBytes(w.ctx, w.store, intentKey, data, blob.IfMatch(tag)); err != nil {
		w.violate("write as a rival: %v", err)
		return
	}
	w.tracef(by.ID(), "its rival's write lands")
	w.wrote(by.daemon.Load(), data, time.Now())
}

// TestRecordRivalsWriteBeforeHalt: between the leader's look and its write that all
// members stop, the write of a rival lands, which counts the same number. The leader's
// own is refused, and is not taken for the one that it finds: the members go on or
// stop as the store says, and the cluster comes to its spec.
func TestRecordRivalsWriteBeforeHalt(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		struck := false
		w.OnHold(func(at Held) Stall {
			if !halts(at) {
				return Stall{}
			}
			w.OnHold(nil)
			struck = true
			w.rival(w.Host("b"))
			return Stall{}
		})
		w.overALine(sim35, sim37, "a", "b", "c")
		w.Until("the rival wrote", soonEnough, func() bool { return struck })
		w.run(time.Minute)
		w.agree()
		w.Await(3, 2*soonEnough)
		w.agree()
		w.readBack(w.required(w.load.acks()))
	})
}

// agree wants what hosts keep not to be a record that the store never had.
func (w *World) agree() {
	in := w.recorded()
	for _, m := range w.hosts() {
		s, ok := m.state()
		if !ok || s.Intent == nil || s.Intent.Generation != in.Generation || s.Intent.Write != in.Write {
			continue
		}
		if (s.Intent.Halted() == nil) != (in.Halted() == nil) || len(s.Intent.Next) != len(in.Next) || len(s.Intent.CommandsRun) != len(in.CommandsRun) {
			w.violate("host %s keeps another write %d of generation %d than the store has: halted %t, the store's %t; next %s, the store's %s",
				m.ID(), in.Write, in.Generation, s.Intent.Halted() != nil, in.Halted() != nil, names(s.Intent.Next), names(in.Next))
		}
	}
}

// TestRecordRivalsWriteBeforeVoters: the same with the write that a voter is to be
// added. No voter is, before the store says so.
func TestRecordRivalsWriteBeforeVoters(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c", "d", "e")
		w.run(2 * time.Second)
		struck := false
		w.OnHold(func(at Held) Stall {
			if !intentOf(at, func(in *cluster.Intent) bool { return len(in.Next) > 3 }) {
				return Stall{}
			}
			w.OnHold(nil)
			struck = true
			w.rival(w.Host("b"))
			return Stall{}
		})
		w.Spec(spec(5))
		w.Until("the rival wrote", soonEnough, func() bool { return struck })
		for range 200 {
			w.run(50 * time.Millisecond)
			w.agree()
			if len(w.Broken()) > 0 {
				break
			}
		}
		w.Await(5, soonEnough)
		w.keepsAll()
	})
}

// TestRecordListsFail: a restore is being made ready. The store does not list its
// objects any more, for the leader or for all, or one other command cannot be read;
// each object else can be. The person deletes the restore meanwhile. It is not run.
func TestRecordListsFail(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(w *World) StoreFault{
		"for all":        func(*World) StoreFault { return StoreFault{Op: memory.List} },
		"for the leader": func(w *World) StoreFault { return StoreFault{Host: w.leader().ID(), Op: memory.List} },
		"of commands":    func(*World) StoreFault { return StoreFault{Op: memory.List, Key: control.Prefix} },
		"one command": func(w *World) StoreFault {
			return StoreFault{Op: memory.Get, Key: control.Prefix + w.Queue(order{kind: cluster.CommandBackup}) + "/"}
		},
	} {
		for _, how := range deletions {
			t.Run(name+" "+how.name, func(t *testing.T) {
				inWorld(t, Options{}, func(w *World) {
					w.formed(3, "a", "b", "c")
					w.run(2 * time.Second)
					b := w.Backup()
					w.run(2 * time.Second)
					w.staging.Store(int64(40 * time.Second))
					command := w.Queue(restore(b))
					w.run(15 * time.Second)
					w.only(1)
					mend := w.FailStore(fault(w))
					how.do(w, command)
					w.run(2 * time.Minute)
					mend()
					w.staysAt(1, 3)
				})
			})
		}
	}
}

// TestRecordStoreFailsOver: a restore is written down, and the leader's host alone has
// heard of it, since the daemons cannot reach each other. Its power fails, and the
// store fails over to a replica from before the command. The others serve for five
// minutes. Then the host comes back: what it alone remembers stops nobody, and a
// person is told. Its disk given up, the cluster is whole again.
func TestRecordStoreFailsOver(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		hosts   []string
		recover bool // and not restore: the others have no power meanwhile
		over    func(w *World, primary *storeCopy)
	}{
		"of three":       {hosts: []string{"a", "b", "c"}},
		"of five":        {hosts: []string{"a", "b", "c", "d", "e"}},
		"a recovery":     {hosts: []string{"a", "b", "c"}, recover: true},
		"there and back": {hosts: []string{"a", "b", "c"}, over: func(w *World, primary *storeCopy) { w.run(8 * time.Minute); w.StoreGoesTo(primary) }},
		"a recovery, there and back": {hosts: []string{"a", "b", "c"}, recover: true,
			over: func(w *World, primary *storeCopy) { w.StoreGoesTo(primary) }},
	} {
		t.Run(name, func(t *testing.T) {
			if len(x.hosts) > 3 {
				longVariant(t)
			}
			inWorld(t, Options{}, func(w *World) {
				w.formed(len(x.hosts), x.hosts...)
				w.run(2 * time.Second)
				b := w.Backup()
				w.run(5 * time.Second)
				a, rest := w.Host("a"), w.hosts()[1:]
				replica := w.CopyStore()
				w.knownToAlone(a, func() {
					if !x.recover {
						w.Queue(restore(b))
						return
					}
					var lost []cluster.HostID
					for _, m := range rest {
						w.Halt(m)
						lost = append(lost, m.ID())
					}
					w.run(15 * time.Second)
					w.Queue(recoverFrom(a, lost...))
				})
				primary := w.CopyStore()
				w.Halt(a)
				w.StoreGoesTo(replica)
				w.Heal()
				for _, m := range rest {
					w.Start(m)
					w.apart()
				}
				w.run(5 * time.Minute)
				if in, n := w.recorded(), w.Acked(); in.Generation != 1 || n < 1000 {
					w.violate("generation %d was served with %d writes, so this shows nothing", in.Generation, n)
				}
				if x.over != nil {
					x.over(w, primary)
				}
				before := w.Acked()
				w.Start(a)
				w.run(time.Minute)
				if n := w.Acked() - before; n < 400 {
					w.violate("clients were told of %d writes in the minute after the host came back", n)
				}
				w.keepsAll()
				if len(w.Broken()) > 0 || x.over != nil {
					return
				}
				w.Halt(a)
				w.Wipe(a)
				w.Start(a)
				w.staysAt(1, len(x.hosts))
			})
		})
	}
}

// knownToAlone has a generation written down of which no host hears but one, which
// leads: until it keeps it, the others' daemons are out of its reach.
func (w *World) knownToAlone(a *machine, queue func()) {
	w.holdUp(decided, generationIs(2), Stall{}, func(leader *machine) {
		if leader != a {
			w.violate("host %s leads, so this shows nothing", leader.ID())
		}
		for _, m := range w.hosts() {
			if m != a {
				w.Split([]*machine{a}, []*machine{m}, daemons)
				w.CutStore(m)
			}
		}
	})
	// Its founder does not begin before its power fails, however fast it is.
	w.once(func(p Point) bool { return p.Host == a.ID() && p.Kind == kindInstall && !p.After }, Strike{Pause: time.Minute}, nil)
	queue()
	w.Until("the leader's host keeps the generation", soonEnough, func() bool {
		s, ok := a.state()
		return ok && s.Intent != nil && s.Intent.Generation == 2
	})
	for _, m := range w.hosts() {
		if s, ok := m.state(); ok && m != a && s.Intent.Generation != 1 {
			w.violate("host %s has heard of generation %d, so this shows nothing", m.ID(), s.Intent.Generation)
		}
	}
}

// TestRecordDeletedRestoreComesBack: a person deletes a restore that was not run yet.
// Half an hour later the store goes back to when it was in the queue. It is not run.
func TestRecordDeletedRestoreComesBack(t *testing.T) {
	t.Parallel()
	for _, how := range deletions {
		for _, later := range []time.Duration{11 * time.Minute, 30 * time.Minute} {
			t.Run(fmt.Sprint(how.name, " ", later), func(t *testing.T) {
				if later > 11*time.Minute {
					longVariant(t)
				}
				inWorld(t, Options{}, func(w *World) {
					w.formed(3, "a", "b", "c")
					w.run(2 * time.Second)
					b := w.Backup()
					w.run(2 * time.Second)
					w.staging.Store(int64(time.Minute))
					name := w.Queue(restore(b))
					then := w.CopyStore()
					w.run(3 * time.Second)
					how.do(w, name)
					w.run(later)
					w.staging.Store(0)
					w.StoreGoesTo(then)
					w.run(2 * time.Minute)
					w.staysAt(1, 3)
				})
			})
		}
	}
}

// TestRecordDeletedUndoComesBack: the same with an undo, over another generation than
// the person saw by then, or over the same.
func TestRecordDeletedUndoComesBack(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.run(2 * time.Second)
		w.Queue(restore(w.Backup()))
		w.Await(3, soonEnough)
		first := len(w.load.acks())
		w.staging.Store(int64(time.Minute))
		name := w.Queue(order{kind: cluster.CommandUndo, host: "a", dir: w.aside(w.Host("a"))})
		then := w.CopyStore()
		w.run(3 * time.Second)
		w.Delete(name)
		w.run(20 * time.Minute)
		w.staging.Store(0)
		w.StoreGoesTo(then)
		w.run(2 * time.Minute)
		w.Await(3, soonEnough)
		w.only(2)
		w.keepsSince(first)
	})
}

// TestRecordRejectedRecoveryComesBack: a recovery is rejected, since there is a quorum.
// Two minutes later the store goes back to when it was in the queue, while the hosts
// that it names have no power. That it was rejected is in what the hosts keep, and it
// is not run. The hosts come back.
func TestRecordRejectedRecoveryComesBack(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.run(5 * time.Second)
		name := w.Queue(recoverFrom(w.Host("a"), "b", "c"))
		then := w.CopyStore()
		w.Until("it was rejected", soonEnough, func() bool { e, ok := w.ended(name); return ok && e.Result == "rejected" })
		w.run(2 * time.Minute)
		for _, x := range []string{"b", "c"} {
			w.Halt(w.Host(x))
		}
		w.run(10 * time.Second)
		w.StoreGoesTo(then)
		w.run(time.Minute)
		w.only(1)
		for _, x := range []string{"b", "c"} {
			w.Start(w.Host(x))
			w.apart()
		}
		w.staysAt(1, 3)
	})
}

// TestRecordOldCommand: the backup that a restore names cannot be read for a quarter of
// an hour. Nobody was asked about what clients have written meanwhile, so that the
// restore is not run once it can be, without being said again.
func TestRecordOldCommand(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.run(2 * time.Second)
		b := w.Backup()
		w.run(2 * time.Second)
		mend := w.FailStore(StoreFault{Op: memory.Get, Key: backupPrefix + b})
		w.Queue(restore(b))
		w.run(15 * time.Minute)
		w.only(1)
		mend()
		w.run(time.Minute)
		w.staysAt(1, 3)
	})
}

// TestRecordCommandBeforeGeneration: two restores are queued, and the second one is
// older than the generation that the first makes. It would take back what clients were
// told since, of which nobody was asked, so it has to be said again.
func TestRecordCommandBeforeGeneration(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.run(2 * time.Second)
		b := w.Backup()
		w.run(2 * time.Second)
		c := w.Backup()
		w.Queue(restore(b))
		w.apart()
		w.Queue(restore(c))
		w.Await(3, soonEnough)
		w.only(2)
	})
}

// TestRecordGivenBackMeanwhile: host by host gets our daemon, and the leader is about to
// write down that the cluster is ours. It stands still for two minutes, and a person has
// the other program run the member of a host again. It is not ours.
func TestRecordGivenBackMeanwhile(t *testing.T) {
	t.Parallel()
	for _, where := range []place{decided, inLog} {
		t.Run(where.String(), func(t *testing.T) {
			inWorld(t, Options{}, func(w *World) {
				var all []*machine
				for _, name := range []string{"a", "b", "c"} {
					m := w.Place(name)
					m.without.Store(true)
					all = append(all, m)
				}
				w.Mark(spec(3))
				w.Found(spec(3).EtcdVersion, all...)
				w.Load(100 * time.Millisecond)
				w.run(5 * time.Second)
				g := &generator{w: w}
				begun := w.holdUp(where, func(at Held) bool {
					return strings.Contains(at.Line, "record the cluster as ours") ||
						intentOf(at, func(in *cluster.Intent) bool { return in.Source.Kind == cluster.SourceAdopted })
				}, Stall{For: 2 * time.Minute}, nil)
				for _, m := range all {
					w.StopTheirs(m, true)
					g.install(m)
					w.awaitServing(m, time.Minute)
				}
				begun()
				c := all[2]
				c.without.Store(true)
				w.StopDaemon(c)
				w.harm(c)
				c.running().Stop()
				w.StartTheirs(c)
				w.run(130 * time.Second)
				if w.adopted() {
					w.violate("it is written down that the cluster is ours, and another program runs a member of it")
				}
				w.StopTheirs(c, true)
				g.install(c)
				w.Await(3, soonEnough)
				w.keepsAll()
			})
		})
	}
}

// TestRecordServingGenerationComesBack: a restore was made and serves, also to a host
// that was off meanwhile or not. The store goes back to before it. What the hosts
// remember is the truth then, and is written back.
func TestRecordServingGenerationComesBack(t *testing.T) {
	t.Parallel()
	for _, away := range []string{"", "a", "c"} {
		t.Run("away "+away, func(t *testing.T) {
			inWorld(t, Options{}, func(w *World) {
				w.formed(3, "a", "b", "c")
				w.run(2 * time.Second)
				b := w.Backup()
				w.run(2 * time.Second)
				then := w.CopyStore()
				if away != "" {
					w.Halt(w.Host(away))
					w.run(15 * time.Second)
				}
				name := w.Queue(restore(b))
				w.Until("the restore was run", soonEnough, func() bool { e, ok := w.ended(name); return ok && e.Result == "done" })
				first := w.Acked()
				w.run(20 * time.Second)
				w.StoreGoesTo(then)
				w.run(5 * time.Second)
				if away != "" {
					w.Start(w.Host(away))
				}
				w.Await(3, soonEnough)
				w.only(2)
				w.keepsSince(first)
			})
		})
	}
}

// TestRecordFoundingGoesOn: a restore is written down, every host has heard of it and
// has stopped its member, and the store goes back to before it. Nothing serves that it
// could overtake, so it is finished.
func TestRecordFoundingGoesOn(t *testing.T) {
	t.Parallel()
	restoring(t, func(w *World, b string) {
		then := w.CopyStore()
		w.atIntent(closed, Strike{}, func(*machine) { w.later(0, func() { w.StoreGoesTo(then) }) })
		w.Queue(restore(b))
		w.generation(2, cluster.IntentFounded)
		w.Await(3, soonEnough)
		w.only(2)
	})
}

package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// Schedules of SAFETY.md, C, D and E, as far as founding and membership go; new
// generations are in rules_generation_test.go and rules_sources_test.go. 22 is in rules_prune_test.go. Not modelled: 24
// (arguments are the runtime's), 25 (authentication).

// TestRule11IntentFirst: without the store nothing changes the voters; the
// check of every world looks that each change was written down before.
func TestRule11IntentFirst(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c", "d")
		for _, m := range w.hosts() {
			w.CutStore(m)
		}
		for _, m := range w.hosts() {
			if w.votes(m) && m != w.leader() {
				w.Leave(m)
				break
			}
		}
		changes := w.changed()
		w.run(3 * time.Minute)
		if w.changed() != changes {
			w.violate("the voters were changed without the store")
		}
		w.Heal()
		w.Await(3, soonEnough)
	})
}

// TestRule12OneStoreTwoPartitions: two halves that see only the store found
// one cluster.
func TestRule12OneStoreTwoPartitions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		inWorld(t, Options{Seed: seed + 1}, func(w *World) {
			ms := []*machine{w.Place("a"), w.Place("b"), w.Place("c"), w.Place("d")}
			w.Split(ms[:2], ms[2:], daemons, members)
			w.Spec(spec(3))
			for i, m := range ms {
				w.later(w.links.next(fmt.Sprint("boot", i)).within(0, 3*time.Millisecond), func() { w.Start(m) })
			}
			w.run(time.Minute)
			w.Heal()
			w.Load(100 * time.Millisecond)
			w.Await(3, soonEnough)
		})
	}
}

// TestRule12LostReplyOfTheFoundingWrite: the write took effect and its writer
// does not know; and a founder reads a store that has nothing.
func TestRule12LostReplyOfTheFoundingWrite(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.chaos.Store(&Chaos{StoreLost: 0.5, StoreError: 0.3, StoreLate: 0.2, SlowMost: time.Second, LateMost: 5 * time.Second})
		w.Spec(spec(3))
		for _, n := range []string{"a", "b", "c", "d"} {
			w.Add(n)
		}
		w.run(time.Minute)
		w.chaos.Store(nil)
		w.Load(100 * time.Millisecond)
		w.Await(3, soonEnough)
	})
}

// TestRule12AllGone: a founded cluster whose members are all wiped waits for a
// command; nothing new is founded.
func TestRule12AllGone(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c")
		w.load.stop()
		w.load = nil
		for _, m := range w.hosts() {
			w.Halt(m)
			w.Wipe(m)
		}
		for _, m := range w.hosts() {
			w.Start(m)
		}
		w.run(10 * time.Minute)
		if len(w.etcd.Look()) != 0 {
			w.violate("members run although all data is gone")
		}
	})
}

// TestRule13MinorityOfTheFoundersMayNotFoundAgain: two of three founders
// serve, cut off with their acknowledged writes before anybody wrote down that
// the cluster is founded.
func TestRule13MinorityOfTheFoundersMayNotFoundAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		for _, n := range []string{"a", "b", "c"} {
			w.Add(n)
		}
		w.run(3 * time.Second)
		w.Load(50 * time.Millisecond)
		w.OnPoint(func(p Point) Strike {
			// c never starts, and that the cluster is founded is not written.
			if p.Host == "c" && p.Kind == kindSpawn || p.Kind == kindStorePut && p.Host != "c" && w.serves() {
				return Strike{Err: errors.New("held up")}
			}
			if p.Host == "c" && p.Kind == kindCreateData {
				return Strike{Err: errors.New("held up")}
			}
			return Strike{}
		})
		w.Spec(spec(3))
		w.Until("two founders serve", time.Minute, func() bool { return w.serves() && w.Acked() > 5 })
		w.Split([]*machine{w.Host("a"), w.Host("b")}, []*machine{w.Host("c")}, daemons, members)
		w.CutStore(w.Host("a"))
		w.CutStore(w.Host("b"))
		w.OnPoint(nil)
		w.Add("d")
		w.Add("e")
		w.Split([]*machine{w.Host("a"), w.Host("b")}, []*machine{w.Host("d"), w.Host("e")}, daemons, members)
		w.run(3 * time.Minute)
		w.Heal()
		w.Await(3, soonEnough)
	})
}

// TestRule13FoundingThatCannotServe: its founders but one are gone before they
// started; the rest promise and found again.
func TestRule13FoundingThatCannotServe(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.OnPoint(func(p Point) Strike {
			if p.Kind == kindCreateData {
				return Strike{Err: errors.New("disk full")}
			}
			return Strike{}
		})
		for _, n := range []string{"a", "b", "c"} {
			w.Add(n)
		}
		w.Spec(spec(3))
		w.Until("the intent is written", time.Minute, func() bool { return w.recorded() != nil })
		w.Leave(w.Host("a"))
		w.Add("d")
		w.Add("e")
		w.run(20 * time.Second)
		w.Leave(w.Host("b"))
		w.run(20 * time.Second)
		w.OnPoint(nil)
		w.Load(100 * time.Millisecond)
		w.run(time.Minute)
		if w.recorded().Generation == 1 && !w.serves() {
			w.tracef("", "one founder of three is left, whose promise is not enough: a person decides")
		}
	})
}

// TestRule18MarkerLost: hosts write back what the store lost.
func TestRule18MarkerLost(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c", "d")
		if err := w.store.Delete(w.ctx, intentKey); err != nil {
			w.violate("delete the marker: %v", err)
		}
		w.Until("the marker is back", time.Minute, func() bool {
			_, err := w.store.Get(w.ctx, intentKey, blob.GetOptions{})
			return err == nil
		})
		w.Await(3, time.Minute)
	})
}

// TestRule18MarkerLostWhileAllAreDown: the daemons come back to an empty
// store, and found nothing.
func TestRule18MarkerLostWhileAllAreDown(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c", "d")
		for _, m := range w.hosts() {
			w.Halt(m)
		}
		if err := w.store.Delete(w.ctx, intentKey); err != nil {
			w.violate("delete the marker: %v", err)
		}
		w.Start(w.Host("d")) // which carries nothing
		w.run(3 * time.Second)
		for _, m := range w.hosts() {
			w.Start(m)
			w.run(700 * time.Millisecond)
		}
		w.Await(3, soonEnough)
	})
}

// TestRule19NoConditionalWrites: through such a store nobody founds unless the
// spec names the hosts, and then by a majority of them.
func TestRule19NoConditionalWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []memory.Conditions{memory.Ignore, memory.Refuse} {
		inWorld(t, Options{Conditions: c}, func(w *World) {
			ms := []*machine{w.Place("a"), w.Place("b"), w.Place("c"), w.Place("d")}
			w.Split(ms[:2], ms[2:], daemons, members)
			w.Spec(spec(3))
			for _, m := range ms {
				w.Start(m)
			}
			w.run(3 * time.Minute)
			if w.serves() {
				w.violate("a cluster was founded through a store that cannot keep it unique")
			}
		})
		named := spec(3)
		named.Hosts = []cluster.HostID{"a", "b", "c", "d"}
		inWorld(t, Options{Conditions: c, Static: &named}, func(w *World) {
			ms := []*machine{w.Place("a"), w.Place("b"), w.Place("c"), w.Place("d")}
			w.Split(ms[:2], ms[2:], daemons, members)
			for _, m := range ms {
				w.Start(m)
			}
			w.run(time.Minute)
			if w.serves() {
				w.violate("half of the named hosts founded a cluster")
			}
			w.Heal()
			w.Load(100 * time.Millisecond)
			w.Await(3, soonEnough)
		})
	}
}

// TestRule19AStoreOfItsOwn: a host whose store lacks what the voters remember
// does not lead, and does no harm.
func TestRule19AStoreOfItsOwn(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		for _, n := range []string{"b", "c", "d"} {
			w.Add(n)
		}
		w.Spec(spec(3))
		w.Load(100 * time.Millisecond)
		w.Await(3, soonEnough)
		a := w.Place("a") // the lowest, so it would lead
		a.store.Store(memory.New())
		w.Start(a)
		w.run(time.Minute)
		if l := w.leader(); l == a {
			w.violate("a host leads whose store lacks the intent")
		}
		a.store.Store(nil)
		w.Await(3, soonEnough)
	})
}

// TestRule21DataOfOthersIsLeftAlone: a host with the data of another cluster
// is not used, and the data stays.
func TestRule21DataOfOthersIsLeftAlone(t *testing.T) {
	t.Parallel()
	var foreign *dir
	inWorld(t, Options{}, func(w *World) {
		w.formed(1, "a")
		foreign = w.Host("a").disk.dirs[w.recorded().Token]
	})
	inWorld(t, Options{Seed: 2}, func(w *World) {
		c := w.Place("c")
		c.disk.dirs["other"] = &dir{token: "other", mark: "other-disk", data: foreign.data}
		w.Start(c)
		for _, n := range []string{"a", "b"} {
			w.Add(n)
		}
		w.Spec(spec(3))
		w.Load(100 * time.Millisecond)
		w.run(2 * time.Minute)
		if c.disk.dirs["other"] == nil || len(c.disk.aside) > 0 || c.running() != nil {
			w.violate("the data of another cluster was touched")
		}
		if voters, _ := w.voters(); len(voters) != 2 {
			w.violate("%d voters on the two hosts that are free", len(voters))
		}
	})
}

// TestRule23FullDisk: what could not be written is not told and not done.
func TestRule23FullDisk(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		w.formed(3, "a", "b", "c", "d")
		full := w.raftLeader()
		w.OnPoint(func(p Point) Strike {
			if p.Host == full.ID() && (p.Kind == kindSave || p.Kind == kindCreateData) {
				return Strike{Err: errors.New("no space left on device")}
			}
			return Strike{}
		})
		w.KillDaemon(w.leader())
		w.run(30 * time.Second)
		for _, m := range w.hosts() {
			w.Start(m)
		}
		w.run(time.Minute)
		w.OnPoint(nil)
		// A daemon that could not make its state at all has to be started anew.
		for _, m := range w.hosts() {
			w.KillDaemon(m)
			w.Start(m)
		}
		w.Await(3, soonEnough)
	})
}

// TestRule23SaveThatFailedMayHaveWorked: the state is on the disk, and the
// host was told that it is not.
func TestRule23SavesFailNowAndThen(t *testing.T) {
	t.Parallel()
	inWorld(t, Options{}, func(w *World) {
		n := 0
		w.OnPoint(func(p Point) Strike {
			if n++; p.Kind == kindSave && n%3 == 0 || p.Kind == kindSpawn && strings.Contains(p.String(), "before") && n%2 == 0 {
				return Strike{Err: errors.New("input/output error")}
			}
			return Strike{}
		})
		for _, name := range []string{"a", "b", "c"} {
			w.Add(name)
		}
		w.Spec(spec(3))
		w.Load(100 * time.Millisecond)
		w.run(3 * time.Minute)
		w.OnPoint(nil)
		for _, m := range w.hosts() {
			w.KillDaemon(m)
			w.Start(m)
		}
		w.Await(3, soonEnough)
	})
}

package manager

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
)

// readOnly is a store that can be read, and for now not be written.
type readOnly struct {
	blob.Store
	now atomic.Bool
}

func (s *readOnly) Put(ctx context.Context, key string, r io.Reader, c blob.Condition) (blob.ETag, error) {
	if s.now.Load() {
		return "", errors.New("read-only file system")
	}
	return s.Store.Put(ctx, key, r, c)
}

// A store that can be read and takes no writes is told of once that lasts, and no longer
// than it does.
func TestStoreThatTakesNoWritesIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		store := &readOnly{Store: w.store}
		a := w.add("a", func(o *Options) {
			o.Control, o.Seeds = control.New(store, clusterName), seeds{"a"}
			o.Planner = func(plan.Goal, *cluster.Observation) plan.Decision {
				return plan.Decision{Rule: "test", Reason: plan.Say("something new {number}", int(time.Now().UnixNano()))}
			}
		})
		w.run(a)
		w.untilLeads(time.Minute, "a")
		told := func() string {
			if o := a.Status().Observation; o != nil {
				return o.Store.Unwritten
			}
			return ""
		}
		time.Sleep(20 * time.Second)
		if why := told(); why != "" {
			t.Fatalf("a store that takes writes: %s", why)
		}
		store.now.Store(true)
		time.Sleep(5 * time.Second)
		if why := told(); why != "" {
			t.Errorf("it is told after 5 s: %s", why)
		}
		w.until(30*time.Second, "it is told", func() bool { return strings.Contains(told(), "read-only file system") })
		if why := told(); !strings.HasPrefix(why, "the status (") || strings.Contains(why, "voters") {
			t.Errorf("nothing but the status was refused: %s", why)
		}
		w.store.Inject(func(context.Context, memory.Call) memory.Fault {
			return memory.Fault{Err: errors.New("connection reset")}
		})
		w.until(30*time.Second, "it cannot be read", func() bool { return !a.Status().Observation.Store.Read })
		if why := told(); why != "" {
			t.Errorf("of a store that cannot be read: %s", why)
		}
		w.store.Inject(nil)
		w.until(time.Minute, "it is told again", func() bool { return told() != "" })
		store.now.Store(false)
		w.until(30*time.Second, "it is told no more", func() bool { return told() == "" })
	})
}

// What is told is why the store refuses now, with what helps: another reason takes the
// place of the first one once it comes twice, and words that come once do not. Where none
// comes twice the first one is not told for ever.
func TestWhyAStoreTakesNoWritesIsTheLatest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		refuse := func(words string) {
			a.report.Wrote("status", "cannot write", &control.NotTakenError{Err: &blob.Error{Op: "use", Object: "store", Err: errors.New(words), Advice: "do this about " + words}})
		}
		told := func(want string) {
			t.Helper()
			if is := a.report.NotWritten(true); is != "the status (use store: "+want+"; do this about "+want+")" {
				t.Errorf("told %q, want %q", is, want)
			}
		}
		refuse("denied")
		time.Sleep(unwrittenAfter)
		told("denied")
		refuse("broken once")
		told("denied")
		refuse("denied") // still
		refuse("request 1 failed")
		refuse("request 2 failed")
		told("denied")
		time.Sleep(unwrittenAfter)
		refuse("denied")
		refuse("request 3 failed")
		told("denied")
		time.Sleep(unwrittenAfter)
		refuse("request 4 failed")
		told("request 4 failed")
		refuse("request 5 failed")
		told("request 4 failed")
		refuse("full")
		refuse("full")
		told("full")
	})
}

// slow is a store that answers no write in time, whether it takes it or not.
type slow struct {
	blob.Store
	takes, now atomic.Bool
}

func (s *slow) Put(ctx context.Context, key string, r io.Reader, c blob.Condition) (blob.ETag, error) {
	if !s.now.Load() {
		return s.Store.Put(ctx, key, r, c)
	}
	if s.takes.Load() {
		if _, err := s.Store.Put(ctx, key, r, c); err != nil {
			return "", err
		}
	}
	<-ctx.Done()
	return "", ctx.Err()
}

// A write that was not answered in time is looked for: one that is in the store was taken,
// and of one that is not it is told that this is not known.
func TestWriteThatTimesOutIsLookedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		store := &slow{Store: w.store}
		a := w.add("a", func(o *Options) {
			o.Control, o.Seeds = control.New(store, clusterName), seeds{"a"}
			o.Planner = func(plan.Goal, *cluster.Observation) plan.Decision {
				return plan.Decision{Rule: "test", Reason: plan.Say("something new {number}", int(time.Now().UnixNano()))}
			}
		})
		w.run(a)
		w.untilLeads(time.Minute, "a")
		told := func() string {
			if o := a.Status().Observation; o != nil {
				return o.Store.Unwritten
			}
			return ""
		}
		w.until(time.Minute, "the store is read", func() bool { o := a.Status().Observation; return o != nil && o.Store.Read })
		store.takes.Store(true)
		store.now.Store(true)
		for range 60 {
			if time.Sleep(time.Second); strings.Contains(told(), "the status") {
				t.Fatalf("of a status that is in the store: %s", told())
			}
		}
		store.takes.Store(false)
		w.until(time.Minute, "it is told", func() bool { return strings.Contains(told(), "the status (whether it was written is not known: ") })
	})
}

// A store that did not answer at all, and answers again, is not said to take no writes
// for those that failed meanwhile.
func TestStoreThatIsBackTakesWrites(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		if _, err := a.o.Control.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.store.Inject(func(context.Context, memory.Call) memory.Fault {
			return memory.Fault{Err: errors.New("connection reset")}
		})
		a.report.Wrote("record", "cannot write", &control.NotTakenError{Err: errors.New("connection reset")})
		time.Sleep(unwrittenAfter)
		if l := a.watch.look(t.Context(), true); l.view.Read || l.view.Unwritten != "" {
			t.Errorf("it does not answer: %+v", l.view)
		}
		w.store.Inject(nil)
		if l := a.watch.look(t.Context(), true); !l.view.Read || l.view.Unwritten != "" {
			t.Errorf("it is back: %+v", l.view)
		}
	})
}

// What nobody writes any more, what failed before the store was asked to take it, and
// what another term wrote are nothing that the store does not take.
func TestOnlyWritesThatTheStoreRefusedCount(t *testing.T) {
	ctx, refused := t.Context(), errors.New("read-only file system")
	progress := recording{cluster: 5, progress: cluster.Progress{Revision: 7, Term: 2, Index: 10}}
	write := func(a *node) { var none recording; a.report.writeRecord(ctx, &none) }
	intents := func(in *cluster.Intent) func(*world, *node) {
		return func(_ *world, a *node) {
			(&term{m: a.Manager, fence: newFencing("a", cluster.Fence{}, a.o.Rand)}).writeIntent(ctx, &plan.IntentChange{Create: in}, look{})
		}
	}
	reads := func(s *memory.Store, err error) {
		s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if c.Op == memory.Get {
				return memory.Fault{Err: err}
			}
			return memory.Fault{}
		})
	}
	for what, c := range map[string]struct {
		refuses bool // all writes
		do      func(*world, *node)
		left    string // the topics
	}{
		"a record that is refused":       {true, func(_ *world, a *node) { write(a) }, "record"},
		"an intent that is refused":      {true, intents(intent()), "intent"},
		"a record that cannot be read":   {false, func(w *world, a *node) { reads(w.store, refused); write(a) }, ""},
		"a record that is damaged":       {false, func(w *world, a *node) { w.put("control/etcdadm-record.json", "{"); write(a) }, ""},
		"an intent that is empty":        {true, intents(nil), ""},
		"an intent that says nothing":    {true, intents(&cluster.Intent{Generation: 1, Nonce: "n"}), ""},
		"no cluster after a record":      {true, func(_ *world, a *node) { write(a); a.report.recording.cluster = 0; write(a) }, ""},
		"another's store after a record": {true, func(_ *world, a *node) { write(a); a.watch.last.foreign = true; write(a) }, ""},
		"no news after a status": {true, func(_ *world, a *node) {
			a.report.Publish(&cluster.Observation{}, plan.Decision{}, time.Now(), true)
			a.report.writeStatus(ctx)
			a.report.recording.news = false
			a.report.writeStatus(ctx)
		}, ""},
		"the end of a term": {true, func(_ *world, a *node) { write(a); a.report.Ended() }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			store := &readOnly{Store: w.store}
			a := w.add("a", func(o *Options) { o.Control = control.New(store, clusterName) })
			a.report.recording = progress
			store.now.Store(c.refuses)
			c.do(w, a)
			if left := strings.Join(slices.Sorted(maps.Keys(a.report.unwritten)), " "); left != c.left {
				t.Errorf("not taken: %q, want %q: %v", left, c.left, a.report.unwritten)
			}
		})
	}
}

// Of a store that took no writes from the start nobody knows what it can do: it is told
// in its own words.
func TestStoreThatCannotBeTriedOutSaysWhy(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		store := &readOnly{Store: w.store}
		store.now.Store(true)
		a := w.add("a", func(o *Options) { o.Control, o.Seeds = control.New(store, clusterName), seeds{"a"} })
		w.run(a)
		w.untilLeads(time.Minute, "a")
		w.until(30*time.Second, "it is told why", func() bool {
			o := a.Status().Observation
			return o != nil && !o.Store.Read && len(o.Gaps) == 1 && strings.Contains(o.Gaps[0].Detail, "read-only file system")
		})
		store.now.Store(false)
		w.until(30*time.Second, "it is tried out", func() bool { o := a.Status().Observation; return o.Store.Read && len(o.Gaps) == 0 })
	})
}

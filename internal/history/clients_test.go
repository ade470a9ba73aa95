package history

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"etcdadm.io/internal/testetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// record is a run of some seconds on a real cluster of three, in which members are killed and stand still.
func record(t *testing.T) *Clients {
	t.Helper()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Members: 3})
	var endpoints []string
	for _, m := range c.Members {
		endpoints = append(endpoints, m.ClientURL)
	}
	clients, err := Start(t.Context(), Config{Endpoints: endpoints, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Stop()
	more := func(n int) {
		t.Helper()
		from, _ := clients.Counts()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if now, _ := clients.Counts(); now >= from+n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no %d more operations within a minute", n)
			}
		}
	}
	more(200)
	for i := range c.Members {
		healed := clients.Fault("kill member " + c.Members[i].Name)
		if err := c.Kill(t.Context(), i, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		more(50)
		if err := c.Restart(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		healed()
		more(50)
	}
	healed := clients.Fault("member 1 stands still")
	if err := c.Kill(t.Context(), 1, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	more(100)
	if err := c.Kill(t.Context(), 1, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	healed()
	more(100)
	return clients
}

// What a real etcd does while its members are killed one after the other is as it promises; and what was seen can be kept
// and checked again.
func TestRealEtcd(t *testing.T) {
	clients := record(t)
	clients.Stop()
	report := clients.Check()
	t.Log(report)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Acknowledged < 500 || report.Watches != 6 || report.Events < 500 || report.Leases == 0 {
		t.Errorf("too little was seen: %s", report)
	}
	path := filepath.Join(t.TempDir(), "history.json")
	if err := clients.History().Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if was, is := report.String(), Check(again).String(); was != is {
		t.Errorf("checked again it is %s, and was %s", is, was)
	}
	spoilAnywhere(t, again)
}

// spoilAnywhere: what was seen of a real etcd, spoiled in one place each, anywhere: the checker finds every one of them.
func spoilAnywhere(t *testing.T, h History) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	some := func(fits func(i int, o Operation) bool) int {
		var all []int
		for i, o := range h.Operations {
			if fits(i, o) {
				all = append(all, i)
			}
		}
		if len(all) == 0 {
			t.Fatal("the history has nothing of the kind")
		}
		return all[random.IntN(len(all))]
	}
	for range 10 {
		for name, spoil := range map[string]func(x *History){
			"a stale read": func(x *History) {
				i := some(func(i int, o Operation) bool { return o.Kind == Get && o.Found && earlier(h, i) >= 0 })
				was := h.Operations[earlier(h, i)]
				x.Operations[i].Read, x.Operations[i].Mod = was.Value, was.Revision
			},
			"a lost write": func(x *History) {
				i := some(func(_ int, o Operation) bool { return o.Kind == Put && o.wrote() })
				for w := range x.Watches {
					x.Watches[w].Events = slices.DeleteFunc(slices.Clone(x.Watches[w].Events), func(e Event) bool { return e.Revision == x.Operations[i].Revision })
				}
			},
			"an event is skipped": func(x *History) {
				events := slices.Clone(x.Watches[0].Events)
				i := random.IntN(len(events) - 1)
				x.Watches[0].Events = slices.Delete(events, i, i+1)
			},
			"an event is told twice": func(x *History) {
				events := slices.Clone(x.Watches[2].Events)
				i := random.IntN(len(events))
				x.Watches[2].Events = slices.Insert(events, i, events[random.IntN(i+1)])
			},
			"a revision goes back": func(x *History) {
				i := some(func(i int, o Operation) bool {
					return o.Error == "" && o.Revision > 200 && i > 100 && o.Return-o.Call < slow
				})
				x.Operations[i].Revision -= 100
			},
			"a write twice": func(x *History) {
				i := some(func(_ int, o Operation) bool { return o.Kind == CAS && o.wrote() })
				o := x.Operations[i]
				x.Watches[1].Events = append(slices.Clone(x.Watches[1].Events), Event{At: o.Return, Revision: x.FinalRevision + 1, Key: o.Key, Value: o.Value})
			},
		} {
			x := h
			x.Operations, x.Watches = slices.Clone(h.Operations), slices.Clone(h.Watches)
			spoil(&x)
			if Check(x).Err() == nil {
				t.Errorf("not found: %s", name)
			}
		}
	}
}

// earlier is a write of the same key that was overwritten before an operation was called; -1: none.
func earlier(h History, i int) int {
	o := h.Operations[i]
	before := func(p Operation) bool { return p.Key == o.Key && p.wrote() && p.Return < o.Call }
	return slices.IndexFunc(h.Operations, func(p Operation) bool {
		return before(p) && p.Value != "" && slices.ContainsFunc(h.Operations, func(q Operation) bool { return before(q) && q.Revision > p.Revision })
	})
}

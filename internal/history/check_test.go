package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// ordinary is a history in which all is as promised: three clients in turn, two watchers, one lease.
func ordinary() History {
	h := History{Prefix: "p/", Seed: 1}
	revision, at := int64(10), int64(0)
	state := map[string]Event{}
	for i := range 60 {
		at += 5 * ms
		k := fmt.Sprintf("p/%d", i%3)
		o := Operation{Client: i % 4, Key: k, Call: at, Return: at + 3*ms}
		is, there := state[k]
		switch i % 5 {
		case 0, 1:
			o.Kind, o.Value = Put, fmt.Sprint("v", i)
		case 2:
			o.Kind, o.Value, o.Expect, o.Done = CAS, fmt.Sprint("v", i), is.Revision, true
		case 3:
			o.Kind, o.Found, o.Read, o.Mod = Get, there, is.Value, is.Revision
		case 4:
			o.Kind, o.Done = Delete, there
		}
		if o.wrote() {
			revision++
			state[k] = Event{Revision: revision, Key: k, Value: o.Value}
			if o.Kind == Delete {
				delete(state, k)
			}
			h.events(Event{At: at + 4*ms, Revision: revision, Key: k, Value: o.Value, Deleted: o.Kind == Delete})
		}
		o.Revision = revision
		h.Operations = append(h.Operations, o)
	}
	for _, k := range slices.Sorted(maps.Keys(state)) {
		h.Final = append(h.Final, state[k])
	}
	h.FinalRevision = revision
	h.Leases = []Lease{{ID: 1, Key: "p/lease", TTL: 5, Renewed: []int64{10 * ms, 1000 * ms}, Held: 20 * ms, Missed: []Span{{From: 6000 * ms, To: 6010 * ms}}}}
	return h
}

func (h *History) events(e Event) {
	if h.Watches == nil {
		h.Watches = []Watch{{Name: "one", From: 11}, {Name: "two", From: 11}}
	}
	for i := range h.Watches {
		h.Watches[i].Events = append(h.Watches[i].Events, e)
		h.Watches[i].Reached = e.Revision
	}
}

// find is the first operation that fits.
func (h *History) find(fits func(Operation) bool) *Operation {
	i := slices.IndexFunc(h.Operations, fits)
	return &h.Operations[i]
}

// Each way in which a store can break its word is found, whoever else tells of it; and what is allowed is not taken for one.
func TestFindings(t *testing.T) {
	laterPut := func(o Operation) bool { return o.Kind == Put && o.Call > 100*ms }
	for _, x := range []struct {
		name  string
		spoil func(h *History)
		want  []string // kinds of findings, all of them
	}{
		{"nothing", func(*History) {}, nil},
		{"a lost write that watches tell", func(h *History) { // of the last one of a key
			e := &h.Final[0]
			e.Revision, e.Value = h.Operations[0].Revision, h.Operations[0].Value
			e.Key = h.Operations[0].Key
		}, []string{"an acknowledged write is lost"}},
		{"a lost write that nobody else saw", func(h *History) {
			lost := h.find(laterPut)
			h.forget(lost.Revision)
		}, []string{"an event is missing"}},
		{"all that is left of a key is gone", func(h *History) {
			h.Final = h.Final[1:]
		}, []string{"an acknowledged write is lost"}},
		{"a stale read", func(h *History) {
			// The header is as of now, and the value is of before: what a read that is not linearizable gives.
			o := h.find(func(o Operation) bool { return o.Kind == Get && o.Found })
			early := h.find(func(p Operation) bool { return p.wrote() && p.Key == o.Key && p.Value != "" && p.Value != o.Read })
			o.Read, o.Mod = early.Value, early.Revision
		}, []string{"no order"}},
		{"a stale read with its old header", func(h *History) {
			o := h.find(func(o Operation) bool { return o.Kind == Get && o.Found && o.Call > 100*ms })
			o.Found, o.Read, o.Mod, o.Revision = false, "", 0, 10
		}, []string{"a revision goes back", "no order"}},
		{"a deleted key is read", func(h *History) {
			o := h.find(func(o Operation) bool { return o.Kind == Get && o.Found })
			o.Found, o.Read, o.Mod = false, "", 0
		}, []string{"no order"}},
		{"an event is told twice", func(h *History) {
			w := &h.Watches[0]
			w.Events = slices.Insert(w.Events, 7, w.Events[6])
		}, []string{"an event twice"}},
		{"an old event is told again after a resume", func(h *History) {
			w := &h.Watches[0]
			w.Events = slices.Insert(w.Events, 7, w.Events[3])
		}, []string{"an event twice"}},
		{"an event is skipped", func(h *History) {
			w := &h.Watches[1]
			w.Events = slices.Delete(w.Events, 7, 8)
		}, []string{"an event is missing"}},
		{"an event is skipped that etcd said to be compacted", func(h *History) {
			w := &h.Watches[1]
			r := w.Events[7].Revision
			w.Events = slices.Delete(w.Events, 7, 8)
			w.Gaps = []Gap{{From: r, To: r + 1}}
		}, nil},
		{"events change places", func(h *History) {
			e := h.Watches[0].Events
			e[5], e[6] = e[6], e[5]
		}, []string{"events out of order"}},
		{"a promise is broken", func(h *History) {
			w := &h.Watches[0]
			w.Promises = []Promise{{After: 5, Revision: w.Events[8].Revision}}
		}, []string{"an event after a promise"}},
		{"a promise is kept", func(h *History) {
			w := &h.Watches[0]
			w.Promises = []Promise{{After: 5, Revision: w.Events[4].Revision}}
		}, nil},
		{"a watch tells another value", func(h *History) {
			h.Watches[0].Events[9].Value = h.Watches[0].Events[0].Value
		}, []string{"nobody's write", "watches differ"}},
		{"a watch tells what nobody wrote", func(h *History) {
			h.Watches[0].Events[9].Value = "x"
		}, []string{"nobody's write", "watches differ"}},
		{"a revision goes back", func(h *History) {
			o := h.find(laterPut)
			was := o.Revision
			o.Revision = 11 - 1
			h.renumber(was, o.Revision)
		}, []string{"a revision goes back", "no order"}},
		{"a revision is given twice", func(h *History) {
			o := h.find(laterPut)
			next := h.find(func(p Operation) bool { return p.Kind == Put && p.Revision > o.Revision })
			next.Revision = o.Revision
		}, []string{"a revision goes back", "a revision twice", "carried out twice", "watches differ"}},
		{"a compare-and-swap is carried out twice", func(h *History) {
			o := h.find(func(o Operation) bool { return o.Kind == CAS })
			h.events(Event{At: h.Operations[59].Return, Revision: h.FinalRevision + 1, Key: o.Key, Value: o.Value})
			h.FinalRevision++
		}, []string{"carried out twice"}},
		{"two compare-and-swaps of one revision succeed", func(h *History) {
			o := h.find(func(o Operation) bool { return o.Kind == CAS && o.Call > 100*ms })
			o.Expect = h.find(func(p Operation) bool { return p.wrote() && p.Key == o.Key && p.Value != "" }).Revision
		}, []string{"no order"}},
		{"a compare-and-swap is refused although it holds", func(h *History) {
			o := h.find(func(o Operation) bool { return o.Kind == CAS })
			r := o.Revision
			o.Done, o.Revision = false, r
			o.Found = false
			h.forget(r)
			for i := range h.Operations { // nobody saw it
				if p := &h.Operations[i]; p.Mod == r {
					*p = Operation{Kind: Get, Key: "p/other", Call: p.Call, Return: p.Return, Revision: p.Revision}
				}
			}
		}, []string{"an event is missing", "no order"}},
		{"a write without an answer that happened", func(h *History) {
			o := h.find(laterPut)
			o.Error, o.Revision = "time-out", 0
		}, nil},
		{"a write without an answer that did not happen", func(h *History) {
			h.Operations = append(h.Operations, Operation{Kind: Put, Key: "p/0", Value: "never", Call: 20 * ms, Return: 30 * ms, Error: "time-out"})
		}, nil},
		{"a write without an answer that happened after all others had ended", func(h *History) {
			h.Operations = append(h.Operations, Operation{Kind: Put, Key: "p/9", Value: "late", Call: 20 * ms, Return: 30 * ms, Error: "time-out"})
			h.FinalRevision++
			h.events(Event{At: 900 * ms, Revision: h.FinalRevision, Key: "p/9", Value: "late"})
			h.Final = append(h.Final, Event{Revision: h.FinalRevision, Key: "p/9", Value: "late"})
		}, nil},
		{"a write is seen before its call", func(h *History) {
			h.Operations = append(h.Operations, Operation{Client: 9, Kind: Get, Key: "p/8", Found: true, Read: "early", Mod: h.FinalRevision + 1, Revision: h.FinalRevision + 1, Call: 400 * ms, Return: 410 * ms},
				Operation{Kind: Put, Key: "p/8", Value: "early", Revision: h.FinalRevision + 1, Call: 500 * ms, Return: 510 * ms})
			h.FinalRevision++
			h.events(Event{At: 900 * ms, Revision: h.FinalRevision, Key: "p/8", Value: "early"})
			h.Final = append(h.Final, Event{Revision: h.FinalRevision, Key: "p/8", Value: "early"})
		}, []string{"a revision goes back", "no order"}},
		{"a lease ends early", func(h *History) { h.Leases[0].Missed[0] = Span{From: 5900 * ms, To: 5990 * ms} }, []string{"lease ended early"}},
		{"a lease ends early, as a watch tells", func(h *History) {
			h.FinalRevision++
			h.events(Event{At: 5500 * ms, Revision: h.FinalRevision, Key: "p/lease", Deleted: true})
		}, []string{"lease ended early"}},
		{"a lease is given up", func(h *History) {
			h.Leases[0].Revoked = 5000 * ms
			h.FinalRevision++
			h.events(Event{At: 5500 * ms, Revision: h.FinalRevision, Key: "p/lease", Deleted: true})
		}, nil},
		{"a restore drops writes", func(h *History) {
			kept := h.Operations[30].Revision
			h.Resets = []Reset{{From: 400 * ms, To: 500 * ms, Keep: kept}}
			h.FinalRevision += 1000
			h.Final = h.until(kept)
		}, nil},
		{"a restore drops writes that it was to keep", func(h *History) {
			h.Resets = []Reset{{From: 400 * ms, To: 500 * ms, Keep: h.Operations[59].Revision}}
			h.FinalRevision += 1000
			h.Final = h.until(h.Operations[30].Revision)
		}, []string{"an acknowledged write is lost"}},
		{"what could not be asked", func(h *History) { h.Unfinished = []string{"a watch"} }, []string{"unfinished"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			h := ordinary()
			x.spoil(&h)
			report := Check(h)
			var kinds []string
			for _, f := range report.Findings {
				if !slices.Contains(kinds, f.Kind) {
					kinds = append(kinds, f.Kind)
				}
			}
			slices.Sort(kinds)
			if !slices.Equal(kinds, x.want) {
				t.Errorf("found %s, want %s\n%v", strings.Join(kinds, ", "), strings.Join(x.want, ", "), report.Err())
			}
		})
	}
}

// forget takes a revision out of everything but its acknowledgement.
func (h *History) forget(revision int64) {
	for i := range h.Watches {
		h.Watches[i].Events = slices.DeleteFunc(h.Watches[i].Events, func(e Event) bool { return i == 0 && e.Revision == revision })
	}
}

// renumber gives a change another revision wherever it was seen.
func (h *History) renumber(from, to int64) {
	for i := range h.Watches {
		h.Watches[i].Events = slices.DeleteFunc(h.Watches[i].Events, func(e Event) bool { return e.Revision == from })
	}
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Mod == from || o.Expect == from {
			*o = Operation{Kind: Get, Key: "p/other", Call: o.Call, Return: o.Return, Revision: o.Revision}
		}
	}
}

// until is what was there at a revision.
func (h *History) until(revision int64) (out []Event) {
	last := map[string]Event{}
	for _, e := range h.Watches[0].Events {
		if e.Revision <= revision {
			last[e.Key] = e
		}
	}
	for _, e := range last {
		if !e.Deleted {
			out = append(out, e)
		}
	}
	return out
}

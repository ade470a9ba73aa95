package cluster

import (
	"testing"
	"time"
)

// halted is three() with a halt that every host keeps.
func halted(s int) *Observation {
	o := three(s)
	in := &Intent{Name: "test", Generation: 1, State: IntentFounded, Halt: &Halt{ID: "change-1-2", Generation: 1, At: epoch}}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		in.Voters = append(in.Voters, Voter{Host: h.Host, Member: h.Local.Member})
		h.Intent, h.Status, h.View = in, nil, nil
		h.Process = Process{State: ProcessStopped}
		h.Log = &Progress{Term: 2, Index: 5}
	}
	o.Store = StoreView{Read: true, Intent: in}
	return o
}

// TestMissingAtAHalt: who comes and goes is missing from the time when it went; one
// whose log is being read is not, as long as that goes on.
func TestMissingAtAHalt(t *testing.T) {
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	var m Memory
	since := func(o *Observation) time.Time {
		m = folded(m, o)
		return m.MissingSince(o.Intent().Halted())
	}
	reading := func(s int, bytes int64) *Observation {
		o := halted(s)
		o.Hosts[0].Log, o.Hosts[0].Reading = nil, &LogReading{Bytes: bytes, Of: 100}
		return o
	}
	for _, step := range []struct {
		what string
		o    *Observation
		want time.Time
	}{
		{"all are there", halted(0), time.Time{}},
		{"c goes", lose(halted(10), "c", false), at(10)},
		{"c is away", lose(halted(30), "c", false), at(10)},
		{"b goes too", lose(lose(halted(35), "c", false), "b", false), at(10)},
		{"c is back", lose(halted(40), "b", false), at(35)},
		{"all are back", halted(45), time.Time{}},
		{"c goes again", lose(halted(50), "c", false), at(50)},
		{"all are back again", halted(55), time.Time{}},
		{"a log is read", reading(60, 10), at(60)},
		{"further", reading(90, 20), at(90)},
		{"no further", reading(110, 20), at(90)},
		{"from the start", reading(120, 5), at(90)},
		{"further than before", reading(130, 21), at(130)},
		{"a long pause", reading(230, 21), at(230)},
	} {
		if got := since(step.o); !got.Equal(step.want) {
			t.Errorf("%s: missing since %s, want %s", step.what, got, step.want)
		}
	}
	other := lose(halted(235), "c", false)
	other.Intent().Halt.ID = "change-1-9"
	if got := since(other); !got.Equal(at(235)) {
		t.Errorf("of another halt: missing since %s", got)
	}
	other.Intent().Halt.Ended = "nobody wants it"
	if m = folded(m, other); m.Halting.ID != "" {
		t.Errorf("a halt that ended is remembered: %+v", m.Halting)
	}
}

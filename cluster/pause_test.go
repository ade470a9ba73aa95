package cluster

import (
	"testing"
	"time"
)

func TestPauseInForce(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for until, want := range map[time.Duration]bool{
		-time.Second: false, 0: false, time.Second: true, MaxPause: true, MaxPause + pauseSkew: true, MaxPause + pauseSkew + time.Second: false,
	} {
		p := Pause{Host: "a", From: now, Until: now.Add(until)}
		if p.InForce(now) != want {
			t.Errorf("with %s left: in force %t", until, !want)
		}
	}
	if (Pause{Until: now.Add(time.Hour)}).InForce(now) {
		t.Error("of no host")
	}
	if (Pause{Host: "a", Until: now.Add(time.Hour), Ended: true}).InForce(now) {
		t.Error("one that was ended")
	}
}

// Who asks is given a word once; what was asked for and not granted excuses nothing.
func TestPauseAsked(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	asked := Pause{ID: "p", Host: "a", For: time.Hour}
	for name, c := range map[string]struct {
		change               func(*Pause)
		asked, inForce, over bool
	}{
		"asked":          {func(*Pause) {}, true, false, false},
		"granted":        {func(p *Pause) { p.Until = now.Add(time.Hour) }, true, true, false},
		"its time is up": {func(p *Pause) { p.Until = now.Add(-time.Second) }, false, false, true},
		"ended just now": {func(p *Pause) { p.Ended, p.Until = true, now }, false, false, false},
		"ended long ago": {func(p *Pause) { p.Ended, p.Until = true, now.Add(-MaxPause-time.Second) }, false, false, true},
		"for nobody":     {func(p *Pause) { p.ID = "" }, false, false, true},
		"for too long":   {func(p *Pause) { p.For = MaxPause + time.Second }, false, false, true},
		"for no time":    {func(p *Pause) { p.For = 0 }, false, false, true},
	} {
		p := asked
		if c.change(&p); p.Asked(now) != c.asked || p.InForce(now) != c.inForce || p.Over(now) != c.over {
			t.Errorf("%s: asked %t, in force %t, over %t", name, p.Asked(now), p.InForce(now), p.Over(now))
		}
	}
	if got := EndedPauses([]Pause{asked, {ID: "q", Ended: true}, {Ended: true}}); len(got) != 1 || got[0] != "q" {
		t.Errorf("ended: %v", got)
	}
}

// The pause goes by the clock of most hosts, whatever the leader's says.
func TestPauseGoesByMostClocks(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	o := &Observation{At: now.Add(2 * time.Hour), Paused: []Pause{{Host: "b", From: now.Add(-time.Minute), Until: now.Add(time.Minute)}}}
	for _, at := range []time.Time{now.Add(2 * time.Hour), now, now} {
		o.Hosts = append(o.Hosts, HostReport{HostState: HostState{Clock: at}})
	}
	if _, paused := o.PauseOf("b"); !paused || len(o.Pauses()) != 1 {
		t.Error("the leader's clock, which is ahead, ended it")
	}
	if _, paused := o.PauseOf("a"); paused {
		t.Error("a host that nobody paused")
	}
}

// Silence counts from the first look after the pause, whether it ended by itself, was taken
// back, or was seen by another leader.
func TestFoldExcused(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	o := func(s int, paused ...Pause) *Observation { return &Observation{At: at(s), Paused: paused} }
	b := Pause{Host: "b", From: began, Until: at(20)}
	var m Memory
	for _, step := range []struct {
		what string
		o    *Observation
		want time.Time // from when on a silence of b that began at 0 counts
	}{
		{"not paused", o(0), at(0)},
		{"paused", o(7, b), at(7)},
		{"still", o(14, b), at(14)},
		{"over", o(21, b), at(21)},
		{"and on record still", o(28, b), at(21)},
		{"forgotten", o(35), at(21)},
		{"paused again", o(42, Pause{Host: "b", From: at(40), Until: at(100)}), at(42)},
		{"taken back", o(49), at(49)},
		{"long ago", o(56), at(49)},
		{"nobody knows", &Observation{At: at(63), PausesUnread: "no answer"}, at(63)},
		{"known again", o(70), at(70)},
		{"since", o(77), at(70)},
	} {
		m = Fold(m, step.o)
		if got := m.Counts(at(0), "b"); !got.Equal(step.want) {
			t.Errorf("%s: counts from %s, want %s", step.what, got.Sub(began), step.want.Sub(began))
		}
		if got := m.Counts(time.Time{}, "b"); !got.IsZero() {
			t.Errorf("%s: what did not begin counts from %s", step.what, got)
		}
	}
	if got := m.Counts(at(1000), "b"); !got.Equal(at(1000)) {
		t.Errorf("what began after the pause counts from %s", got)
	}
	m = Fold(Memory{}, o(0, b))
	if got := m.Counts(at(-60), "c"); !got.Equal(at(-60)) {
		t.Errorf("another host counts from %s", got)
	}
	late := MaxUnseen + 30*time.Second
	for range 3 * 24 * 60 {
		m = Fold(m, &Observation{At: m.At.Add(30 * time.Second)})
		if m.At.Sub(began) > late {
			break
		}
	}
	if len(m.Excused) != 0 {
		t.Errorf("a day later it is still remembered: %v", m.Excused)
	}
}

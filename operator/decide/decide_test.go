package decide

import (
	"testing"
	"time"
)

// A host is silent from the first fresh words on that do not have it. A pause excuses it; when nobody tells anything the
// count begins anew; a leader that has not yet said whom it hears neither begins nor ends it. One with a quorum says for how long.
func TestSilentSince(t *testing.T) {
	shown := ago("1h")
	runs := Host{Name: "main-1", Running: true, Runs: ago("3h")}
	hears := func(names ...string) *Told {
		told := &Told{At: now, Hosts: []ToldHost{}}
		for _, n := range names {
			told.Hosts = append(told.Hosts, ToldHost{Name: n})
		}
		return told
	}
	paused, old, late, mute := hears("main-2"), hears("main-2"), hears("main-2"), hears()
	paused.Paused, old.At, late.At, mute.Hosts = []string{"main-1"}, ago("20m"), ago("-2m"), nil
	long, cut := hears("main-2"), hears("main-2")
	long.Silent = map[string]time.Duration{"main-1": time.Minute}
	cut.Silent, cut.Blockers = long.Silent, []string{NoQuorum}
	for name, test := range map[string]struct {
		told        *Told
		host        Host
		shown, want time.Time
	}{
		"silent for longer": {long, runs, time.Time{}, ago("1m")},
		"shown for less":    {long, runs, ago("10s"), ago("1m")},
		"shown for longer":  {long, runs, shown, shown},
		"by one cut off":    {cut, runs, time.Time{}, now},
		"runs for less":     {long, Host{Name: "main-1", Running: true, Runs: ago("20s")}, time.Time{}, ago("20s")},
		"runs from later":   {long, Host{Name: "main-1", Running: true, Runs: ago("-20s")}, time.Time{}, now},
		"has no pod":        {long, Host{Name: "main-1", Running: true}, time.Time{}, now},
		"heard":             {hears("main-1"), runs, shown, time.Time{}},
		"begins":            {hears("main-2"), runs, time.Time{}, now},
		"goes on":           {hears("main-2"), runs, shown, shown},
		"does not run":      {hears("main-2"), Host{Name: "main-1"}, shown, time.Time{}},
		"paused":            {paused, runs, shown, time.Time{}},
		"nobody tells":      {old, runs, shown, time.Time{}},
		"from later":        {late, runs, time.Time{}, time.Time{}},
		"mute leader":       {mute, runs, shown, shown},
		"mute, heard":       {mute, runs, time.Time{}, time.Time{}},
		"nothing told":      {nil, runs, shown, time.Time{}},
	} {
		w := &World{Now: now, Told: test.told}
		if got := w.SilentSince(test.host, test.shown); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// What lets go of anything is decided past the cache.
func TestTakes(t *testing.T) {
	for _, k := range []Kind{StopHost, RollHost, DropVolume, EndHost, EndShared, EndRecord, LowerBudget, ClearHost, KeepData, LetGo} {
		if !k.Takes() {
			t.Errorf("%s is decided by the cache alone", k)
		}
	}
}

// A step that is about no host is told without one.
func TestWhatAStepIs(t *testing.T) {
	for want, s := range map[string]Step{"make-record": {Kind: MakeRecord, N: 1}, "make-host main-1": {Kind: MakeHost, N: 1, Host: "main-1"}} {
		if got := s.What(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

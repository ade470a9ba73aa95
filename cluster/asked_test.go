package cluster

import (
	"testing"
	"time"
)

// TestCommandWaits: a command waits from when it was seen first, whatever its own time says,
// or from when something was done for it last.
func TestCommandWaits(t *testing.T) {
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	queued := func(s int, names ...string) *Observation {
		o := three(s)
		for _, n := range names {
			o.Commands = append(o.Commands, Command{Name: n, At: epoch.Add(-time.Hour), Kind: CommandUndo})
		}
		o.Commands = append(o.Commands, Command{Name: "backup", Kind: CommandBackup})
		return o
	}
	staged := func(o *Observation, command string, state StageState) *Observation {
		o.Hosts[0].Staged = &Staged{Command: command, State: state}
		return o
	}
	backup := queued(165, "x")
	backup.Hosts[1].Taken = &Taken{Running: true}
	var m Memory
	for _, step := range []struct {
		what string
		o    *Observation
		want time.Time
	}{
		{"nothing is queued", queued(0), time.Time{}},
		{"it is seen", queued(5, "x"), at(5)},
		{"it waits", queued(20, "x"), at(5)},
		{"so does another one", queued(30, "w", "x"), at(5)},
		{"for which something is made ready", staged(queued(40, "w", "x"), "w", StageBuilding), at(5)},
		{"it is fetched", staged(queued(60, "x"), "x", StageFetching), at(60)},
		{"it is built", staged(queued(90, "x"), "x", StageBuilding), at(90)},
		{"it lies ready", staged(queued(120, "x"), "x", StageReady), at(90)},
		{"it failed", staged(queued(140, "x"), "x", StageFailed), at(90)},
		{"a backup is taken", backup, at(165)},
		{"and has ended", queued(180, "x"), at(165)},
		{"it is gone", queued(190), time.Time{}},
		{"it is there again", queued(200, "x"), at(200)},
		{"after a long time in which nobody looked", queued(300, "x"), at(300)},
	} {
		if m = folded(m, step.o); !m.AskedSince("x").Equal(step.want) {
			t.Errorf("%s: since %s, want %s", step.what, m.AskedSince("x"), step.want)
		}
	}
	if len(m.Asked) != 1 {
		t.Errorf("remembered: %+v", m.Asked)
	}
}

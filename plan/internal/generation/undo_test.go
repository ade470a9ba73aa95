package generation

import (
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
)

// lookAt is the view of a cluster whose newest generation is 3, and of one host.
func lookAt(h cluster.HostReport) *step.View {
	return &step.View{Sight: &sight.Sight{
		Intent: &cluster.Intent{Generation: 3},
		Obs:    &cluster.Observation{Hosts: []cluster.HostReport{h}},
	}}
}

// A host whose member still runs has promised nothing yet, whatever it has written down:
// the member of the generation before takes writes (SAFETY.md, rule 13).
func TestPromisedHostRunsNoFormerMember(t *testing.T) {
	h := cluster.HostReport{HostState: cluster.HostState{Host: "a", LowestGeneration: 3}, UnderFence: true}
	h.Local.Generation = 2
	for state, want := range map[cluster.ProcessState]bool{
		cluster.ProcessStopped: true, cluster.ProcessRunning: false, cluster.ProcessBackoff: false, cluster.ProcessForeign: false,
	} {
		h.Process.State = state
		if got := HasPromised(lookAt(h), &h); got != want {
			t.Errorf("its process is %s: promised %t, want %t", state, got, want)
		}
	}
	h.Process.State, h.Local.Generation = cluster.ProcessRunning, 3
	if !HasPromised(lookAt(h), &h) {
		t.Error("the member that runs is of the new generation: it has promised")
	}
	if h.UnderFence = false; HasPromised(lookAt(h), &h) {
		t.Error("what is said outside of the fence counts as a promise")
	}
}

// An undo is rejected once a generation was made that the person did not see.
func TestUndoIsOfTheGenerationThatWasSeen(t *testing.T) {
	h := cluster.HostReport{HostState: cluster.HostState{Host: "a", SetAside: []cluster.SetAside{{Dir: "trash/x", Generation: 1}}}}
	for seen, want := range map[uint64]bool{0: false, 2: true, 3: false, 4: true} {
		c := cluster.Command{Name: "undo", Kind: cluster.CommandUndo, Host: "a", Dir: "x", Seen: &cluster.Seen{Generation: seen}}
		v := lookAt(h)
		v.Obs.Commands = []cluster.Command{c}
		d := undoAsSeen(v, &c)
		rejected := d != nil && d.Action != nil && d.Action.Kind == decision.ActCommand
		if rejected != want {
			t.Errorf("asked for over generation %d, and 3 is the newest: rejected %t, want %t (%+v)", seen, rejected, want, d)
		}
	}
}

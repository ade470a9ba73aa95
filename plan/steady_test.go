package plan

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
)

// A voter that has just been started is looked at often, and one that takes
// long, or whose process does not run, is not.
func TestAwaited(t *testing.T) {
	for _, c := range []struct {
		what    string
		process cluster.Process
		up      bool
		want    time.Duration
	}{
		{"just started", cluster.Process{State: cluster.ProcessRunning, Uptime: time.Second}, false, decision.Soon},
		{"started long ago", cluster.Process{State: cluster.ProcessRunning, Uptime: sight.StartingFor}, false, decision.Later},
		{"nobody knows when it was started", cluster.Process{State: cluster.ProcessRunning}, false, decision.Later},
		{"dies at each start", cluster.Process{State: cluster.ProcessBackoff, Uptime: time.Second}, false, decision.Later},
		{"up", cluster.Process{State: cluster.ProcessRunning, Uptime: time.Second}, true, decision.Later},
	} {
		v := &sight.Sight{Roster: cluster.Roster{Seats: []cluster.Seat{
			{Member: cluster.Member{ID: 1}}, // its host is out of sight
			{Member: cluster.Member{ID: 2}, Up: c.up, Host: &cluster.HostReport{HostState: cluster.HostState{Process: c.process}}},
		}}}
		if got := sight.Awaited(v); got != c.want {
			t.Errorf("%s: looked at again after %s, want %s", c.what, got, c.want)
		}
	}
}

// A step of a later release is refused, and is not taken for what the daemons do anyway.
func TestAnUnknownStepIsRefused(t *testing.T) {
	d := Next(decision.Goal{Kind: "rename"}, formedSight(t))
	if !d.Refused || !strings.Contains(d.Reason.String(), `does not know the step "rename"`) {
		t.Errorf("%+v", d)
	}
}

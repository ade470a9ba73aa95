package cli

import (
	"io"
	"testing"

	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

// A step whose time is up goes on with what was begun of it, and a program can tell that
// from one of which nothing was.
func TestExitCodeOfAStep(t *testing.T) {
	begun := []manager.GoalStep{{Rule: "test", Reason: "begun"}}
	for _, c := range []struct {
		result manager.GoalResult
		want   int
	}{
		{manager.GoalResult{Outcome: manager.GoalDone, Steps: begun}, ExitOK},
		{manager.GoalResult{Outcome: manager.GoalRefused}, ExitUnsafe},
		{manager.GoalResult{Outcome: manager.GoalExpired, Steps: begun}, ExitWaiting},
		{manager.GoalResult{Outcome: manager.GoalExpired}, ExitError},
		{manager.GoalResult{Outcome: manager.GoalExpired, Steps: begun, Decision: plan.Decision{Refused: true}}, ExitUnsafe},
	} {
		if code := Report(io.Discard, "etcdadm", outcome(c.result)); code != c.want {
			t.Errorf("%s after %d steps: exit code %d, want %d", c.result.Outcome, len(c.result.Steps), code, c.want)
		}
	}
}

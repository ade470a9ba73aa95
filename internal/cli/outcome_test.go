package cli

import (
	"io"
	"strings"
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

// What was not begun does not go on, and is not said to.
func TestStepThatWasNotBegunIsSaidNotToGoOn(t *testing.T) {
	for words, steps := range map[string][]manager.GoalStep{
		"steps already begun continue": {{Rule: "test", Reason: "begun"}},
		"nothing was begun":            nil,
	} {
		var out strings.Builder
		Report(&out, "etcdadm", outcome(manager.GoalResult{Outcome: manager.GoalExpired, Steps: steps}))
		if !strings.Contains(out.String(), words) {
			t.Errorf("after %d steps: %q", len(steps), out.String())
		}
	}
}

package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/peer"
	"etcdadm.io/plan"
)

// leading is a leading daemon that takes people's steps by the decision it is given.
type leading struct {
	answering
	decision plan.Decision
	mu       sync.Mutex // guards wishes
	wishes   []manager.GoalRequest
}

func (l *leading) Goal(_ context.Context, _ peer.Caller, wish json.RawMessage) (json.RawMessage, error) {
	var r manager.GoalRequest
	if err := json.Unmarshal(wish, &r); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.wishes = append(l.wishes, r)
	if p := r.Goal.Pause; p != nil && !r.DryRun && l.report.Observation != nil { // its host carries nothing
		o := *l.report.Observation
		o.Paused = append(o.Paused, cluster.Pause{ID: p.ID, Host: r.Goal.Host})
		l.report.Observation = &o
	}
	l.mu.Unlock()
	outcome := manager.GoalDone
	switch {
	case r.DryRun:
		outcome = manager.GoalPlanned
	case l.decision.Refused:
		outcome = manager.GoalRefused
	}
	return json.Marshal(manager.GoalResult{Outcome: outcome, Leader: "a", Decision: l.decision})
}

func (l *leading) heard() (wishes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.wishes {
		word := w.Goal.String()
		if w.Goal.By != "" {
			word += " by " + string(w.Goal.By)
		}
		if w.DryRun {
			word += " dry"
		}
		wishes = append(wishes, word)
	}
	l.wishes = nil
	return wishes
}

// A step that is refused is refused before a person is asked, and what is asked says what
// comes first.
func TestStepIsAskedAboutAfterItWasPlanned(t *testing.T) {
	l := &leading{}
	at := serveDaemon(t, "test", "a", l)
	l.report = console.Report{Cluster: "test", Host: "a", Leader: "a", Leading: true, Observation: &cluster.Observation{Cluster: "test"}, Contacts: []cluster.Contact{{Host: "a", Endpoint: at}}}
	refused := plan.Decision{Rule: "leave", Reason: plan.Say("host x has no listed member"), Refused: true, Blockers: []plan.Blocker{{Code: "no-such-member", Sentence: plan.Say("host x has no listed member")}}}
	taken := plan.Decision{Rule: "leave", Reason: plan.Say("remove x, as asked")}
	for _, c := range []struct {
		line     string
		decision plan.Decision
		code     int
		asked    []string
		question bool
	}{
		{"member remove x", refused, ExitUnsafe, []string{"leave x dry"}, false},
		{"member remove x --yes", refused, ExitUnsafe, []string{"leave x"}, false},
		{"member remove x --dry-run", refused, ExitUnsafe, []string{"leave x dry"}, false},
		{"member remove x", taken, ExitUnsafe, []string{"leave x dry"}, true},
		{"member replace x", refused, ExitUnsafe, []string{"replace x dry"}, false},
		{"member replace x --by y", taken, ExitUnsafe, []string{"replace x by y dry"}, true},
		{"member replace x --by y --yes", taken, ExitOK, []string{"replace x by y"}, false},
	} {
		l.decision = c.decision
		code, out, errs := runEtcdadm(append(strings.Fields(c.line), "--endpoint="+at, "--cluster-name=test")...)
		if asked := l.heard(); code != c.code || !slices.Equal(asked, c.asked) || strings.Contains(errs, "[y/N]") != c.question || !strings.Contains(out+errs, c.decision.Reason.String()) {
			t.Errorf("%s: exit code %d and %q, want %d and %q, asked %t\n%s%s", c.line, code, asked, c.code, c.asked, c.question, out, errs)
		}
	}
}

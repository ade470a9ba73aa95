package plan

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// worldManual is whether self-management is off, as the store has it and as the leader knows.
type worldManual struct {
	stored, seen *cluster.Manual
	known        bool
	unread       bool // it cannot be read, whatever else can
}

func (w *world) seeManual(o *cluster.Observation) {
	if !w.store.silent && !w.manual.unread {
		w.manual.seen, w.manual.known = w.manual.stored, true
	}
	if o.Manual = w.manual.seen; w.manual.unread && !w.manual.known {
		o.ManualUnknown = "no answer within 2s"
	}
}

// drawManual has self-management off at times, or not known.
func drawManual(t *rapid.T, o *cluster.Observation) {
	if seldom.Draw(t, "manual") {
		o.Manual = &cluster.Manual{Since: o.At}
	}
	if seldom.Draw(t, "manual unknown") {
		o.ManualUnknown = "no answer"
	}
}

func (w *world) writeManual(c *decision.ManualChange) error {
	switch {
	case w.store.silent || w.manual.unread:
		return fmt.Errorf("the store does not answer")
	case !w.manual.stored.Equal(c.Was):
		return fmt.Errorf("it is another word by now")
	}
	w.manual.stored = c.Now
	return nil
}

// offered is what a person types who does all that a decision offers; false: it offers nothing.
func offered(d decision.Decision) (decision.Goal, bool) {
	for _, b := range d.Blockers {
		if d.Action == nil && b.Rule != "" {
			return decision.Goal{Kind: decision.Apply, Rule: b.Rule}, true
		}
	}
	return decision.Goal{}, false
}

func manageOf(t *testing.T, d *datadriven.TestData) *decision.ManageAsked {
	t.Helper()
	return &decision.ManageAsked{On: d.HasArg("on"), By: "root@shell"}
}

// manual: while self-management is off nothing is begun that nobody asked for, and what is
// offered instead begins with the very step.
func (l *laws) manual() {
	if l.o.SelfManaged() {
		for _, b := range l.d.Blockers {
			l.must(b.Rule == "", "the work of rule %s waits although self-management is on", b.Rule)
		}
		return
	}
	if l.goal.Kind != decision.Apply && l.d.Action != nil {
		l.must(l.asked(l.d.Action), "a step that nobody asked for, while self-management is off")
	}
	told := map[string]bool{}
	for _, b := range l.d.Blockers {
		if b.Rule == "" || told[b.Rule] || l.goal.Kind != decision.Converge {
			continue
		}
		told[b.Rule] = true
		d := Next(decision.Goal{Kind: decision.Apply, Rule: b.Rule}, l.o)
		l.must(d.Action != nil && b.Sentence.Facts()["step"] == d.Action.String() && b.Command == "etcdadm apply "+b.Rule, "rule %s would %v, and what is offered does %s", b.Rule, b.Sentence.Facts()["step"], d.Action)
	}
}

// asked: it belongs to what a person wants, and not to what the daemons see.
func (l *laws) asked(a *decision.Action) bool {
	if a.Kind == decision.ActQueue {
		return false
	}
	switch l.d.Rule {
	case "replace-dead": // unless the spec asks for one less
		return l.spec != nil && len(l.roster.Voters()) > l.spec.MemberCount
	case "space", "revive", "fragmentation", "prune":
		return false
	}
	if a.Kind != decision.ActHosts {
		return true
	}
	for _, o := range a.Ops {
		switch o.Op.Kind {
		case cluster.OpBackup:
			if o.Op.Reason == "periodic" {
				return false
			}
		case cluster.OpDrill:
			if l.d.Rule == "backup" {
				return false
			}
		case cluster.OpRestart:
			if o.Guard.Leaderless {
				return false
			}
		case cluster.OpDefragment:
			if l.goal.Kind != decision.Defragment {
				return false
			}
		case cluster.OpDisarm:
			if l.goal.Kind != decision.Disarm {
				return false
			}
		case cluster.OpCompact, cluster.OpPrune:
			return false
		case cluster.OpRemove:
			s, _ := l.roster.Seat(o.Op.Member)
			byHand := l.goal.Kind == decision.Leave || l.goal.Kind == decision.Replace
			if !s.Learner && !byHand && l.spec != nil && len(l.roster.Voters()) <= l.spec.MemberCount {
				return false
			}
		}
	}
	return true
}

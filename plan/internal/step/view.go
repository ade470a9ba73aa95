// Package step has what decisions are made of: one membership call with its record, a
// restart, a hand-over, a removal, a backup. Each asks for itself what has to be true at
// that moment, and gives the decision to wait where that is not so. Which step is taken,
// and when, is for the rules above.
package step

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/words"
)

// View is what a rule looks at: the sight, and the blockers that rules noted on the way to
// their decision.
type View struct {
	*sight.Sight
	// Asides are blockers that do not stop the rule that found them.
	Notices []decision.Blocker
	// Meanwhile is what is being done beside everything else; nil: nothing.
	Meanwhile *decision.Decision
	// Rule is the name of the rule that looks, and Applies of the one whose work a person
	// has done while self-management is off.
	Rule, Applies string
}

// Look makes an observation ready for the rules.
func Look(goal decision.Goal, o *cluster.Observation) *View {
	applies := ""
	if goal.Kind == decision.Apply { // to converge, with that rule let go
		applies, goal.Kind = goal.Rule, decision.Converge
	}
	v := &View{Sight: sight.New(goal, o), Applies: applies}
	if v.Strange != 0 {
		v.Notice("foreign-cluster", "", "the reachable members belong to cluster {cluster}, which lists no founder of generation {generation}; etcdadm leaves them alone", v.Strange, v.Intent.Generation)
	}
	return v
}

// Notice notes a blocker and lets the rules go on.
func (v *View) Notice(code, command, template string, facts ...any) {
	v.Advise(code, "", command, template, facts...)
}

// Advise is Aside where what a person does is no command, or not one alone.
func (v *View) Advise(code, advice, command, template string, facts ...any) {
	v.Notices = append(v.Notices, decision.Blocker{Code: code, Sentence: words.F(template, facts...), Command: command, Advice: advice})
}

// With is the view of the same with another spec. What it notes, it notes for itself.
func (v *View) With(spec *cluster.Spec) *View {
	w, s := *v, *v.Sight
	s.Spec = spec
	w.Sight = &s
	return &w
}

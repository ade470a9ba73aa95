// Package manual turns self-management off and on, and ends what a person has done while it
// is off. What is not done then goes through [step.View.Unasked].
package manual

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Asked writes down whether self-management is off. Nothing is waited for: no repair is made
// while a person's step is at work.
func Asked(v *step.View) *decision.Decision {
	asked, is := v.Goal.Manage, v.Obs.Manual
	if asked == nil {
		return decision.Refuse("manual", "etcdadm auto-manage on", "whether self-management is to be on or off is not said")
	}
	switch known := v.Obs.ManualUnknown == ""; {
	case known && asked.On && is == nil:
		return &decision.Decision{Reason: words.F("self-management is on"), Done: true}
	case known && !asked.On && is != nil:
		return &decision.Decision{Reason: words.F("self-management is off: etcdadm tells what it would do, with the command, and begins nothing by itself"), Done: true}
	case !v.Obs.Store.Read:
		return decision.Refuse("store-silent", "", "the record tells whether self-management is off, and {unread}: ask again when it answers", v.UnreadWords())
	case !known && is == nil:
		return decision.Refuse("manual", "", "whether self-management is off is not known, and is not overwritten: {why}", v.Obs.ManualUnknown)
	}
	change := &decision.ManualChange{Was: is}
	command, reason := "etcdadm auto-manage on", words.F("turn self-management on: etcdadm repairs and looks after the cluster by itself from then on")
	if !asked.On {
		change.Now = &cluster.Manual{Since: asked.From, By: asked.By}
		command, reason = "etcdadm auto-manage off", words.F("turn self-management off: etcdadm begins nothing by itself from then on; what was begun is finished, and a process that crashes starts again")
	}
	p := v.Projection(0, 0)
	return &decision.Decision{Reason: reason, Again: decision.Soon, Action: &decision.Action{Kind: decision.ActManual, Manual: change, Projection: &p, Command: command}}
}

// Applied ends a person's step once the rule that it is about has nothing to do any more.
func Applied(v *step.View) *decision.Decision {
	switch {
	case v.Obs.SelfManaged():
		return &decision.Decision{Reason: words.F("self-management is on: etcdadm does by itself what is to be done"), Done: true}
	case v.Goal.Acted:
		return &decision.Decision{Reason: words.F("rule {rule} has nothing more to do now", v.Applies), Done: true}
	}
	return &decision.Decision{Reason: words.F("rule {rule} has nothing to do", v.Applies), Done: true}
}

// NoSuchRule refuses what names no rule.
func NoSuchRule(v *step.View) *decision.Decision {
	return decision.Refuse("manual", "etcdadm apply", "no rule is called {rule}", v.Applies)
}

package plan

import (
	"slices"

	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/manual"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/pauses"
	"etcdadm.io/plan/internal/record"
	"etcdadm.io/plan/internal/roll"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/upkeep"
)

// rule looks at the view and returns its decision, or nil to let the next
// rule look.
type rule struct {
	name   string
	decide func(*step.View) *decision.Decision
}

const (
	ruleBackup = "backup"
	ruleSteady = "steady"
)

// upkeepRules are those whose work is not for the spec: who waits until the cluster is as it asks need not wait for them.
var upkeepRules = []string{ruleBackup, "pause", "set-aside", "rotate", "tidy", "fragmentation", "compare", "prune"}

// beside: the step of this rule takes nothing from the others, so that what they
// have to say is said with it. Else each backup would take the blockers away for a look.
func (r rule) beside() bool { return r.name == ruleBackup }

// settled says whether nothing is left to be done for the spec, by what a rule decided and, where that is upkeep, by what the
// rules after it would.
func settled(v *step.View, d *decision.Decision, r rule, rest []rule) bool {
	switch {
	case v.Obs.SpecUnheard || v.Spec == nil:
		return false
	case !d.Upkeep && !slices.Contains(upkeepRules, r.name):
		return d.Done && r.name == ruleSteady
	}
	w := *v // what is noted by these is for nobody
	w.Notices = slices.Clip(w.Notices)
	for i, after := range rest {
		w.Rule = after.name
		if d := after.decide(&w); d != nil {
			return settled(&w, d, after, rest[i+1:])
		}
	}
	return false
}

// blockers are those of the first of the rules that has something to say.
func blockers(v *step.View, of []rule) []decision.Blocker {
	for _, r := range of {
		v.Rule = r.name
		if d := r.decide(v); d != nil {
			return d.Blockers
		}
	}
	return nil
}

// The order is policy:
//
//  1. what makes every decision unsafe comes first (wrong cluster, no spec,
//     an intent that does not fit what hosts remember);
//  2. a generation is made or finished: from data when a command asks for it,
//     from nothing when there is no cluster yet;
//  3. without a quorum only restarts in place are left;
//  4. work that somebody began is finished before anything new is begun; a
//     backup that is due is begun before that, since it goes on beside it, and a
//     voter that hangs is restarted before that, since a joiner waits for it;
//  5. repair comes before growth, growth before shrinking, because a repaired
//     and larger cluster bears more;
//  6. members that refuse writes for want of room are cured before any repair,
//     since none of it changes who votes; who holds other keys than the others
//     is found before the dead are replaced, which is how it goes;
//  7. what only makes the cluster nicer comes last, and what nobody needs any
//     more goes when nothing else is to be done.
func rulesFor(v *step.View) []rule {
	rules := rulesOf(v)
	if v.Applies == "" {
		return rules
	}
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].name == v.Applies {
			return after(rules[:i+1], rule{"apply", manual.Applied}) // what comes after it is not asked for
		}
	}
	return []rule{{"apply", manual.NoSuchRule}}
}

func rulesOf(v *step.View) []rule {
	if v.Roster.Running().Downgrade {
		switch v.Goal.Kind {
		case decision.Converge, "":
			return downgradeRules
		case decision.Join, decision.Leave, decision.Replace, decision.Promote, decision.Defragment, decision.Restart, decision.RestartAnyway:
			return notMeanwhileRules
		case decision.MoveLeader, decision.Disarm, decision.Pause, decision.Resume, decision.RotateAuthorities, decision.AutoManage: // these change no member
		case decision.Apply: // it converges
		}
	}
	switch v.Goal.Kind {
	case decision.Join:
		return joinRules
	case decision.Leave:
		return leaveRules
	case decision.Replace:
		return replaceRules
	case decision.Promote:
		return promoteRules
	case decision.MoveLeader:
		return moveLeaderRules
	case decision.Defragment:
		return defragmentRules
	case decision.Disarm:
		return disarmRules
	case decision.Pause:
		return pauseRules
	case decision.Resume:
		return resumeRules
	case decision.RotateAuthorities:
		return rotateRules
	case decision.Restart:
		return restartRules
	case decision.RestartAnyway:
		return restartAnywayRules
	case decision.AutoManage:
		return manageRules
	case decision.Converge, decision.Apply, "":
		return convergeRules
	}
	return unknownRules
}

var (
	baseRules = []rule{
		{"identity", record.Identity},
		{"generation", generation.Decide},
		{"found", generation.Found},
		{"start-second", members.StartSecond},
		{"quorum", members.Quorum},
		{"settle", record.Settle},
		{"pause", pauses.Grant},
		{"count", generation.PutCount},
		{ruleBackup, upkeep.BackUp},
		{"set-aside", record.SetAside},
		{"lift", generation.Lift},
	}
	joinRules    = after(baseRules, rule{"readdress", members.Readdress}, rule{"join", members.Join}, rule{"join", members.FinishJoining}, rule{"join", members.AwaitHost})
	leaveRules   = after(baseRules, rule{"leave", members.Leave})
	replaceRules = after(baseRules, rule{"readdress", members.Readdress}, rule{"space", upkeep.Space}, rule{"revive", members.ReviveHung}, rule{"finish-joining", members.FinishJoining}, rule{"replace", members.ReplaceAsked})
	unknownRules = []rule{{"unknown", func(v *step.View) *decision.Decision {
		return decision.Refuse("unknown-goal", "", "this release of etcdadm does not know the step \"{kind}\": update the daemon that leads", v.Goal.Kind)
	}}}
	promoteRules    = after(baseRules, rule{"promote-one", members.PromoteOne})
	moveLeaderRules = after(baseRules, rule{"move-leader", members.MoveLeader})
	disarmRules     = after(baseRules, rule{"disarm", upkeep.DisarmAsked})
	// A pause touches nobody, so that it waits for nothing, and for what a
	// silent store knows it is refused.
	pauseRules  = []rule{{"identity", record.Identity}, {"pause", pauses.Asked}}
	resumeRules = []rule{{"identity", record.Identity}, {"resume", pauses.ResumeAsked}}
	manageRules = []rule{{"identity", record.Identity}, {"auto-manage", manual.Asked}} // likewise
	// A rotation is written down only, and what it needs of the members the loop does.
	rotateRules  = []rule{{"identity", record.Identity}, {"rotate", roll.RotateAsked}}
	restartRules = after(baseRules, rule{"restart", members.RestartAsked})

	restartAnywayRules = after(baseRules, rule{"restart", members.RestartAnyway})
	// What keeps a defragmentation from being made is mended while a person waits.
	defragmentRules = after(baseRules,
		rule{"defragment", upkeep.DefragmentAsked},
		rule{"tls", roll.TLS},
		rule{"readdress", members.Readdress},
		rule{"space", upkeep.Space},
		rule{"revive", members.ReviveHung},
		rule{"finish-joining", members.FinishJoining},
		rule{"corruption", upkeep.Corruption}, rule{"replace-dead", members.ReplaceDead},
		rule{"promote", members.Promote},
		rule{"grow", members.Grow},
		rule{"defragment-waits", upkeep.DefragmentWaits},
	)
	// While etcd goes down by a line nobody is added or replaced. What clients notice is
	// cured, and what else is wanted of the members goes on where the roll does not.
	downgradeRules = after(baseRules,
		rule{"downgrading", roll.Cancel},
		rule{"downgrading", roll.GiveBack},
		rule{"downgrading", upkeep.Space},
		rule{"downgrading", members.ReviveHung},
		rule{"downgrading", roll.Down},
		rule{"downgrading", upkeep.Corruption},
		rule{"downgrading", roll.TLS},
		rule{"downgrading", members.Readdress},
		rule{"downgrading", roll.Options},
		rule{"downgrading", record.Tidy},
		rule{"downgrading", roll.Held},
	)
	notMeanwhileRules = after(baseRules, rule{"downgrading", roll.NotMeanwhile})
	convergeRules     = after(baseRules,
		rule{"tls", roll.TLS},
		rule{"readdress", members.Readdress},
		rule{"space", upkeep.Space},
		rule{"revive", members.ReviveHung},
		rule{"finish-joining", members.FinishJoining},
		rule{"corruption", upkeep.Corruption},
		rule{"replace-dead", members.ReplaceDead},
		rule{"promote", members.Promote},
		rule{"grow", members.Grow},
		rule{"open-up", generation.OpenUp},
		rule{"move", members.Move},
		rule{"shrink", members.Shrink},
		rule{"rotate", roll.Rotate},
		rule{"converge-version", roll.Version},
		rule{"converge-options", roll.Options},
		rule{"tidy", record.Tidy},
		rule{"fragmentation", upkeep.Defragment},
		rule{"compare", upkeep.Compare},
		rule{"prune", upkeep.Prune},
		rule{ruleSteady, steady},
	)
)

// after is first and then more, in a slice of its own.
func after(first []rule, more ...rule) []rule { return append(slices.Clip(first), more...) }

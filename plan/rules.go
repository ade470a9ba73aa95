package plan

import "slices"

// rule looks at the view and returns its decision, or nil to let the next
// rule look.
type rule struct {
	name   string
	decide func(*view) *Decision
}

const ruleBackup = "backup"

// beside: the step of this rule takes nothing from the others, so that what they
// have to say is said with it. Else each backup would take the blockers away for a look.
func (r rule) beside() bool { return r.name == ruleBackup }

// blockers are those of the first of the rules that has something to say.
func (v *view) blockers(of []rule) []Blocker {
	for _, r := range of {
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
func rulesFor(k GoalKind) []rule {
	switch k {
	case Join:
		return joinRules
	case Leave:
		return leaveRules
	case Replace:
		return replaceRules
	case Promote:
		return promoteRules
	case MoveLeader:
		return moveLeaderRules
	case Defragment:
		return defragmentRules
	case Disarm:
		return disarmRules
	case Pause:
		return pauseRules
	case Resume:
		return resumeRules
	case Restart:
		return restartRules
	case Converge, "":
		return convergeRules
	}
	return unknownRules
}

var (
	baseRules = []rule{
		{"identity", identity},
		{"generation", generation},
		{"found", found},
		{"start-second", startSecond},
		{"quorum", quorum},
		{"settle", settle},
		{"count", putCount},
		{ruleBackup, backUp},
		{"set-aside", setAside},
		{"lift", lift},
		{"downgrading", downgrading},
	}
	joinRules    = after(baseRules, rule{"readdress", readdress}, rule{"join", join})
	leaveRules   = after(baseRules, rule{"leave", leave})
	replaceRules = after(baseRules, rule{"readdress", readdress}, rule{"space", space}, rule{"revive", reviveHung}, rule{"finish-joining", finishJoining}, rule{"replace", replaceAsked})
	unknownRules = []rule{{"unknown", func(v *view) *Decision {
		return refuse("unknown-goal", "", "this release of etcdadm does not know the step %q: update the daemon that leads", v.goal.Kind)
	}}}
	promoteRules    = after(baseRules, rule{"promote-one", promoteOne})
	moveLeaderRules = after(baseRules, rule{"move-leader", moveLeader})
	disarmRules     = after(baseRules, rule{"disarm", disarmAsked})
	// A pause touches nobody, so that it waits for nothing, and for what a
	// silent store knows it is refused.
	pauseRules   = []rule{{"identity", identity}, {"pause", pauseAsked}}
	resumeRules  = []rule{{"identity", identity}, {"resume", resumeAsked}}
	restartRules = after(baseRules, rule{"restart", restartAsked})
	// What keeps a defragmentation from being made is mended while a person waits.
	defragmentRules = after(baseRules,
		rule{"defragment", defragmentAsked},
		rule{"tls", convergeTLS},
		rule{"readdress", readdress},
		rule{"space", space},
		rule{"revive", reviveHung},
		rule{"finish-joining", finishJoining},
		rule{"corruption", corruption}, rule{"replace-dead", replaceDead},
		rule{"promote", promote},
		rule{"grow", grow},
		rule{"defragment-waits", defragmentWaits},
	)
	convergeRules = after(baseRules,
		rule{"tls", convergeTLS},
		rule{"readdress", readdress},
		rule{"space", space},
		rule{"revive", reviveHung},
		rule{"finish-joining", finishJoining},
		rule{"corruption", corruption},
		rule{"replace-dead", replaceDead},
		rule{"promote", promote},
		rule{"grow", grow},
		rule{"open-up", openUp},
		rule{"shrink", shrink},
		rule{"converge-version", convergeVersion},
		rule{"converge-options", convergeOptions},
		rule{"tidy", tidy},
		rule{"fragmentation", defragment},
		rule{"compare", compare},
		rule{"prune", prune},
		rule{"steady", steady},
	)
)

// after is first and then more, in a slice of its own.
func after(first []rule, more ...rule) []rule { return append(slices.Clip(first), more...) }

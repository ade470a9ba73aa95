package plan

// rule looks at the view and returns its decision, or nil to let the next
// rule look.
type rule struct {
	name   string
	decide func(*view) *Decision
}

// The order is policy:
//
//  1. what makes every decision unsafe comes first (wrong cluster, no spec,
//     an intent that does not fit what hosts remember);
//  2. a generation is made or finished: from data when a command asks for it,
//     from nothing when there is no cluster yet;
//  3. without a quorum only restarts in place are left;
//  4. work that somebody began is finished before anything new is begun; a
//     backup that is due is begun before that, since it goes on beside it;
//  5. repair comes before growth, growth before shrinking, because a repaired
//     and larger cluster bears more;
//  6. members that refuse writes for want of room are cured before any repair,
//     since none of it changes who votes; who holds other keys than the others
//     is found before the dead are replaced, which is how it goes;
//  7. what only makes the cluster nicer comes last, and what nobody needs any
//     more goes when nothing else is to be done.
func rulesFor(k GoalKind) []rule {
	base := []rule{
		{"identity", identity},
		{"generation", generation},
		{"found", found},
		{"start-second", startSecond},
		{"quorum", quorum},
		{"settle", settle},
		{"count", putCount},
		{"backup", backUp},
		{"set-aside", setAside},
		{"lift", lift},
		{"downgrading", downgrading},
	}
	switch k {
	case Join:
		return append(base, rule{"readdress", readdress}, rule{"join", join})
	case Leave:
		return append(base, rule{"leave", leave})
	case Promote:
		return append(base, rule{"promote-one", promoteOne})
	case MoveLeader:
		return append(base, rule{"move-leader", moveLeader})
	}
	return append(base,
		rule{"tls", convergeTLS},
		rule{"readdress", readdress},
		rule{"space", space},
		rule{"finish-joining", finishJoining},
		rule{"revive", reviveHung},
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
}

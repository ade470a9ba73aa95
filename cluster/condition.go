package cluster

// Condition is what is wrong with a listed member, or that nothing is, in one
// observation. Every seat has exactly one, and what is done about it stands in one table
// (plan/internal/members/remedies.go).
type Condition string

const (
	// ConditionUp: the host promised this observation's fence, and after that its member
	// answered, healthy and under the listed ID.
	ConditionUp Condition = "up"
	// ConditionAway: no host in sight carries the member.
	ConditionAway Condition = "away"
	// ConditionNeverStarted: the member was added or named a founder and never started,
	// and its host holds what it needs to start it (SAFETY.md, rule 8b).
	ConditionNeverStarted Condition = "never-started"
	// ConditionWiped: its host runs no such member and holds nothing of one. No waiting
	// brings it back (SAFETY.md, rule 4).
	ConditionWiped Condition = "wiped"
	// ConditionUncarried: its host is in sight, does not carry it, and holds or runs
	// something else.
	ConditionUncarried Condition = "uncarried"
	// ConditionUnpromised: its host answers without a promise of this fence.
	ConditionUnpromised Condition = "unpromised"
	// ConditionDiffering: its keys are not those of the other voters, by their
	// majority's word.
	ConditionDiffering Condition = "differing-keys"
	// ConditionVanished: it runs from memory and open files, and its data is gone from
	// the disk.
	ConditionVanished Condition = "data-vanished"
	// ConditionDamaged: etcd ends because it cannot read its data.
	ConditionDamaged Condition = "data-damaged"
	// ConditionGivenUp: its host stopped it for good.
	ConditionGivenUp Condition = "given-up"
	// ConditionUnwritten: its host has started it, and it ended before it wrote a log.
	ConditionUnwritten Condition = "unwritten"
	// ConditionForeign: something that is not its host's holds its data or its ports.
	ConditionForeign Condition = "foreign"
	// ConditionStopped: its process does not run and is not to.
	ConditionStopped Condition = "stopped"
	// ConditionCrashing: its process ends at each start, or did a moment ago.
	ConditionCrashing Condition = "crashing"
	// ConditionRejected: it and other members reject each other's certificates.
	ConditionRejected Condition = "peers-reject"
	// ConditionStarting: its process began a moment ago and answers nothing yet.
	ConditionStarting Condition = "starting"
	// ConditionHung: its process runs and answers its host nothing.
	ConditionHung Condition = "hung"
	// ConditionImpostor: another member answers in its place.
	ConditionImpostor Condition = "impostor"
	// ConditionLeaderless: it answers and sees no raft leader.
	ConditionLeaderless Condition = "leaderless"
	// ConditionUnread: it answers, sees a raft leader, and serves no read through raft.
	ConditionUnread Condition = "unread"
)

// Conditions are all there are, those of a healthy member first.
func Conditions() []Condition {
	return []Condition{
		ConditionUp, ConditionStarting, ConditionNeverStarted, ConditionLeaderless, ConditionUnread, ConditionHung, ConditionCrashing, ConditionStopped,
		ConditionRejected, ConditionUnwritten, ConditionGivenUp, ConditionVanished, ConditionDamaged, ConditionDiffering, ConditionWiped,
		ConditionAway, ConditionUncarried, ConditionUnpromised, ConditionForeign, ConditionImpostor,
	}
}

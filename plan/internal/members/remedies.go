package members

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// A member that is not up is in one condition ([cluster.Condition]). What is done about
// each, how long it has to last before, and what has to be true beside it, stands in the
// table below and nowhere else. The rules ask it ([Needs]) and carry the remedy out.
// A new kind of sick member is a condition, a row, and a scenario.

// Remedy is what is done about a member that is not up.
type Remedy string

const (
	// RemedyReplace: another member takes the voter's place (replace_dead.go).
	RemedyReplace Remedy = "replace"
	// remedyRestart: its process is restarted in place, as it is.
	remedyRestart Remedy = "restart"
	// remedyGiveBack: it is restarted with the release that the others run, or that it
	// ran before (fall_back.go).
	remedyGiveBack Remedy = "give-back"
	// RemedyRemove: the learner is removed, and its host joins anew (finish_joining.go).
	RemedyRemove Remedy = "remove"
)

// row is one line of the table. Of the rows that fit a member's condition the first one
// counts that is due.
type row struct {
	of     seatKind
	in     []cluster.Condition // nil: any but up
	remedy Remedy
	// since is since when what the row is about has lasted; zero: it does not.
	since func(*step.View, cluster.Seat) time.Time
	// after is how long it has to last.
	after func(*step.View, cluster.Seat) time.Duration
	// beside says what keeps the remedy from being taken; empty: nothing.
	beside []func(*step.View, cluster.Seat) string
	// gone: the member is dead and comes back by nothing (SAFETY.md, rule 4).
	gone bool
	why  func(*step.View, cluster.Seat, time.Duration) words.Text
}

type seatKind bool

const (
	voters   seatKind = false
	learners seatKind = true
)

const (
	// VanishedFor is how long a member's data has to be seen gone before it is replaced
	// while it serves.
	VanishedFor = 10 * time.Second
	// DamagedFor is how long etcd has to end because it cannot read its data before the
	// voter is replaced: it has been started a few times by then, and what the first start
	// could not read may have been a slip of the disk's.
	DamagedFor = 10 * time.Second
	// StartGrace is how long a release may take to start on a member before the member is
	// given back the one that it came from.
	StartGrace = 20 * time.Second
	// catchUpPatience is how long a learner may catch up before a person is told, or be
	// sick before it is removed.
	catchUpPatience = 5 * time.Minute
)

var remedies []row

func init() { remedies = table() }

// table is made at the start, since its rows name functions that look remedies up.
func table() []row {
	return []row{
		// A voter whose host lost it is gone at once, one that nobody reaches after
		// --dead-after, whatever its condition.
		{of: voters, in: in(cluster.ConditionWiped), remedy: RemedyReplace, since: silence, after: atOnce, gone: true, why: holdsNoData},
		{of: voters, remedy: RemedyReplace, since: silence, after: deadAfter, gone: true, why: answersNobody},

		// One that serves, or could not come back, goes like a healthy one: while every
		// other voter is up (SAFETY.md, rule 3).
		{of: voters, in: in(cluster.ConditionVanished), remedy: RemedyReplace, since: lasting, after: exactly(VanishedFor), beside: all(othersServe), why: memoryOnly},
		{of: voters, in: in(cluster.ConditionDamaged), remedy: RemedyReplace, since: lasting, after: exactly(DamagedFor), beside: all(noWayBack, othersUp), why: unreadable},
		{of: voters, in: in(cluster.ConditionDiffering), remedy: RemedyReplace, since: lasting, after: atOnce, beside: all(enoughToCompare, soundVotersUp), why: otherKeys},

		// One that starts with another release only.
		{of: voters, in: in(cluster.ConditionCrashing, cluster.ConditionDamaged, cluster.ConditionDiffering), remedy: remedyGiveBack, since: endsAtStarts, after: exactly(StartGrace), why: endsAgainAndAgain},

		// One that hangs does not count as up, and a restart takes nothing from the
		// quorum of those that do (SAFETY.md, rule 2).
		{of: voters, in: in(cluster.ConditionHung, cluster.ConditionRejected, cluster.ConditionDiffering), remedy: remedyRestart, since: withoutLeader, after: restartTurn, beside: all(quorumWithout, answersNothing), why: step.SeesNoLeader},
		{of: learners, in: in(cluster.ConditionHung, cluster.ConditionRejected), remedy: remedyRestart, since: withoutLeader, after: learnerTurn, beside: all(answersNothing), why: step.SeesNoLeader},

		// A learner has no vote: removing one is always safe, and one that never started
		// blocks the next add.
		{of: learners, in: in(cluster.ConditionGivenUp), remedy: RemedyRemove, since: now, after: atOnce, why: hostGaveUp},
		{of: learners, in: in(cluster.ConditionVanished), remedy: RemedyRemove, since: lasting, after: exactly(catchUpPatience), beside: all(runOnce, otherHostFree), why: servesNoMore},
		{of: learners, in: in(cluster.ConditionCrashing, cluster.ConditionDamaged), remedy: RemedyRemove, since: silence, after: exactly(catchUpPatience), beside: all(runOnce, otherHostFree), why: diesAgain},
		{of: learners, in: in(cluster.ConditionUnwritten), remedy: RemedyRemove, since: joining, after: exactly(sight.JoinPatience), why: wroteNoLog},
		{of: learners, in: in(cluster.ConditionWiped), remedy: RemedyRemove, since: now, after: atOnce, why: cannotStart},
		{of: learners, in: in(cluster.ConditionAway, cluster.ConditionUncarried), remedy: RemedyRemove, since: hostless, after: exactly(sight.JoinPatience), why: hasNoHost},
	}
}

// Needs reports whether the remedy is due for a member, and why.
func Needs(v *step.View, s cluster.Seat, r Remedy) (bool, words.Text) {
	return due(v, s, func(x *row) bool { return x.remedy == r })
}

// Dead reports whether a voter is gone for good, and why: its host came back without the
// member and without its data, which is known at once; or every host that could be asked
// has said for the stated time that the member does not answer. A daemon out of sight is
// not a dead member.
func Dead(v *step.View, s cluster.Seat) (bool, words.Text) {
	return due(v, s, func(x *row) bool { return x.gone })
}

func due(v *step.View, s cluster.Seat, asked func(*row) bool) (bool, words.Text) {
	if s.Up {
		return false, words.Text{}
	}
	for i := range remedies {
		r := &remedies[i]
		if !asked(r) || bool(r.of) != s.Learner || r.in != nil && !slices.Contains(r.in, s.Condition) {
			continue
		}
		since := r.since(v, s)
		if since.IsZero() || v.Obs.At.Sub(since) < r.after(v, s) {
			continue
		}
		if slices.ContainsFunc(r.beside, func(keeps func(*step.View, cluster.Seat) string) bool { return keeps(v, s) != "" }) {
			continue
		}
		return true, r.why(v, s, v.Obs.At.Sub(since).Round(time.Second))
	}
	return false, words.Text{}
}

// waits says what keeps a remedy from being taken whose time has come; empty: nothing, or
// it is not due.
func waits(v *step.View, s cluster.Seat, remedy Remedy) string {
	for i := range remedies {
		r := &remedies[i]
		if r.remedy != remedy || bool(r.of) != s.Learner || !slices.Contains(r.in, s.Condition) {
			continue
		}
		for _, keeps := range r.beside {
			if why := keeps(v, s); why != "" {
				return why
			}
		}
	}
	return ""
}

func in(c ...cluster.Condition) []cluster.Condition { return c }

func all(f ...func(*step.View, cluster.Seat) string) []func(*step.View, cluster.Seat) string {
	return f
}

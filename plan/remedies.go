package plan

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// A member that is not up is in one condition ([cluster.Condition]). What is done about
// each, how long it has to last before, and what has to be true beside it, stands in the
// table below and nowhere else. The rules ask it ([view.needs]) and carry the remedy out.
// A new kind of sick member is a condition, a row, and a scenario.

// remedy is what is done about a member that is not up.
type remedy string

const (
	// remedyReplace: another member takes the voter's place (replace_dead.go).
	remedyReplace remedy = "replace"
	// remedyRestart: its process is restarted in place, as it is.
	remedyRestart remedy = "restart"
	// remedyGiveBack: it is restarted with the release that the others run, or that it
	// ran before (fall_back.go).
	remedyGiveBack remedy = "give-back"
	// remedyRemove: the learner is removed, and its host joins anew (finish_joining.go).
	remedyRemove remedy = "remove"
)

// row is one line of the table. Of the rows that fit a member's condition the first one
// counts that is due.
type row struct {
	of     seatKind
	in     []cluster.Condition // nil: any but up
	remedy remedy
	// since is since when what the row is about has lasted; zero: it does not.
	since func(*view, cluster.Seat) time.Time
	// after is how long it has to last.
	after func(*view, cluster.Seat) time.Duration
	// beside says what keeps the remedy from being taken; empty: nothing.
	beside []func(*view, cluster.Seat) string
	// gone: the member is dead and comes back by nothing (SAFETY.md, rule 4).
	gone bool
	why  func(*view, cluster.Seat, time.Duration) string
}

type seatKind bool

const (
	voters   seatKind = false
	learners seatKind = true
)

const (
	// vanishedFor is how long a member's data has to be seen gone before it is replaced
	// while it serves.
	vanishedFor = 10 * time.Second
	// damagedFor is how long etcd has to end because it cannot read its data before the
	// voter is replaced: it has been started a few times by then, and what the first start
	// could not read may have been a slip of the disk's.
	damagedFor = 10 * time.Second
	// reviveAfter is how long a member may run without seeing a raft leader before it is
	// restarted in place; the time doubles with each restart.
	reviveAfter = time.Minute
	reviveMost  = time.Hour
	// startGrace is how long a release may take to start on a member before the member is
	// given back the one that it came from.
	startGrace = 20 * time.Second
	// joinPatience is how long a learner may be without a host in sight that carries it
	// before it is removed again.
	joinPatience = 20 * time.Second
	// catchUpPatience is how long a learner may catch up before a person is told, or be
	// sick before it is removed.
	catchUpPatience = 5 * time.Minute
)

var remedies []row

func init() { remedies = table() } // the rows call what asks them

func table() []row {
	return []row{
		// A voter whose host lost it is gone at once, one that nobody reaches after
		// --dead-after, whatever its condition.
		{of: voters, in: in(cluster.ConditionWiped), remedy: remedyReplace, since: silence, after: atOnce, gone: true, why: holdsNoData},
		{of: voters, remedy: remedyReplace, since: silence, after: deadAfter, gone: true, why: answersNobody},

		// One that serves, or could not come back, goes like a healthy one: while every
		// other voter is up (SAFETY.md, rule 3).
		{of: voters, in: in(cluster.ConditionVanished), remedy: remedyReplace, since: lasting, after: exactly(vanishedFor), beside: all(othersUp), why: memoryOnly},
		{of: voters, in: in(cluster.ConditionDamaged), remedy: remedyReplace, since: lasting, after: exactly(damagedFor), beside: all(noWayBack, othersUp), why: unreadable},
		{of: voters, in: in(cluster.ConditionDiffering), remedy: remedyReplace, since: lasting, after: atOnce, beside: all(enoughToCompare, soundVotersUp), why: otherKeys},

		// One that starts with another release only.
		{of: voters, in: in(cluster.ConditionCrashing, cluster.ConditionDamaged, cluster.ConditionDiffering), remedy: remedyGiveBack, since: endsAtStarts, after: exactly(startGrace), why: endsAgainAndAgain},

		// One that hangs does not count as up, and a restart takes nothing from the
		// quorum of those that do (SAFETY.md, rule 2).
		{of: voters, in: in(cluster.ConditionHung, cluster.ConditionRejected, cluster.ConditionDiffering), remedy: remedyRestart, since: withoutLeader, after: restartTurn, beside: all(quorumWithout, answersNothing), why: seesNoLeader},
		{of: learners, in: in(cluster.ConditionHung, cluster.ConditionRejected), remedy: remedyRestart, since: withoutLeader, after: learnerTurn, beside: all(answersNothing), why: seesNoLeader},

		// A learner has no vote: removing one is always safe, and one that never started
		// blocks the next add.
		{of: learners, in: in(cluster.ConditionGivenUp), remedy: remedyRemove, since: now, after: atOnce, why: hostGaveUp},
		{of: learners, in: in(cluster.ConditionVanished), remedy: remedyRemove, since: lasting, after: exactly(catchUpPatience), beside: all(runOnce, otherHostFree), why: servesNoMore},
		{of: learners, in: in(cluster.ConditionCrashing, cluster.ConditionDamaged), remedy: remedyRemove, since: silence, after: exactly(catchUpPatience), beside: all(runOnce, otherHostFree), why: diesAgain},
		{of: learners, in: in(cluster.ConditionUnwritten), remedy: remedyRemove, since: joining, after: exactly(joinPatience), why: wroteNoLog},
		{of: learners, in: in(cluster.ConditionWiped), remedy: remedyRemove, since: now, after: atOnce, why: cannotStart},
		{of: learners, in: in(cluster.ConditionAway, cluster.ConditionUncarried), remedy: remedyRemove, since: hostless, after: exactly(joinPatience), why: hasNoHost},
	}
}

// needs reports whether the remedy is due for a member, and why.
func (v *view) needs(s cluster.Seat, r remedy) (bool, string) {
	return v.due(s, func(x *row) bool { return x.remedy == r })
}

// dead reports whether a voter is gone for good, and why: its host came back without the
// member and without its data, which is known at once; or every host that could be asked
// has said for the stated time that the member does not answer. A daemon out of sight is
// not a dead member.
func (v *view) dead(s cluster.Seat) (bool, string) {
	return v.due(s, func(x *row) bool { return x.gone })
}

func (v *view) due(s cluster.Seat, asked func(*row) bool) (bool, string) {
	if s.Up {
		return false, ""
	}
	for i := range remedies {
		r := &remedies[i]
		if !asked(r) || bool(r.of) != s.Learner || r.in != nil && !slices.Contains(r.in, s.Condition) {
			continue
		}
		since := r.since(v, s)
		if since.IsZero() || v.obs.At.Sub(since) < r.after(v, s) {
			continue
		}
		if slices.ContainsFunc(r.beside, func(keeps func(*view, cluster.Seat) string) bool { return keeps(v, s) != "" }) {
			continue
		}
		return true, r.why(v, s, v.obs.At.Sub(since).Round(time.Second))
	}
	return false, ""
}

// waits says what keeps a remedy from being taken whose time has come; empty: nothing, or
// it is not due.
func (v *view) waits(s cluster.Seat, remedy remedy) string {
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

func all(f ...func(*view, cluster.Seat) string) []func(*view, cluster.Seat) string { return f }

// Since when.

func now(v *view, _ cluster.Seat) time.Time { return v.obs.At }

func silence(v *view, s cluster.Seat) time.Time { return v.silentSince(s) }

func lasting(_ *view, s cluster.Seat) time.Time { return s.Since }

func joining(v *view, s cluster.Seat) time.Time { return v.obs.Memory.Member(s.ID).JoiningSince }

func hostless(v *view, s cluster.Seat) time.Time { return v.obs.Memory.Member(s.ID).HostlessSince }

func withoutLeader(v *view, s cluster.Seat) time.Time {
	if s.Host == nil {
		return time.Time{}
	}
	return v.leaderlessSince(s.Host)
}

// leaderlessSince is since when the host's member, which has run in this generation, has
// seen no raft leader, or not answered; zero: it has, or its process does not run.
func (v *view) leaderlessSince(h *cluster.HostReport) time.Time {
	if !h.UnderFence || !h.Process.Runs() || h.Local.State != cluster.MemberStarted || h.Local.Generation != v.intent.Generation {
		return time.Time{}
	}
	return v.obs.Memory.Member(h.Local.Member).LeaderlessSince
}

// endsAtStarts is since when the member's process has ended at each start.
func endsAtStarts(v *view, s cluster.Seat) time.Time {
	h := s.Host
	if h == nil || !h.UnderFence || h.Process.State != cluster.ProcessBackoff || !h.Local.HasData || h.Local.State != cluster.MemberStarted || !h.Local.Run {
		return time.Time{}
	}
	if silent := v.obs.Memory.Member(s.ID).SilentSince; !silent.IsZero() {
		return silent
	}
	return v.obs.Memory.QuorumlessSince
}

// For how long.

func atOnce(*view, cluster.Seat) time.Duration { return 0 }

func deadAfter(v *view, _ cluster.Seat) time.Duration { return v.deadAfter() }

func exactly(d time.Duration) func(*view, cluster.Seat) time.Duration {
	return func(*view, cluster.Seat) time.Duration { return d }
}

// restartTurn doubles with each restart that did not help.
func restartTurn(v *view, s cluster.Seat) time.Duration {
	return patience(v.obs.Memory.Member(s.ID).Revived)
}

// learnerTurn: a learner answers nothing while it receives a whole database, which a
// restart would begin anew.
func learnerTurn(v *view, s cluster.Seat) time.Duration {
	return min(catchUpPatience<<min(v.obs.Memory.Member(s.ID).Revived, 10), reviveMost)
}

func patience(revived int) time.Duration {
	d := reviveAfter
	for range revived {
		if d *= 2; d >= reviveMost {
			return reviveMost
		}
	}
	return d
}

// What has to be true beside it.

func othersUp(v *view, s cluster.Seat) string {
	for _, o := range v.roster.Voters() {
		if o.ID != s.ID && !o.Up {
			return fmt.Sprintf("%s is not up: %s", seatName(o), o.Why)
		}
	}
	return ""
}

// noWayBack: one that was just given another release may not know the format, and is given
// back the one that it came from.
func noWayBack(_ *view, s cluster.Seat) string {
	if s.Host.Local.Previous.IsZero() {
		return ""
	}
	return fmt.Sprintf("it is given etcd %s back first, which it ran before", s.Host.Local.Previous)
}

func enoughToCompare(v *view, _ cluster.Seat) string {
	if len(v.roster.Voters()) < 3 {
		return "with fewer than three voters nobody can tell whose keys are right"
	}
	return ""
}

// soundVotersUp: every voter whose keys are not known to differ is up, or the majority
// that convicted this one may be gone.
func soundVotersUp(v *view, _ cluster.Seat) string {
	for _, o := range v.roster.Voters() {
		if !o.Up && v.obs.Memory.Member(o.ID).CorruptSince.IsZero() {
			return fmt.Sprintf("%s is not up: %s", seatName(o), o.Why)
		}
	}
	return ""
}

// quorumWithout: those that are up are a quorum, of which this one is not.
func quorumWithout(v *view, _ cluster.Seat) string {
	if v.seen && v.roster.Linearizable && v.roster.HasQuorum() {
		return ""
	}
	return "without it no quorum is known to stand"
}

// answersNothing: it has its data, answers its host nothing, and could see a leader if it
// began anew.
func answersNothing(v *view, s cluster.Seat) string {
	switch {
	case s.Host.Status != nil:
		return "it answers"
	case !s.Host.Local.HasData:
		return "it has no data to begin anew with"
	case v.barred(s.ID):
		return "no restart helps while it and the others reject each other's certificates"
	}
	return ""
}

func runOnce(_ *view, s cluster.Seat) string {
	if s.Host.UnderFence && s.Host.Local.State == cluster.MemberStarted {
		return ""
	}
	return "it has not run yet"
}

// otherHostFree: another host could join in its place that gave up none of this
// generation's members, since what is taken out is kept, and each try is a copy.
func otherHostFree(v *view, _ cluster.Seat) string {
	if free, _ := v.candidates(); len(free) == 0 || v.gaveUp(free[0]) > 0 {
		return "no other host is free to join in its place"
	}
	return ""
}

// Why, in words.

func holdsNoData(_ *view, s cluster.Seat, _ time.Duration) string {
	return fmt.Sprintf("host %s holds no data of it any more", s.Owner.Host)
}

func answersNobody(_ *view, _ cluster.Seat, lasted time.Duration) string {
	return fmt.Sprintf("it has not answered any host for %s", lasted)
}

func memoryOnly(_ *view, s cluster.Seat, _ time.Duration) string {
	return fmt.Sprintf("its data is gone from the disk of host %s, and it serves from memory only", s.Host.Host)
}

func unreadable(_ *view, s cluster.Seat, _ time.Duration) string {
	return "etcd cannot read its data: " + s.Host.Process.Damaged
}

func otherKeys(*view, cluster.Seat, time.Duration) string {
	return "its keys are not those of the other voters"
}

func endsAgainAndAgain(_ *view, s cluster.Seat, lasted time.Duration) string {
	return fmt.Sprintf("its process has ended at each start for %s (%s)", lasted, processWords(s.Host.Process))
}

func seesNoLeader(_ *view, s cluster.Seat, lasted time.Duration) string {
	return fmt.Sprintf("the member of %s sees no raft leader for %s", s.Host.Host, lasted)
}

func hostGaveUp(_ *view, s cluster.Seat, _ time.Duration) string {
	return fmt.Sprintf("host %s gave learner %s up%s: remove it, and let its host join anew", s.Host.Host, s.ID, tookWords(s.Host.Local))
}

func servesNoMore(v *view, s cluster.Seat, lasted time.Duration) string {
	return v.insteadWords(s, "serves from memory only, since its data is gone", lasted)
}

func diesAgain(v *view, s cluster.Seat, lasted time.Duration) string {
	return v.insteadWords(s, "dies again and again", lasted)
}

func (v *view) insteadWords(s cluster.Seat, what string, lasted time.Duration) string {
	free, _ := v.candidates()
	return fmt.Sprintf("learner %s %s for %s: remove it, so that host %s can join in its place", seatName(s), what, lasted, free[0].Host)
}

func wroteNoLog(_ *view, s cluster.Seat, _ time.Duration) string {
	return fmt.Sprintf("learner %s was started and wrote no log, its process is %s: remove it, and let its host join anew", seatName(s), processWords(s.Host.Process))
}

func cannotStart(_ *view, s cluster.Seat, _ time.Duration) string {
	return fmt.Sprintf("host %s does not hold what it needs to start learner %s: remove it, so that another can be added", s.Owner.Host, s.ID)
}

func hasNoHost(_ *view, s cluster.Seat, lasted time.Duration) string {
	return fmt.Sprintf("learner %s has no host that carries it for %s: remove it, so that another can be added", s.ID, lasted)
}

func tookWords(l cluster.LocalMember) string {
	if l.Took == 0 {
		return ""
	}
	return fmt.Sprintf(", because etcd took the ID %s for it from an old member list", l.Took)
}

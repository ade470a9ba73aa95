package roll

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// DowngradeEnds is how long etcd may take to end a downgrade that every member
// has followed. Source: its raft leader looks every five seconds.
const DowngradeEnds = 30 * time.Second

// A downgrade that etcd has under way is finished or cancelled before anything else is
// done to the members: until then etcd refuses joiners of either line. So it has a list of
// rules of its own (package plan), of which these are some. Whatever else is wanted of the
// members comes after a cancel, and the downgrade is begun again when that is done
// (docs/adr/014-versions.md).

// NotMeanwhile has a person's step wait for the end of a downgrade.
func NotMeanwhile(v *step.View) *decision.Decision {
	run := v.Roster.Running()
	switch {
	case v.Spec == nil: // how far down is not known
		return step.NeedSpec(v)
	case keptDown(v, run):
		return decision.Refuse("downgrading", "etcdadm upgrade --resume", "etcd is being downgraded and the last member stays on its version, as asked; members do not change until that ends. Resume it, or go back (etcdadm upgrade {high}), first", run.High)
	}
	return decision.Wait(true, "downgrading", "", "etcd is being downgraded; members do not change until that ends")
}

// Cancel takes a downgrade back that is not to go on.
func Cancel(v *step.View) *decision.Decision {
	if v.Spec == nil { // how far down is not known
		return step.NeedSpec(v)
	}
	if why := NotDown(v, v.Roster.Running()); why != "" {
		return CancelDowngrade(v, why)
	}
	return nil
}

// GiveBack is what is done about a voter that does not start with the release that it was
// given.
func GiveBack(v *step.View) *decision.Decision {
	if len(v.DownVoters()) == 0 {
		return nil
	}
	return members.FallBack(v, v.Roster.Running())
}

// Down restarts the next member with the line that etcd goes down to. Nil: it cannot go on
// by itself, as when a person wants the last member kept, which may be for long.
func Down(v *step.View) *decision.Decision {
	run := v.Roster.Running()
	line := run.Downgrading
	switch down := v.DownVoters(); {
	case len(down) > 0:
		d := decision.WaitLater("downgrading", "", "etcd is being downgraded, which waits until every voter is up{because}", words.Because(down))
		d.Again = sight.Awaited(v.Sight)
		return d
	case line.IsZero() || run.High.SameMinor(line):
		return decision.WaitLater("downgrading", "", "every member runs etcd {release}.{minor}: waiting for etcd to end the downgrade", run.High.Major, run.High.Minor)
	case run.Agreed != line:
		return decision.WaitLater("downgrading", "", "waiting for the members to agree on etcd {release}.{minor} ({agreed} so far)", line.Major, line.Minor, words.VersionWords(run.Agreed))
	}
	for _, s := range v.Roster.Seats {
		if s.Host == nil || s.Host.Status == nil || s.Release().Has(cluster.StorageVersion) && s.Host.Status.StorageVersion != line {
			return decision.WaitLater("downgrading", "", "waiting for the data of {member} to have the format of etcd {release}.{minor}", words.SeatName(s), line.Major, line.Minor)
		}
	}
	next := stageDown(v, line)
	if next.To.IsZero() {
		return CancelDowngrade(v, fmt.Sprintf("no release of etcd %d.%d is installed on all hosts that run members", line.Major, line.Minor))
	}
	return roll(v, next)
}

// Held says that a downgrade does not go on.
func Held(v *step.View) *decision.Decision {
	line := v.Roster.Running().Downgrading
	return decision.Wait(true, "downgrading", "", "etcd is being downgraded to {major}.{minor}, and that cannot go on by itself", line.Major, line.Minor)
}

// NotDown says why a downgrade is not to go on; empty: it is.
func NotDown(v *step.View, run cluster.Running) string {
	line, want := run.Downgrading, v.Spec.EtcdVersion
	switch {
	case !line.IsZero() && want.Base().Compare(line) > 0:
		return fmt.Sprintf("the spec asks for etcd %s", want)
	case !line.IsZero() && line != run.High.Base() && !(line.Neighbours(run.High) && line.Compare(run.High) < 0):
		return fmt.Sprintf("it is to %d.%d, which etcd %s cannot reach", line.Major, line.Minor, run.High)
	case len(v.Roster.Learners()) > 0:
		return fmt.Sprintf("learner %s is to become a voter first", words.SeatName(v.Roster.Learners()[0]))
	case v.Wanted() != len(v.Roster.Voters()):
		return fmt.Sprintf("%d voters present, %d wanted", len(v.Roster.Voters()), v.Wanted())
	case v.Intent.Quarantined:
		return "the cluster is quarantined"
	}
	for _, s := range v.Roster.Voters() {
		if gone, why := members.Needs(v, s, members.RemedyReplace); gone {
			return fmt.Sprintf("voter %s is dead (%s) and cannot be replaced meanwhile", words.SeatName(s), why)
		}
	}
	// Every member runs one line, and etcd does not end it: it is not ours, or the
	// one that would have told is gone.
	over := line.IsZero() && len(v.DownVoters()) == 0 || !run.Mixed() && run.High.Base() == line
	if over && !slices.ContainsFunc(v.Roster.Voters(), func(s cluster.Seat) bool {
		m := v.Obs.Memory.Member(s.ID)
		return m.HealthySince.IsZero() || v.Obs.At.Sub(m.HealthySince) < DowngradeEnds
	}) {
		return "every member runs one release line, and etcd does not end it"
	}
	return ""
}

// keptDown: the downgrade neither goes on nor is cancelled by itself, because a person
// wants the last voter kept.
func keptDown(v *step.View, run cluster.Running) bool {
	daemons := step.Look(decision.Goal{Kind: decision.Converge}, v.Obs)
	return NotDown(daemons, run) == "" && paused(v, stageDown(v, run.Downgrading))
}

// stageDown is the roll to the line that etcd goes down to.
func stageDown(v *step.View, line cluster.Version) Stage {
	return Stage{releaseOf(v, line), "one release line down, for which etcd has made ready", func(r cluster.Version) bool { return r.Base().Compare(line) > 0 }}
}

// releaseOf is the release of a line to go to: the wanted one, or the newest that
// every host with a member has.
func releaseOf(v *step.View, line cluster.Version) (best cluster.Version) {
	if v.Spec.EtcdVersion.SameMinor(line) {
		return v.Spec.EtcdVersion
	}
	for _, r := range sight.Change(v.Sight, v.Roster.Running()).Everywhere() {
		if r.SameMinor(line) && r.Runnable() == nil && r.Compare(best) > 0 {
			best = r
		}
	}
	return best
}

// CancelDowngrade asks a member of a line that answers such a call, where there
// is one; the others carry it out, too, and answer nothing.
func CancelDowngrade(v *step.View, why string) *decision.Decision {
	d := step.Membership(v, v.Projection(0, 0), cluster.Op{Kind: cluster.OpCancelDowngrade}, 0, "", words.F("cancel the downgrade that etcd has under way: {why}", why))
	if d.Action == nil {
		return d
	}
	for _, s := range v.Roster.Up() {
		if s.Release().Has(cluster.DowngradeAPI) {
			d.Action.Ops[0] = decision.OnHost(s.Host, v.Roster.Guard(), d.Action.Ops[0].Op)
			break
		}
	}
	return d
}

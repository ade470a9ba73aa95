package plan

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// downgradeEnds is how long etcd may take to end a downgrade that every member
// has followed. Source: its raft leader looks every five seconds.
const downgradeEnds = 30 * time.Second

// downgrading finishes or cancels a downgrade that etcd has under way. Until
// then nobody is added or replaced: etcd refuses joiners of either line then.
// Whatever else is wanted of the members comes after a cancel, and the downgrade is
// begun again when that is done (docs/adr/014-versions.md).
func downgrading(v *view) *Decision {
	run := v.roster.Running()
	if !run.Downgrade {
		return nil
	}
	line := run.Downgrading
	switch {
	case v.goal.Kind == Disarm, v.goal.Kind == MoveLeader: // neither changes a member
		return nil
	case v.spec == nil: // how far down is not known
		return v.needSpec()
	case v.goal.Kind != Converge && v.keptDown(run):
		return refuse("downgrading", "etcdadm upgrade --resume", "etcd is being downgraded, with the last member kept on its version as asked, and the members are not changed until that is over: have it go on, or go back (etcdadm upgrade %s), first", run.High)
	case v.goal.Kind != Converge:
		return wait(true, "downgrading", "", "etcd is being downgraded, and the members are not changed until that is over")
	}
	if why := v.notDown(run); why != "" {
		return v.cancelDowngrade(why)
	}
	down := v.downVoters()
	if len(down) > 0 {
		if d := v.fallBack(run); d != nil {
			return d
		}
	}
	if d := space(v); d != nil { // clients' writes are refused, however long the rest takes
		return d
	}
	if len(down) > 0 {
		if d := reviveHung(v); d != nil { // nothing else ends the wait for one that hangs
			return d
		}
		d := waitLater("downgrading", "", "etcd is being downgraded, which waits until every voter is up%s", because(down))
		d.Again = v.awaited()
		return d
	}
	if line.IsZero() || run.High.SameMinor(line) {
		return waitLater("downgrading", "", "every member runs etcd %d.%d: waiting for etcd to end the downgrade", run.High.Major, run.High.Minor)
	}
	if run.Agreed != line {
		return waitLater("downgrading", "", "waiting for the members to agree on etcd %d.%d (%s so far)", line.Major, line.Minor, versionWords(run.Agreed))
	}
	for _, s := range v.roster.Seats {
		if s.Host == nil || s.Host.Status == nil || s.Release().Has(cluster.StorageVersion) && s.Host.Status.StorageVersion != line {
			return waitLater("downgrading", "", "waiting for the data of %s to have the format of etcd %d.%d", seatName(s), line.Major, line.Minor)
		}
	}
	next := v.stageDown(line)
	if next.to.IsZero() {
		return v.cancelDowngrade(fmt.Sprintf("no release of etcd %d.%d is installed on all hosts that run members", line.Major, line.Minor))
	}
	d := v.roll(next)
	if d == nil {
		// A person may keep it like this for long. What else is wanted of the members goes on.
		for _, does := range []func(*view) *Decision{corruption, convergeTLS, readdress, convergeOptions, tidy} {
			if d := does(v); d != nil {
				return d
			}
		}
		return wait(true, "downgrading", "", "etcd is being downgraded to %d.%d, and that cannot go on by itself", line.Major, line.Minor)
	}
	return d
}

// notDown says why a downgrade is not to go on; empty: it is.
func (v *view) notDown(run cluster.Running) string {
	line, want := run.Downgrading, v.spec.EtcdVersion
	switch {
	case !line.IsZero() && want.Base().Compare(line) > 0:
		return fmt.Sprintf("the spec asks for etcd %s", want)
	case !line.IsZero() && line != run.High.Base() && !(line.Neighbours(run.High) && line.Compare(run.High) < 0):
		return fmt.Sprintf("it is to %d.%d, which etcd %s cannot reach", line.Major, line.Minor, run.High)
	case len(v.roster.Learners()) > 0:
		return fmt.Sprintf("learner %s is to become a voter first", seatName(v.roster.Learners()[0]))
	case v.wanted() != len(v.roster.Voters()):
		return fmt.Sprintf("%s wanted and %s there", are(v.wanted(), "voter"), are(len(v.roster.Voters()), "voter"))
	case v.intent.Quarantined:
		return "the cluster is quarantined"
	}
	for _, s := range v.roster.Voters() {
		if gone, why := v.needs(s, remedyReplace); gone {
			return fmt.Sprintf("voter %s is dead (%s) and cannot be replaced meanwhile", seatName(s), why)
		}
	}
	// Every member runs one line, and etcd does not end it: it is not ours, or the
	// one that would have told is gone.
	over := line.IsZero() && len(v.downVoters()) == 0 || !run.Mixed() && run.High.Base() == line
	if over && !slices.ContainsFunc(v.roster.Voters(), func(s cluster.Seat) bool {
		m := v.obs.Memory.Member(s.ID)
		return m.HealthySince.IsZero() || v.obs.At.Sub(m.HealthySince) < downgradeEnds
	}) {
		return "every member runs one release line, and etcd does not end it"
	}
	return ""
}

// keptDown: the downgrade neither goes on nor is cancelled by itself, because a person
// wants the last voter kept.
func (v *view) keptDown(run cluster.Running) bool {
	daemons := newView(Goal{Kind: Converge}, v.obs)
	return daemons.notDown(run) == "" && v.paused(v.stageDown(run.Downgrading))
}

// stageDown is the roll to the line that etcd goes down to.
func (v *view) stageDown(line cluster.Version) stage {
	return stage{v.releaseOf(line), "one release line down, for which etcd has made ready", func(r cluster.Version) bool { return r.Base().Compare(line) > 0 }}
}

// releaseOf is the release of a line to go to: the wanted one, or the newest that
// every host with a member has.
func (v *view) releaseOf(line cluster.Version) (best cluster.Version) {
	if v.spec.EtcdVersion.SameMinor(line) {
		return v.spec.EtcdVersion
	}
	for _, r := range v.change(v.roster.Running()).everywhere() {
		if r.SameMinor(line) && r.Runnable() == nil && r.Compare(best) > 0 {
			best = r
		}
	}
	return best
}

// cancelDowngrade asks a member of a line that answers such a call, where there
// is one; the others carry it out, too, and answer nothing.
func (v *view) cancelDowngrade(why string) *Decision {
	d := v.membership(v.projection(0, 0), cluster.Op{Kind: cluster.OpCancelDowngrade}, 0, "", "cancel the downgrade that etcd has under way: "+why)
	if d.Action == nil {
		return d
	}
	for _, s := range v.roster.Up() {
		if s.Release().Has(cluster.DowngradeAPI) {
			d.Action.Ops[0] = onHost(s.Host, v.roster.Guard(), d.Action.Ops[0].Op)
			break
		}
	}
	return d
}

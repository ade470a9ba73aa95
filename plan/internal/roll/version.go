package roll

import (
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
	"etcdadm.io/plan/path"
)

// Version changes the release of a running cluster, one member at a time
// (docs/adr/014-versions.md). Nothing is recorded of it: what comes next is found
// again at each look from what the members run and what they have agreed on.
func Version(v *step.View) *decision.Decision {
	run := v.Roster.Running()
	switch {
	case v.Spec == nil || run.High.IsZero():
		return nil
	case run.Low == v.Spec.EtcdVersion && run.High == v.Spec.EtcdVersion:
		if len(v.Roster.Learners()) > 0 || v.Intent == nil || v.Intent.Quarantined {
			return nil
		}
		return members.FallBack(v, run) // the last one may not start with it
	}
	way := path.FindPath(sight.Change(v.Sight, run))
	warn(v, way)
	switch {
	case len(v.Roster.Learners()) > 0:
		return step.VersionWaits(v, "learner {learner} has to become a voter first", words.SeatName(v.Roster.Learners()[0]))
	case v.Intent.Quarantined:
		return step.VersionWaits(v, "the cluster is quarantined")
	case len(v.DownVoters()) > 0:
		if d := members.FallBack(v, run); d != nil {
			return d
		}
		return step.VersionWaits(v, "every voter has to be up{because}", words.Because(v.DownVoters()))
	}
	if why, are := refusedOptions(v); are {
		return step.VersionWaits(v, "{why}", why)
	}
	if !way.Ready() {
		if len(way.Missing) == 0 {
			return step.VersionWaits(v, "{problems}", strings.Join(way.Problems, "; "))
		}
		var versions []cluster.Version
		for _, m := range way.Missing {
			way.Problems = append(way.Problems, m.String())
			versions = append(versions, m.Version)
		}
		command, elsewise := path.Download(versions...)
		return step.VersionWaitsFor(v, command, "{problems}; {elsewise}", strings.Join(way.Problems, "; "), elsewise)
	}
	if len(way.Hops) == 0 {
		return nil
	}
	next := way.Hops[0]
	switch next.Kind {
	case path.RollPatch:
		return roll(v, Stage{next.To, next.Why, func(r cluster.Version) bool { return r.SameMinor(next.To) && r != next.To }})
	case path.RollBack:
		return roll(v, Stage{next.To, next.Why, func(r cluster.Version) bool { return r.Base().Compare(next.To.Base()) > 0 }})
	case path.RollUp:
		return rollUp(v, run, next)
	case path.RollDown:
		return beginDown(v, run, next)
	case path.CancelDowngrade:
		return nil // the rule "downgrading" does that
	}
	for _, w := range way.Warnings {
		v.Notice("version", "", "{why}", w)
	}
	return generation.BeginHalt(v, run, next)
}

// warn notes from before the first restart to the last one what a roll comes with, such
// as variables that the wanted release has no flag for (SAFETY.md, rule 24). Nothing
// waits for it.
func warn(v *step.View, way path.Path) {
	if len(way.Hops) == 0 || !way.Hops[0].Kind.Rolls() {
		return
	}
	for _, w := range way.Warnings {
		v.Notice("version-warning", "", "{why}", w)
	}
}

// VersionPath is the way from what the members in sight run to a version, as the
// leader would take it.
func VersionPath(o *cluster.Observation, to cluster.Version) path.Path {
	v := step.Look(decision.Goal{Kind: decision.Converge}, o)
	if !v.Seen {
		return path.Path{Problems: []string{"no member answers, so nobody knows what runs"}}
	}
	var spec cluster.Spec
	if v.Spec != nil {
		spec = *v.Spec
	}
	spec.EtcdVersion = to
	v.Spec = &spec
	return path.FindPath(sight.Change(v.Sight, v.Roster.Running()))
}

// Stage is one part of a change: members that run certain releases are
// restarted with another one, one after the other.
type Stage struct {
	To   cluster.Version
	Why  string
	Move func(cluster.Version) bool // whether a member that runs this release is restarted
}

// rollUp restarts the members of the line below. Before the first one the
// members have agreed on the line that all of them run, and no log holds what the
// new line cannot read.
func rollUp(v *step.View, run cluster.Running, next path.Hop) *decision.Decision {
	if !run.Mixed() {
		if d := agreed(v, run); d != nil {
			return d
		}
		if run.Auth == nil && slices.Contains(cluster.RollNeeds(next.From, next.To), cluster.NeedNoAuth) {
			d := step.VersionSoon(v, "asking the members whether auth is on: etcd {release} cannot be rolled while it is", next.From)
			d.Again = decision.Soon
			return d
		}
	}
	s := Stage{next.To, next.Why, func(r cluster.Version) bool { return r.Base().Compare(next.To.Base()) < 0 }}
	if slices.Contains(cluster.RollNeeds(next.From, next.To), cluster.NeedCleanWAL) && next.To.AtLeast(3, 7) {
		if ok, d := MayRoll(v, s); !ok { // the backup comes before the first restart
			return d
		}
		if d := cleanLogs(v, s); d != nil {
			return d
		}
	}
	return roll(v, s)
}

// beginDown has etcd make ready for the line below. It goes on by the rule
// "downgrading".
func beginDown(v *step.View, run cluster.Running, next path.Hop) *decision.Decision {
	if n := len(v.Roster.Voters()); n != v.Wanted() {
		return step.VersionWaits(v, "{count} wanted, {count2} present, and etcd accepts no change of members while it is downgraded", words.Are(v.Wanted(), "voter"), words.Are(n, "voter"))
	}
	if d := agreed(v, run); d != nil {
		return d
	}
	if ok, d := MayRoll(v, Stage{next.To, next.Why, func(cluster.Version) bool { return true }}); !ok {
		return d
	}
	op := cluster.Op{Kind: cluster.OpDowngrade, Version: next.To.Base()}
	return step.Membership(v, v.Projection(0, 0), op, 0, step.UpgradeCommand(v),
		words.F("the spec asks for etcd {release}: enable etcd's downgrade to {major}.{minor}", v.Spec.EtcdVersion, next.To.Major, next.To.Minor))
}

// agreed waits until the members have agreed on the line that all of them run,
// and their data has its format. etcd's raft leader looks every five seconds.
func agreed(v *step.View, run cluster.Running) *decision.Decision {
	line := run.Low.Base()
	if run.Agreed.IsZero() {
		d := step.VersionSoon(v, "asking the members for their cluster version")
		d.Again = decision.Soon // the next look asks
		return d
	}
	if run.Agreed != line {
		return step.VersionSoon(v, "the members run etcd {release}; the cluster version is still {agreed}", run.Low, run.Agreed)
	}
	for _, s := range v.Roster.Voters() {
		if st := s.Host.Status; line.Has(cluster.StorageVersion) && st.StorageVersion != line {
			return step.VersionSoon(v, "the data of {member} is still in the format of {storageVersion}", words.SeatName(s), words.VersionWords(st.StorageVersion))
		}
	}
	return nil
}

// cleanLogs restarts members so that they cut a raft snapshot, where their log
// still holds requests of version 2 of the API: etcd 3.7 ends when it reads one.
func cleanLogs(v *step.View, next Stage) *decision.Decision {
	for _, leading := range []bool{false, true} {
		for _, s := range v.Roster.Seats {
			if s.RaftLeader != leading || !next.Move(s.Release()) {
				continue
			}
			if s.Host.V2InLog == nil {
				return step.VersionSoon(v, "checking the log of {member} for v2 API requests, on which etcd {release} would crash", words.SeatName(s), next.To)
			}
			if *s.Host.V2InLog {
				op := step.Restart(v, s.Host, "its log holds requests of version 2 of the API")
				op.Cut = true
				reason := words.F("restart the member of {member} so that it cuts a raft snapshot: its log has v2 API requests, on which etcd {release} would crash", words.SeatName(s), next.To)
				return restartInTurn(v, s, reason, op, next)
			}
		}
	}
	return nil
}

// roll restarts the next member of a stage: followers first, raft's leader last.
func roll(v *step.View, next Stage) *decision.Decision {
	if ok, d := MayRoll(v, next); !ok {
		return d
	}
	if paused(v, next) {
		// The others need not wait: they go to the very patch that is wanted.
		next.Move = func(r cluster.Version) bool { return r.SameMinor(next.To) && r != next.To }
		if ok, d := MayRoll(v, next); !ok {
			return d
		}
	}
	for _, leading := range []bool{false, true} {
		for _, s := range v.Roster.Seats {
			if s.RaftLeader == leading && next.Move(s.Release()) {
				return RestartWith(v, s, next)
			}
		}
	}
	return nil
}

// MayRoll reports whether a stage can go on: the release is on every host that is
// still to run it, it has not failed to start, and there is a backup of what all
// of them ran before the first one is touched. If not, the decision is what is to
// be done before; nil: nothing but wait, as an aside says.
func MayRoll(v *step.View, next Stage) (bool, *decision.Decision) {
	var without []string
	moved := false
	for _, s := range v.Roster.Seats {
		switch {
		case !next.Move(s.Release()):
			moved = true
		case s.Host == nil || !s.Host.CanRun(next.To):
			without = append(without, words.SeatName(s))
		}
	}
	if id, failed := sight.FailedRelease(v.Sight, next.To); failed {
		return false, step.VersionWaits(v, "etcd {release} did not start on host {host}, which runs its former release; read etcd.log there. Fix the cause and restart that host's daemon to try again, or ask for another release", next.To, id)
	}
	if len(without) > 0 {
		slices.Sort(without)
		return false, step.VersionWaits(v, "etcd {release} is not installed on {without}", next.To, strings.Join(without, ", "))
	}
	if moved {
		return true, nil
	}
	if v.Spec.WithoutBackup() {
		return true, nil
	}
	d := step.BackupFirstOr(v, step.UpgradeCommand(v)+" --no-backup", step.BackupBeforeVersion, true, words.F("restart the members with etcd {release} ({why})", next.To, next.Why))
	return d == nil, d
}

// paused: a person wants one voter kept on the line that the cluster comes from.
func paused(v *step.View, next Stage) bool {
	left := 0
	for _, s := range v.Roster.Voters() {
		if next.Move(s.Release()) {
			left++
		}
	}
	run := v.Roster.Running()
	if !v.Spec.PauseBeforeLast || left != 1 || !run.Mixed() || next.To != v.Spec.EtcdVersion {
		return false
	}
	kept, back := run.Low, "--rollback"
	if next.To.Compare(kept) <= 0 { // on the way down, where the lowest is not the way back
		kept, back = run.High, run.High.String()
	}
	v.Notice("version-paused", "etcdadm upgrade --resume", "all voters but one run etcd {release}; the last one stays on {kept}, as asked. While it lives, etcdadm upgrade {back} goes back", next.To, kept, back)
	return true
}

// RestartWith restarts one member with another release.
func RestartWith(v *step.View, s cluster.Seat, next Stage) *decision.Decision {
	if line := next.To.Base(); line != s.Release().Base() {
		agreed := v.Roster.Running().Agreed
		switch {
		case agreed.IsZero() || line.Compare(agreed) < 0 || line != agreed && !line.Neighbours(agreed):
			return step.VersionSoon(v, "the cluster version is {agreed}, beside which etcd {release} does not start", words.VersionWords(agreed), next.To)
		case s.Host.Status != nil && s.Host.Status.StorageVersion.Compare(line) > 0:
			return step.VersionSoon(v, "the data of {member} has the format of {storageVersion}, which etcd {release} does not read", words.SeatName(s), s.Host.Status.StorageVersion, next.To)
		}
	}
	op := step.Restart(v, s.Host, next.Why)
	op.Version, op.Changes = next.To, true
	return restartInTurn(v, s, words.F("restart the member of {member} with etcd {release} instead of {release2}: {why}", words.SeatName(s), next.To, s.Release(), next.Why), op, next)
}

// restartInTurn restarts a member of a stage. Raft's leadership goes to one that is
// through with it, if any is.
func restartInTurn(v *step.View, s cluster.Seat, reason words.Text, op cluster.Op, next Stage) *decision.Decision {
	if h := v.MayBeAway(s); h != nil && h.Blocks {
		return step.VersionSoon(v, "{why}", h.Why)
	}
	d := step.RestartSeat(v, s, reason, op, func(to cluster.Seat) bool { return !next.Move(to.Release()) })
	if d.Action != nil {
		d.Action.Command = step.UpgradeCommand(v)
	}
	return d
}

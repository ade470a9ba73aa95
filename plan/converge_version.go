package plan

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// convergeVersion changes the release of a running cluster, one member at a time
// (docs/adr/014-versions.md). Nothing is recorded of it: what comes next is found
// again at each look from what the members run and what they have agreed on.
func convergeVersion(v *view) *Decision {
	run := v.roster.Running()
	switch {
	case v.spec == nil || run.High.IsZero():
		return nil
	case run.Low == v.spec.EtcdVersion && run.High == v.spec.EtcdVersion:
		if len(v.roster.Learners()) > 0 || v.intent == nil || v.intent.Quarantined {
			return nil
		}
		return v.fallBack(run) // the last one may not start with it
	case len(v.roster.Learners()) > 0:
		return v.versionWaits("learner %s is to become a voter first", seatName(v.roster.Learners()[0]))
	case v.intent.Quarantined:
		return v.versionWaits("the cluster is quarantined")
	case len(v.downVoters()) > 0:
		if d := v.fallBack(run); d != nil {
			return d
		}
		return v.versionWaits("every voter has to be up%s", because(v.downVoters()))
	}
	if why, are := v.refusedOptions(); are {
		return v.versionWaits("%s", why)
	}
	path := FindPath(v.change(run))
	if !path.Ready() {
		if len(path.Missing) == 0 {
			return v.versionWaits("%s", strings.Join(path.Problems, "; "))
		}
		var versions []cluster.Version
		for _, m := range path.Missing {
			path.Problems = append(path.Problems, m.String())
			versions = append(versions, m.Version)
		}
		command, elsewise := download(versions...)
		return v.versionWaitsFor(command, "%s; %s", strings.Join(path.Problems, "; "), elsewise)
	}
	if len(path.Hops) == 0 {
		return nil
	}
	next := path.Hops[0]
	switch next.Kind {
	case RollPatch:
		return v.roll(stage{next.To, next.Why, func(r cluster.Version) bool { return r.SameMinor(next.To) && r != next.To }})
	case RollBack:
		return v.roll(stage{next.To, next.Why, func(r cluster.Version) bool { return r.Base().Compare(next.To.Base()) > 0 }})
	case RollUp:
		return v.rollUp(run, next)
	case RollDown:
		return v.beginDown(run, next)
	case CancelDowngrade:
		return nil // the rule "downgrading" does that
	}
	for _, w := range path.Warnings {
		v.aside("version", "", "%s", w)
	}
	return v.beginHalt(run, next)
}

// VersionPath is the way from what the members in sight run to a version, as the
// leader would take it.
func VersionPath(o *cluster.Observation, to cluster.Version) Path {
	v := newView(Goal{Kind: Converge}, o)
	if !v.seen {
		return Path{Problems: []string{"no member answers, so nobody knows what runs"}}
	}
	var spec cluster.Spec
	if v.spec != nil {
		spec = *v.spec
	}
	spec.EtcdVersion = to
	v.spec = &spec
	return FindPath(v.change(v.roster.Running()))
}

// change is the question for [FindPath].
func (v *view) change(run cluster.Running) Change {
	// What is lost is judged by the list that the rehearsal makes.
	c := Change{AcceptLoss: true, Target: v.spec.EtcdVersion, Options: v.spec.Options, Cluster: run.Agreed, Downgrade: run.Downgrading}
	if run.Auth != nil {
		c.Auth = No
		if *run.Auth {
			c.Auth = Yes
		}
	}
	for _, s := range v.roster.Seats {
		c.Servers = append(c.Servers, s.Release())
		if s.Host == nil {
			continue
		}
		c.Hosts = append(c.Hosts, HostReleases{Host: s.Host.Host, Releases: s.Host.Releases})
		if st := s.Host.Status; st != nil && st.StorageVersion.Compare(c.Storage) > 0 {
			c.Storage = st.StorageVersion
		}
		if st := s.Host.Status; st != nil {
			c.Size = max(c.Size, st.DBSize)
		}
	}
	return c
}

// stage is one part of a change: members that run certain releases are
// restarted with another one, one after the other.
type stage struct {
	to   cluster.Version
	why  string
	move func(cluster.Version) bool // whether a member that runs this release is restarted
}

// rollUp restarts the members of the line below. Before the first one the
// members have agreed on the line that all of them run, and no log holds what the
// new line cannot read.
func (v *view) rollUp(run cluster.Running, next Hop) *Decision {
	if !run.Mixed() {
		if d := v.agreed(run); d != nil {
			return d
		}
		if run.Auth == nil && slices.Contains(cluster.RollNeeds(next.From, next.To), cluster.NeedNoAuth) {
			d := v.versionSoon("asking the members whether authentication is on, with which etcd %s cannot be left by a roll", next.From)
			d.Again = soon
			return d
		}
	}
	s := stage{next.To, next.Why, func(r cluster.Version) bool { return r.Base().Compare(next.To.Base()) < 0 }}
	if slices.Contains(cluster.RollNeeds(next.From, next.To), cluster.NeedCleanWAL) && next.To.AtLeast(3, 7) {
		if ok, d := v.mayRoll(s); !ok { // the backup comes before the first restart
			return d
		}
		if d := v.cleanLogs(s); d != nil {
			return d
		}
	}
	return v.roll(s)
}

// beginDown has etcd make ready for the line below. It goes on by the rule
// "downgrading".
func (v *view) beginDown(run cluster.Running, next Hop) *Decision {
	if n := len(v.roster.Voters()); n != v.wanted() {
		return v.versionWaits("%s wanted and %s there, and nobody is added or replaced while etcd goes down by a line", are(v.wanted(), "voter"), are(n, "voter"))
	}
	if d := v.agreed(run); d != nil {
		return d
	}
	if ok, d := v.mayRoll(stage{next.To, next.Why, func(cluster.Version) bool { return true }}); !ok {
		return d
	}
	op := cluster.Op{Kind: cluster.OpDowngrade, Version: next.To.Base()}
	return v.membership(v.projection(0, 0), op, 0, v.upgradeCommand(),
		fmt.Sprintf("the spec asks for etcd %s: have etcd make ready for members of %d.%d", v.spec.EtcdVersion, next.To.Major, next.To.Minor))
}

// agreed waits until the members have agreed on the line that all of them run,
// and their data has its format. etcd's raft leader looks every five seconds.
func (v *view) agreed(run cluster.Running) *Decision {
	line := run.Low.Base()
	if run.Agreed.IsZero() {
		d := v.versionSoon("asking the members which line they have agreed on")
		d.Again = soon // the next look asks
		return d
	}
	if run.Agreed != line {
		return v.versionSoon("the members run etcd %s and have agreed on %s so far", run.Low, run.Agreed)
	}
	for _, s := range v.roster.Voters() {
		if st := s.Host.Status; line.Has(cluster.StorageVersion) && st.StorageVersion != line {
			return v.versionSoon("the data of %s has the format of %s so far", seatName(s), versionWords(st.StorageVersion))
		}
	}
	return nil
}

// cleanLogs restarts members so that they cut a raft snapshot, where their log
// still holds requests of version 2 of the API: etcd 3.7 ends when it reads one.
func (v *view) cleanLogs(next stage) *Decision {
	for _, leading := range []bool{false, true} {
		for _, s := range v.roster.Seats {
			if s.RaftLeader != leading || !next.move(s.Release()) {
				continue
			}
			if s.Host.V2InLog == nil {
				return v.versionSoon("looking whether the log of %s holds requests of version 2 of the API, on which etcd %s would end", seatName(s), next.to)
			}
			if *s.Host.V2InLog {
				op := v.restart(s.Host, "its log holds requests of version 2 of the API")
				op.Cut = true
				reason := fmt.Sprintf("restart the member of %s so that it cuts a raft snapshot: its log holds requests of version 2 of the API, on which etcd %s would end", seatName(s), next.to)
				return v.restartInTurn(s, reason, op, next)
			}
		}
	}
	return nil
}

// roll restarts the next member of a stage: followers first, raft's leader last.
func (v *view) roll(next stage) *Decision {
	if ok, d := v.mayRoll(next); !ok {
		return d
	}
	if v.paused(next) {
		// The others need not wait: they go to the very patch that is wanted.
		next.move = func(r cluster.Version) bool { return r.SameMinor(next.to) && r != next.to }
		if ok, d := v.mayRoll(next); !ok {
			return d
		}
	}
	for _, leading := range []bool{false, true} {
		for _, s := range v.roster.Seats {
			if s.RaftLeader == leading && next.move(s.Release()) {
				return v.restartWith(s, next)
			}
		}
	}
	return nil
}

// mayRoll reports whether a stage can go on: the release is on every host that is
// still to run it, it has not failed to start, and there is a backup of what all
// of them ran before the first one is touched. If not, the decision is what is to
// be done before; nil: nothing but wait, as an aside says.
func (v *view) mayRoll(next stage) (bool, *Decision) {
	var without []string
	moved := false
	for _, s := range v.roster.Seats {
		switch {
		case !next.move(s.Release()):
			moved = true
		case s.Host == nil || !s.Host.CanRun(next.to):
			without = append(without, seatName(s))
		}
	}
	if id, failed := v.failedRelease(next.to); failed {
		return false, v.versionWaits("etcd %s did not start on host %s, which runs what it ran before; its log is there. Once the cause is gone, restart that host's daemon, and it is tried again; or ask for another release", next.to, id)
	}
	if len(without) > 0 {
		slices.Sort(without)
		return false, v.versionWaits("etcd %s is not installed on %s", next.to, strings.Join(without, ", "))
	}
	if moved {
		return true, nil
	}
	if v.spec.WithoutBackup() {
		return true, nil
	}
	d := v.backupFirstOr(v.upgradeCommand()+" --no-backup", backupBeforeVersion, true, fmt.Sprintf("restart the members with etcd %s (%s)", next.to, next.why))
	return d == nil, d
}

// paused: a person wants one voter kept on the line that the cluster comes from.
func (v *view) paused(next stage) bool {
	left := 0
	for _, s := range v.roster.Voters() {
		if next.move(s.Release()) {
			left++
		}
	}
	run := v.roster.Running()
	if !v.spec.PauseBeforeLast || left != 1 || !run.Mixed() || next.to != v.spec.EtcdVersion {
		return false
	}
	kept, back := run.Low, "--rollback"
	if next.to.Compare(kept) <= 0 { // on the way down, where the lowest is not the way back
		kept, back = run.High, run.High.String()
	}
	v.aside("version-paused", "etcdadm upgrade --resume", "all voters but one run etcd %s; the last one is kept on %s, as asked, which keeps the way back open (etcdadm upgrade %s) as long as it lives", next.to, kept, back)
	return true
}

// restartWith restarts one member with another release.
func (v *view) restartWith(s cluster.Seat, next stage) *Decision {
	if line := next.to.Base(); line != s.Release().Base() {
		agreed := v.roster.Running().Agreed
		switch {
		case agreed.IsZero() || line.Compare(agreed) < 0 || line != agreed && !line.Neighbours(agreed):
			return v.versionSoon("the members have agreed on %s, and etcd %s would not start beside that", versionWords(agreed), next.to)
		case s.Host.Status != nil && s.Host.Status.StorageVersion.Compare(line) > 0:
			return v.versionSoon("the data of %s has the format of %s, which etcd %s does not read", seatName(s), s.Host.Status.StorageVersion, next.to)
		}
	}
	op := v.restart(s.Host, next.why)
	op.Version, op.Changes = next.to, true
	return v.restartInTurn(s, fmt.Sprintf("restart the member of %s with etcd %s instead of %s: %s", seatName(s), next.to, s.Release(), next.why), op, next)
}

// restartInTurn restarts a member of a stage. Raft's leadership goes to one that is
// through with it, if any is.
func (v *view) restartInTurn(s cluster.Seat, reason string, op cluster.Op, next stage) *Decision {
	if h := v.mayBeAway(s); h != nil && h.blocks {
		return v.versionSoon("%s", h.why)
	}
	d := v.restartSeat(s, reason, op, func(to cluster.Seat) bool { return !next.move(to.Release()) })
	if d.Action != nil {
		d.Action.Command = v.upgradeCommand()
	}
	return d
}

func (v *view) upgradeCommand() string { return "etcdadm upgrade " + v.spec.EtcdVersion.String() }

// versionWaits says why the version is not changed, and lets everything else go on.
func (v *view) versionWaits(format string, args ...any) *Decision {
	return v.versionWaitsFor("", format, args...)
}

func (v *view) versionWaitsFor(command, format string, args ...any) *Decision {
	v.aside("version", command, "the members run etcd %s and the spec asks for %s: %s", v.runningWords(), v.spec.EtcdVersion, fmt.Sprintf(format, args...))
	return nil
}

// versionSoon waits for something that comes by itself within seconds.
func (v *view) versionSoon(format string, args ...any) *Decision {
	return waitLater("version", "", "the members run etcd %s and the spec asks for %s: %s", v.runningWords(), v.spec.EtcdVersion, fmt.Sprintf(format, args...))
}

func (v *view) runningWords() string {
	run := v.roster.Running()
	if run.Low == run.High {
		return run.Low.String()
	}
	return fmt.Sprintf("%s to %s", run.Low, run.High)
}

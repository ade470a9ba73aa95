package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// A change of version that members cannot be rolled to is a new generation made
// from all that the old one has (docs/adr/017-any-version.md): its members are
// halted, all at once and by a record in the intent; the next generation is made
// ready from the data of the furthest; and then it is written down, over that very
// record. Until then the halt can be taken back, and the members go on as they were.

const (
	// haltPatience is how long a member may take to stop, and a host to come back
	// once it was seen last, before the halt is taken back. Reading a log may take
	// longer, as long as it goes on.
	haltPatience = 30 * time.Second
	// haltMost is how long a halt may last in all. It grows with the data, and
	// whoever consented was told about how long it takes.
	haltMost = 15 * time.Minute
	// rehearsedFor is how long a rehearsal counts.
	rehearsedFor = time.Hour
)

// beginHalt stops all members for a hop that cannot be rolled, once everything
// that can be known before is known to be in order.
func (v *view) beginHalt(run cluster.Running, next Hop) *Decision {
	for _, look := range []func(cluster.Running, Hop) string{v.mayNotHalt, v.cannotCarry} {
		if why := look(run, next); why != "" {
			return v.versionWaits("%s", why)
		}
	}
	if consent := v.spec.Consents(); consent == "" {
		v.aside("version-outage", fmt.Sprintf("etcdadm upgrade %s --accept-outage", v.spec.EtcdVersion),
			"the members run etcd %s and the spec asks for %s: %s; clients are not served for a while, so a person has to accept that", v.runningWords(), v.spec.EtcdVersion, next.Why)
		return nil
	}
	if d := v.tooFewRun(next.To); d != nil {
		return v.versionWaits("%s", d.Reason)
	}
	if d := v.rehearse(run, next); d != nil {
		return d
	}
	if v.unrehearsed(next) || v.lossNotAccepted(next) { // and nothing to do about it now, as an aside says
		return nil
	}
	in, n := v.intent.Clone(), len(v.roster.Voters())
	in.Halt = &cluster.Halt{
		ID: fmt.Sprintf("change-%d-%d", in.Generation, in.Write+1), Generation: in.Generation, // each write is counted once
		From: run.High, To: next.To, Wanted: v.spec.EtcdVersion, Consent: v.spec.Consents(), At: v.obs.At,
		Accept: v.losses(next).Digest,
	}
	return &Decision{
		Reason: fmt.Sprintf("%s: stop all members, to make generation %d from what they have", next.Why, v.nextGeneration()), Again: soon,
		Action: &Action{
			Kind: ActIntent, Intent: &IntentChange{Replace: in, Spec: v.obs.Spec}, Command: v.upgradeCommand() + " --accept-outage",
			Projection: &cluster.Projection{Voters: n, Up: len(v.roster.Up()), VotersAfter: n},
		},
	}
}

// mayNotHalt says what keeps the members from being stopped for a hop; empty:
// nothing. None of it has to do with the data.
func (v *view) mayNotHalt(run cluster.Running, next Hop) string {
	tried := v.intent.Halt
	switch {
	case !v.obs.Store.Read:
		return v.unreadWords()
	case !v.obs.Store.Conditional:
		return "the backup store cannot write on a condition, so that two leaders could make two generations of it"
	case v.intent.Adopted() || v.intent.State != cluster.IntentFounded:
		return "the cluster's record is not complete"
	case v.nextCommand() != nil:
		return "a command in the queue comes first"
	case v.queueUnknown():
		return "the queue of commands cannot be read"
	case len(v.intent.Next) > 0 || !cluster.SameVoters(v.intent.Voters, v.votersNow()) || !v.roster.Linearizable:
		return "the record of the voters is being brought up to date"
	case len(v.roster.Voters()) != v.wanted():
		return fmt.Sprintf("%d voters are wanted and %s there", v.wanted(), are(len(v.roster.Voters()), "voter"))
	case run.Mixed():
		return "the members run different release lines, and are brought to one first"
	case tried != nil && tried.Wanted == v.spec.EtcdVersion && tried.Consent == v.spec.Consents() && tried.Consent != "":
		if tried.Ended == "" {
			return fmt.Sprintf("the word for an outage was used for generation %d; etcdadm upgrade %s --accept-outage gives it again", tried.Generation+1, v.spec.EtcdVersion)
		}
		return fmt.Sprintf("it was begun and taken back: %s. etcdadm upgrade %s --accept-outage tries it again", tried.Ended, v.spec.EtcdVersion)
	}
	if id, failed := v.failedRelease(next.To); failed {
		return fmt.Sprintf("etcd %s did not start on host %s", next.To, id)
	}
	return ""
}

// cannotCarry says which host could not begin the next generation; empty: each
// could. Which one is the furthest is only known when all have stopped.
func (v *view) cannotCarry(_ cluster.Running, next Hop) string {
	c := cluster.Command{Kind: cluster.CommandChange, Version: next.To}
	var why []string
	for _, s := range v.roster.Voters() {
		if s.Host == nil {
			return fmt.Sprintf("the host of %s is not in sight", seatName(s))
		}
		switch reason := v.cannotBegin(s.Host); {
		case reason != "":
			why = append(why, fmt.Sprintf("host %s %s", s.HostID, reason))
		case v.lacksRoom(&c, s.Host, next.To) != "":
			why = append(why, fmt.Sprintf("host %s %s", s.HostID, v.lacksRoom(&c, s.Host, next.To)))
		}
	}
	return strings.Join(why, "; ")
}

// backupOf is a fresh backup of what the members have now; or what is done to come
// by one. A backup of the generation before says nothing of what this one holds.
func (v *view) backupOf(run cluster.Running, reason string) (cluster.Backup, *Decision) {
	b, age := v.lastBackup()
	if b.Version.SameMinor(run.High) && (b.Cluster == 0 || b.Cluster == v.roster.Cluster) && age < backupFresh {
		return b, nil
	}
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		switch t := h.Taken; {
		case t == nil:
		case t.Running:
			return b, &Decision{Reason: "a backup is taken first: " + reason, Again: soon}
		case t.Error != "" && v.ago(h, t.Ended) < backupRetry:
			return b, waitLater("backup-wanted", "etcdadm backup create", "%s; a backup is wanted first, and the last try failed: %s", reason, t.Why())
		}
	}
	d := v.takeBackup("", backupBeforeVersion)
	if d == nil {
		return b, v.versionSoon("no member can take the backup that is wanted first")
	}
	d.Reason += ": " + reason
	return b, d
}

// lastBackup is the newest that is known of, also before the store was listed
// again, and how old it is: by the clock of the host that took it, as long as that
// remembers it, or one of a host whose clock is off would never be fresh.
func (v *view) lastBackup() (newest cluster.Backup, age time.Duration) {
	age = longAgo
	for _, b := range v.obs.Backups.Newest {
		if a := v.obs.At.Sub(v.newer(time.Time{}, b.At)); a < age {
			newest, age = b, a
		}
	}
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if h.Taken == nil || h.Taken.Backup == nil {
			continue
		}
		if a := v.ago(h, h.Taken.Began); a < age {
			newest, age = *h.Taken.Backup, a
		}
	}
	return newest, age
}

// whileHalted brings a change of version on from the halt to the write of the
// next generation, or takes the halt back.
func (v *view) whileHalted(halt *cluster.Halt) *Decision {
	since := v.haltedFor(halt)
	if why := v.haltUnwanted(halt); why != "" {
		return v.takeBack(halt, why)
	}
	hosts, missing := v.haltedHosts(halt)
	if len(missing) > 0 {
		away := time.Duration(0)
		if seen := v.obs.Memory.MissingSince(halt); !seen.IsZero() {
			away = v.obs.At.Sub(seen)
		}
		switch {
		case since > haltMost:
			return v.takeBack(halt, fmt.Sprintf("it was not ready after %s (%s)", since.Round(time.Second), strings.Join(missing, "; ")))
		case away > haltPatience:
			return v.takeBack(halt, fmt.Sprintf("for %s not every member was known to have stopped with its log in sight (%s)", away.Round(time.Second), strings.Join(missing, "; ")))
		}
		return wait(true, "halted", "", "the members are being stopped, to go on with etcd %s (%s)", halt.To, strings.Join(missing, "; "))
	}
	best := hosts[0]
	for _, h := range hosts[1:] {
		if best.Log.Before(*h.Log) {
			best = h
		}
	}
	c := &cluster.Command{Name: halt.ID, At: halt.At, Kind: cluster.CommandChange, Host: best.Host, Version: halt.To}
	h, d := v.stage(c)
	switch {
	case since > haltMost:
		return v.takeBack(halt, fmt.Sprintf("it was not ready after %s", since.Round(time.Second)))
	case d == nil && !v.obs.Store.Read:
		return wait(true, "store-silent", "", "%s lies ready on host %s; waiting for the backup store to write generation %d down", commandWords(c), h.Host, v.nextGeneration())
	case d == nil:
		return v.writeGeneration(c, h)
	case len(d.Blockers) > 0:
		return v.takeBack(halt, d.Blockers[0].Sentence)
	}
	return d
}

// haltedFor is how long the members have been stopped. The halt's time is by the
// clock of the leader that began it: one that takes over first watches it for a
// while, because its own clock may be ahead, and then counts at least what it has
// watched, because it may be behind.
func (v *view) haltedFor(halt *cluster.Halt) time.Duration {
	age := v.obs.At.Sub(halt.At)
	seen := v.obs.Memory.HaltedSince(halt)
	if seen.IsZero() {
		return age
	}
	watched := v.obs.At.Sub(seen)
	inTime := func(h cluster.HostReport) bool { return !h.Clock.IsZero() && h.Clock.Sub(halt.At) <= haltMost }
	// Where every clock says that the time is over it is, however short the terms of
	// leaders are, or how seldom they look.
	if watched < haltPatience && slices.ContainsFunc(v.obs.Hosts, inTime) {
		return watched
	}
	return max(age, watched)
}

// haltUnwanted says why nobody wants what the halt is for any more; empty:
// somebody does.
func (v *view) haltUnwanted(halt *cluster.Halt) string {
	switch {
	case v.spec == nil:
		return "there is no spec that can be followed"
	case v.spec.EtcdVersion != halt.Wanted:
		return fmt.Sprintf("the spec asks for etcd %s now", v.spec.EtcdVersion)
	case v.spec.Consents() == "":
		return "the word for the outage was taken back"
	}
	return ""
}

// haltedHosts are the hosts of all voters, once each is known to keep the halt,
// to run nothing, and to have its log; or what is missing. Nothing was
// acknowledged without the logs of a quorum, and nothing will be: so the furthest of
// them has all that ever was.
func (v *view) haltedHosts(halt *cluster.Halt) (hosts []*cluster.HostReport, missing []string) {
	for _, set := range v.intent.VoterSets() {
		for _, w := range set {
			h, why := v.obs.HaltedHost(w, halt)
			switch {
			case why != "":
				missing = append(missing, why)
			case !slices.Contains(hosts, h):
				hosts = append(hosts, h)
			}
		}
	}
	slices.Sort(missing)
	return hosts, slices.Compact(missing)
}

// takeBack lets the members go on as they were.
func (v *view) takeBack(halt *cluster.Halt, why string) *Decision {
	if !v.obs.Store.Read {
		return wait(true, "store-silent", "", "the members are stopped for a change of version that is to be taken back (%s); waiting for the backup store to write that down", why)
	}
	in, ended := v.intent.Clone(), *halt
	ended.Ended = why
	in.Halt = &ended
	n := len(in.Voters)
	return &Decision{
		Reason: fmt.Sprintf("the change to etcd %s is taken back, and the members go on with %s: %s", halt.To, halt.From, why), Again: soon,
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}, Projection: &cluster.Projection{Voters: n, VotersAfter: n, UpAfter: n}},
	}
}

// goBack makes a generation of the release before from the data before, where
// the first member of one that was made by a halt cannot be started: nothing of it
// served anybody, because its quarantine was never lifted. nil: it need not.
func (v *view) goBack() *Decision {
	in, halt := v.intent, v.intent.Halt
	if in.Source.Kind != cluster.SourceHalted || halt == nil || !in.Quarantined || len(in.Founders) != 1 || !v.stalled() {
		return nil
	}
	f := in.Founders[0]
	h, ok := v.obs.Host(f.Host)
	if !ok || !h.UnderFence {
		return nil
	}
	dies := h.Local.Generation == in.Generation && h.Process.State == cluster.ProcessBackoff
	forgot := h.Local.Generation != in.Generation && (h.Staged == nil || h.Staged.Token != in.Token)
	if !dies && !forgot {
		return nil
	}
	c := &cluster.Command{Name: fmt.Sprintf("back-%d", in.Generation), Version: halt.From, Host: h.Host, NoBackup: true}
	was := in.History[len(in.History)-1]
	i := slices.IndexFunc(h.SetAside, func(a cluster.SetAside) bool { return a.Cluster == was.Cluster && a.Cluster != 0 })
	switch {
	case i >= 0:
		c.Kind, c.Dir = cluster.CommandUndo, h.SetAside[i].Name()
	case h.Local.Generation == was.Generation && h.Local.HasData:
		c.Kind = cluster.CommandRecover
	default:
		return nil
	}
	return v.beginGeneration(c)
}

// haltAfter is the halt that the next generation's intent tells of: one that was
// carried out, or that came to nothing, is not begun again on the same word.
func (v *view) haltAfter(c *cluster.Command) *cluster.Halt {
	halt := v.intent.Halt
	if halt == nil || c.Kind == cluster.CommandChange || halt.Ended != "" || v.intent.Source.Kind != cluster.SourceHalted || v.intent.State == cluster.IntentFounded {
		return halt
	}
	ended := *halt
	ended.Ended = fmt.Sprintf("the first member of generation %d did not start with etcd %s", v.intent.Generation, halt.To)
	return &ended
}

// queued: a person, or another program, put the command into the queue, and it is
// told how it ends.
func (v *view) queued(name string) bool {
	return slices.ContainsFunc(v.obs.Commands, func(c cluster.Command) bool { return c.Name == name })
}

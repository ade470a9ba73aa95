package generation

import (
	"fmt"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
	"etcdadm.io/plan/path"
)

// BeginHalt stops all members for a hop that cannot be rolled, once everything
// that can be known before is known to be in order.
func BeginHalt(v *step.View, run cluster.Running, next path.Hop) *decision.Decision {
	for _, look := range []func(*step.View, cluster.Running, path.Hop) string{MayNotHalt, cannotCarry} {
		if why := look(v, run, next); why != "" {
			return step.VersionWaits(v, "{why}", why)
		}
	}
	if consent := v.Spec.Consents(); consent == "" {
		v.Notice("version-outage", fmt.Sprintf("etcdadm upgrade %s --accept-outage", v.Spec.EtcdVersion),
			"the members run etcd {release} and the spec asks for {etcdVersion}: {why}; clients are not served for a while, so a person has to accept that", v.RunningWords(), v.Spec.EtcdVersion, next.Why)
		return nil
	}
	if d := tooFewRun(v, next.To); d != nil {
		return step.VersionWaits(v, "{reason}", d.Reason)
	}
	if d := rehearse(v, run, next); d != nil {
		return d
	}
	if unrehearsed(v, next) || lossNotAccepted(v, next) { // and nothing to do about it now, as an aside says
		return nil
	}
	in, n := v.Intent.Clone(), len(v.Roster.Voters())
	in.Halt = &cluster.Halt{
		ID: fmt.Sprintf("change-%d-%d", in.Generation, in.Write+1), Generation: in.Generation, // each write is counted once
		From: run.High, To: next.To, Wanted: v.Spec.EtcdVersion, Consent: v.Spec.Consents(), At: v.Obs.At,
		Accept: losses(v, next).Digest,
	}
	return &decision.Decision{
		Reason: words.F("{why}: stop all members, to make generation {generation} from their data", next.Why, v.NextGeneration()), Again: decision.Soon,
		Action: &decision.Action{
			Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in, Spec: v.Obs.Spec}, Command: step.UpgradeCommand(v) + " --accept-outage",
			Projection: &cluster.Projection{Voters: n, Up: len(v.Roster.Up()), VotersAfter: n},
		},
	}
}

// MayNotHalt says what keeps the members from being stopped for a hop; empty:
// nothing. None of it has to do with the data.
func MayNotHalt(v *step.View, run cluster.Running, next path.Hop) string {
	tried := v.Intent.Halt
	switch {
	case !v.Obs.Store.Read:
		return v.UnreadWords()
	case !v.Obs.Store.Conditional:
		return "the backup store cannot write on a condition, so that two leaders could make two generations of it"
	case v.Intent.Adopted() || v.Intent.State != cluster.IntentFounded:
		return "the cluster's record is not complete"
	case v.NextCommand() != nil:
		return "a command in the queue comes first"
	case v.QueueUnknown():
		return "the queue of commands cannot be read"
	case len(v.Intent.Next) > 0 || !cluster.SameVoters(v.Intent.Voters, v.VotersNow()) || !v.Roster.Linearizable:
		return "the record of the voters is being brought up to date"
	case len(v.Roster.Voters()) != v.Wanted():
		return fmt.Sprintf("%d voters present, %d wanted", len(v.Roster.Voters()), v.Wanted())
	case run.Mixed():
		return "the members run different release lines, and are brought to one first"
	case tried != nil && tried.Wanted == v.Spec.EtcdVersion && tried.Consent == v.Spec.Consents() && tried.Consent != "":
		if tried.Ended == "" {
			return fmt.Sprintf("the word for an outage was used for generation %d; etcdadm upgrade %s --accept-outage gives it again", tried.Generation+1, v.Spec.EtcdVersion)
		}
		return fmt.Sprintf("it was begun and taken back: %s. etcdadm upgrade %s --accept-outage tries it again", tried.Ended, v.Spec.EtcdVersion)
	}
	if id, failed := sight.FailedRelease(v.Sight, next.To); failed {
		return fmt.Sprintf("etcd %s did not start on host %s", next.To, id)
	}
	return ""
}

// cannotCarry says which host could not begin the next generation; empty: each
// could. Which one is the furthest is only known when all have stopped.
func cannotCarry(v *step.View, _ cluster.Running, next path.Hop) string {
	c := cluster.Command{Kind: cluster.CommandChange, Version: next.To}
	var why []string
	for _, s := range v.Roster.Voters() {
		if s.Host == nil {
			return fmt.Sprintf("the host of %s is unreachable", words.SeatName(s))
		}
		switch reason := CannotBegin(v, s.Host); {
		case reason != "":
			why = append(why, fmt.Sprintf("host %s %s", s.HostID, reason))
		case lacksRoom(v, &c, s.Host, next.To) != "":
			why = append(why, fmt.Sprintf("host %s %s", s.HostID, lacksRoom(v, &c, s.Host, next.To)))
		}
	}
	return strings.Join(why, "; ")
}

// losses is what the rehearsal of a hop key by key has listed; never nil.
func losses(v *step.View, next path.Hop) *cluster.Survey {
	if t := rehearsal(v, next); t != nil && t.Survey != nil && next.Kind == path.Logical {
		return t.Survey
	}
	return &cluster.Survey{}
}

// unlisted: the rehearsal came to its end, and does not show that the change can be
// made: it made no list for this version, as that of a daemon which knows of backups
// only, or took so long that a halt would be taken back before the copy is ready.
func unlisted(v *step.View, next path.Hop, t *cluster.Taken) bool {
	switch took := t.Ended.Sub(t.Began); {
	case t.Survey == nil || t.Survey.To != next.To:
		_ = step.VersionWaits(v, "etcd {release} was tested by a daemon that lists no losses. Bring all daemons to one release, then run etcdadm upgrade {etcdVersion} --accept-outage again. Nothing was stopped", next.To, v.Spec.EtcdVersion)
	case took > path.MostOutage/2:
		_ = step.VersionWaits(v, "copying every key took {took} in the test, and stopped members start again after {mostOutage}: the copy might be late. Use fewer keys or faster disks, then run etcdadm upgrade {etcdVersion} --accept-outage again. Nothing was stopped", took.Round(time.Second), path.MostOutage, v.Spec.EtcdVersion)
	default:
		return false
	}
	return true
}

// lossNotAccepted: not everything can be carried over, and nobody has accepted this
// very list of what cannot.
func lossNotAccepted(v *step.View, next path.Hop) bool {
	s := losses(v, next)
	if !s.Loses() || v.Spec.AcceptedLoss() == s.Digest {
		return false
	}
	other := ""
	if v.Spec.AcceptedLoss() != "" {
		other = "; another list was accepted, and it has changed since"
	}
	v.Notice("version-loss", fmt.Sprintf("etcdadm upgrade %s --accept-outage --accept-loss=%s", v.Spec.EtcdVersion, s.Digest),
		"the members run etcd {release} and the spec asks for {etcdVersion}: {carried} of {keys} keys are carried over, key by key, and not everything as it is: {what}{other}. Nothing was stopped", v.RunningWords(), v.Spec.EtcdVersion, s.Carried, s.Keys, s.Words(), other)
	return true
}

// VersionSurvey is the newest list of what would be lost on the way to a version,
// key by key; nil: none was made.
func VersionSurvey(o *cluster.Observation, to cluster.Version) (newest *cluster.Survey) {
	var at cluster.Taken
	for i := range o.Hosts {
		if t := o.Hosts[i].Drill; t != nil && t.Survey != nil && t.Survey.To == to && (newest == nil || t.Ended.After(at.Ended)) {
			newest, at = t.Survey, *t
		}
	}
	return newest
}

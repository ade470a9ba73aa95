package generation

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// A person's word for a new generation is for what there was when it was given. A store
// that goes back brings a command to life that was deleted; one that waits for hours is
// of a cluster that has been written to since (SAFETY.md, rule 17).

// ConsentSeen is how long a leader has to have seen that nothing is done for a command before
// its age counts: a host that makes something ready for it may miss one look.
const ConsentSeen = time.Minute

// ConsentOver ends a command whose word does not count any more. What is being made ready
// for it goes on, and a word lasts for its time from when that lay ready, or failed: how
// long it takes is no fault of the person. A change that the daemons make themselves, and a
// first generation, take nothing away; nor does one that is made again of what is written
// down.
func ConsentOver(v *step.View, c *cluster.Command) *decision.Decision {
	if !v.Queued(c.Name) || v.Intent == nil || v.Intent.CommandID == c.Name {
		return nil
	}
	said, ready := c.At, ""
	now := v.Obs.At // a leader whose clock is ahead of most others' ends no command for that
	if most := v.Obs.Clock(); most.Before(now) {
		now = most
	}
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		s := StagedHere(v, h, c)
		if UnderWay(s) {
			return nil
		}
		if s != nil && s.Command == c.Name {
			said = sight.NewerBy(now, said, s.Since)
		}
		if s != nil && saidAgain(s, c) {
			ready = fmt.Sprintf("; it lies ready on host %s and begins at once then", h.Host)
		}
	}
	again := "queue it again if it is still wanted: " + GenerationCommand(v, c) + ready
	expired := func(format string, args ...any) *decision.Decision {
		return decision.EndCommand(c.Name, decision.CommandExpired, fmt.Sprintf(format, args...)+"; "+again)
	}
	founded := time.Unix(0, v.Intent.Timestamp)
	waited := time.Duration(0) // as this leader has seen it: who queued it may have a clock that is ahead
	if since := v.Obs.Memory.AskedSince(c.Name); !since.IsZero() {
		waited = v.Obs.At.Sub(since)
	}
	switch age := now.Sub(c.At).Round(time.Second); {
	case !v.Intent.Adopted() && c.At.Before(founded) && !founded.After(v.Obs.At):
		return expired("queued at %s, before generation %d was made at %s", c.At.UTC().Format(time.TimeOnly), v.Intent.Generation, founded.UTC().Format(time.TimeOnly))
	case waited > cluster.ConsentLasts:
		return expired("could not begin within %s", cluster.ConsentLasts)
	case now.Sub(said) <= cluster.ConsentLasts:
		return nil
	case waited < ConsentSeen:
		return &decision.Decision{Reason: words.F("command {command} was queued {age} ago, and counts for {consentLasts}: waiting up to {consentSeen} for a host that is making it ready", c.Name, age, cluster.ConsentLasts, ConsentSeen), Again: decision.Later}
	default:
		return expired("queued %s ago, and a command counts for %s (if that is wrong, compare the clocks of the hosts with the one where you typed)", age, cluster.ConsentLasts)
	}
}

// NoteFirst has the end of a command in the record before anybody is told: a leader that
// decided to run it finds it there, and a store that goes back does not have it forgotten.
// Without a record of ours, or for a command that asks for no generation, the end is told
// at once.
func NoteFirst(v *step.View, d *decision.Decision) *decision.Decision {
	if d.Action == nil || d.Action.Kind != decision.ActCommand {
		return d
	}
	end := d.Action.End
	asks := func(c cluster.Command) bool { return c.Name == end.Name && c.Kind != cluster.CommandBackup }
	if v.Unfounded() || !slices.ContainsFunc(v.Obs.Commands, asks) {
		return d
	}
	if !over(v.Intent, end.Name) {
		in := v.Intent.Clone()
		in.NoteEnd(cluster.EndedCommand{Name: end.Name, Result: string(end.Result), Reason: end.Reason})
		noted := *d
		noted.Again, noted.Action = decision.Soon, &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}, Command: d.Action.Command}
		return &noted
	}
	follows := func(h cluster.HostReport) bool {
		return h.UnderFence && h.Intent != nil && h.Intent.Generation == v.Intent.Generation && h.Intent.Nonce == v.Intent.Nonce
	}
	keeps := func(h cluster.HostReport) bool {
		return follows(h) && over(h.Intent, end.Name)
	}
	if slices.ContainsFunc(v.Obs.Hosts, keeps) || !slices.ContainsFunc(v.Obs.Hosts, follows) || v.Obs.DoubtOf(v.Intent) != "" {
		return d
	}
	// The look that finds it in the store hands it to the hosts, and the next one shows it.
	return &decision.Decision{Reason: words.F("command {command} is {result}: recording that on the hosts first", end.Name, end.Result), Again: decision.Soon, Blockers: d.Blockers}
}

// over: the record says that the command was run, or how it ended.
func over(in *cluster.Intent, name string) bool {
	_, ended := in.EndOf(name)
	return ended || in.Ran(name)
}

// inDoubt is a founding that is on record and not followed: nobody is told of it, and
// nothing is begun for it, until a person says what is wanted.
func inDoubt(v *step.View) *decision.Decision {
	in := v.Intent
	doubt := v.Obs.DoubtOf(in)
	if doubt == "" {
		return nil
	}
	const keep = "To keep the cluster that serves, move control/etcd-cluster-created away in the store: its hosts write their record back. Until then nothing is repaired or backed up"
	switch doubt {
	case cluster.FoundingAged:
		return decision.Stuck("generation-in-doubt", againCommand(v, in), "generation {generation}, written down at {written}, is NOT begun: clients may have written since. To begin it, queue its command again. {keep}",
			in.Generation, time.Unix(0, in.Timestamp).UTC().Format(time.RFC3339), keep)
	case cluster.FoundingNeedless:
		return decision.Stuck("generation-in-doubt", "", "generation {generation} is NOT begun: it was to recover a cluster that has its quorum back. {keep}", in.Generation, keep)
	}
	return nil
}

// againCommand asks for what a generation was made from once more.
func againCommand(v *step.View, in *cluster.Intent) string {
	for i := range v.Obs.Commands {
		if c := &v.Obs.Commands[i]; c.Name == in.CommandID {
			return GenerationCommand(v, c)
		}
	}
	if in.Source.Kind == cluster.SourceBackup {
		return "etcdadm restore " + in.Source.Backup
	}
	return ""
}

// Remembered tells of foundings that hosts keep and the store does not have. What serves
// goes on (SAFETY.md, rule 18).
func Remembered(v *step.View) {
	for _, u := range v.Obs.Unfollowed() {
		if u.Doubt == cluster.FoundingUnknown {
			v.Notice("store-silent", "", "host {host} remembers generation {generation}, not yet begun; waiting for the backup store, which may have it", words.IdList(u.Hosts), u.Intent.Generation)
			continue
		}
		on := "To begin it, queue its command again"
		if !u.Intent.Source.FromData() {
			on = "It was to begin an empty cluster"
		}
		v.Notice("generation-in-doubt", againCommand(v, u.Intent), "host {host} remembers generation {generation}, not yet begun, and the backup store has lost it: the store went back, or is another one. Nothing is stopped for it. {on}. To drop it, end the daemon of that host, move its data directory away and start it on an empty one", words.IdList(u.Hosts), u.Intent.Generation, on)
	}
}

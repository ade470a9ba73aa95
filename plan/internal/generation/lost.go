package generation

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// WithLost is the command with further hosts named as lost, and what a person may
// do beside it; where all that is missed is at work there is nothing to do but wait, and
// a host that answers is not to be given up.
func WithLost(v *step.View, c *cluster.Command, missing []cluster.HostID) (command, wayOut string) {
	if len(missing) == 0 {
		return "", "; that ends by itself"
	}
	if v.AnyOf(missing, cluster.PresenceIncompatible) {
		return "", ". Something answers where the daemons of some of them are, and it and this one do not talk with each other, which may be what is wrong: look at that first"
	}
	if v.AnyOf(missing, cluster.PresenceStarting) {
		return "", ". Some of them are starting, which comes first"
	}
	if left, after := RecoveryOffered(v.Obs); c.Kind == cluster.CommandRecover && left > 0 {
		var since []string
		for _, id := range missing {
			since = append(since, missingWords(v, id))
		}
		return "", fmt.Sprintf(". They may serve without this side, so no command without them is offered before the loss has lasted %s (--dead-after): %s. Bring those back", after, strings.Join(since, ", "))
	}
	all := *c
	all.Lost = sight.Union(c.Lost, missing)
	return GenerationCommand(v, &all), ". Bring those back, or name the ones that are gone for good"
}

func awayWords(missing, working []cluster.HostID) string {
	var s []string
	for _, id := range missing {
		s = append(s, string(id))
	}
	for _, id := range working {
		s = append(s, string(id)+" (busy)")
	}
	return strings.Join(s, ", ")
}

// Logless are voters without a log in sight, where those that have one are too
// few; none: they are enough. Those whose hosts are at work are no lost ones.
func Logless(v *step.View, c *cluster.Command, from *cluster.HostReport) (out, working []cluster.HostID) {
	var sets [][]cluster.Voter
	if c.Name == "" || v.Intent == nil || v.Intent.CommandID != c.Name { // of a generation of this very command there is nothing to lose
		if v.Intent != nil && !neverBegan(v) {
			sets = v.Past().Voters
		}
	}
	if v.Intent != nil && from.Local.Generation < v.Intent.Generation {
		for _, g := range v.Intent.History {
			if g.Generation == from.Local.Generation {
				sets = append(sets, g.Voters...)
			}
		}
	}
	for _, set := range sets {
		known, missing, busy := 0, []cluster.HostID(nil), []cluster.HostID(nil)
		for _, w := range set {
			switch {
			case sight.Lost(w, c.Lost) || logOf(v, w):
				known++
			case v.Presence(w.Host) == cluster.PresenceBusy:
				busy = append(busy, w.Host)
			default:
				missing = append(missing, sight.NameOf(w))
			}
		}
		if known < cluster.Blocking(len(set)) {
			out, working = sight.Union(out, missing), sight.Union(working, busy)
		}
	}
	return out, working
}

// LogsInSight blocks a recovery while the logs in sight may leave out a write
// that was acknowledged: what a quorum has is in one of any n−⌊n/2⌋ logs, and
// the furthest of those has all of it. A disk that was wiped can promise for its
// voter and has no log, so it is named lost like one that is out of sight.
func LogsInSight(v *step.View, c *cluster.Command) *decision.Decision {
	h, ok := v.Obs.Host(c.Host)
	if c.Kind != cluster.CommandRecover || !ok {
		return nil
	}
	missing, working := Logless(v, c, h)
	if len(missing)+len(working) == 0 {
		return nil
	}
	command, wayOut := WithLost(v, c, missing)
	return decision.Stuck("recovering", command,
		"a recovery from host {host} may lose writes that were acknowledged: the logs of too few voters can be read to know that it is the furthest, and those of {away} cannot{wayOut}", c.Host, awayWords(missing, working), wayOut)
}

// neverBegan: the generation that is being founded has one founder, whose host says that it
// has nothing of it: nobody was served by it.
func neverBegan(v *step.View) bool {
	in := v.Intent
	if in.State != cluster.IntentFounding || !in.Source.FromData() || len(in.Founders) != 1 {
		return false
	}
	h, ok := v.Obs.Host(in.Founders[0].Host)
	return ok && h.UnderFence && h.Disk == in.Founders[0].Disk && !(h.Carries() && h.Local.Generation >= in.Generation)
}

// logOf: the end of the voter's log is in sight.
func logOf(v *step.View, w cluster.Voter) bool {
	for i := range v.Obs.Hosts {
		if h := &v.Obs.Hosts[i]; h.Local.Member == w.Member && h.Log != nil {
			return true
		}
	}
	return false
}

// LostAndAlive blocks a command that names hosts as lost of which some are alive
// for sure: a read went through raft just now, and without them those that read
// it are no quorum. Beside them a second generation would serve.
func LostAndAlive(v *step.View, c *cluster.Command) *decision.Decision {
	if v.Intent == nil || !v.Seen || !v.Roster.Linearizable || v.Roster.Cluster != v.Intent.Cluster {
		return nil
	}
	rest, named := 0, []string(nil)
	for _, s := range v.Roster.Voters() {
		if s.Host == nil && sight.Lost(s.AsVoter(), c.Lost) {
			named = append(named, words.SeatName(s))
			continue
		}
		rest++
	}
	switch n := len(v.Roster.Voters()); {
	case rest < cluster.Quorum(n):
		return decision.Stuck("promises", "", "of the hosts that are named as lost ({named}) at least {quorum} run etcd: a member in sight just read through a quorum of the {number} voters. Bring their daemons back, or stop their etcd first", strings.Join(named, ", "), cluster.Quorum(n)-rest, n)
	case c.Kind == cluster.CommandRecover:
		return decision.Stuck("recovering", "", "a quorum of the {number} voters serves, though some daemons are silent ({downVoters}): nothing to recover", n, strings.Join(v.DownVoters(), "; "))
	}
	return nil
}

// LostAndThere has a command wait for hosts that it names as lost and whose daemons
// answer that they start, look at their disks, or carry out an op: after a power cut
// such hosts come up with a quorum, and perhaps with the furthest log. All of that ends
// within its time, or is late, and then a person's approval counts (SAFETY.md, rule 13).
// In a founding that has had its time they did not come up within that.
func LostAndThere(v *step.View, c *cluster.Command) *decision.Decision {
	hadItsTime := v.Intent != nil && v.Intent.State == cluster.IntentFounding && v.Stalled()
	var there []string
	for _, g := range v.Obs.Gaps {
		switch is := v.Presence(g.Host); {
		case g.Host == "" || !names(v, c, g.Host):
		case is == cluster.PresenceBusy || is == cluster.PresenceStarting && !hadItsTime:
			there = append(there, string(g.Host)+v.BusyWith(g.Host))
		case is == cluster.PresenceRefusing:
			there = append(there, string(g.Host)+" (it follows another leader)")
		}
	}
	if len(there) == 0 {
		return nil
	}
	code := "promises"
	if c.Kind == cluster.CommandRecover {
		code = "recovering"
	}
	return decision.Stuck(code, "", "a new generation from {command} would give up hosts whose daemons answer: {there}. It waits until they finish or overrun their time; power off a host before naming it lost",
		commandWords(c), strings.Join(there, ", "))
}

// names: the command names the host as lost, or a voter of it by its member ID.
func names(v *step.View, c *cluster.Command, id cluster.HostID) bool {
	if slices.Contains(c.Lost, id) {
		return true
	}
	for _, g := range v.Open(true) {
		for _, set := range g.Voters {
			if slices.ContainsFunc(set, func(w cluster.Voter) bool { return w.Host == id && sight.Lost(w, c.Lost) }) {
				return true
			}
		}
	}
	return false
}

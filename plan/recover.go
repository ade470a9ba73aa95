package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// mayRecover refuses a recovery where it is not called for: while a quorum
// serves, or from a member that is not the furthest in raft's order. It is asked
// until the intent is written, because a host that is further may come back
// until then. What was stopped for a recovery that is refused is started again
// by reviveStopped.
func (v *view) mayRecover(c *cluster.Command) *Decision {
	if c.Kind != cluster.CommandRecover {
		return nil
	}
	if v.seen && v.roster.HasQuorum() || !v.seen && v.obs.Serves(v.intent) {
		return endCommand(c.Name, CommandRejected, "the cluster has a quorum, and nothing has to be recovered: a member that is lost is replaced by itself")
	}
	h, ok := v.obs.Host(c.Host)
	switch {
	case !ok:
		return wait(true, "recovering", "", "waiting for host %s, from whose data the cluster is to be recovered", c.Host)
	case !h.Local.HasData || h.Local.State != cluster.MemberStarted:
		return endCommand(c.Name, CommandRejected, fmt.Sprintf("host %s holds no data of a member that could be recovered from", c.Host))
	case h.Log == nil:
		far := ""
		if h.Reading != nil {
			far = fmt.Sprintf(": %s", h.Reading)
		}
		return wait(true, "recovering", "", "reading the end of the log of host %s%s", c.Host, far)
	}
	for i := range v.obs.Hosts {
		o := &v.obs.Hosts[i]
		if o.Host != h.Host && o.Log == nil && o.Reading != nil && o.Local.State == cluster.MemberStarted &&
			o.Local.Generation == h.Local.Generation && o.Local.Cluster == h.Local.Cluster && !slices.Contains(c.Lost, o.Host) {
			return wait(true, "recovering", "", "reading the end of the log of host %s, which may be further than that of %s: %s", o.Host, h.Host, o.Reading)
		}
		if o.Host != h.Host && o.Log != nil && o.Local.Generation == h.Local.Generation && o.Local.Cluster == h.Local.Cluster && h.Log.Before(*o.Log) {
			return endCommand(c.Name, CommandRejected, fmt.Sprintf("host %s is further than %s (term %d, index %d against term %d, index %d), and recovering from %s would lose what it has: etcdadm recover --from %s",
				o.Host, h.Host, o.Log.Term, o.Log.Index, h.Log.Term, h.Log.Index, h.Host, o.Host))
		}
	}
	return nil
}

// logsInSight blocks a recovery while the logs in sight may leave out a write
// that was acknowledged: what a quorum has is in one of any n−⌊n/2⌋ logs, and
// the furthest of those has all of it. A disk that was wiped can promise for its
// voter and has no log, so it is named lost like one that is out of sight.
func (v *view) logsInSight(c *cluster.Command) *Decision {
	h, ok := v.obs.Host(c.Host)
	if c.Kind != cluster.CommandRecover || !ok {
		return nil
	}
	missing, working := v.logless(c, h)
	if len(missing)+len(working) == 0 {
		return nil
	}
	command, wayOut := v.withLost(c, missing)
	return wait(true, "recovering", command,
		"a recovery from host %s may lose writes that were acknowledged: the logs of too few voters can be read to know that it is the furthest, and those of %s cannot%s", c.Host, awayWords(missing, working), wayOut)
}

// withLost is the command with further hosts named as lost, and what a person may
// do beside it; where all that is missed is at work there is nothing to do but wait, and
// a host that answers is not to be given up.
func (v *view) withLost(c *cluster.Command, missing []cluster.HostID) (command, wayOut string) {
	if len(missing) == 0 {
		return "", "; that ends by itself"
	}
	if v.anyOf(missing, cluster.PresenceIncompatible) {
		return "", ". Something answers where the daemons of some of them are, and it and this one do not talk with each other, which may be what is wrong: look at that first"
	}
	if v.anyOf(missing, cluster.PresenceStarting) {
		return "", ". Some of them are starting, which comes first"
	}
	if left, after := RecoveryOffered(v.obs); c.Kind == cluster.CommandRecover && left > 0 {
		var since []string
		for _, id := range missing {
			since = append(since, v.missingWords(id))
		}
		return "", fmt.Sprintf(". They may serve without this side, so that no command without them is named before the loss has lasted %s (--dead-after): %s. Bring those back", after, strings.Join(since, ", "))
	}
	all := *c
	all.Lost = union(c.Lost, missing)
	return v.generationCommand(&all), ". Bring those back, or name the ones that are gone for good"
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

// logless are voters without a log in sight, where those that have one are too
// few; none: they are enough. Those whose hosts are at work are no lost ones.
func (v *view) logless(c *cluster.Command, from *cluster.HostReport) (out, working []cluster.HostID) {
	var sets [][]cluster.Voter
	if c.Name == "" || v.intent == nil || v.intent.CommandID != c.Name { // of a generation of this very command there is nothing to lose
		if v.intent != nil && !v.neverBegan() {
			sets = v.past().Voters
		}
	}
	if v.intent != nil && from.Local.Generation < v.intent.Generation {
		for _, g := range v.intent.History {
			if g.Generation == from.Local.Generation {
				sets = append(sets, g.Voters...)
			}
		}
	}
	for _, set := range sets {
		known, missing, busy := 0, []cluster.HostID(nil), []cluster.HostID(nil)
		for _, w := range set {
			switch {
			case lost(w, c.Lost) || v.logOf(w):
				known++
			case v.presence(w.Host) == cluster.PresenceBusy:
				busy = append(busy, w.Host)
			default:
				missing = append(missing, nameOf(w))
			}
		}
		if known < cluster.Blocking(len(set)) {
			out, working = union(out, missing), union(working, busy)
		}
	}
	return out, working
}

// neverBegan: the generation that is being founded has one founder, whose host says that it
// has nothing of it: nobody was served by it.
func (v *view) neverBegan() bool {
	in := v.intent
	if in.State != cluster.IntentFounding || !in.Source.FromData() || len(in.Founders) != 1 {
		return false
	}
	h, ok := v.obs.Host(in.Founders[0].Host)
	return ok && h.UnderFence && h.Disk == in.Founders[0].Disk && !(h.Carries() && h.Local.Generation >= in.Generation)
}

// logOf: the end of the voter's log is in sight.
func (v *view) logOf(w cluster.Voter) bool {
	for i := range v.obs.Hosts {
		if h := &v.obs.Hosts[i]; h.Local.Member == w.Member && h.Log != nil {
			return true
		}
	}
	return false
}

// lostAndAlive blocks a command that names hosts as lost of which some are alive
// for sure: a read went through raft just now, and without them those that read
// it are no quorum. Beside them a second generation would serve.
func (v *view) lostAndAlive(c *cluster.Command) *Decision {
	if v.intent == nil || !v.seen || !v.roster.Linearizable || v.roster.Cluster != v.intent.Cluster {
		return nil
	}
	rest, named := 0, []string(nil)
	for _, s := range v.roster.Voters() {
		if s.Host == nil && lost(s.AsVoter(), c.Lost) {
			named = append(named, seatName(s))
			continue
		}
		rest++
	}
	switch n := len(v.roster.Voters()); {
	case rest < cluster.Quorum(n):
		return wait(true, "promises", "", "of the hosts that are named as lost (%s) at least %d run etcd: a member in sight just read through a quorum of the %d voters. Bring their daemons back, or stop their etcd first", strings.Join(named, ", "), cluster.Quorum(n)-rest, n)
	case c.Kind == cluster.CommandRecover:
		return wait(true, "recovering", "", "a quorum of the %d voters serves, though the daemons of some are silent (%s): nothing has to be recovered", n, strings.Join(v.downVoters(), "; "))
	}
	return nil
}

// lostAndThere has a command wait for hosts that it names as lost and whose daemons
// answer that they start, look at their disks, or carry out an op: after a power cut
// such hosts come up with a quorum, and perhaps with the furthest log. All of that ends
// within its time, or is late, and then a person's word counts (SAFETY.md, rule 13).
// In a founding that has had its time they did not come up within that.
func (v *view) lostAndThere(c *cluster.Command) *Decision {
	hadItsTime := v.intent != nil && v.intent.State == cluster.IntentFounding && v.stalled()
	var there []string
	for _, g := range v.obs.Gaps {
		switch is := v.presence(g.Host); {
		case g.Host == "" || !v.names(c, g.Host):
		case is == cluster.PresenceBusy || is == cluster.PresenceStarting && !hadItsTime:
			there = append(there, string(g.Host)+v.busyWith(g.Host))
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
	return wait(true, code, "", "a new generation from %s was asked for that gives up hosts whose daemons answer: %s. They are waited for until they are through with that, or take longer than they may; turn the machine off of one that is to be given up",
		commandWords(c), strings.Join(there, ", "))
}

// names: the command names the host as lost, or a voter of it by its member ID.
func (v *view) names(c *cluster.Command, id cluster.HostID) bool {
	if slices.Contains(c.Lost, id) {
		return true
	}
	for _, g := range v.open(true) {
		for _, set := range g.Voters {
			if slices.ContainsFunc(set, func(w cluster.Voter) bool { return w.Host == id && lost(w, c.Lost) }) {
				return true
			}
		}
	}
	return false
}

// opposedWithin is how long a command to recover lies in the queue before a member is
// stopped for it. A leader on the other side of a broken network, where the cluster
// serves, lists the queue every few seconds and ends the command; where this one has
// claimed the record meanwhile, it claims it back first, after 15 s at most and a look
// or two (SAFETY.md, rule 6).
const opposedWithin = 30 * time.Second

// unopposed has a recovery wait, before a member is stopped for it, until another
// leader had its time to reject it.
func (v *view) unopposed(c *cluster.Command) *Decision {
	if c.Kind != cluster.CommandRecover || !v.queued(c.Name) {
		return nil
	}
	if v.intent != nil && !v.intent.By.OutOfReach() && v.obs.Fence.Less(v.intent.By) {
		return wait(true, "recovering", "", "host %s leads too, and wrote the record after this one: it may serve with the others. The member of host %s is not stopped before it has been silent for a while", v.intent.By.Host, c.Host)
	}
	if since := v.obs.Memory.AskedSince(c.Name); since.IsZero() || v.obs.At.Sub(since) < opposedWithin {
		return wait(true, "recovering", "", "the member of host %s is stopped once the command has been in the queue for %s and no other leader has rejected it; etcd-manager-ctl delete-command %s takes it back", c.Host, opposedWithin, c.Name)
	}
	return nil
}

// reviveStopped starts a member again that was stopped for a recovery which
// nobody asks for any more: it was refused, taken out of the queue, or its
// leader ended in between.
func (v *view) reviveStopped() *Decision {
	if v.intent == nil || v.queueUnknown() {
		return nil
	}
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if !h.UnderFence || h.Local.Run || h.Local.State != cluster.MemberStarted || !h.Local.HasData || h.Process.State != cluster.ProcessStopped ||
			h.Local.Generation != v.intent.Generation || h.Floor() > h.Local.Generation || problem(h) != "" || v.recoveredFrom(h.Host) ||
			v.surelyUnlisted(h.Local.Member) {
			continue
		}
		if v.surelyUp(h.Local.Member) {
			continue // something else runs it: a copy of its disk, or a process that the host takes for ended
		}
		p := v.projection(0, 0)
		return &Decision{
			Reason: fmt.Sprintf("no recovery from host %s is asked for any more: start its member again", h.Host), Again: soon,
			Action: &Action{Kind: ActHosts, Projection: &p, Ops: []HostOp{onHost(h, cluster.Guard{}, v.restart(h, "the recovery was given up"))}},
		}
	}
	return nil
}

// surelyUnlisted: a current list does not hold the member: it was removed, or
// those in sight are another cluster's.
func (v *view) surelyUnlisted(id cluster.MemberID) bool {
	r, seen := v.obs.Roster()
	_, listed := r.Seat(id)
	return seen && r.Linearizable && !listed
}

// surelyUp: the member answers for itself.
func (v *view) surelyUp(id cluster.MemberID) bool {
	r, _ := v.obs.Roster()
	s, listed := r.Seat(id)
	return listed && s.Up
}

// recoveredFrom: a command in the queue asks for a recovery from the host.
func (v *view) recoveredFrom(id cluster.HostID) bool {
	for _, c := range v.obs.Commands {
		if c.Kind == cluster.CommandRecover && c.Host == id && c.Ended == "" && c.Malformed == "" && !v.wasRun(c.Name) {
			return true
		}
	}
	return false
}

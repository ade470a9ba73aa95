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

// MayRecover refuses a recovery where it is not called for: while a quorum
// serves, or from a member that is not the furthest in raft's order. It is asked
// until the intent is written, because a host that is further may come back
// until then. What was stopped for a recovery that is refused is started again
// by [ReviveStopped].
func MayRecover(v *step.View, c *cluster.Command) *decision.Decision {
	if c.Kind != cluster.CommandRecover {
		return nil
	}
	if v.Seen && v.Roster.HasQuorum() || !v.Seen && v.Obs.Serves(v.Intent) {
		return decision.EndCommand(c.Name, decision.CommandRejected, "the cluster has a quorum; no recovery is needed: a member that is lost is replaced by itself")
	}
	h, ok := v.Obs.Host(c.Host)
	switch {
	case !ok:
		return decision.Stuck("recovering", "", "waiting for host {host}, from whose data the cluster is to be recovered", c.Host)
	case !h.Local.HasData || h.Local.State != cluster.MemberStarted:
		return decision.EndCommand(c.Name, decision.CommandRejected, fmt.Sprintf("host %s holds no data of a member that could be recovered from", c.Host))
	case h.Log == nil:
		far := ""
		if h.Reading != nil {
			far = fmt.Sprintf(": %s", h.Reading)
		}
		return decision.Stuck("recovering", "", "reading the end of the log of host {host}{far}", c.Host, far)
	}
	further, reading := sight.Rivals(v.Obs.Hosts, h)
	if further != nil {
		return decision.EndCommand(c.Name, decision.CommandRejected, fmt.Sprintf("host %s is further than %s (term %d, index %d against term %d, index %d), and recovering from %s would lose what it has: etcdadm recover --from %s",
			further.Host, h.Host, further.Log.Term, further.Log.Index, h.Log.Term, h.Log.Index, h.Host, further.Host))
	}
	for _, o := range reading {
		if !sight.Lost(cluster.Voter{Host: o.Host, Member: o.Local.Member}, c.Lost) {
			return decision.Stuck("recovering", "", "reading the end of the log of host {host}, which may be further than that of {host2}: {reading}", o.Host, h.Host, o.Reading)
		}
	}
	return nil
}

// OpposedWithin is how long a command to recover lies in the queue before a member is
// stopped for it. A leader on the other side of a broken network, where the cluster
// serves, lists the queue every few seconds and ends the command; where this one has
// claimed the record meanwhile, it claims it back first, after 15 s at most and a look
// or two (SAFETY.md, rule 6).
const OpposedWithin = 30 * time.Second

// Unopposed has a recovery wait, before a member is stopped for it, until another
// leader had its time to reject it.
func Unopposed(v *step.View, c *cluster.Command) *decision.Decision {
	if c.Kind != cluster.CommandRecover || !v.Queued(c.Name) {
		return nil
	}
	if v.Intent != nil && !v.Intent.By.OutOfReach() && v.Obs.Fence.Less(v.Intent.By) {
		return decision.Stuck("recovering", "", "host {host} leads too and wrote the record later: it may serve with the others. The member of host {host2} is not stopped until that leader has been silent for a while", v.Intent.By.Host, c.Host)
	}
	if since := v.Obs.Memory.AskedSince(c.Name); since.IsZero() || v.Obs.At.Sub(since) < OpposedWithin {
		return decision.Stuck("recovering", "", "the member of host {host} stops once the command was queued for {opposedWithin} and no other leader rejected it; etcdadm queue cancel {name} withdraws it", c.Host, OpposedWithin, c.Name)
	}
	return nil
}

// ReviveStopped starts a member again that was stopped for a recovery which
// nobody asks for any more: it was refused, taken out of the queue, or its
// leader ended in between.
func ReviveStopped(v *step.View) *decision.Decision {
	if v.Intent == nil || v.QueueUnknown() {
		return nil
	}
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if !h.UnderFence || h.Local.Run || h.Local.State != cluster.MemberStarted || !h.Local.HasData || h.Process.State != cluster.ProcessStopped ||
			h.Local.Generation != v.Intent.Generation || h.Floor() > h.Local.Generation || sight.Problem(h) != "" || recoveredFrom(v, h.Host) ||
			surelyUnlisted(v, h.Local.Member) {
			continue
		}
		if surelyUp(v, h.Local.Member) {
			continue // something else runs it: a copy of its disk, or a process that the host takes for ended
		}
		p := v.Projection(0, 0)
		return &decision.Decision{
			Reason: words.F("no recovery from host {host} is queued any more: start its member again", h.Host), Again: decision.Soon,
			Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Ops: []decision.HostOp{decision.OnHost(h, cluster.Guard{}, step.Restart(v, h, "the recovery was given up"))}},
		}
	}
	return nil
}

// surelyUnlisted: a current list does not hold the member: it was removed, or
// those in sight are another cluster's.
func surelyUnlisted(v *step.View, id cluster.MemberID) bool {
	r, seen := v.Obs.Roster()
	_, listed := r.Seat(id)
	return seen && r.Linearizable && !listed
}

// surelyUp: the member answers for itself.
func surelyUp(v *step.View, id cluster.MemberID) bool {
	r, _ := v.Obs.Roster()
	s, listed := r.Seat(id)
	return listed && s.Up
}

// recoveredFrom: a command in the queue asks for a recovery from the host.
func recoveredFrom(v *step.View, id cluster.HostID) bool {
	for _, c := range v.Obs.Commands {
		if c.Kind == cluster.CommandRecover && c.Host == id && c.Ended == "" && c.Malformed == "" && !v.Obs.Ran(c.Name) {
			return true
		}
	}
	return false
}

// outrun stops a recovery, once all have promised, where a host in sight holds a log of the
// same cluster that goes further than the survivor's: it came back after the recovery was
// written down, and what it has would be lost.
func outrun(v *step.View) *decision.Decision {
	in := v.Intent
	if in.Source.Kind != cluster.SourceSurvivor || in.Reached == (cluster.Progress{}) {
		return nil
	}
	from := in.Superseded()
	if from == 0 {
		return nil
	}
	survivors := sight.Furthest(v.Obs.Hosts, func(h *cluster.HostReport) bool { return h.Local.Cluster == from })
	for _, o := range survivors.Unread {
		if o.Reading != nil || sight.WatchedFor(v.Sight) < sight.FoundingStalled { // a leader that has just begun has asked nobody for it yet
			return decision.Stuck("recovering", "", "reading the end of the log of host {host}, which may go further than the survivor's", o.Host)
		}
	}
	o := survivors.Furthest
	if o == nil || o.Log == nil || !in.Reached.Before(*o.Log) {
		return unheard(v, from)
	}
	c := cluster.Command{Kind: cluster.CommandRecover, Host: o.Host, Lost: in.Lost}
	c.Lost = slices.DeleteFunc(slices.Clone(c.Lost), func(id cluster.HostID) bool { _, there := v.Obs.Host(id); return there })
	return decision.Stuck("recovering", GenerationCommand(v, &c), "generation {generation} does not start: host {host} came back with a longer log than the survivor (term {term}, index {index} against term {term2}, index {index2}), so acknowledged writes would be lost. Recover from that host instead", in.Generation, o.Host, o.Log.Term, o.Log.Index, in.Reached.Term, in.Reached.Index)
}

// unheard has a recovery wait for the hosts of the cluster's voters that this look does not
// show, and that may answer the next one: each may have come back with a longer log, also
// where the look before this one showed it. A host that was named as lost is given up once
// it has been silent for as long as a founding has; the founder has no more than was read.
func unheard(v *step.View, from cluster.ClusterID) *decision.Decision {
	in := v.Intent
	for _, g := range in.History {
		if g.Cluster != from {
			continue
		}
		for _, w := range slices.Concat(g.Voters...) {
			_, there := v.Obs.Host(w.Host)
			silent := sight.SilentFor(v.Sight, w.Host)
			if there || w.Host == in.Founders[0].Host || !v.AnswersSoon(w.Host) && silent >= sight.FoundingStalled {
				continue
			}
			return decision.WaitLater("recovering", "", "generation {generation} does not start yet: host {host}{busyWith} has been silent for {silent}, and its log may be longer than the survivor's. The generation starts without a host that neither answers nor carries out an op for {foundingStalled}",
				in.Generation, sight.NameOf(w), v.BusyWith(w.Host), silent.Round(time.Second), sight.FoundingStalled)
		}
	}
	return nil
}

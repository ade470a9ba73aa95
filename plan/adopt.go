package plan

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// adopt takes over a cluster that etcd-manager founded (SAFETY.md, rule 18;
// docs/adr/016-adoption.md). While one of its members is run by somebody else,
// who promises nothing, the hosts only keep their own running. Once every member
// is a voter, and up under this leader's fence on a host of ours, its record is
// written over the marker. Nil: no host in sight holds anything of such a cluster.
func (v *view) adopt() *Decision {
	var taken, waiting []*cluster.HostReport
	for i := range v.obs.Hosts {
		switch h := &v.obs.Hosts[i]; {
		case h.TookOver():
			taken = append(taken, h)
		case h.Predecessor != nil:
			waiting = append(waiting, h)
		}
	}
	if len(taken) == 0 && len(waiting) == 0 {
		return nil
	}
	if !v.obs.Store.Read {
		return wait(false, "store-silent", "", "the members that were taken over are kept running; waiting for the backup store")
	}
	if !v.obs.Store.Marker {
		return wait(false, "no-intent", "", "%s members of another program's cluster, and the store has no created marker; they are kept running, and nothing is changed: is this the store of that cluster?", hold(taken, waiting))
	}
	open := v.notOurs(taken, waiting)
	if len(open) == 0 {
		return v.writeAdopted(taken)
	}
	kept := "none of its members was taken over yet"
	if len(taken) > 0 {
		kept = fmt.Sprintf("%s taken over (%s)", are(len(taken), "member"), hostNames(taken))
	}
	command := ""
	if c := v.nextCommand(); c != nil {
		command = fmt.Sprintf("; command %s waits for that%s", c.Name, v.lostMidway(c, taken, waiting))
	}
	d := wait(false, "predecessor", "", "the cluster is being taken over from what ran it before: %s; until all are, each is only kept running and nothing is changed: %s%s", kept, strings.Join(open, "; "), command)
	if len(taken) > 0 && (!v.seen || slices.ContainsFunc(v.roster.Seats, func(s cluster.Seat) bool { return s.Host != nil && !s.Up })) {
		d.Again = later // no event tells that a member serves
	}
	return d
}

// lostMidway is the way out for a person whose cluster lost its majority while it
// was being taken over: there is no record to go on from, so that only a backup is
// left, beside which nothing of the cluster may be in sight (staysAdopted). Empty
// while members of it may come back by themselves, as far as can be seen.
func (v *view) lostMidway(c *cluster.Command, taken, waiting []*cluster.HostReport) string {
	if len(taken) == 0 || len(waiting) > 0 || v.seen && v.roster.Linearizable {
		return ""
	}
	hosts := "a majority of the wanted hosts, empty ones"
	if v.spec != nil {
		hosts = fmt.Sprintf("%d empty hosts", cluster.Quorum(v.spec.MemberCount))
	}
	then := "it is run then"
	if c.Kind != cluster.CommandRestore {
		then = "queue a restore in its place, since nothing can be recovered from a cluster that was not taken over"
	}
	return fmt.Sprintf(". If the members that are missing are gone for good, only a backup is left: end our daemon with its etcd (SIGINT) on %s, move the data directory away there and keep it, and have our daemons run on %s; %s", hostNames(taken), hosts, then)
}

func hold(taken, waiting []*cluster.HostReport) string {
	all := slices.Concat(taken, waiting)
	if len(all) == 1 {
		return "host " + hostNames(all) + " holds"
	}
	return "hosts " + hostNames(all) + " hold"
}

// notOurs says for which members no daemon of ours answers for under this fence,
// or why that cannot be told.
func (v *view) notOurs(taken, waiting []*cluster.HostReport) (open []string) {
	for _, h := range waiting {
		if h.Predecessor.Invited() && v.seen && v.roster.Linearizable {
			continue // it runs none, and one that is added yet is listed below as a learner
		}
		open = append(open, fmt.Sprintf("host %s does not run its member: %s", h.Host, hinted(h.Predecessor)))
	}
	if !v.seen || !v.roster.Linearizable {
		return append(open, "no member in sight gives a list that is surely current")
	}
	for _, s := range v.roster.Seats {
		switch {
		case s.Learner:
			open = append(open, fmt.Sprintf("member %s is a learner: who added it is to promote or remove it (etcdadm adopt, etcd-manager)", seatName(s)))
		case s.Owner != nil && s.Owner.Predecessor != nil && !s.Owner.Predecessor.Invited(): // said above
		case s.Host == nil && s.Owner == nil:
			open = append(open, fmt.Sprintf("on host %s, stop what runs etcd there and start this daemon in its place, or let etcdadm adopt --join remove its member (%s)", seatName(s), s.Why))
		case !s.Up && s.Owner != nil && s.Owner.Predecessor != nil: // its host knows more
			open = append(open, fmt.Sprintf("member of host %s: %s: %s", seatName(s), s.Why, hinted(s.Owner.Predecessor)))
		case !s.Up:
			open = append(open, fmt.Sprintf("member of host %s: %s", seatName(s), s.Why))
		case !s.Host.TookOver() || s.Host.Local.Cluster != v.roster.Cluster || s.Host.Local.Token != taken[0].Local.Token:
			open = append(open, fmt.Sprintf("host %s runs its member for another cluster or under another token than host %s", s.Host.Host, taken[0].Host))
		}
	}
	for _, h := range taken {
		if _, listed := v.roster.Seat(h.Local.Member); !listed {
			open = append(open, fmt.Sprintf("member %s of host %s is not listed any more: it was removed; give the host an empty data directory", h.Local.Member, h.Host))
		}
	}
	return open
}

func hinted(p *cluster.Predecessor) string {
	if p.Hint == "" {
		return p.Waits
	}
	return p.Waits + " (" + p.Hint + ")"
}

// writeAdopted is the one conditional write over the marker: generation 1 of the
// very cluster that runs. Its history is empty, since nothing was superseded.
func (v *view) writeAdopted(taken []*cluster.HostReport) *Decision {
	in := &cluster.Intent{
		Name: v.obs.Cluster, Generation: 1, Token: taken[0].Local.Token, Version: v.version(),
		Source: cluster.Source{Kind: cluster.SourceAdopted}, State: cluster.IntentFounded, Cluster: v.roster.Cluster,
		Voters: v.votersNow(), Quarantined: slices.ContainsFunc(taken, func(h *cluster.HostReport) bool { return h.Local.Quarantined }),
	}
	for _, s := range v.roster.Voters() {
		in.Founders = append(in.Founders, cluster.Founder{Host: s.Host.Host, Disk: s.Host.Disk, Member: s.ID, URLs: s.Host.Local.URLs})
	}
	return &Decision{
		Reason: fmt.Sprintf("all %d members of cluster %s are run by our daemons now: write down that it is ours", len(in.Voters), in.Cluster),
		Again:  soon,
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
	}
}

package record

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// adopt takes over a cluster that etcd-manager founded (SAFETY.md, rule 18;
// docs/adr/016-adoption.md). While one of its members is run by somebody else,
// who promises nothing, the hosts only keep their own running. Once every member
// is a voter, and up under this leader's fence on a host of ours, its record is
// written over the marker. Nil: no host in sight holds anything of such a cluster.
func adopt(v *step.View) *decision.Decision {
	var taken, waiting []*cluster.HostReport
	for i := range v.Obs.Hosts {
		switch h := &v.Obs.Hosts[i]; {
		case h.TookOver():
			taken = append(taken, h)
		case h.Predecessor != nil:
			waiting = append(waiting, h)
		}
	}
	if len(taken) == 0 && len(waiting) == 0 {
		return nil
	}
	if !v.Obs.Store.Read {
		return decision.Wait(false, "store-silent", "", "the members that were taken over are kept running; waiting for the backup store")
	}
	if !v.Obs.Store.Marker {
		return decision.Wait(false, "no-intent", "", "{hold} members of another program's cluster, and the store has no created marker; they are kept running, and nothing is changed: is this the store of that cluster?", hold(taken, waiting))
	}
	open := notOurs(v, taken, waiting)
	if len(open) == 0 {
		return writeAdopted(v, taken)
	}
	kept := "none of its members was taken over yet"
	if len(taken) > 0 {
		kept = fmt.Sprintf("%s taken over (%s)", words.Are(len(taken), "member"), words.HostNames(taken))
	}
	command := ""
	if c := v.NextCommand(); c != nil {
		command = fmt.Sprintf("; command %s waits for that%s", c.Name, lostMidway(v, c, taken, waiting))
	}
	d := decision.Wait(false, "predecessor", "", "the cluster is being taken over from what ran it before: {kept}; until all are, each is only kept running and nothing is changed: {open}{command}", kept, strings.Join(open, "; "), command)
	if len(taken) > 0 && (!v.Seen || slices.ContainsFunc(v.Roster.Seats, func(s cluster.Seat) bool { return s.Host != nil && !s.Up })) {
		d.Again = decision.Later // no event tells that a member serves
	}
	return d
}

// giveUp is where a person reads how an adoption is given up.
const giveUp = `docs/operations/predecessor.md, "To give up"`

// lostMidway is the way out for a person whose cluster lost its majority while it
// was being taken over: there is no record to go on from, so that only a backup is
// left, beside which nothing of the cluster may be in sight (staysAdopted). Empty
// while members of it may come back by themselves, as far as can be seen.
func lostMidway(v *step.View, c *cluster.Command, taken, waiting []*cluster.HostReport) string {
	if len(taken) == 0 || len(waiting) > 0 || v.Seen && v.Roster.Linearizable {
		return ""
	}
	if v.Obs.Store.Joining {
		return fmt.Sprintf(". If the members that are missing are gone for good, only a backup is left: give the adoption up (%s), and begin a cluster with that", giveUp)
	}
	hosts := "a majority of the wanted hosts, empty ones"
	if v.Spec != nil {
		hosts = fmt.Sprintf("%d empty hosts", cluster.Quorum(v.Spec.MemberCount))
	}
	then := "it is run then"
	if c.Kind != cluster.CommandRestore {
		then = "queue a restore in its place, since nothing can be recovered from a cluster that was not taken over"
	}
	return fmt.Sprintf(". If the members that are missing are gone for good, only a backup is left: end our daemon with its etcd (SIGINT) on %s, move the data directory away there and keep it, and have our daemons run on %s; %s", words.HostNames(taken), hosts, then)
}

func hold(taken, waiting []*cluster.HostReport) string {
	all := slices.Concat(taken, waiting)
	if len(all) == 1 {
		return "host " + words.HostNames(all) + " holds"
	}
	return "hosts " + words.HostNames(all) + " hold"
}

// notOurs says for which members no daemon of ours answers for under this fence,
// or why that cannot be told.
func notOurs(v *step.View, taken, waiting []*cluster.HostReport) (open []string) {
	for _, h := range waiting {
		if h.Predecessor.Invited() && v.Seen && v.Roster.Linearizable {
			continue // it runs none, and one that is added yet is listed below as a learner
		}
		open = append(open, fmt.Sprintf("host %s does not run its member: %s", h.Host, hinted(h.Predecessor)))
	}
	if !v.Seen || !v.Roster.Linearizable {
		return append(open, "no member in sight gives a list that is surely current")
	}
	for _, s := range v.Roster.Seats {
		switch {
		case s.Learner:
			open = append(open, fmt.Sprintf("member %s is a learner: who added it is to promote or remove it (etcdadm adopt, etcd-manager)", words.SeatName(s)))
		case s.Owner != nil && s.Owner.Predecessor != nil && !s.Owner.Predecessor.Invited(): // said above
		case s.Host == nil && s.Owner == nil:
			open = append(open, fmt.Sprintf("on host %s, stop what runs etcd there and start this daemon in its place, or let etcdadm adopt --join remove its member (%s)", words.SeatName(s), s.Why))
		case !s.Up && s.Owner != nil && s.Owner.Predecessor != nil: // its host knows more
			open = append(open, fmt.Sprintf("member of host %s: %s: %s", words.SeatName(s), s.Why, hinted(s.Owner.Predecessor)))
		case !s.Up:
			open = append(open, fmt.Sprintf("member of host %s: %s", words.SeatName(s), s.Why))
		case !s.Host.TookOver() || s.Host.Local.Cluster != v.Roster.Cluster || s.Host.Local.Token != taken[0].Local.Token:
			open = append(open, fmt.Sprintf("host %s runs its member for another cluster or under another token than host %s", s.Host.Host, taken[0].Host))
		}
	}
	for _, h := range taken {
		if _, listed := v.Roster.Seat(h.Local.Member); !listed {
			open = append(open, fmt.Sprintf("member %s of host %s is not listed any more: it was removed; give the host an empty data directory, or in Kubernetes delete its claim and its pod", h.Local.Member, h.Host))
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
func writeAdopted(v *step.View, taken []*cluster.HostReport) *decision.Decision {
	in := &cluster.Intent{
		Name: v.Obs.Cluster, Generation: 1, Token: taken[0].Local.Token, Version: v.Version(),
		Source: cluster.Source{Kind: cluster.SourceAdopted}, State: cluster.IntentFounded, Cluster: v.Roster.Cluster,
		Voters: v.VotersNow(), Quarantined: slices.ContainsFunc(taken, func(h *cluster.HostReport) bool { return h.Local.Quarantined }),
	}
	for _, s := range v.Roster.Voters() {
		in.Founders = append(in.Founders, cluster.Founder{Host: s.Host.Host, Disk: s.Host.Disk, Member: s.ID, URLs: s.Host.Local.URLs})
	}
	return &decision.Decision{
		Reason: words.F("all {voters} members of cluster {cluster} run under our daemons: record the cluster as ours", len(in.Voters), in.Cluster),
		Again:  decision.Soon,
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}},
	}
}

// StaysAdopted reports whether a marker of the predecessor stays as it is, and why a command
// does not change that. It does where a command asks for a generation over it, no
// host has anything of its cluster or is out of sight, and a majority of the wanted
// hosts says so. The command is the person's word for hosts that nobody can name;
// but the predecessor's own daemons read the same queue, and may be running
// beside a single one of ours. A cluster that our hosts join serves elsewhere, whatever
// they hold: its marker stays for every command, until that is given up.
func StaysAdopted(v *step.View) (stays bool, why string) {
	c := v.NextCommand()
	switch {
	case c == nil || v.Intent == nil:
		return true, ""
	case v.Obs.Store.Joining:
		return true, fmt.Sprintf("; command %s is held, since it would make a second cluster beside the one that is joined. To have it run, give the adoption up first (%s), and queue it again", c.Name, giveUp)
	}
	empty := 0
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if h.Carries() || len(h.Foreign) > 0 || h.Process.State != cluster.ProcessStopped {
			return true, fmt.Sprintf("; command %s is not run, since host %s holds data or runs something", c.Name, h.Host)
		}
		if h.UnderFence {
			empty++
		}
	}
	for _, g := range v.Obs.Gaps {
		if g.Host != "" && !slices.Contains(c.Lost, g.Host) {
			return true, fmt.Sprintf("; command %s waits for host %s, which may run a member of the predecessor: bring it back, or queue the command again with --lost %s", c.Name, g.Host, g.Host)
		}
	}
	if v.Spec != nil && empty < cluster.Quorum(v.Spec.MemberCount) {
		return true, fmt.Sprintf("; command %s waits for daemons on %d empty hosts, a majority of the %d that are wanted, and %s there: the predecessor's may still run on the others", c.Name, cluster.Quorum(v.Spec.MemberCount), v.Spec.MemberCount, words.Are(empty, "host"))
	}
	return false, ""
}

// restoreAdopted is how a person goes on from the predecessor's newest backup;
// empty while a host in sight holds anything, or a command waits already.
func restoreAdopted(v *step.View) string {
	b := v.Obs.Backups.Newest
	if len(b) == 0 || v.NextCommand() != nil {
		return ""
	}
	for i := range v.Obs.Hosts {
		if h := &v.Obs.Hosts[i]; h.Carries() || len(h.Foreign) > 0 || h.Process.State != cluster.ProcessStopped {
			return ""
		}
	}
	return "etcdadm restore " + b[0].Name
}

package generation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/pauses"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// survivorCommand asks for a recovery from the furthest of the seats whose data
// is in sight; both empty: those in sight are a quorum, or there is none. It names
// nobody as lost: who is cut off sees the others just as it would see them lost, so
// a person says which are. No command is given before the loss has lasted.
func survivorCommand(v *step.View, voters []cluster.Seat) (command string, says words.Text) {
	holds := map[cluster.HostID]bool{}
	var gone []string
	var back []cluster.HostID // a person said that they come back
	for _, s := range voters {
		h := s.Host
		if h == nil || h.Local.Member != s.ID || !h.Local.HasData {
			if is := v.Presence(s.HostID); v.OpenToOthers(s.ID) || is == cluster.PresenceBusy || is == cluster.PresenceStarting || is.Elsewhere() {
				return "", says // only a daemon is silent, at work or starting, or not understood: nobody may give that host up
			}
			gone = append(gone, missingWords(v, cmp.Or(s.HostID, cluster.HostID(s.ID.String()))))
			if pauses.NotePausedAway(v, s.HostID) {
				back = append(back, s.HostID)
			}
			continue
		}
		holds[h.Host] = true
	}
	logs := sight.Furthest(v.Obs.Hosts, func(h *cluster.HostReport) bool { return holds[h.Host] })
	best := logs.Furthest
	if best == nil || len(voters)-len(gone) >= cluster.Quorum(len(voters)) {
		return "", says
	}
	missing := "; missing: " + strings.Join(gone, ", ")
	if len(back) > 0 && len(voters)-len(gone)+len(back) >= cluster.Quorum(len(voters)) {
		return "", words.F("{missing}. Bring {back} back: paused hosts are not given up, and with them {up} of {number} voters are up", missing, words.IdList(back), len(voters)-len(gone)+len(back), len(voters))
	}
	if left, after := RecoveryOffered(v.Obs); left > 0 {
		return "", words.F("{missing}. They may serve without this side: look at them, and at the network between, first. A recovery without them is offered once the loss has lasted {after} (--dead-after)", missing, after)
	}
	if reading := slices.IndexFunc(logs.Unread, func(h *cluster.HostReport) bool { return h.Reading != nil }); reading >= 0 {
		missing += fmt.Sprintf("; the log of host %s is still being read and may go further", logs.Unread[reading].Host)
	}
	return GenerationCommand(v, &cluster.Command{Kind: cluster.CommandRecover, Host: best.Host}),
		words.F("{missing}. If so many of their disks are gone for good that no quorum can come back, the cluster can go on from what host {survivor} has: the command shows what each host holds; name each host that is gone for good with --lost HOST", missing, best.Host)
}

// RecoverCommand is what a person may do when the voters whose data is in sight
// are no quorum, and what to know before; empty while they are one. Whether the
// others are gone for good cannot be seen from here.
func RecoverCommand(v *step.View) (command string, says words.Text) {
	if v.Intent.Generation == 0 || v.Intent.State != cluster.IntentFounded {
		return "", says
	}
	return survivorCommand(v, v.Roster.Voters())
}

// RecordedSurvivor is [RecoverCommand] where no member gives a list: the voters are
// those of the record. A host that came back without its data counts as gone.
func RecordedSurvivor(v *step.View) (command string, says words.Text) {
	if v.Intent.Generation == 0 || v.Intent.State != cluster.IntentFounded {
		return "", says
	}
	var seats []cluster.Seat
	for _, w := range v.Intent.Voters {
		s := cluster.Seat{Member: cluster.Member{ID: w.Member, PeerURLs: w.PeerURLs}, HostID: w.Host}
		if h, ok := v.Obs.Host(w.Host); ok && h.Disk == w.Disk {
			s.Host = h
		}
		seats = append(seats, s)
	}
	return survivorCommand(v, seats)
}

// RecoveryOffered is how long no recovery is offered yet, of the time that the loss of
// a quorum has to last before: in the first minutes it may be a broken network as well,
// behind which the others serve.
func RecoveryOffered(o *cluster.Observation) (left, after time.Duration) {
	after = cluster.DefaultDeadAfter
	if s := o.Wanted(); s != nil {
		after = s.DeadAfterOrDefault()
	}
	since := o.Memory.QuorumlessSince
	if in := o.Intent(); in != nil && in.State == cluster.IntentFounding {
		since = o.Memory.Founding.Since
	}
	if since.IsZero() {
		return after, after
	}
	return max(since.Add(after).Sub(o.At), 0), after
}

// missingWords says of a host whose data is missed what is known of it, and since when.
func missingWords(v *step.View, id cluster.HostID) string {
	if _, there := v.Obs.Host(id); there {
		return string(id) + " (it answers, without the data)"
	}
	if p, paused := v.Obs.PauseOf(id); paused {
		return fmt.Sprintf("%s (paused until %s: %s)", id, words.ClockWords(p.Until), p.Reason)
	}
	if m, ok := v.Obs.Memory.Host(id); ok && !m.GapSince.IsZero() {
		return fmt.Sprintf("%s (unreachable since %s)", id, m.GapSince.UTC().Format(time.RFC3339))
	}
	return string(id) + " (unreachable, and not seen since this daemon leads)"
}

// furthestSurvivor is the host with the furthest log; or why none may be taken.
func furthestSurvivor(v *step.View) (*cluster.HostReport, string) {
	ours := func(h *cluster.HostReport) bool {
		return h.Local.Generation == v.Intent.Generation && h.Local.Cluster == v.Intent.Cluster
	}
	top := cluster.Progress{Term: v.Obs.Recorded.Term, Index: v.Obs.Recorded.Index}
	for i := range v.Obs.Hosts {
		if h := &v.Obs.Hosts[i]; ours(h) && top.Before(h.Highest) {
			top = h.Highest
		}
	}
	survivors := sight.Furthest(v.Obs.Hosts, ours)
	switch best := survivors.Furthest; {
	case best == nil:
		return nil, "no host in sight holds its data"
	case len(survivors.Unread) > 0:
		return nil, fmt.Sprintf("the end of the log of host %s was not read yet", survivors.Unread[0].Host)
	case best.Log.Before(top):
		return nil, fmt.Sprintf("host %s is the furthest in sight, at term %d and index %d, and term %d and index %d are on record: a host that is out of sight has more",
			best.Host, best.Log.Term, best.Log.Index, top.Term, top.Index)
	default:
		return best, ""
	}
}

// FurthestData is the host that still holds data of the newest generation that
// served, and of those the one that is known to be the furthest; nil: none does.
func FurthestData(v *step.View) *cluster.HostReport {
	return sight.Furthest(v.Obs.Hosts, func(h *cluster.HostReport) bool { return h.Local.Generation < v.Intent.Generation }).Furthest
}

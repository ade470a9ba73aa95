package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// quorum stops everything that needs a quorum while there is none. What is
// left is waiting, and restarting a member in place that sees no raft leader
// (SAFETY.md, rule 2).
func quorum(v *view) *Decision {
	if v.intent == nil {
		// A member list without any record of the cluster's founding.
		switch {
		case v.seen && !v.obs.Store.Read:
			return wait(false, "store-silent", "", "members answer, and no host keeps the record of their founding; waiting for the backup store, which may have it")
		case v.seen:
			return wait(false, "no-intent", "", "members answer, and neither the store nor a host has the record of their founding; nothing is changed")
		}
		return nil
	}
	if v.seen && v.roster.Linearizable && v.roster.HasQuorum() {
		return nil
	}
	voters := len(v.intent.Voters)
	if v.seen {
		voters = len(v.roster.Voters())
	}
	if d := v.newLead(cluster.Quorum(voters)); d != nil {
		return d
	}
	if d := v.revive(); d != nil {
		return d
	}
	if d := v.otherRelease(); d != nil {
		return d
	}
	if !v.seen {
		return v.noMembers()
	}
	n, up := len(v.roster.Voters()), len(v.roster.Up())
	if v.roster.HasQuorum() {
		return wait(true, "settling", "", "the voters answer, but none gave a member list that is surely current; looking again")
	}
	if at := v.defragmented(); len(at) > 0 && up+len(at) >= cluster.Quorum(n) {
		d := wait(true, "no-quorum", "", "%d of %d voters are up while the member of %s is defragmented, which ends by itself: nothing else is changed until then%s", up, n, idList(at), because(v.downVoters()))
		d.Again = later
		return d
	}
	wayOut, command := cmp.Or(v.fromMemory(), v.heldWords()), ""
	if wayOut == "" {
		command, wayOut = v.recoverCommand()
	}
	d := wait(true, "no-quorum", command, "%d of %d voters are up and a quorum is %d: nothing is changed until more are back%s%s",
		up, n, cluster.Quorum(n), because(v.downVoters()), wayOut)
	d.Again = later
	return d
}

// fromMemory says what to do where raft has a quorum all the same, which includes
// voters whose data is gone from their disks: what was acknowledged with them ends
// with their processes. Empty: it has none, or needs nobody's memory.
func (v *view) fromMemory() string {
	if !v.roster.Linearizable {
		return ""
	}
	var memory, others []string
	var id cluster.MemberID
	for _, s := range v.roster.Voters() {
		switch {
		case s.Up:
		case s.Host != nil && s.Host.Vanished() && s.Host.Status != nil && s.Host.Status.Healthy:
			memory, id = append(memory, seatName(s)), s.ID
		default:
			others = append(others, seatName(s))
		}
	}
	if len(memory) == 0 {
		return ""
	}
	back := ""
	switch {
	case len(others) > 0:
		back = ", and bring " + strings.Join(others, ", ") + " back"
	case len(memory) == 1: // of two: each of them has acknowledged all that was
		back = fmt.Sprintf(", then remove it (etcdctl member remove %s): the other voter has all that was acknowledged and goes on alone, and the host joins anew", id)
	}
	return fmt.Sprintf("; etcd serves all the same, and that hangs on the memory of %s: restart nothing there, save a snapshot now, through a voter that has its data (etcdctl snapshot save)%s", strings.Join(memory, ", "), back)
}

// defragmented are the voters' hosts that are at that.
func (v *view) defragmented() []cluster.HostID {
	var out []cluster.HostID
	for _, s := range v.roster.Voters() {
		if g, ok := v.obs.HostGap(s.HostID); ok && s.Host == nil && g.Defragments() {
			out = append(out, s.HostID)
		}
	}
	return out
}

// recoverCommand is what a person may do when the voters whose data is in sight
// are no quorum, and what to know before; empty while they are one. Whether the
// others are gone for good cannot be seen from here.
func (v *view) recoverCommand() (command, words string) {
	if v.intent.Generation == 0 || v.intent.State != cluster.IntentFounded {
		return "", ""
	}
	return v.survivorCommand(v.roster.Voters())
}

// recordedSurvivor is recoverCommand where no member gives a list: the voters are
// those of the record. A host that came back without its data counts as gone.
func (v *view) recordedSurvivor() (command, words string) {
	if v.intent.Generation == 0 || v.intent.State != cluster.IntentFounded {
		return "", ""
	}
	var seats []cluster.Seat
	for _, w := range v.intent.Voters {
		s := cluster.Seat{Member: cluster.Member{ID: w.Member, PeerURLs: w.PeerURLs}, HostID: w.Host}
		if h, ok := v.obs.Host(w.Host); ok && h.Disk == w.Disk {
			s.Host = h
		}
		seats = append(seats, s)
	}
	return v.survivorCommand(seats)
}

// survivorCommand asks for a recovery from the furthest of the seats whose data
// is in sight; both empty: those in sight are a quorum, or there is none. It names
// nobody as lost: who is cut off sees the others just as it would see them lost, so
// a person says which are. No command is given before the loss has lasted.
func (v *view) survivorCommand(voters []cluster.Seat) (command, words string) {
	var best *cluster.HostReport
	var gone []string
	var back []cluster.HostID // a person said that they come back
	for _, s := range voters {
		h := s.Host
		if h == nil || h.Local.Member != s.ID || !h.Local.HasData {
			if is := v.presence(s.HostID); v.openToOthers(s.ID) || is == cluster.PresenceBusy || is == cluster.PresenceStarting || is.Elsewhere() {
				return "", "" // only a daemon is silent, at work or starting, or not understood: nobody may give that host up
			}
			gone = append(gone, v.missingWords(cmp.Or(s.HostID, cluster.HostID(s.ID.String()))))
			if v.notePausedAway(s.HostID) {
				back = append(back, s.HostID)
			}
			continue
		}
		if best == nil || best.Highest.Before(h.Highest) {
			best = h
		}
	}
	if best == nil || len(voters)-len(gone) >= cluster.Quorum(len(voters)) {
		return "", ""
	}
	missing := "; missing: " + strings.Join(gone, ", ")
	if len(back) > 0 && len(voters)-len(gone)+len(back) >= cluster.Quorum(len(voters)) {
		return "", fmt.Sprintf("%s. Bring %s back: paused hosts are not given up, and with them %d of %d voters are there", missing, idList(back), len(voters)-len(gone)+len(back), len(voters))
	}
	if left, after := RecoveryOffered(v.obs); left > 0 {
		return "", fmt.Sprintf("%s. They may serve without this side: look at them, and at the network between, first. A recovery without them is offered once the loss has lasted %s (--dead-after)", missing, after)
	}
	return v.generationCommand(&cluster.Command{Kind: cluster.CommandRecover, Host: best.Host}),
		missing + ". If so many of their disks are gone for good that no quorum can come back, the cluster can go on from what is left: the command shows what each host holds; name each host that is gone for good with --lost HOST"
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
func (v *view) missingWords(id cluster.HostID) string {
	if _, there := v.obs.Host(id); there {
		return string(id) + " (it answers, without the data)"
	}
	if p, paused := v.obs.PauseOf(id); paused {
		return fmt.Sprintf("%s (paused until %s: %s)", id, clockWords(p.Until), p.Reason)
	}
	if m, ok := v.obs.Memory.Host(id); ok && !m.GapSince.IsZero() {
		return fmt.Sprintf("%s (unreachable since %s)", id, m.GapSince.UTC().Format(time.RFC3339))
	}
	return string(id) + " (unreachable, and not seen since this daemon leads)"
}

func (v *view) answersOthers(id cluster.MemberID) bool {
	return slices.ContainsFunc(v.obs.Hosts, func(h cluster.HostReport) bool {
		return slices.ContainsFunc(h.Reaches, func(r cluster.Reach) bool { return r.Member == id && r.Answers })
	})
}

// openToOthers: the member answers others, or hangs and may go on.
func (v *view) openToOthers(id cluster.MemberID) bool {
	return v.answersOthers(id) || slices.ContainsFunc(v.obs.Hosts, func(h cluster.HostReport) bool {
		return slices.ContainsFunc(h.Reaches, func(r cluster.Reach) bool { return r.Member == id && r.Open })
	})
}

func (v *view) downVoters() []string {
	var out []string
	for _, s := range v.roster.Voters() {
		if !s.Up {
			out = append(out, fmt.Sprintf("%s: %s", seatName(s), s.Why))
		}
	}
	return out
}

func seatName(s cluster.Seat) string {
	if s.HostID != "" {
		return string(s.HostID)
	}
	return s.ID.String()
}

// noMembers tells a cluster whose members are all silent from one whose
// members are all gone.
func (v *view) noMembers() *Decision {
	var carry, quiet, busy []string
	for _, vo := range v.intent.Voters {
		g, _ := v.obs.HostGap(vo.Host)
		switch is := v.presence(vo.Host); {
		case is == cluster.PresenceBusy:
			return waitLater("no-quorum", "", "no member answers; host %s is busy: %s", vo.Host, g.Detail)
		case is.Occupied(): // perhaps for ever
			busy = append(busy, fmt.Sprintf("host %s is busy: %s", vo.Host, g.Detail))
		case is == cluster.PresenceIncompatible:
			busy = append(busy, fmt.Sprintf("host %s: %s", vo.Host, g.Detail))
		}
	}
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if h.Carries() {
			carry = append(carry, fmt.Sprintf("%s: %s", h.Host, processWords(h.Process)))
		}
	}
	for _, vo := range v.intent.Voters {
		// A machine that lost its disk and its name speaks for what was at its address.
		if h := v.voice(vo, v.intent.Voters); h == nil || h.Disk == vo.Disk && h.Carries() {
			quiet = append(quiet, string(nameOf(vo)))
		}
	}
	if len(carry) > 0 || len(quiet) > 0 {
		d := wait(true, "no-quorum", "", "no member answers; waiting for the members to serve%s", because(slices.Concat(carry, busy)))
		if command, words := v.recordedSurvivor(); words != "" {
			d = wait(true, "no-quorum", command, "no member answers, and the hosts in sight hold the data of fewer voters than a quorum; waiting for the members to serve%s%s", because(slices.Concat(carry, busy)), words)
		}
		if len(carry) == 0 {
			d = wait(false, "no-quorum", "", "no member answers, and the hosts that carry them are not in sight: %s%s", strings.Join(quiet, ", "), because(busy))
		}
		d.Again = later
		return d
	}
	command, newest := "etcdadm backup list", "; no backup was found in the store"
	if b := v.obs.Backups.Newest; len(b) > 0 {
		command = "etcdadm restore " + b[0].Name
		newest = fmt.Sprintf("; the newest backup is %s, of %s, taken at %s", b[0].Name, revisionOf(b[0]), b[0].At.UTC().Format(time.RFC3339))
		if b[0].Reason == backupBeforeRestore {
			newest += ", just before a restore: it holds what was given up then, and etcdadm backup list has the others"
		}
	}
	return wait(false, "no-members", command, "etcd has 0 members registered; must issue restore-backup command to proceed (none of the hosts that carried this cluster holds data of it any more%s)", newest)
}

// revive restarts in place one member that runs and sees no raft leader for
// long. Nothing else is done to members without a quorum.
func (v *view) revive() *Decision {
	if v.mayHang() {
		return nil
	}
	for i := range v.obs.Hosts {
		if h := &v.obs.Hosts[i]; v.leaderless(h) && !v.readLately(h) {
			return v.restartHung(h, seesNoLeader(v, cluster.Seat{Host: h}, v.obs.At.Sub(v.leaderlessSince(h)).Round(time.Second)))
		}
	}
	return nil
}

// mayHang: a voter answers reads through raft, and those that are up are no quorum.
// So raft's quorum has a voter in it that is not seen to be up, such as one that is
// out of file descriptors and answers its daemon nothing; and it may be any of them.
// None is restarted then (SAFETY.md, rule 2): it could end what serves.
func (v *view) mayHang() bool { return v.reader() != "" && !v.roster.HasQuorum() }

// reader is a host whose member, a voter of the present generation, has just
// answered a read through raft; empty: none is in sight.
func (v *view) reader() cluster.HostID {
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if h.Local.State != cluster.MemberStarted || h.Local.Generation != v.intent.Generation {
			continue
		}
		st := h.Status
		if st != nil && st.Healthy && !st.Learner && st.Member == h.Local.Member || h.View != nil && h.View.Linearizable {
			return h.Host
		}
	}
	return ""
}

// readLately: the member answers nothing, so that only others can tell whether it has
// a raft leader, and one of them has answered a read through raft since. One look in
// which reads took too long does not end a quorum. A member that answers speaks for itself.
func (v *view) readLately(h *cluster.HostReport) bool {
	since := v.obs.Memory.QuorumlessSince
	return h.Status == nil && !since.IsZero() && v.obs.At.Sub(since) < reviveAfter
}

// heldWords says of the members that would be restarted if nobody served what to do
// about them; empty: there are none.
func (v *view) heldWords() string {
	if !v.mayHang() {
		return ""
	}
	var held []string
	for i := range v.obs.Hosts {
		if h := &v.obs.Hosts[i]; v.leaderless(h) || v.startsNot(h) {
			held = append(held, string(h.Host))
		}
	}
	if len(held) == 0 {
		return ""
	}
	return fmt.Sprintf("; etcd still serves: the member of %s answers reads through raft, and its quorum may hang on %s, where nothing is restarted by itself; see there why the daemon gets no answer (etcd.log: open files, client certificate), and bring other voters back: once those that are up are a quorum, a member that answers nothing is restarted",
		v.reader(), strings.Join(held, " and "))
}

// reviveHung is revive while those that are up are a quorum: a voter that answers nothing
// is not one of them.
func reviveHung(v *view) *Decision {
	for _, s := range v.roster.Voters() {
		if due, why := v.needs(s, remedyRestart); due {
			return v.restartHung(s.Host, why)
		}
	}
	return nil
}

// leaderless: the member runs and has seen no raft leader, or not answered,
// for as long as its turn is.
func (v *view) leaderless(h *cluster.HostReport) bool {
	since := v.leaderlessSince(h)
	return !since.IsZero() && v.obs.At.Sub(since) >= patience(v.obs.Memory.Member(h.Local.Member).Revived) && !v.barred(h.Local.Member)
}

func (v *view) restartHung(h *cluster.HostReport, why string) *Decision {
	p := v.projection(0, 0)
	return &Decision{
		Reason: why + ": restart it in place",
		Action: &Action{Kind: ActHosts, Projection: &p, Ops: []HostOp{onHost(h, cluster.Guard{Leaderless: true}, v.restart(h, "it saw no raft leader"))}},
	}
}

// restart restarts a member as it is, and out of the quarantine once that was
// lifted.
func (v *view) restart(h *cluster.HostReport, reason string) cluster.Op {
	return cluster.Op{
		Kind: cluster.OpRestart, Host: h.Host, Member: h.Local.Member, Cluster: h.Local.Cluster,
		Version: h.Local.Version, Quarantined: v.intent.Quarantined && h.Local.Quarantined && h.Local.Generation == v.intent.Generation, Reason: reason,
	}
}

// revisionOf is how far a backup goes; the predecessor writes nothing beside its own that
// says so.
func revisionOf(b cluster.Backup) string {
	if b.Revision == 0 {
		return "unknown revision"
	}
	return fmt.Sprintf("revision %d", b.Revision)
}

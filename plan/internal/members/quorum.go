package members

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Quorum stops everything that needs a quorum while there is none. What is
// left is waiting, and restarting a member in place that sees no raft leader
// (SAFETY.md, rule 2).
func Quorum(v *step.View) *decision.Decision {
	if v.Intent == nil {
		// A member list without any record of the cluster's founding.
		switch {
		case v.Seen && !v.Obs.Store.Read:
			return decision.Wait(false, "store-silent", "", "members answer, and no host keeps the record of their founding; waiting for the backup store, which may have it")
		case v.Seen:
			return decision.Wait(false, "no-intent", "", "members answer, and neither the store nor a host has the record of their founding; nothing is changed")
		}
		return nil
	}
	if v.Seen && v.Roster.Linearizable && v.Roster.HasQuorum() {
		return nil
	}
	voters := len(v.Intent.Voters)
	if v.Seen {
		voters = len(v.Roster.Voters())
	}
	if d := step.NewLead(v, cluster.Quorum(voters)); d != nil {
		return d
	}
	if d := v.Unasked(outOfMemory(v)); d != nil && (d.Action != nil || v.BackingUp()) { // what it waits for else is told below
		return d
	}
	if d := step.Revive(v); d != nil {
		return d
	}
	if d := OtherRelease(v); d != nil {
		return d
	}
	if !v.Seen {
		return noMembers(v)
	}
	n, up := len(v.Roster.Voters()), len(v.Roster.Up())
	if v.Roster.HasQuorum() {
		return decision.Wait(true, "settling", "", "the voters answer, but none gave a current member list; looking again")
	}
	if at := defragmented(v); len(at) > 0 && up+len(at) >= cluster.Quorum(n) {
		d := decision.Wait(true, "no-quorum", "", "{up} of {number} voters are up while the member of {at} is defragmented, which ends by itself: nothing else is changed until then{because}", up, n, words.IdList(at), words.Because(v.DownVoters()))
		d.Again = decision.Later
		return d
	}
	command, wayOut := "", words.F("{wayOut}", cmp.Or(fromMemory(v), heldWords(v)))
	if wayOut.String() == "" {
		command, wayOut = generation.RecoverCommand(v)
	}
	state := "quorum lost"
	if v.Roster.Linearizable || v.Reader() != "" || slices.ContainsFunc(v.Roster.Voters(), func(s cluster.Seat) bool { return s.Condition == cluster.ConditionUnpromised }) {
		state = "no quorum in sight" // etcd may well serve
	}
	d := decision.Wait(true, "no-quorum", command, "{state}: {up} of {number} voters up, {quorum} needed; nothing changes until more are back{because}{wayOut}",
		state, up, n, cluster.Quorum(n), words.Because(v.DownVoters()), wayOut)
	d.Again = decision.Later
	return d
}

// outOfMemory takes that one of two voters out which serves from memory only, while raft
// still has its quorum of both. The other one has all that was acknowledged, since each of
// the two has; alone it goes on when the process of the first ends, whose host then joins
// anew (docs/adr/027-one-gate.md). With more voters there is a quorum without it, and rule
// replace-dead does the same.
func outOfMemory(v *step.View) *decision.Decision {
	if !v.Seen || !v.Roster.Linearizable || len(v.Roster.Voters()) != 2 || !v.Repairs() || v.Held() {
		return nil
	}
	for _, s := range v.Roster.Voters() {
		if due, why := Needs(v, s, RemedyReplace); due && s.Condition == cluster.ConditionVanished {
			reason := words.F("remove voter {voter} ({why}): the other voter has every acknowledged write, and host {host} joins anew", words.SeatName(s), why, s.HostID)
			if d := step.BackupFirstOr(v, removeUnsaved(s.ID), step.BackupBeforeChange, true, reason); d != nil {
				return d
			}
			return step.RemoveDead(v, s, reason)
		}
	}
	return nil
}

// removeUnsaved takes a voter out where no backup can be had first.
func removeUnsaved(id cluster.MemberID) string {
	return "etcdadm member remove " + id.String() + " --no-backup"
}

// fromMemory says what to do where raft has a quorum all the same, which includes
// voters whose data is gone from their disks: what was acknowledged with them ends
// with their processes. Empty: it has none, or needs nobody's memory.
func fromMemory(v *step.View) string {
	if !v.Roster.Linearizable {
		return ""
	}
	var memory, others []string
	var id cluster.MemberID
	for _, s := range v.Roster.Voters() {
		switch {
		case s.Up:
		case s.Host != nil && s.Host.Vanished() && s.Host.Status != nil && s.Host.Status.Healthy:
			memory, id = append(memory, words.SeatName(s)), s.ID
		default:
			others = append(others, words.SeatName(s))
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
		back = fmt.Sprintf(", then remove it (%s) if the daemons do not: the other voter has every acknowledged write and goes on alone, and the host joins anew", removeUnsaved(id))
	}
	return fmt.Sprintf("; etcd serves all the same, and that hangs on the memory of %s: restart nothing there, save a snapshot now, through a voter that has its data (etcdctl snapshot save)%s", strings.Join(memory, ", "), back)
}

// defragmented are the voters' hosts that are at that.
func defragmented(v *step.View) []cluster.HostID {
	var out []cluster.HostID
	for _, s := range v.Roster.Voters() {
		if g, ok := v.Obs.HostGap(s.HostID); ok && s.Host == nil && g.Defragments() {
			out = append(out, s.HostID)
		}
	}
	return out
}

// heldWords says of the members that would be restarted if nobody served what to do
// about them; empty: there are none.
func heldWords(v *step.View) string {
	if !v.MayHang() {
		return ""
	}
	var held []string
	for i := range v.Obs.Hosts {
		if h := &v.Obs.Hosts[i]; step.Leaderless(v, h) || startsNot(v, h) {
			held = append(held, string(h.Host))
		}
	}
	if len(held) == 0 {
		return ""
	}
	return fmt.Sprintf("; etcd still serves: the member of %s answers reads through raft, and its quorum may hang on %s, where nothing is restarted by itself; see there why the daemon gets no answer (etcd.log: open files, client certificate), and bring other voters back: once those that are up are a quorum, a member that answers nothing is restarted",
		v.Reader(), strings.Join(held, " and "))
}

// noMembers tells a cluster whose members are all silent from one whose
// members are all gone.
func noMembers(v *step.View) *decision.Decision {
	var carry, quiet, busy []string
	for _, vo := range v.Intent.Voters {
		g, _ := v.Obs.HostGap(vo.Host)
		switch is := v.Presence(vo.Host); {
		case is == cluster.PresenceBusy:
			return decision.WaitLater("no-quorum", "", "no member answers; host {host} is busy: {detail}", vo.Host, g.Detail)
		case is.Occupied(): // perhaps for ever
			busy = append(busy, fmt.Sprintf("host %s is busy: %s", vo.Host, g.Detail))
		case is == cluster.PresenceIncompatible:
			busy = append(busy, fmt.Sprintf("host %s: %s", vo.Host, g.Detail))
		}
	}
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if h.Carries() {
			carry = append(carry, fmt.Sprintf("%s: %s", h.Host, words.ProcessWords(h.Process)))
		}
	}
	for _, vo := range v.Intent.Voters {
		// A machine that lost its disk and its name speaks for what was at its address.
		if h := v.Voice(vo, v.Intent.Voters); h == nil || h.Disk == vo.Disk && h.Carries() {
			quiet = append(quiet, string(sight.NameOf(vo)))
		}
	}
	if len(carry) > 0 || len(quiet) > 0 {
		d := decision.Wait(true, "no-quorum", "", "no member answers; waiting for the members to serve{because}", words.Because(slices.Concat(carry, busy)))
		if command, says := generation.RecordedSurvivor(v); !says.IsZero() {
			d = decision.Wait(true, "no-quorum", command, "no member answers, and the hosts in sight hold the data of fewer voters than a quorum; waiting for the members to serve{because}{says}", words.Because(slices.Concat(carry, busy)), says)
		}
		if len(carry) == 0 {
			d = decision.Wait(false, "no-quorum", "", "no member answers, and the hosts that have their data are unreachable: {quiet}{because}", strings.Join(quiet, ", "), words.Because(busy))
		}
		d.Again = decision.Later
		return d
	}
	command, newest := "etcdadm backup list", "; no backup was found in the store"
	if b := v.Obs.Backups.Newest; len(b) > 0 {
		command = "etcdadm restore " + b[0].Name
		newest = fmt.Sprintf("; the newest backup is %s, of %s, taken at %s", b[0].Name, words.RevisionOf(b[0]), b[0].At.UTC().Format(time.RFC3339))
		if b[0].Reason == step.BackupBeforeRestore {
			newest += ", just before a restore: it holds what was given up then, and etcdadm backup list has the others"
		}
	}
	return decision.Wait(false, "no-members", command, "etcd has 0 members registered; must issue restore-backup command to proceed (none of the hosts that carried this cluster holds data of it any more{newest})", newest)
}

// ReviveHung is revive while those that are up are a quorum: a voter that answers nothing
// is not one of them.
func ReviveHung(v *step.View) *decision.Decision {
	for _, s := range v.Roster.Voters() {
		if due, why := Needs(v, s, remedyRestart); due {
			if d := step.RestartHung(v, s.Host, why); d != nil {
				return d
			}
		}
	}
	return nil
}

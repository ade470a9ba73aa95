package host

import (
	"context"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// codeOtherLog is the problem of a member whose log has another member's ID.
const codeOtherLog = "other-member-id"

// isLogOf reports whether a log with these IDs in its head is the recorded
// member's. A founder learns its cluster's ID only later.
func isLogOf(l cluster.LocalMember, c cluster.ClusterID, m cluster.MemberID) bool {
	return m == l.Member && (c == 0 || l.Cluster == 0 || c == l.Cluster)
}

// checkOwner refuses the start of a member that has run before on a log that
// is not its own: its WAL is not there then (SAFETY.md, rule 8a), whatever else
// is. A head that cannot be read is left to etcd, which reads it as well.
func (h *Host) checkOwner(s record.State) error {
	if s.Local.State != cluster.MemberStarted {
		return nil
	}
	c, m, err := h.o.Disk.Owner(s.Local.Token)
	if err != nil || isLogOf(s.Local, c, m) {
		return nil
	}
	h.note(cluster.Problem{
		Code: codeOtherLog,
		Sentence: fmt.Sprintf("host %s carries member %s of cluster %s, and the log in its data directory is of member %s of cluster %s: it is not started",
			s.Host, s.Local.Member, s.Local.Cluster, m, c),
		Hint:  "somebody put another member's files there; put the member's own back, or move the data directory away and let the host join anew",
		Unfit: true,
	})
	return errOtherLog
}

// disown gives a member up that took another ID than the one that it was
// started for. Source: an etcd that joins without a log takes its ID from the
// member list of whichever member answers first, by its own peer URL
// (GetClusterFromRemotePeers, ValidateClusterAndAssignIDs); a list from before
// a former member at this URL was removed gives it that one's ID, and with it
// the vote that the former one had, on a disk that knows nothing. What it wrote
// is nobody's: it is set aside once a quorum has removed the member.
//
// It may be called from wherever the log is looked at; the process is stopped
// by Run.
func (h *Host) disown(s record.State, c cluster.ClusterID, took cluster.MemberID) error {
	h.note(cluster.Problem{
		Code: codeOtherLog,
		Sentence: fmt.Sprintf("host %s was to start member %s of cluster %s, and etcd took the ID %s of cluster %s from an old member list: it is stopped, and never started again",
			s.Host, s.Local.Member, s.Local.Cluster, took, c),
		Hint: "nothing is to be done: the leading daemon removes the member and lets the host join anew",
	})
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	err := h.save(ctx, func(now *record.State) {
		if now.Local.State == cluster.MemberStarting && now.Local.Member == s.Local.Member && now.Disk == s.Disk {
			now.Local.State, now.Local.Run, now.Local.Took = cluster.MemberRemoved, false, took
		}
	})
	signal(h.stray)
	if err != nil {
		return err
	}
	return errOtherLog
}

// stopStray stops a process that took another ID, also when that could not be
// written down: no permit lets it run again.
func (h *Host) stopStray(ctx context.Context) {
	t := h.beginWait(ctx, cluster.Op{Kind: cluster.OpStop, Reason: "it took another member's ID"})
	if t == nil {
		return
	}
	defer h.end(t)
	s := h.snapshot()
	if s.Launch == nil || s.Local.State == cluster.MemberStarted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopDeadline)
	defer cancel()
	if err := h.o.Process.Kill(ctx); err != nil { // it must not vote while it ends
		h.o.Log.Error("cannot stop the member", "err", err)
	}
}

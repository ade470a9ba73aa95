package evidence

import (
	"context"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/wake"
)

// CodeOtherLog is the problem of a member whose log has another member's ID.
const CodeOtherLog = "other-member-id"

// IsLogOf reports whether a log with these IDs in its head is the recorded
// member's. A founder learns its cluster's ID only later.
func IsLogOf(l cluster.LocalMember, c cluster.ClusterID, m cluster.MemberID) bool {
	return m == l.Member && (c == 0 || l.Cluster == 0 || c == l.Cluster)
}

// checkOwner refuses the start of a member that has run before on a log that
// is not its own: its WAL is not there then (SAFETY.md, rule 8a), whatever else
// is. A head that cannot be read is left to etcd, which reads it as well.
func (e *Evidence) checkOwner(s record.State) error {
	if s.Local.State != cluster.MemberStarted {
		return nil
	}
	c, m, err := e.disk.Owner(s.Local.Token)
	if err != nil || IsLogOf(s.Local, c, m) {
		return nil
	}
	e.notes.Note(cluster.Problem{
		Code: CodeOtherLog,
		Sentence: fmt.Sprintf("host %s does not start member %s of cluster %s: the log in its data directory belongs to member %s of cluster %s",
			s.Host, s.Local.Member, s.Local.Cluster, m, c),
		Hint:  "another member's files were put there; restore the member's own files, or move the data directory away and let the host rejoin",
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
func (e *Evidence) disown(s record.State, c cluster.ClusterID, took cluster.MemberID) error {
	e.notes.Note(cluster.Problem{
		Code: CodeOtherLog,
		Sentence: fmt.Sprintf("host %s was to start member %s of cluster %s, but etcd took the ID %s of cluster %s from an old member list; the host stopped it for good",
			s.Host, s.Local.Member, s.Local.Cluster, took, c),
		Hint: "nothing to do: the leading daemon removes the member and lets the host rejoin",
	})
	ctx, cancel := context.WithTimeout(context.Background(), record.SaveTimeout)
	defer cancel()
	err := e.keeper.Change(ctx, func(now *record.State) {
		if now.Local.State == cluster.MemberStarting && now.Local.Member == s.Local.Member && now.Disk == s.Disk {
			now.Local.State, now.Local.Run, now.Local.Took = cluster.MemberRemoved, false, took
		}
	})
	wake.Up(e.stray)
	if err != nil {
		return err
	}
	return errOtherLog
}

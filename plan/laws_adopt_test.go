package plan

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// adopts: the action is the one that takes a cluster over.
func (l *laws) adopts() bool {
	a := l.d.Action
	return a.Kind == decision.ActIntent && a.Intent != nil && a.Intent.Replace != nil && a.Intent.Replace.Source.Kind == cluster.SourceAdopted && a.Intent.Replace.Nonce == ""
}

// adopting: SAFETY.md, rule 18. The record is of the very cluster that runs, and
// every member of it is a voter that is up, on a host of ours under this fence.
func (l *laws) adopting(in *cluster.Intent) {
	l.must(l.in.Adopted() && l.o.Store.Read && l.o.Store.Marker, "a cluster is taken over whose marker is not etcd-manager's")
	l.must(in.Generation == 1 && in.State == cluster.IntentFounded && len(in.History) == 0 && in.Token != "", "a record of a cluster that was taken over closes or founds something")
	if !l.must(l.seen && l.roster.Linearizable && in.Cluster == l.roster.Cluster, "a cluster is taken over that is not in sight") {
		return
	}
	l.must(len(in.Voters) == len(l.roster.Seats) && len(in.Founders) == len(l.roster.Seats), "members are left out of the record")
	for _, s := range l.roster.Seats {
		if !l.must(!s.Learner && s.Up && s.Host != nil && s.Host.TookOver(), "member %s is not kept by a daemon of ours that promised", s.ID) {
			continue
		}
		f, named := in.Founder(s.Host.Host, s.Host.Disk)
		l.must(named && f.Member == s.ID && s.Host.Local.Token == in.Token, "member %s is not in the record as it runs", s.ID)
	}
}

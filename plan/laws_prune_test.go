package plan

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// prune: SAFETY.md, rule 22.
func (l *laws) prune(x decision.HostOp, h *cluster.HostReport) {
	i := slices.IndexFunc(h.SetAside, func(a cluster.SetAside) bool { return a.Name() == x.Op.Dir && a.Member == x.Op.Member })
	if !l.must(i >= 0 && x.Op.Dir != "" && len(l.d.Action.Ops) == 1, "what is to be pruned is not one directory that host %s set aside", h.Host) {
		return
	}
	a := h.SetAside[i]
	l.must(a.Doubt == cluster.DoubtNone, "data pruned whose keys were doubted, or of which nobody knows")
	l.must(a.Reason == "removed" && a.Member != 0 && a.Log.Index != 0 && !a.At.IsZero(), "data pruned that no quorum removed, or of which too little is known")
	l.must(l.seen && l.roster.Linearizable && len(l.roster.Up()) == len(l.roster.Voters()) && a.Cluster == l.roster.Cluster, "data pruned while its own cluster is not whole")
	l.must(l.in.State == cluster.IntentFounded && l.in.Cluster == a.Cluster && a.Generation == l.in.Generation && !l.in.Quarantined && len(l.in.Next) == 0, "data pruned while a generation or the voters change")
	_, listed := l.roster.Seat(a.Member)
	l.must(!listed, "data of a listed member pruned")
	for _, s := range l.roster.Up() {
		st := s.Host.Status
		l.must(st.Applied > a.Log.Index && st.Term >= a.Log.Term, "data pruned that voter %s is not beyond", s.ID)
		l.must(len(st.Alarms) == 0, "data pruned under an alarm")
	}
	l.must(h.PruneAfter > 0 && h.Clock.Sub(a.At) >= h.PruneAfter, "data pruned before its time")
	ages := l.o.At.Sub(l.o.Backups.At)
	l.must(!l.o.Backups.At.IsZero() && ages < time.Hour, "data pruned on an old list of backups")
	all := l.o.Backups.Newest
	if p := l.o.Backups.Proven; p != nil {
		all = append(slices.Clone(all), *p)
	}
	l.must(slices.ContainsFunc(all, func(b cluster.Backup) bool {
		return b.Name == x.Op.Backup && b.Proven && b.Cluster == a.Cluster && b.Index > a.Log.Index && b.Term >= a.Log.Term && l.o.At.Sub(b.At) < h.Clock.Sub(a.At)
	}), "data pruned without a proven backup above it")
	l.must(l.o.Store.Read && !slices.ContainsFunc(l.o.Commands, func(c cluster.Command) bool { return c.Kind != cluster.CommandBackup }), "data pruned while a command may want it")
	g := l.roster.Guard()
	l.must(h.Local.Member == 0 || x.Guard.Cluster == g.Cluster && slices.Equal(x.Guard.Members, g.Members), "data pruned under another guard than the roster")
}

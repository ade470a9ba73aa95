package plan

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
)

// release: a member is given another release only where etcd starts with it, and
// never two lines beside what any other member runs (docs/adr/014-versions.md).
func (l *laws) release(x decision.HostOp, h *cluster.HostReport) {
	to := x.Op.Version
	l.must(h.CanRun(to), "a release that host %s does not have", h.Host)
	if !l.seen || !l.roster.HasQuorum() {
		l.must(x.Op.Failed, "another release without a quorum")
		return
	}
	var agreed, downgrading cluster.Version
	for _, s := range l.roster.Seats {
		if s.Host == nil || s.Host.Status == nil {
			continue
		}
		if c := s.Host.Status.ClusterVersion; !c.IsZero() && (agreed.IsZero() || c.Compare(agreed) < 0) {
			agreed = c
		}
		if d := s.Host.Status.Downgrading; !d.IsZero() {
			downgrading = d
		}
	}
	if to.Base() != h.Local.Version.Base() {
		l.must(!agreed.IsZero() && to.Base().Compare(agreed) >= 0 && to.Minor <= agreed.Minor+1, "etcd %s for a cluster that has agreed on %s", to, agreed)
	}
	own := cluster.Version{}
	if h.Status != nil {
		own = h.Status.StorageVersion
	}
	l.must(own.IsZero() || to.Base().Compare(own) >= 0 || own.Compare(cluster.MustVersion("3.6.0")) < 0, "etcd %s on data of format %s", to, own)
	for _, s := range l.roster.Voters() {
		if s.Host == nil || s.Host.Host == h.Host {
			continue
		}
		o := s.Host.Local.Version
		l.must(to.Minor-o.Minor <= 1 && o.Minor-to.Minor <= 1, "etcd %s beside %s", to, o)
		m := l.o.Memory.Member(s.ID)
		l.must(x.Op.Failed || !m.HealthySince.IsZero() && l.o.At.Sub(m.HealthySince) >= sight.Settled, "a change of release while %s has just come up", s.HostID)
	}
	l.must(downgrading.IsZero() || x.Op.Failed || l.spec != nil && l.spec.EtcdVersion.Base().Compare(downgrading) <= 0, "a change against a downgrade under way")
}

package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// agree is what etcd's raft leader does every few seconds: raise the cluster
// version to the lowest line that the members run, or take it down to that of a
// downgrade, end a downgrade that everybody has followed, and have each member
// bring its data to the format of the cluster version (version/monitor.go).
func (w *world) agree(c *worldCluster) {
	if c.formats == nil {
		c.formats = map[cluster.MemberID]cluster.Version{}
	}
	if c.sticks || !w.hasQuorum(c) {
		return
	}
	for _, m := range c.members {
		if h := w.carrier(c, m.ID); h != nil && h.runs() && c.agreed != (cluster.Version{}) {
			c.formats[m.ID] = c.agreed // a look later than the agreement
		}
	}
	low, high := cluster.Version{}, cluster.Version{}
	for _, m := range c.members {
		h := w.carrier(c, m.ID)
		if h == nil || !h.runs() {
			return
		}
		if r := h.Local.Version.Base(); low.IsZero() || r.Compare(low) < 0 {
			low = r
		}
		if r := h.Local.Version.Base(); r.Compare(high) > 0 {
			high = r
		}
	}
	switch {
	case !c.downgrading.IsZero() && high == c.downgrading:
		c.downgrading = cluster.Version{}
	case !c.downgrading.IsZero():
		c.agreed = c.downgrading
	case c.agreed.Compare(low) < 0:
		c.agreed = low
	}
}

// downgrade is etcd's call to enable one.
func (w *world) downgrade(c *worldCluster, to cluster.Version) error {
	if !c.downgrading.IsZero() {
		return fmt.Errorf("etcd: cluster has a downgrade job in progress")
	}
	if to != (cluster.Version{Major: c.agreed.Major, Minor: c.agreed.Minor - 1}) {
		return fmt.Errorf("etcd: invalid downgrade target version %s of %s", to, c.agreed)
	}
	c.downgrading = to
	return nil
}

// mayRun is what etcd looks at when it starts on data that is there.
func (w *world) mayRun(h *worldHost, v cluster.Version) error {
	c := w.clusterOf(h)
	switch {
	case !h.CanRun(v):
		return fmt.Errorf("no etcd %s", v)
	case c == nil || v == h.Local.Version:
		return nil
	case v.Base().Compare(c.agreed) < 0:
		return fmt.Errorf("etcd: invalid downgrade: server version %s is lower than determined cluster version %s", v, c.agreed)
	case v.Base().Compare(c.formats[h.Local.Member]) < 0:
		return fmt.Errorf("etcd: data of format %s", c.formats[h.Local.Member])
	case v.Minor > c.agreed.Minor+1:
		return fmt.Errorf("etcd %s in a cluster of version %s", v, c.agreed)
	}
	return nil
}

// tell is what the host remembers of a release that did not start on it.
func (h *worldHost) tell(op cluster.Op) {
	if op.Changes && op.Failed {
		h.FailedRelease = h.Local.Version
	}
}

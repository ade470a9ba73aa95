package rig

import (
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// StopsAsLearner waits for the first etcd of a host and has it stand still
// before it has caught up, and returns the learner that it is.
func (c *Cluster) StopsAsLearner(h *Host) uint64 {
	c.T.Helper()
	for deadline := time.Now().Add(Soon); h.EtcdPID() == 0; time.Sleep(2 * time.Millisecond) { // it would be a voter soon
		if time.Now().After(deadline) {
			c.T.Fatalf("host %d runs no etcd", h.N)
		}
	}
	if err := StopProcess(h.EtcdPID()); err != nil {
		c.T.Fatal(err)
	}
	list, err := c.Etcd().MemberList(c.T.Context())
	if err != nil {
		c.T.Fatal(err)
	}
	at := slices.IndexFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.IsLearner })
	if at < 0 {
		c.T.Fatalf("there is no learner: %v", list.Members)
	}
	return list.Members[at].ID
}

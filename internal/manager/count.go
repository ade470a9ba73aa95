package manager

import (
	"context"
	"fmt"

	"etcdadm.io/cluster"
)

// putCount writes a member count that a command asked for into the spec.
func (t *term) putCount(ctx context.Context, n *cluster.CountChange) bool {
	m := t.m
	if m.o.Control == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Intervals.WriteTimeout)
	defer cancel()
	err := m.o.Control.PutCount(ctx, n)
	m.sayOnce("spec count", "cannot write the member count of a command into the spec", err)
	if err == nil {
		m.log.Info("the spec asks for the member count of a command", "members", n.Members, "before", n.Was)
	}
	return err == nil
}

// countable says that a command asks for a member count which this daemon's
// spec cannot have, because it is not the store's; empty: it can.
func (m *Manager) countable(c cluster.Command) string {
	if c.Count == nil || m.o.Spec == nil {
		return ""
	}
	return fmt.Sprintf("it asks for %d members, and the daemons have their spec from a file and not from the store: change it there, and queue the command without a count", c.Count.Members)
}

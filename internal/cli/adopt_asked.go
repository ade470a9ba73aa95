package cli

import (
	"context"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
)

// Status implements adoption.Members.
func (e *foreignEtcd) Status(ctx context.Context, m cluster.Member) (cluster.MemberStatus, error) {
	e.mu.Lock()
	named := slices.Clone(e.endpoints)
	e.mu.Unlock()
	st, at, err := adoption.AskMember(m, named, func(endpoint string) (cluster.MemberStatus, error) {
		c, err := e.dial([]string{endpoint})
		if err != nil {
			return cluster.MemberStatus{}, err
		}
		defer c.Close()
		return c.Status(ctx)
	})
	if err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.at == nil {
			e.at = map[cluster.MemberID]string{}
		}
		e.at[m.ID] = at
	}
	return st, err
}

// reached is where a member answered last, or the client URLs that it advertises.
func (e *foreignEtcd) reached(m cluster.Member) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, is := e.at[m.ID]
	if !is || slices.Contains(m.ClientURLs, at) {
		return m.ClientURLs
	}
	return []string{at}
}

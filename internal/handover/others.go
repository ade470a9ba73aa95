package handover

import (
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
)

const (
	// agentPort is where agents are that init and join set up.
	agentPort = "8000"
	// agentAnswers bounds the question to all other hosts.
	agentAnswers = 2 * time.Second
)

// takenOver says where an agent of ours answers at the host of another member; empty: nowhere. A join without a token is asked
// for, which is refused by every agent and by nobody else.
func (e *Etcd) takenOver(ctx context.Context) (where string) {
	hash := ""
	if dir := e.request.CertsDir; dir != "" {
		if a, err := pki.LoadAuthorityFiles("etcd's authority", filepath.Join(dir, "ca.crt"), "", time.Now()); err == nil {
			hash = a.Hash()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, agentAnswers)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, raw := range e.plan.Peers() {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		all.Go(func() {
			at := net.JoinHostPort(u.Hostname(), agentPort)
			_, _, err := peer.Join(ctx, at, hash, peer.JoinRequest{Clock: time.Now()})
			if !errors.Is(err, peer.ErrJoin) && !errors.Is(err, pki.ErrOtherAuthority) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			where = "an agent of etcdadm answers at " + at + ": its host was taken over already"
		})
	}
	all.Wait()
	return where
}

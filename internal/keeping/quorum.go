package keeping

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"etcdadm.io/cluster"
)

// Reacher finds out whether a connection comes about at one of the peer URLs.
type Reacher interface {
	Reach(ctx context.Context, peerURLs []string) (open, answers bool)
}

// HasQuorum tells whether a host's member reads through raft. One of the generation that an intent founds, if any, does not count: it is
// no sign that what was before goes on. An error says that it is not known; a host without a member, and
// one whose process does not run, has none. An etcd that was started again without a quorum answers nothing: it has none for
// certain where too few of the other voters' peer ports answer.
func HasQuorum(ctx context.Context, s *cluster.HostState, but *cluster.Intent, r Reacher) (bool, error) {
	switch {
	case but != nil && s.Local.Token == but.Token:
		return false, nil
	case s.Status != nil:
		return s.Status.Healthy, nil
	case s.Process.State == cluster.ProcessStopped || s.Process.State == cluster.ProcessBackoff:
		return false, nil
	case s.Intent == nil || len(s.Intent.Voters) == 0:
		return false, errors.New("the member does not answer, and its host does not know the other voters")
	}
	ctx, cancel := context.WithTimeout(ctx, keeperTimeout)
	defer cancel()
	var all sync.WaitGroup
	var open atomic.Int64
	for _, v := range s.Intent.Voters {
		if v.Host == s.Host {
			continue
		}
		all.Go(func() {
			if is, _ := r.Reach(ctx, v.PeerURLs); is {
				open.Add(1)
			}
		})
	}
	all.Wait()
	if int(open.Load())+1 < cluster.Quorum(len(s.Intent.Voters)) {
		return false, nil
	}
	return false, fmt.Errorf("the member does not answer, and the peer ports of %d other voters do", open.Load())
}

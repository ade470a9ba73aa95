package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/peer"
	"etcdadm.io/plan"
)

// survivors is what is known before a recovery, and how to ask again.
type survivors struct {
	plan.Recovery
	// Would is what is asked for with --dry-run, where nothing speaks against it.
	Would *wouldQueue `json:"would,omitempty"`

	by reach // how the daemons were reached
}

// survivors asks every daemon that is known how far its member's log goes.
// Nothing is promised or stopped for it.
func (q *queue) survivors(ctx context.Context) (survivors, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	out, o, err := q.inSight(ctx)
	if err != nil {
		return out, err
	}
	if err := q.record(ctx, o, &out); err != nil {
		out.Unread = err.Error()
	}
	return out, nil
}

// inSight is what the daemons say, without the store's record, and the observation that
// it is held against.
func (q *queue) inSight(ctx context.Context) (out survivors, o *cluster.Observation, err error) {
	out.by = q.reach
	conn, err := q.open()
	if err != nil {
		return out, nil, err
	}
	defer conn.Close()
	report, err := noCluster(conn.Status(ctx))
	if err != nil {
		return out, nil, err
	}
	var unseen map[cluster.HostID]error
	if out.Hosts, unseen, err = logEnds(ctx, conn, report.Contacts); err != nil {
		return out, nil, err
	}
	out.miss(unseen)
	out.Judge()
	o = report.Observation
	out.Watch(o)
	return out, o, nil
}

// miss notes the hosts that did not answer, and why.
func (s *survivors) miss(unseen map[cluster.HostID]error) {
	s.Why = map[cluster.HostID]string{}
	for _, id := range slices.Sorted(maps.Keys(unseen)) {
		s.Unseen, s.Why[id] = append(s.Unseen, id), unseen[id].Error()
		if err := unseen[id]; peer.IsThere(err) || errors.As(err, new(cannotTell)) {
			s.Incompatible = append(s.Incompatible, id)
		}
	}
}

// cannotTell is why a daemon that answers cannot tell what its host holds: that starts, or
// waits for its disk, and may come up with a quorum and the furthest log.
type cannotTell string

func (c cannotTell) Error() string { return string(c) }

// record holds what is known against the store's record.
func (q *queue) record(ctx context.Context, o *cluster.Observation, s *survivors) error {
	f, err := q.folder(ctx, o, toRead)
	if err != nil {
		return err
	}
	r, err := f.ReadRecord(ctx)
	if err == nil {
		s.Hold(r.Revision, r.Progress())
	}
	if told, ok, unread := f.ReadStatus(ctx); ok && unread == nil {
		up, voters := told.Voters()
		s.Heard(plan.Told{Leader: told.Leader, At: told.At, Voters: voters, Up: up})
	}
	return err
}

// logEnds asks daemons what they hold, and says of those that do not answer why. That
// they do, and that this certificate may not ask, is an error.
func logEnds(ctx context.Context, conn *console.Console, contacts []cluster.Contact) (ends []cluster.LogEnd, unseen map[cluster.HostID]error, refused error) {
	unseen = map[cluster.HostID]error{}
	var mu sync.Mutex // guards the results
	var all sync.WaitGroup
	for _, at := range contacts {
		all.Go(func() {
			end, err := conn.LogEnd(ctx, at)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, peer.ErrRole):
				refused = err
				return
			case err != nil:
				unseen[at.Host] = err
				return
			case end.Unknown != "":
				unseen[at.Host] = cannotTell(end.Unknown)
				return
			}
			ends = append(ends, end)
		})
	}
	all.Wait()
	slices.SortFunc(ends, func(a, b cluster.LogEnd) int { return cmp.Compare(a.Host, b.Host) })
	return ends, unseen, refused
}

// refuseAlive refuses to queue a command that gives up a host whose daemon answers. The
// leading daemon may be the one that is wrong, and cannot know. Where only the store is
// named, or no daemon answers, nobody is asked.
func (q *queue) refuseAlive(ctx context.Context) error {
	if len(q.lost) == 0 || q.dataDir == "" && len(q.endpoints) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, _, err := q.inSight(ctx)
	switch {
	case err != nil && q.store == "":
		return err
	case err != nil:
		return nil
	}
	if why := s.AliveLost(q.lostHosts()); why != "" {
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued: " + why)}
	}
	return nil
}

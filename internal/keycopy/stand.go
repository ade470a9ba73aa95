package keycopy

import (
	"context"
	"fmt"
)

// stand is how far a source is. Keys of version 2 run out while it is read, and
// nothing can keep them from it: etcd 2 looks at the clock twice in a second. That
// is no change of the source, since what it runs out of was read before, or was to
// be gone anyway; so of version 2 writes are told from expiries.
type stand struct {
	at      int64 // the revision or index
	writes  int64 // of version 2: how many there were
	expired int64 // of version 2: how many keys and directories ran out
}

// stand is the source's, read through a quorum.
func (s *v3) stand(ctx context.Context) (stand, error) {
	at, err := s.position(ctx)
	return stand{at: at}, err
}

// since returns where the source is now, and [ErrSourceChanged] if anything was done
// to it.
func (s *v3) since(ctx context.Context, was stand) (stand, error) {
	now, err := s.stand(ctx)
	if err == nil && now.at != was.at {
		err = fmt.Errorf("%w: it went from %d to %d", ErrSourceChanged, was.at, now.at)
	}
	return now, err
}

// stand asks for the counters before the index, so that what happens in between
// shows as a change rather than not at all.
func (s *v2) stand(ctx context.Context) (stand, error) {
	now, err := s.counters(ctx)
	if err != nil {
		return stand{}, err
	}
	now.at, err = s.position(ctx)
	return now, err
}

// since asks for the index before the counters. Each step of the index is a write or
// an expiry, and etcd counts both (store/stats.go of 2.3.8), so a step that is
// neither of these is a change, too.
func (s *v2) since(ctx context.Context, was stand) (stand, error) {
	at, err := s.position(ctx)
	if err != nil {
		return stand{}, err
	}
	now, err := s.counters(ctx)
	if err != nil {
		return stand{}, err
	}
	now.at = at
	if now.writes != was.writes || now.at < was.at || now.at-was.at > now.expired-was.expired {
		err = fmt.Errorf("%w: it went from %d to %d, with %d writes and %d expiries",
			ErrSourceChanged, was.at, now.at, now.writes-was.writes, now.expired-was.expired)
	}
	return now, err
}

// counters reads how many writes and expiries the store has seen, in its whole life:
// they are kept in its snapshots and counted on by its log.
func (s *v2) counters(ctx context.Context) (stand, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var said struct {
		Expired *int64 `json:"expireCount"`
		Set     *int64 `json:"setsSuccess"`
		Create  *int64 `json:"createSuccess"`
		Update  *int64 `json:"updateSuccess"`
		Delete  *int64 `json:"deleteSuccess"`
		Swap    *int64 `json:"compareAndSwapSuccess"`
		Drop    *int64 `json:"compareAndDeleteSuccess"`
	}
	if err := s.getJSON(ctx, "/v2/stats/store", &said); err != nil {
		return stand{}, fmt.Errorf("ask how many writes there were: %w", err)
	}
	var now stand
	for _, n := range []*int64{said.Set, said.Create, said.Update, said.Delete, said.Swap, said.Drop, said.Expired} {
		if n == nil {
			return stand{}, fmt.Errorf("ask how many writes there were: %w", errShape)
		}
		now.writes += *n
	}
	now.expired = *said.Expired
	now.writes -= now.expired
	return now, nil
}

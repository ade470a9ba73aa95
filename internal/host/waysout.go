package host

import (
	"context"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// A person's ways out of what a host remembers.

// Errors of ResetFence.
var (
	// ErrFenceInReach: leaders can go above the promise by themselves.
	ErrFenceInReach = errors.New("the promise is kept")
	// ErrFenceInUse: an op is being carried out, which relies on the promise.
	ErrFenceInUse = errors.New("an op is being carried out")
)

// ResetFence takes back a promise that no leader can come up to, in favour of
// a lower one: the highest that anybody else has promised, as far as is known.
// It is the one place where a host takes back a promise, and only a person's
// word leads here. No op relies on what is taken back: no leader can have
// brought it, and every stamp is dropped. What a person gives up is the memory
// of which leader this host promised itself to last: an older one, whose fence
// is above to, may get its promise again.
//
// Errors: ErrFenceInReach, ErrFenceInUse, what keeps the state from being written.
func (h *Host) ResetFence(ctx context.Context, to cluster.Fence) (was cluster.Fence, err error) {
	if err := h.work.TakePersonsTurn(ctx); err != nil {
		return was, fmt.Errorf("reset the fence: %w", err)
	}
	defer h.work.EndTurn()
	was = h.keeper.Now().Promised
	switch {
	case !was.OutOfReach():
		return was, fmt.Errorf("%w: fence %s is one that a leader goes above by itself, ten seconds after it was used last", ErrFenceInReach, was)
	case to.OutOfReach():
		return was, fmt.Errorf("%w: %s is out of reach as well", ErrFenceInReach, to)
	case h.work.Busy() != nil:
		return was, ErrFenceInUse
	}
	if err := h.keeper.Change(ctx, func(s *record.State) { s.Promised = to }); err != nil {
		return was, fmt.Errorf("reset the fence: %w", err)
	}
	h.fences.drop()
	h.fences.Use() // so that whoever holds a lower one keeps away for a while
	h.o.Log.Warn("a person took back the promise of this host", "was", was, "now", to)
	h.changed()
	return was, nil
}

package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// A person's ways out of what a host remembers.

// ErrCountedOn is returned for a host that the cluster counts on.
var ErrCountedOn = errors.New("the host is not forgotten")

// Forget drops what is remembered of another host: where it was, its disks and
// their beats. It is refused while the record of the cluster or the spec names
// the host. It is durable with the next beat.
//
// Errors: ErrCountedOn.
func (h *Host) Forget(id cluster.HostID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if why := countsOn(h.state.Intent, h.spec, id); why != "" {
		return fmt.Errorf("%w: %s names %s", ErrCountedOn, why, id)
	}
	h.peers = slices.DeleteFunc(slices.Clone(h.peers), func(p record.Peer) bool { return p.Host == id })
	return nil
}

// countsOn says what names a host; empty: nothing.
func countsOn(in *cluster.Intent, spec *cluster.Spec, id cluster.HostID) string {
	if in != nil {
		voter := func(v cluster.Voter) bool { return v.Host == id }
		switch {
		case slices.ContainsFunc(in.Voters, voter), slices.ContainsFunc(in.Next, voter):
			return "the record of the voters"
		case in.State == cluster.IntentFounding && slices.ContainsFunc(in.Founders, func(f cluster.Founder) bool { return f.Host == id }):
			return "the founding"
		}
	}
	if spec != nil && slices.Contains(spec.Hosts, id) {
		return "the spec"
	}
	return ""
}

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
	if err := h.takePersonsTurn(ctx); err != nil {
		return was, fmt.Errorf("reset the fence: %w", err)
	}
	defer h.endTurn()
	was = h.snapshot().Promised
	switch {
	case !was.OutOfReach():
		return was, fmt.Errorf("%w: fence %s is one that a leader goes above by itself, ten seconds after it was used last", ErrFenceInReach, was)
	case to.OutOfReach():
		return was, fmt.Errorf("%w: %s is out of reach as well", ErrFenceInReach, to)
	case h.busy() != nil:
		return was, ErrFenceInUse
	}
	if err := h.save(ctx, func(s *record.State) { s.Promised = to }); err != nil {
		return was, fmt.Errorf("reset the fence: %w", err)
	}
	h.mu.Lock()
	h.stamps = nil
	h.fenceUsed = time.Now() // so that whoever holds a lower one keeps away for a while
	h.mu.Unlock()
	h.o.Log.Warn("a person took back the promise of this host", "was", was, "now", to)
	h.changed()
	return was, nil
}

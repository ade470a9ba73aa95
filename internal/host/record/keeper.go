package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
)

// StallTold is how long a write of the state takes before people are told. A busy
// disk takes a second at times.
const StallTold = 5 * time.Second

// SaveTimeout bounds the wait for a turn to write, where no caller does.
const SaveTimeout = 5 * time.Second

// ErrUnusable says that there is no state that could be changed.
var ErrUnusable = errors.New("the host's state cannot be used")

// Keeper has the state of a host: the durable one, which its disk has. Its methods may be
// called at any time and from any goroutine; only Change waits for the disk.
type Keeper struct {
	host   cluster.HostID
	write  func(State) error
	log    *slog.Logger
	writer chan struct{} // held to change the state; as long as the disk takes

	mu     sync.Mutex // guards what follows; never held across a write
	state  State
	broken *cluster.Problem
	err    error     // of the last write
	began  time.Time // of the write that is under way; zero: none is
}

// NewKeeper makes one that has no state yet. write makes a state durable.
func NewKeeper(host cluster.HostID, write func(State) error, log *slog.Logger) *Keeper {
	return &Keeper{host: host, write: write, log: log, writer: make(chan struct{}, 1)}
}

// Now is the durable state.
func (k *Keeper) Now() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// Loaded takes in what the disk has.
func (k *Keeper) Loaded(s State) {
	k.mu.Lock()
	k.state = s
	k.mu.Unlock()
}

// Break makes the state useless for anything but saying why. Nothing is written any
// more: what is on the disk is left for a person.
func (k *Keeper) Break(p cluster.Problem) {
	k.mu.Lock()
	k.broken = &p
	k.mu.Unlock()
	k.log.Error(p.Sentence, "problem", p.Code, "hint", p.Hint)
}

// Broken says why the state cannot be used; nil: it can.
func (k *Keeper) Broken() *cluster.Problem {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.broken
}

// Change changes the state durably. A change that changes nothing writes nothing.
//
// Errors: those of ctx, which bounds the wait for another write and not the own one;
// ErrUnusable; what the disk says, after which the state is as it was.
func (k *Keeper) Change(ctx context.Context, change func(*State)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	select {
	case k.writer <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("save state: the disk is busy: %w", ctx.Err())
	}
	defer func() { <-k.writer }()
	k.mu.Lock()
	before, broken := k.state, k.broken
	k.mu.Unlock()
	if broken != nil {
		return fmt.Errorf("save state: %w: %s", ErrUnusable, broken.Sentence)
	}
	next := before
	next.PastDisks, next.Carried, next.Voted = slices.Clip(next.PastDisks), slices.Clip(next.Carried), slices.Clip(next.Voted)
	change(&next)
	if next.Equal(before) {
		return nil
	}
	k.mu.Lock()
	k.began = time.Now()
	k.mu.Unlock()
	err := k.write(next)
	k.mu.Lock()
	k.err, k.began = err, time.Time{}
	if err == nil {
		k.state = next
	}
	k.mu.Unlock()
	if err != nil {
		k.log.Error("cannot write the host's state", "err", err)
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}

// Stalls says that the disk hangs, if it does. The moment is told and not how long ago it
// was, so that nothing new is said at each look.
func (k *Keeper) Stalls() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.began.IsZero() || time.Since(k.began) < StallTold {
		return ""
	}
	return fmt.Sprintf("its disk has not finished a write that began at %s", k.began.UTC().Format(time.RFC3339))
}

// Problems are what a person should know of the state and its disk.
func (k *Keeper) Problems() (out []cluster.Problem) {
	stall, broken := k.Stalls(), k.Broken()
	if broken != nil {
		out = append(out, *broken)
	}
	k.mu.Lock()
	err := k.err
	k.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		out = append(out, cluster.Problem{
			Code:     "state-vanished",
			Sentence: fmt.Sprintf("host %s lost its state directory while the daemon runs; it follows no leader until restarted: %v", k.host, err),
			Hint:     "once every other voter is up, restart this daemon together with its etcd: the host rejoins with an empty disk", Unfit: true,
		})
	case stall != "":
		out = append(out, cluster.Problem{
			Code:     "state-not-written",
			Sentence: fmt.Sprintf("host %s cannot write its state and follows no leader until it can: %s", k.host, stall),
			Hint:     "check the disk of the data directory", Unfit: true,
		})
	case err != nil:
		out = append(out, cluster.Problem{
			Code:     "state-not-written",
			Sentence: fmt.Sprintf("host %s cannot write its state and follows no leader until it can: %v", k.host, err),
			Hint:     "free space on the disk; if df shows free space, check inodes with df -i", Unfit: true,
		})
	}
	return out
}

// NoteVoter remembers that the member serves as a voter. It is written down with the next
// epoch: nothing relies on it but the order in which hosts are chosen.
func (k *Keeper) NoteVoter(id cluster.MemberID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state.Local.Member == id && !slices.Contains(k.state.Voted, id) {
		k.state.Voted = append(slices.Clip(k.state.Voted), id)
	}
}

// ForgetVote is for a member whose data is damaged or gone, which may well be the disk, so
// that its votes say nothing for the host any more.
func (k *Keeper) ForgetVote(id cluster.MemberID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Voted = Without(k.state.Voted, id)
}

// Without is all the members but one.
func Without(all []cluster.MemberID, id cluster.MemberID) []cluster.MemberID {
	return slices.DeleteFunc(slices.Clone(all), func(m cluster.MemberID) bool { return m == id })
}

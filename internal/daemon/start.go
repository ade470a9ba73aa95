package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/wake"
)

// A start goes through files on disks and mounts of which any may stand still, and
// the kernel has no way to call off what waits for one. It waits on, because a disk
// that is back needs nobody then, and says what it waits for; a signal ends it.
const (
	// startSays is how long a step of a start takes before it is told. The looks over
	// the network that are part of one are over by then.
	startSays = 10 * time.Second
	// startSaysAgain is how often that is repeated, for whoever looks at the last
	// lines of a log only.
	startSaysAgain = time.Minute
	// roomLook is how often a start that found a full disk is tried again: soon enough for a
	// person who made room and looks on.
	roomLook = 2 * time.Second
	// stepEnds is what a step has to come to its own end once the daemon is to end: a
	// file that is being written is done sooner, on a disk that answers.
	stepEnds = time.Second
)

// step is a part of a daemon's start.
type step struct {
	what string   // that the start waits for while it is done
	at   []string // where that lies
	do   func(context.Context) error
}

// beginning is where the start of a daemon is, for whoever asks it meanwhile. The zero
// value has come to no step yet.
type beginning struct {
	mu    sync.Mutex // guards what follows
	step  step
	since time.Time
	ended bool
}

// at says which step is under way.
func (b *beginning) at(s step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.step, b.since = s, time.Now()
}

// over says that all parts of the daemon can be asked.
func (b *beginning) over() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// words are what the start waits for; empty: it is over.
func (b *beginning) words() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch at := b.step.where(); {
	case b.ended:
		return ""
	case b.step.what == "":
		return "starting"
	case at == "":
		return fmt.Sprintf("starting: waiting for %s since %s", b.step.what, b.since.UTC().Format(time.RFC3339))
	default:
		return fmt.Sprintf("starting: waiting for %s, at %s, since %s", b.step.what, at, b.since.UTC().Format(time.RFC3339))
	}
}

// take takes a step of this daemon's start, of which its metrics port tells.
func (d *daemon) take(ctx context.Context, s step) error {
	d.begun.at(s)
	for told := false; ; told = true {
		err := take(ctx, d.log, s)
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
			if told && err == nil {
				d.log.Info("there is room again, and the start goes on", "waited for", s.what)
			}
			return err
		}
		// It is no more than room that is missing, and a member that is not started is one
		// voter less: ended with this, it would stay down until a person comes.
		full := s
		full.what = "room on a full disk, for " + s.what
		d.begun.at(full)
		if !told {
			d.log.Warn("the start of this daemon waits for room on a full disk, however long", "for", s.what, "at", s.where(), "err", err,
				"hint", "free space there; the start then continues, and a signal ends the wait")
		}
		if !wake.After(ctx, roomLook) {
			return ctx.Err()
		}
	}
}

// take takes a step of the start, as await does.
func take(ctx context.Context, log *slog.Logger, s step) error { return await(ctx, log, "start", s) }

// await takes a step of a daemon's start or end, and waits for it until ctx ends. One
// that does not end then is left behind, with errLeft: it may go on with the daemon's
// files until the program ends.
func await(ctx context.Context, log *slog.Logger, of string, s step) error {
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- s.do(ctx) }()
	says := time.NewTimer(startSays)
	defer says.Stop()
	for told := false; ; told = true {
		select {
		case err := <-ended:
			if told {
				log.Info("the "+of+" goes on", "waited for", s.what, "for", time.Since(began).Round(time.Second))
			}
			return err
		case <-ctx.Done():
			return leave(log, s, began, ended)
		case <-says.C:
		}
		says.Reset(startSaysAgain)
		log.Warn("the "+of+" of this daemon waits, however long", "for", s.what, "at", s.where(), "since", began.UTC().Format(time.RFC3339),
			"hint", "check the disk or mount there; the "+of+" continues when it answers, and a signal ends the wait")
	}
}

// leave gives a step the time to come to its own end.
func leave(log *slog.Logger, s step, began time.Time, ended <-chan error) error {
	grace := time.NewTimer(stepEnds)
	defer grace.Stop()
	select {
	case err := <-ended:
		return err
	case <-grace.C:
	}
	log.Warn("the daemon ends while it waits", "for", s.what, "at", s.where(), "since", began.UTC().Format(time.RFC3339))
	return fmt.Errorf("%w: waiting for %s", errLeft, s.what)
}

func (s step) where() string {
	return strings.Join(slices.DeleteFunc(slices.Clone(s.at), func(path string) bool { return path == "" }), ", ")
}

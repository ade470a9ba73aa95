package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Options are the caller's part of a [Child].
type Options struct {
	// Record makes a record durable before it returns. It is called twice for
	// every start, and may replace the record before.
	Record func(ProcessRecord) error
	// Permit is asked before every start, automatic ones included; its error
	// refuses the start. It is where the host's own rules belong, such as that
	// the write-ahead log has to be there. Nil permits everything.
	Permit func(Spec) error
	// Backoff spaces restarts; zero means DefaultBackoff.
	Backoff Backoff
	// LogLimit is the size in bytes past which the log is rotated; zero means
	// DefaultLogLimit.
	LogLimit int64
	Logger   *slog.Logger // nil means the default one
}

// Child runs the member as a child process that outlives this one.
type Child struct {
	opts    Options
	ops     chan struct{} // a token: one start, stop or adoption at a time
	events  chan struct{}
	wake    chan struct{} // for Run: something is due at another time
	closing chan struct{}
	once    sync.Once
	watches sync.WaitGroup

	mu        sync.Mutex // guards what follows
	spec      *Spec      // what is wanted; nil when nothing is
	node      inode      // of the data directory, since the first start
	proc      *process
	failures  int
	nextStart time.Time
	lastExit  *Exit
	lastError error
	recordErr error
	log       logPosition // of the running process
}

var _ Runtime = (*Child)(nil)

// NewChild returns a Child that runs nothing yet.
func NewChild(opts Options) *Child {
	if len(opts.Backoff.Delays) == 0 {
		opts.Backoff = DefaultBackoff
	}
	opts.LogLimit = cmp.Or(opts.LogLimit, DefaultLogLimit)
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Record == nil {
		opts.Record = func(ProcessRecord) error { return errors.New("no place to record processes was given") }
	}
	return &Child{
		opts: opts, ops: make(chan struct{}, 1), events: make(chan struct{}, 1),
		wake: make(chan struct{}, 1), closing: make(chan struct{}),
	}
}

// Run restarts a process that ended, and rotates its log, until ctx ends. It
// leaves the process running: to end it as well, call Stop before. Afterwards
// the Child is closed.
func (c *Child) Run(ctx context.Context) error {
	defer c.Close()
	// A log grows by a few megabytes between two looks at its size.
	const rotateEvery = 15 * time.Second
	rotate := time.NewTicker(rotateEvery)
	defer rotate.Stop()
	for {
		restart, stopTimer := c.restartTimer()
		select {
		case <-ctx.Done():
		case <-c.closing:
		case <-c.wake:
		case <-rotate.C:
			c.rotateLog()
		case <-restart:
			c.restart(ctx)
		}
		stopTimer()
		if c.closed() {
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// Close lets go of the process, which goes on, and waits for what watches it.
func (c *Child) Close() {
	c.once.Do(func() { close(c.closing) })
	c.mu.Lock()
	if c.proc != nil {
		c.proc.release()
	}
	c.mu.Unlock()
	c.watches.Wait()
}

func (c *Child) closed() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// Events is as [Runtime] says.
func (c *Child) Events() <-chan struct{} { return c.events }

func (c *Child) changed() {
	for _, ch := range []chan struct{}{c.events, c.wake} {
		select {
		case ch <- struct{}{}:
		default: // not yet read: it tells of this change as well
		}
	}
}

// begin takes the token for an operation.
func (c *Child) begin(ctx context.Context) error {
	select {
	case c.ops <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("another start, stop or adoption of it has not ended: %w", ctx.Err())
	case <-c.closing:
		return ErrClosed
	}
	if c.closed() { // both were ready
		c.end()
		return ErrClosed
	}
	return nil
}

func (c *Child) end() { <-c.ops }

// Status is as [Runtime] says; it does not block.
func (c *Child) Status(context.Context) (Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{State: Absent, Failures: c.failures}
	if c.lastExit != nil {
		last := *c.lastExit
		s.LastExit = &last
	}
	if c.lastError != nil {
		s.LastError = c.lastError.Error()
	}
	switch {
	case c.proc != nil:
		s.State, s.PID, s.Since = c.proc.state(), c.proc.pid, c.proc.since
		s.Adopted, s.Argv, s.SpecHash = c.proc.adopted, c.proc.record.Argv, c.proc.record.SpecHash
		if c.recordErr != nil {
			s.RecordError = c.recordErr.Error()
		}
	case c.spec != nil:
		s.State, s.NextStart, s.SpecHash = Waiting, c.nextStart, c.spec.Hash()
	}
	return s, nil
}

// Ensure is as [Runtime] says. It starts the process itself; to start it again
// when it ends is Run's part.
func (c *Child) Ensure(ctx context.Context, spec Spec) error {
	if err := spec.validate(); err != nil {
		return err
	}
	if err := c.begin(ctx); err != nil {
		return fmt.Errorf("start process: %w", err)
	}
	defer c.end()

	spec = spec.clone()
	hash := spec.Hash()
	c.mu.Lock()
	proc, wanted := c.proc, c.spec
	if proc != nil && proc.record.SpecHash == hash && !proc.asked.Load() {
		c.spec = &spec // an adopted one was not yet wanted
	}
	c.mu.Unlock()
	switch {
	case proc != nil && proc.asked.Load():
		return fmt.Errorf("start process: process %d has not yet ended", proc.pid)
	case proc != nil && proc.record.SpecHash != hash:
		return fmt.Errorf("start process: %w (process %d)", ErrOtherSpec, proc.pid)
	case proc != nil:
		return nil
	case wanted != nil && wanted.Hash() == hash:
		return nil // Run starts it when it is due
	}
	if err := answer(ctx, spec); err != nil {
		return fmt.Errorf("start process: %w", err)
	}
	node, err := inodeOf(spec.DataDir)
	if err != nil {
		return fmt.Errorf("start process: look at data directory: %w", err)
	}
	c.mu.Lock()
	c.failures = 0
	if c.lastExit != nil {
		c.lastExit.Damaged = "" // other data may lie there by now
	}
	c.mu.Unlock()
	return c.start(spec, node)
}

// start starts a process that does not run, in the directory that was there
// when it was asked for; the caller holds the token.
func (c *Child) start(spec Spec, node inode) error {
	// First whoever knows what is to be in the directory is asked, so that it
	// learns of a directory that is gone.
	if c.opts.Permit != nil {
		if err := c.opts.Permit(spec); err != nil {
			return fmt.Errorf("start process: %w", err)
		}
	}
	if now, err := inodeOf(spec.DataDir); err != nil {
		return fmt.Errorf("start process: look at data directory: %w", err)
	} else if now != node {
		return fmt.Errorf("start process: the directory %s was replaced by another", spec.DataDir)
	}
	if err := CheckUnlocked(spec.DataDir); err != nil {
		return fmt.Errorf("start process: %w", err)
	}
	if err := rotateClosed(spec.LogFile, c.opts.LogLimit); err != nil {
		c.opts.Logger.Warn("cannot rotate the member's log", "file", spec.LogFile, "err", err)
	}
	born, err := spawn(spec, c.opts.Record)
	if err != nil {
		return err
	}
	if born.recordErr != nil {
		c.opts.Logger.Warn("cannot record the member's process", "pid", born.proc.pid, "err", born.recordErr)
	}
	c.hold(born.proc, &spec, node, logPosition{file: spec.LogFile, start: born.logStart}, born.recordErr)
	return nil
}

// hold makes proc the process that this Child keeps, and watches it.
func (c *Child) hold(proc *process, spec *Spec, node inode, log logPosition, recordErr error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proc, c.spec, c.node, c.log = proc, spec, node, log
	c.recordErr, c.lastError, c.nextStart = recordErr, nil, time.Time{}
	if c.closed() { // Close came in between: it runs, and the next daemon adopts it
		proc.close()
		close(proc.done)
		return
	}
	c.watches.Go(func() { c.watch(proc) })
	c.changed()
}

// watch waits for the end of proc and tells what became of it.
func (c *Child) watch(proc *process) {
	if !proc.wait() {
		proc.close()
		return // released
	}
	exit := c.describeEnd(proc)
	proc.close()
	c.mu.Lock()
	c.proc, c.lastExit = nil, &exit
	if exit.Asked {
		c.failures = 0
	} else {
		c.failures = c.opts.Backoff.fold(c.failures, exit.Uptime)
		c.nextStart = exit.At.Add(c.opts.Backoff.Delay(c.failures))
	}
	wanted := c.spec != nil
	c.mu.Unlock()
	if !exit.Asked {
		c.opts.Logger.Warn("the member's process ended", "pid", exit.PID, "reason", exit.Reason, "restart", wanted)
	}
	close(proc.done)
	c.changed()
}

// restartTimer fires when a process that ended is due again.
func (c *Child) restartTimer() (<-chan time.Time, func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spec == nil || c.proc != nil {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(time.Until(c.nextStart))
	return timer.C, timer.Stop
}

// restart starts the wanted process again, if that still is to be done.
func (c *Child) restart(ctx context.Context) {
	if c.begin(ctx) != nil {
		return
	}
	defer c.end()
	c.mu.Lock()
	due := c.spec != nil && c.proc == nil && !time.Now().Before(c.nextStart)
	var spec Spec
	if due {
		spec = *c.spec
	}
	node := c.node
	c.mu.Unlock()
	if !due {
		return
	}
	err := answer(ctx, spec)
	if err == nil {
		err = c.start(spec, node)
	}
	if err == nil {
		return
	}
	c.mu.Lock()
	if c.lastError == nil || c.lastError.Error() != err.Error() {
		c.opts.Logger.Warn("cannot restart the member's process; it is tried again and again", "err", err)
	}
	c.lastError = err
	c.failures++
	c.nextStart = time.Now().Add(c.opts.Backoff.Delay(c.failures))
	c.mu.Unlock()
	c.changed()
}

// Stop is as [Runtime] says.
func (c *Child) Stop(ctx context.Context, grace time.Duration) error {
	if grace <= 0 {
		grace = DefaultGrace
	}
	if err := c.begin(ctx); err != nil {
		return fmt.Errorf("stop process: %w", err)
	}
	defer c.end()
	c.mu.Lock()
	proc := c.proc
	c.spec, c.failures, c.lastError = nil, 0, nil
	if proc != nil {
		proc.asked.Store(true)
	}
	c.mu.Unlock()
	c.changed()
	if proc == nil {
		return nil
	}
	return c.finish(ctx, proc, grace)
}

// finish ends proc: politely, then not.
func (c *Child) finish(ctx context.Context, proc *process, grace time.Duration) error {
	if err := proc.signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("stop process: %w", err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		select {
		case <-proc.done:
			return nil
		case <-timer.C:
			c.opts.Logger.Warn("the member's process did not end in time and is killed", "pid", proc.pid, "grace", grace)
			if err := proc.signal(unix.SIGKILL); err != nil {
				return fmt.Errorf("stop process: %w", err)
			}
		case <-c.closing:
			return fmt.Errorf("stop process %d: %w", proc.pid, ErrClosed)
		case <-ctx.Done():
			return fmt.Errorf("stop process: process %d still runs: %w", proc.pid, ctx.Err())
		}
	}
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/sim/fakeetcd"
)

// process is a daemon's host.Process. It behaves as the real one does:
// processes outlive daemons, one that ended is started again after the
// runtime's own backoff, and the permit is asked before every start.
type process struct {
	d       *daemon
	ops     chan struct{} // a token: one start, stop or adoption at a time
	changes chan struct{}
	wake    chan struct{}

	mu       sync.Mutex // guards what follows
	wanted   *record.Launch
	node     *dir // the directory that was there when it was first wanted
	permit   host.Permit
	trusts   bool // what is started from what is wanted has the certificates of its peers
	held     *fakeetcd.Proc
	since    time.Time
	pid      int
	adopted  bool
	asked    bool // its end was asked for
	starts   int
	failures int
	next     time.Time
	lastExit string
	problem  string
}

var _ host.Process = (*process)(nil)

func newProcess(d *daemon) *process {
	return &process{d: d, ops: make(chan struct{}, 1), changes: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

func (p *process) changed() {
	for _, c := range []chan struct{}{p.changes, p.wake} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Changes implements host.Process.
func (p *process) Changes() <-chan struct{} { return p.changes }

func (p *process) begin(ctx context.Context) error {
	select {
	case p.ops <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *process) finish() { <-p.ops }

// run notices ends and starts again what is wanted, until ctx ends.
func (p *process) run(ctx context.Context) {
	for {
		p.mu.Lock()
		held, wanted, next := p.held, p.wanted, p.next
		p.mu.Unlock()
		var ended <-chan struct{}
		var due <-chan time.Time
		var timer *time.Timer
		switch {
		case held != nil:
			ended = held.Done()
		case wanted != nil:
			timer = time.NewTimer(time.Until(next))
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-ended:
			p.ended(held)
		case <-due:
			p.again(ctx)
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func (p *process) ended(proc *fakeetcd.Proc) {
	if !p.d.alive() {
		return
	}
	p.mu.Lock()
	if p.held == proc {
		p.held, p.pid = nil, 0
		p.adopted = false
		p.lastExit = proc.Exit()
		if p.asked {
			p.failures, p.lastExit = 0, ""
		} else {
			if p.failures++; time.Since(p.since) >= runtime.DefaultBackoff.Healthy {
				p.failures = 1
			}
			p.next = time.Now().Add(runtime.DefaultBackoff.Delay(p.failures))
		}
	}
	p.mu.Unlock()
	p.changed()
}

func (p *process) again(ctx context.Context) {
	if p.begin(ctx) != nil {
		return
	}
	defer p.finish()
	p.mu.Lock()
	due := p.wanted != nil && p.held == nil && !time.Now().Before(p.next)
	var l record.Launch
	if due {
		l = *p.wanted
	}
	node := p.node
	p.mu.Unlock()
	if !due {
		return
	}
	err := p.spawn(l, node)
	if err == nil {
		return
	}
	p.mu.Lock()
	p.lastExit = err.Error()
	p.failures++
	p.next = time.Now().Add(runtime.DefaultBackoff.Delay(p.failures))
	p.mu.Unlock()
	p.changed()
}

// spawn starts the process; the caller holds the token.
func (p *process) spawn(l record.Launch, node *dir) error {
	m := p.d.m
	if have := m.dir(l.Token); have == nil || have != node {
		return errors.New("the data directory is missing or was replaced by another")
	}
	p.mu.Lock()
	permit, trusts := p.permit, p.trusts
	p.mu.Unlock()
	if !trusts && slices.ContainsFunc(l.URLs.Peer, func(u string) bool { return strings.HasPrefix(u, "https://") }) {
		return errors.New("the member listens with TLS, and this daemon has no certificates")
	}
	if permit == nil {
		return errors.New("the host has not said that its member may run")
	}
	if err := permit(); err != nil {
		return fmt.Errorf("start process: %w", err)
	}
	return p.d.do(kindSpawn, "", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.proc != nil && m.proc.Exit() == "" && m.procTheirs {
			return errTheirs
		}
		if m.proc != nil && m.proc.Exit() == "" {
			p.d.w.violate("%s starts a second process beside the running one", m.ID())
			return errors.New("a process is running")
		}
		proc, err := m.w.etcd.Start(m.ID(), l, node.data)
		if err != nil {
			p.d.w.violate("%s: %v", m.ID(), err)
			return err
		}
		if m.trusts = trusts; trusts {
			proc.Trust()
		}
		m.proc, m.procDir, m.procTheirs, m.asked = proc, node, false, false
		if slices.Contains(m.broken, l.Version) {
			p.d.w.later(10*time.Millisecond, proc.Kill)
		}
		m.pids++
		p.mu.Lock()
		p.wanted, p.node, p.held, p.since, p.pid, p.adopted, p.asked = &l, node, proc, time.Now(), m.pids, false, false
		p.starts++
		p.problem = ""
		p.mu.Unlock()
		p.changed()
		return nil
	})
}

// Ensure implements host.Process.
func (p *process) Ensure(ctx context.Context, l record.Launch, permit host.Permit) error {
	err := p.ensure(ctx, l, permit)
	p.mu.Lock()
	p.problem = ""
	if err != nil {
		p.problem = err.Error()
	}
	p.mu.Unlock()
	p.changed()
	return err
}

func (p *process) ensure(ctx context.Context, l record.Launch, permit host.Permit) error {
	if !p.d.alive() {
		return errDead
	}
	p.mu.Lock()
	p.permit = permit
	held, wanted := p.held, p.wanted
	p.mu.Unlock()
	other := held != nil && !held.Launch().Same(l) || held == nil && wanted != nil && !wanted.Same(l)
	if other {
		if err := p.Stop(ctx); err != nil {
			return fmt.Errorf("stop etcd, to start it with other settings: %w", err)
		}
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	defer p.finish()
	p.mu.Lock()
	held, wanted = p.held, p.wanted
	if held != nil && p.asked {
		p.mu.Unlock()
		return errors.New("start process: it has not yet ended")
	}
	if held != nil {
		p.wanted = &l
	}
	if held == nil && wanted == nil {
		p.failures = 0
		p.trusts = p.d.trusts
	}
	p.mu.Unlock()
	if held != nil || wanted != nil {
		return nil // it runs, or is started again when it is due
	}
	return p.spawn(l, p.d.m.dir(l.Token))
}

// Adopt implements host.Process.
func (p *process) Adopt(ctx context.Context, l record.Launch) (found bool, err error) {
	if err := p.begin(ctx); err != nil {
		return false, err
	}
	defer p.finish()
	err = p.d.do(kindAdopt, "", func() error {
		m := p.d.m
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.proc == nil || m.proc.Exit() != "" {
			return nil
		}
		if m.procTheirs {
			return errTheirs
		}
		if m.disk.dirs[l.Token] != m.procDir {
			return errors.New("a process runs in another data directory")
		}
		p.mu.Lock()
		p.held, p.node, p.pid, p.adopted, p.since, p.asked = m.proc, m.procDir, m.pids, true, time.Now(), m.asked
		p.trusts = m.trusts
		p.mu.Unlock()
		found = true
		return nil
	})
	if found {
		p.d.tracef("adopts the running member")
		p.changed()
	}
	return found, err
}

// Stop implements host.Process.
func (p *process) Stop(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	defer p.finish()
	p.mu.Lock()
	p.wanted, p.node, p.failures, p.problem = nil, nil, 0, ""
	held := p.held
	if held != nil {
		p.asked = true
	}
	p.mu.Unlock()
	p.changed()
	if held == nil {
		return nil
	}
	err := p.d.do(kindStop, "", func() error {
		p.d.w.checkStop(p.d)
		p.d.m.mu.Lock()
		p.d.m.asked = true
		p.d.m.mu.Unlock()
		held.Stop()
		return nil
	})
	if err != nil {
		return err
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	for {
		select {
		case <-held.Done():
			p.ended(held)
			return nil
		case <-grace.C:
			if p.d.alive() {
				held.Kill()
			}
		case <-p.d.ctx.Done():
			return errDead
		case <-ctx.Done():
			return fmt.Errorf("stop process: it still runs: %w", ctx.Err())
		}
	}
}

// Kill implements host.Process.
func (p *process) Kill(ctx context.Context) error { return p.Stop(ctx) }

// stopGrace is how long a process has to end before it is killed.
const stopGrace = 30 * time.Second

// Status implements host.Process.
func (p *process) Status() cluster.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := cluster.Process{PID: p.pid, Adopted: p.adopted, Restarts: max(0, p.starts-1), LastExit: p.lastExit}
	if (p.held != nil || p.wanted != nil) && p.trusts != p.d.trusts {
		s.Differs = []string{"--peer-trusted-ca-file"}
	}
	switch {
	case p.held != nil:
		s.State = cluster.ProcessRunning
	case p.wanted != nil:
		s.State = cluster.ProcessBackoff
	case p.problem != "":
		s.State, s.LastExit = cluster.ProcessBackoff, p.problem
	}
	return s
}

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/snapshot"
)

// Process is host.Process over a child process: it turns launches into
// programs with arguments, and keeps the runtime's record of the process
// beside the host's state.
type Process struct {
	child *runtime.Child
	path  string                    // of the record
	write func(record []byte) error // durably
	spec  func(record.Launch) (runtime.Spec, error)
	// genuine says whether a program still is what it was when it was fetched.
	genuine func(program string) error
	// adopted is told of a launch whose process an earlier daemon started.
	adopted func(record.Launch)
	log     *slog.Logger

	writing sync.Mutex // held to write the record, as long as the disk takes

	mu      sync.Mutex // guards what follows; never held over a write, so that Status does not wait for the disk
	record  processRecord
	permit  host.Permit
	problem string   // why the last Ensure could not start
	differs []string // settings that an adopted process has not got as it would now
	starts  int
	changes chan struct{}
}

// processRecord is durable: what an adopting daemon needs to know.
type processRecord struct {
	Launch  record.Launch         `json:"launch"`
	Spec    runtime.Spec          `json:"spec"`
	Process runtime.ProcessRecord `json:"process"`
	// Trusts are the certificates in the files of trusted authorities right before the process was started, by their
	// SHA-256, sorted: etcd reads them at its start only. What those files lose later it still trusts; what they get
	// later it does not. None: not known.
	Trusts []string `json:"trusts,omitempty"`
}

// NewProcess reads the record of an earlier daemon, if there is one. The
// caller holds the lock of the state directory until the end of the program.
// spec turns a launch into a program with arguments; genuine is asked of that
// program before every start, the automatic ones included; adopted is told of a
// launch whose process was found running.
func NewProcess(stateDir string, log *slog.Logger, spec func(record.Launch) (runtime.Spec, error), genuine func(program string) error, adopted func(record.Launch)) (*Process, error) {
	p := &Process{path: filepath.Join(stateDir, "process.json"), spec: spec, genuine: genuine, adopted: adopted, log: log, changes: make(chan struct{}, 1)}
	p.write = func(record []byte) error { return durable.Replace(p.path, record, 0o600) }
	data, err := os.ReadFile(p.path)
	switch {
	case err == nil:
		if err := json.Unmarshal(data, &p.record); err != nil {
			return nil, &Error{Problem: fmt.Sprintf("read the record of etcd's process in %s", p.path), Err: err, Advice: "when no etcd of this host runs, move the file away"}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Problem: "read the record of etcd's process", Err: err}
	}
	p.child = runtime.NewChild(runtime.Options{Record: p.save, Permit: p.permitted, Logger: log})
	return p, nil
}

func (p *Process) save(r runtime.ProcessRecord) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	data, err := p.keep(r)
	if err != nil {
		return err
	}
	return p.write(data)
}

// keep takes the runtime's record into ours, which is returned as it is to be written.
func (p *Process) keep(r runtime.ProcessRecord) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.PID != 0 && r.PID != p.record.Process.PID {
		p.log.Info("etcd runs", "pid", r.PID, "version", p.record.Launch.Version, "log", p.record.Spec.LogFile)
	}
	p.record.Process = r
	if r.PID == 0 {
		p.starts++
	}
	return json.MarshalIndent(p.record, "", "  ")
}

func (p *Process) permitted(spec runtime.Spec) error {
	p.mu.Lock()
	permit, version := p.permit, p.record.Launch.Version
	p.mu.Unlock()
	if permit == nil {
		return errors.New("the host has not said that its member may run")
	}
	if err := permit(); err != nil {
		return err
	}
	trusts := trustedBy(spec.Args)
	p.mu.Lock()
	p.record.Trusts = trusts // which is written with the new process's ID, before it begins
	p.mu.Unlock()
	// What ended by itself is started from the same path, where something else may be by now.
	if err := p.genuine(spec.Path); err != nil {
		advice := ""
		if errors.Is(err, release.ErrAltered) { // others say nothing about what it holds
			advice = fmt.Sprintf("; \"etcdadm download %s\" sets it aside and fetches it again", version)
		}
		return fmt.Errorf("the program of etcd %s is not run: %w%s", version, err, advice)
	}
	if !snapshot.RemovalsLast(version) {
		return nil
	}
	switch wrong, err := snapshot.MendRemovals(spec.DataDir); {
	case err != nil && len(wrong) > 0 && snapshot.RemovalsMatter(version):
		// It would send the others away, and one that does not start is one member.
		return fmt.Errorf("etcd %s would refuse existing members, and that cannot be repaired: %w", version, err)
	case err != nil:
		// etcd says itself what is wrong with a database, and cures what it can.
		p.log.Warn("cannot check whether the database lists existing members as removed", "err", err)
	case len(wrong) > 0:
		p.log.Warn("the database listed existing members as removed, as etcd 3.5 can leave it after 3.4; 3.6 would refuse them for good: repaired", "members", wrong)
	}
	return nil
}

// Run restarts a process that ended, and passes its events on, until ctx
// ends. The process goes on after it.
func (p *Process) Run(ctx context.Context) error {
	ran := make(chan error, 1)
	go func() { ran <- p.child.Run(ctx) }()
	for {
		select {
		case err := <-ran:
			return err
		case <-p.child.Events():
			p.changed()
		}
	}
}

func (p *Process) changed() {
	select {
	case p.changes <- struct{}{}:
	default:
	}
}

// Ensure implements host.Process.
func (p *Process) Ensure(ctx context.Context, l record.Launch, permit host.Permit) error {
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

func (p *Process) ensure(ctx context.Context, l record.Launch, permit host.Permit) error {
	p.mu.Lock()
	same := p.record.Launch.Same(l) && p.record.Launch.Token != ""
	spec := p.record.Spec
	p.permit = permit
	p.mu.Unlock()
	st, err := p.child.Status(ctx)
	if err != nil {
		return err
	}
	running := st.State == runtime.Running || st.State == runtime.Paused
	if !same || !running {
		// What runs keeps its arguments: a newer daemon may word them
		// differently, and that is no reason to restart a member.
		if spec, err = p.spec(l); err != nil {
			return err
		}
		if st.State != runtime.Absent && st.SpecHash != spec.Hash() {
			if err := p.child.Stop(ctx, 0); err != nil {
				return fmt.Errorf("stop etcd, to start it with other settings: %w", err)
			}
		}
		p.mu.Lock()
		p.record.Launch, p.record.Spec, p.differs = l, spec, nil
		p.mu.Unlock()
	}
	return p.child.Ensure(ctx, spec)
}

// Adopt implements host.Process.
func (p *Process) Adopt(ctx context.Context, l record.Launch) (bool, error) {
	p.mu.Lock()
	record := p.record
	p.mu.Unlock()
	var dataDir string
	if record.Process.DataDir != "" {
		dataDir = record.Process.DataDir
		err := p.child.Adopt(ctx, record.Process, dataDir)
		if err == nil {
			p.log.Info("adopted the running etcd", "pid", record.Process.PID, "version", record.Launch.Version, "log", record.Spec.LogFile)
			p.adopted(l)
			p.compare(l, record.Spec)
			return true, nil
		}
		var refused *runtime.RefusedError
		if !errors.As(err, &refused) || !refused.Gone() {
			return false, fmt.Errorf("adopt the running etcd: %w", err)
		}
	}
	// No record, or its process is gone: what holds the data is not ours.
	spec, err := p.spec(l)
	if err != nil {
		return false, nil // it cannot be started either, and Ensure will say why
	}
	if err := runtime.CheckUnlocked(spec.DataDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("the data directory %s is in use by a process that this host did not start: %w", spec.DataDir, err)
	}
	return false, nil
}

// takeUp holds the recorded process, if it runs and the host has not come to adopt it:
// a daemon that ends while it starts has to stop that one, too.
func (p *Process) takeUp(ctx context.Context) error {
	p.mu.Lock()
	record := p.record.Process
	p.mu.Unlock()
	if record.DataDir == "" {
		return nil
	}
	if st, err := p.child.Status(ctx); err != nil || st.State != runtime.Absent {
		return err
	}
	err := p.child.Adopt(ctx, record, record.DataDir)
	if refused, ok := errors.AsType[*runtime.RefusedError](err); ok && refused.Gone() {
		return nil
	}
	return err
}

// givenUp is how long a member that was given up may take to end. What it has
// acknowledged is on the disk, and clients wait for what replaces it.
const givenUp = 100 * time.Millisecond

// Stop implements host.Process.
func (p *Process) Stop(ctx context.Context) error { return p.stop(ctx, runtime.DefaultGrace) }

// Kill implements host.Process.
func (p *Process) Kill(ctx context.Context) error { return p.stop(ctx, givenUp) }

func (p *Process) stop(ctx context.Context, grace time.Duration) error {
	err := p.child.Stop(ctx, grace)
	if err == nil {
		p.mu.Lock()
		p.problem = "" // what is not wanted has no trouble starting
		p.mu.Unlock()
	}
	p.changed()
	return err
}

// Changes implements host.Process.
func (p *Process) Changes() <-chan struct{} { return p.changes }

// Status implements host.Process.
func (p *Process) Status() cluster.Process {
	st, err := p.child.Status(context.Background()) // does not block
	p.mu.Lock()
	defer p.mu.Unlock()
	out := cluster.Process{PID: st.PID, Adopted: st.Adopted, Restarts: max(0, p.starts-1), Differs: p.differs}
	if st.PID > 0 {
		out.Trusts = slices.Clone(p.record.Trusts)
	}
	if st.PID > 0 && !st.Since.IsZero() {
		out.Uptime = max(time.Since(st.Since), 1)
	}
	if st.LastExit != nil && !st.LastExit.Asked {
		out.LastExit = st.LastExit.Reason
	}
	if st.LastExit != nil && (st.State == runtime.Running || st.State == runtime.Waiting) {
		out.Damaged = st.LastExit.Damaged
	}
	switch st.State {
	case runtime.Running, runtime.Stopping:
		out.State = cluster.ProcessRunning
	case runtime.Paused:
		out.State, out.LastExit = cluster.ProcessSilent, "it is stopped by a signal or a debugger"
	case runtime.Waiting:
		out.State = cluster.ProcessBackoff
		if st.LastError != "" {
			out.LastExit = st.LastError
		}
	case runtime.Absent:
		if p.problem != "" {
			out.State, out.LastExit = cluster.ProcessBackoff, p.problem
		}
	}
	if err != nil {
		out.LastExit = err.Error()
	}
	return out
}

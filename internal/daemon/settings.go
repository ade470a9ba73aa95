package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/runtime"
)

// compare notes which settings an adopted process has not got as it would get
// them now: nothing but a start applies an environment.
func (p *Process) compare(l record.Launch, ran runtime.Spec) {
	would, err := p.spec(l)
	if err != nil {
		return // a start would say why
	}
	names := differing(ran, would)
	if len(names) > 0 {
		p.log.Warn("the adopted etcd runs with other settings than it would be started with now; they apply when it is started again", "settings", names)
	}
	p.mu.Lock()
	p.differs = names
	p.mu.Unlock()
}

// differing names the flags and the variables for etcd that two specs do not
// have in common. The program may have moved, a daemon's PATH is no setting,
// and what only a first start heeds is left out of a later one.
func differing(a, b runtime.Spec) []string {
	var out []string
	note := func(word string) {
		name, _, _ := strings.Cut(word, "=")
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	words := func(s runtime.Spec) []string {
		env := slices.DeleteFunc(slices.Clone(s.Env), func(v string) bool { return !strings.HasPrefix(v, "ETCD_") })
		flags := slices.DeleteFunc(slices.Clone(s.Args), func(v string) bool { return !strings.HasPrefix(v, "-") || strings.HasPrefix(v, "--initial-") })
		return append(env, flags...)
	}
	for _, pair := range [][2][]string{{words(a), words(b)}, {words(b), words(a)}} {
		for _, w := range pair[0] {
			if !slices.Contains(pair[1], w) {
				note(w)
			}
		}
	}
	slices.Sort(out)
	return out
}

// logFile is where etcd writes.
func (d *daemon) logFile() string { return filepath.Join(d.cfg.DataDir, "logs", "etcd.log") }

// chosen begin the warnings that follow from how we run etcd, at every start.
var chosen = []string{"Running http and grpc server on single port", "simple token is not cryptographically signed"}

// logLook is how often the size of etcd's log is looked at.
const logLook = 2 * time.Second

// followLog tells what etcd warns of, until ctx ends.
func (d *daemon) followLog(ctx context.Context) error {
	follower := runtime.Follow(d.logFile())
	var copied *runtime.LogCopy
	if d.program.EtcdLog != nil {
		copied = runtime.CopyLog(d.logFile(), d.program.EtcdLog)
	}
	ticker := time.NewTicker(logLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-ticker.C:
			if d.logRoom.look(ctx, d.logFile()) != nil {
				d.rejects.set(follower.Rejects(now)) // what was read ages all the same
				continue
			}
			if copied != nil {
				_ = copied.Next() // a writer that is gone is told of by nobody else either
			}
			told := follower.Next(now)
			d.rejects.set(follower.Rejects(now))
			for _, l := range told {
				if slices.ContainsFunc(chosen, func(s string) bool { return strings.HasPrefix(l.Text, s) }) {
					continue
				}
				level := slog.LevelInfo // etcd warns of much that passes
				if l.Level != "warn" {
					level = slog.LevelWarn
				}
				d.log.Log(ctx, level, "etcd's log", "etcd", l.Text, "severity", l.Level, "file", d.logFile())
			}
			if follower.Left > 0 {
				d.log.Info("etcd's log has more than is told here", "lines", follower.Left, "file", d.logFile())
				follower.Left = 0
			}
		}
	}
}

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/bounded"
	"etcdadm.io/internal/release"
)

// Tool is the program that restores: etcdutl, or before 3.5 etcdctl.
type Tool struct {
	Name    string
	Version cluster.Version
	path    string
	args    []string
	env     []string
}

// ToolMissingError says that a release has no program that restores.
type ToolMissingError struct {
	Tool    string // etcdutl or etcdctl
	Version string // of the release
	Dir     string // where it was looked for; empty for the built-in release
}

func (e *ToolMissingError) Error() string {
	if e.Dir == "" {
		return fmt.Sprintf("restoring takes %s of etcd %s, which the built-in release does not have", e.Tool, e.Version)
	}
	return fmt.Sprintf("restoring takes %s of etcd %s, and %s has none", e.Tool, e.Version, e.Dir)
}

// Hint says how to get it.
func (e *ToolMissingError) Hint() string {
	return fmt.Sprintf("put %s of etcd %s beside etcd (the release's archive has both)", e.Tool, e.Version)
}

// RestoreTool is the program of a release that restores what that release
// backed up.
func RestoreTool(r release.Release) (Tool, error) {
	v, err := cluster.ParseVersion(r.Version)
	if err != nil {
		return Tool{}, err
	}
	t := Tool{Name: "etcdutl", Version: v, path: r.Etcdutl, args: r.EtcdutlArgs}
	if v.Compare(cluster.Version{Major: 3, Minor: 5}) < 0 {
		t = Tool{Name: "etcdctl", Version: v, path: r.Etcdctl, env: []string{"ETCDCTL_API=3"}}
	}
	if t.path == "" {
		return Tool{}, &ToolMissingError{Tool: t.Name, Version: r.Version, Dir: r.Dir}
	}
	return t, nil
}

// Bumps says whether the tool can raise revisions. Source: etcd's changelogs
// of 3.4.27 and 3.5.10; 3.6.0 began with it.
func (t Tool) Bumps() bool {
	v := t.Version
	switch {
	case v.Major != 3:
		return v.Major > 3
	case v.Minor == 4:
		return v.Patch >= 27
	case v.Minor == 5:
		return v.Patch >= 10
	}
	return v.Minor > 5
}

// run runs the tool in dir. The tool inherits the site's lock and dies with us.
func (t Tool) run(ctx context.Context, s *site, args ...string) error {
	if err := bounded.Program(ctx, t.path); err != nil {
		return fmt.Errorf("run %s of etcd %s: %w", t.Name, t.Version, err)
	}
	// The kernel ends the child with the thread that started it.
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()

	cmd := exec.CommandContext(ctx, t.path, slices.Concat(t.args, args)...)
	cmd.Dir = s.dir
	cmd.Env = append(bareEnvironment(), t.env...)
	cmd.ExtraFiles = []*os.File{s.lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	said := &tail{}
	cmd.Stdout, cmd.Stderr = said, said
	err := cmd.Start()
	if err == nil {
		s.sign(cmd.Process.Pid, t.Name)
		err = cmd.Wait()
		s.signSelf()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		if err = context.Cause(ctx); !errors.Is(err, ctx.Err()) { // it says which bound it was
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	case strings.Contains(said.String(), syscall.ENOSPC.Error()):
		err = errors.Join(ErrNoSpace, err)
	}
	return fmt.Errorf("run %s of etcd %s: %w: %s", t.Name, t.Version, err, said.lastLine())
}

// bareEnvironment is what etcd's programs get: they read ETCD_* and ETCDCTL_*
// as flags, and nothing else of our environment is their business. Releases run
// on some processors only when told that this is known. A proxy on which
// nobody listens stands in the way of everything that leaves the machine.
func bareEnvironment() []string {
	const nobody = "http://127.0.0.1:1"
	return []string{
		"ETCD_UNSUPPORTED_ARCH=" + goruntime.GOARCH,
		"HTTP_PROXY=" + nobody, "HTTPS_PROXY=" + nobody,
	}
}

// tail keeps the end of what is written.
type tail struct{ kept []byte }

const tailSize = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.kept) }

// lastLine is where etcd's programs say what was wrong.
func (t *tail) lastLine() string {
	lines := strings.Split(strings.TrimSpace(t.String()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

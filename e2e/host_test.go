package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

// host is a place for one member: an address, a data directory, a daemon.
type host struct {
	c       *testCluster
	n       int
	place   int // whose address it has: n's, unless it moved
	address string
	dir     string // data directory
	log     string // of the daemon, all its runs

	flags  []string // of this host's daemon, after all others
	env    []string
	auto   bool     // the daemon is etcdadm auto
	stderr *os.File // of the daemon; nil: its log
	alone  []string // a plain etcd in place of the daemon

	cmd  *exec.Cmd
	done chan struct{} // closed when the daemon of cmd has ended
}

func (h *host) scheme() string {
	if h.c.options.tls {
		return "https"
	}
	return "http"
}

func (h *host) clientURL() string { return h.scheme() + "://" + h.c.block.at(h.place, portClient) }
func (h *host) endpoint() string  { return h.c.block.at(h.place, portGRPC) }

// arguments are the daemon's, as the walkthrough has them.
func (h *host) arguments() []string {
	c := h.c
	var args []string
	if c.options.tls {
		args = append(args, "--pki-dir="+c.pkiDir())
	} else {
		args = append(args, "--insecure", "--etcd-insecure")
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		c.t.Fatal(err)
	}
	args = append(args,
		"--address", h.address, "--etcd-address", h.address,
		"--cluster-name="+c.name, "--backup-store="+c.storeURL(), "--data-dir="+h.dir,
		"--client-urls="+h.clientURL(),
		"--quarantine-client-urls="+h.scheme()+"://"+c.block.at(h.place, portQuarantine),
		"--peer-urls="+h.scheme()+"://"+c.block.at(h.place, portPeer),
		"--release-dir="+cache)
	if c.block.shift != 0 {
		args = append(args, fmt.Sprintf("--grpc-port=%d", portGRPC+c.block.shift))
	}
	return lastWins(append(append(args, c.options.flags...), h.flags...))
}

// lastWins drops every flag --name=value that a later one repeats: some flags
// make a list of what is repeated.
func lastWins(args []string) []string {
	var out []string
	for i, a := range args {
		name, _, hasValue := strings.Cut(a, "=")
		again := func(b string) bool { return strings.HasPrefix(b, name+"=") }
		if !hasValue || !slices.ContainsFunc(args[i+1:], again) {
			out = append(out, a)
		}
	}
	return out
}

// move gives the host the address that number n would have.
func (h *host) move(n int) {
	h.c.t.Helper()
	to := h.c.block.host(n)
	if h.c.net != nil {
		if err := h.c.net.move(h.address, to); err != nil {
			h.c.t.Fatal(err)
		}
	}
	h.place, h.address = n, to
}

// start runs the daemon.
func (h *host) start() {
	h.c.t.Helper()
	if h.running() {
		h.c.t.Fatalf("the daemon of host %d runs already", h.n)
	}
	out, err := os.OpenFile(h.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		h.c.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(filepath.Join(programs, "etcd-manager"), h.arguments()...)
	if h.auto {
		cmd = exec.Command(filepath.Join(programs, "etcdadm"), append([]string{"auto", h.c.storeURL()}, h.arguments()...)...)
	}
	if h.alone != nil {
		cmd = h.etcdAlone()
	}
	h.c.options.mask(cmd)
	cmd.Env = slices.Concat(os.Environ(), h.c.options.env, h.env)
	cmd.Stdout, cmd.Stderr = out, out
	if h.stderr != nil {
		cmd.Stderr = h.stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals for the test are not for it
	if err := h.spawn(cmd); err != nil {
		h.c.t.Fatal(err)
	}
	h.cmd, h.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		cmd.Wait()
		close(done)
	}(h.done)
}

func (h *host) running() bool {
	if h.done == nil {
		return false
	}
	select {
	case <-h.done:
		return false
	default:
		return true
	}
}

func (h *host) signal(sig syscall.Signal) {
	h.c.t.Helper()
	if err := h.cmd.Process.Signal(sig); err != nil {
		h.c.t.Fatalf("send %s to the daemon of host %d: %v", sig, h.n, err)
	}
}

// exit waits for the daemon's end and returns its exit code, -1 for a signal.
func (h *host) exit(within time.Duration) int {
	h.c.t.Helper()
	select {
	case <-h.done:
	case <-time.After(within):
		h.c.t.Fatalf("the daemon of host %d does not end within %s", h.n, within)
	}
	return h.cmd.ProcessState.ExitCode()
}

// kill is kill -9 for the daemon; etcd is left.
func (h *host) kill() {
	h.c.t.Helper()
	h.signal(syscall.SIGKILL)
	h.exit(soon)
}

// interrupt is Ctrl-C: etcd ends with the daemon.
func (h *host) interrupt() {
	h.c.t.Helper()
	h.signal(syscall.SIGINT)
	if code := h.exit(soon); code != 0 {
		h.c.t.Errorf("the daemon of host %d ends with %d on SIGINT, want 0", h.n, code)
	}
	if pid := h.etcdPID(); pid != 0 {
		h.c.t.Errorf("etcd of host %d outlives SIGINT to its daemon", h.n)
	}
}

// term is SIGTERM; what becomes of etcd is --on-sigterm's.
func (h *host) term() {
	h.c.t.Helper()
	h.signal(syscall.SIGTERM)
	if code := h.exit(soon); code != 0 {
		h.c.t.Errorf("the daemon of host %d ends with %d on SIGTERM, want 0", h.n, code)
	}
}

// crash kills the daemon and etcd at once, as a power cut does.
func (h *host) crash() {
	h.c.t.Helper()
	if err := endAll(h.dir); err != nil {
		h.c.t.Fatal(err)
	}
	h.reap()
}

func (h *host) reap() {
	if h.done != nil {
		<-h.done
	}
}

// wipe empties the data directory of a host that was crashed or stopped.
// keepIdentity leaves the file with the host's ID, as a machine that gets a
// new disk and its old name does.
func (h *host) wipe(keepIdentity bool) {
	h.c.t.Helper()
	if pids := processesOf(h.dir); len(pids) > 0 {
		h.c.t.Fatalf("host %d is to be wiped and still has the processes %v", h.n, pids)
	}
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		h.c.t.Fatal(err)
	}
	for _, e := range entries {
		if keepIdentity && e.Name() == "myid" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(h.dir, e.Name())); err != nil {
			h.c.t.Fatal(err)
		}
	}
}

// etcdPIDs are the processes that run on the host's data; not one in which a backup is
// tried out, which is thrown away.
func (h *host) etcdPIDs() []int {
	return find(func(args []string) bool {
		return slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "--data-dir="+h.dir+"/") && !strings.Contains(a, "/etcdadm-drill-")
		})
	})
}

// etcdPID is the one process that runs on the host's data; 0: none. More than
// one is an error in any test.
func (h *host) etcdPID() int {
	h.c.t.Helper()
	pids := h.etcdPIDs()
	switch len(pids) {
	case 0:
		return 0
	case 1:
		return pids[0]
	}
	h.c.t.Fatalf("host %d runs %d etcds: %v", h.n, len(pids), pids)
	return 0
}

// killEtcd is kill -9 for etcd, and returns the pid that it had.
func (h *host) killEtcd() int {
	h.c.t.Helper()
	pid := h.etcdPID()
	if pid == 0 {
		h.c.t.Fatalf("host %d runs no etcd", h.n)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		h.c.t.Fatal(err)
	}
	return pid
}

// healthy asks the host's member for a linearizable read.
func (h *host) healthy(ctx context.Context) error {
	client, err := h.c.dial(h.clientURL())
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Get(ctx, "health"); err != nil {
		return fmt.Errorf("the member of host %d: %w", h.n, err)
	}
	return nil
}

// serves waits for the host's member to be healthy.
func (h *host) serves(within time.Duration) {
	h.c.t.Helper()
	eventually(h.c.t, within, fmt.Sprintf("the member of host %d healthy", h.n), h.healthy)
}

// id is the host's ID, which the daemon wrote into its data directory.
func (h *host) id() cluster.HostID {
	h.c.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.dir, "myid"))
	if err != nil {
		h.c.t.Fatal(err)
	}
	return cluster.HostID(strings.TrimSpace(string(data)))
}

// stopped waits until no etcd runs on the host.
func (h *host) stopped(within time.Duration) {
	h.c.t.Helper()
	eventually(h.c.t, within, fmt.Sprintf("etcd of host %d stopped", h.n), func(context.Context) error {
		if pid := h.etcdPID(); pid != 0 {
			return fmt.Errorf("etcd runs with pid %d", pid)
		}
		return nil
	})
}

// said waits for words in the daemon's log.
func (h *host) said(within time.Duration, words string) {
	h.c.t.Helper()
	eventually(h.c.t, within, fmt.Sprintf("host %d says %q", h.n, words), func(context.Context) error {
		data, err := os.ReadFile(h.log)
		if err == nil && !strings.Contains(string(data), words) {
			err = errors.New("not in its log")
		}
		return err
	})
}

package rig

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
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/testetcd"
)

// Host is a place for one member: an address, a data directory, a daemon.
type Host struct {
	C       *Cluster
	N       int
	Place   int // whose address it has: n's, unless it moved
	Address string
	Dir     string // data directory
	Log     string // of the daemon, all its runs

	Flags  []string // of this host's daemon, after all others
	Env    []string
	Auto   bool     // the daemon is etcdadm auto
	Pod    bool     // it runs below etcdadm pod
	Plain  bool     // what else runs etcd here does so without TLS
	Stderr *os.File // of the daemon; nil: its log
	Alone  []string // a plain etcd in place of the daemon

	Cmd  *exec.Cmd
	Done chan struct{} // closed when the daemon of cmd has ended
}

// Secure reports whether its member speaks TLS.
func (h *Host) Secure() bool { return h.C.Options.TLS && !h.Plain }

func (h *Host) Scheme() string {
	if h.Secure() {
		return "https"
	}
	return "http"
}

// StoreURL is the backup store as this host names it.
func (h *Host) StoreURL() string {
	if h.C.Options.Kept {
		return kept.Scheme + "://" + h.Dir
	}
	return h.C.StoreURL()
}

func (h *Host) ClientURL() string { return h.Scheme() + "://" + h.C.Block.At(h.Place, PortClient) }
func (h *Host) Endpoint() string  { return h.C.Block.At(h.Place, portGRPC) }

// Arguments are the daemon's, as the walkthrough has them.
func (h *Host) Arguments() []string {
	c := h.C
	var args []string
	if c.Options.TLS {
		args = append(args, "--pki-dir="+c.PKIDir())
	} else {
		args = append(args, "--insecure", "--etcd-insecure")
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		c.T.Fatal(err)
	}
	args = append(args,
		"--address", h.Address, "--etcd-address", h.Address,
		"--cluster-name="+c.Name, "--backup-store="+h.StoreURL(), "--data-dir="+h.Dir,
		"--client-urls="+h.ClientURL(),
		"--quarantine-client-urls="+h.Scheme()+"://"+c.Block.At(h.Place, portQuarantine),
		"--peer-urls="+h.Scheme()+"://"+c.Block.At(h.Place, PortPeer),
		"--release-dir="+cache)
	if c.Options.Control != "" {
		args = append(args, "--control-store="+c.Options.Control)
	}
	if c.Block.Shift != 0 {
		args = append(args, fmt.Sprintf("--grpc-port=%d", portGRPC+c.Block.Shift))
	}
	return lastWins(append(append(args, c.Options.Flags...), h.Flags...))
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

// Move gives the host the address that number n would have.
func (h *Host) Move(n int) {
	h.C.T.Helper()
	to := h.C.Block.Host(n)
	if h.C.Net != nil {
		if err := h.C.Net.Move(h.Address, to); err != nil {
			h.C.T.Fatal(err)
		}
	}
	h.Place, h.Address = n, to
}

// Start runs the daemon.
func (h *Host) Start() {
	h.C.T.Helper()
	if h.Running() {
		h.C.T.Fatalf("the daemon of host %d runs already", h.N)
	}
	out, err := os.OpenFile(h.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		h.C.T.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(filepath.Join(Programs, "etcd-manager"), h.Arguments()...)
	if h.Auto {
		cmd = exec.Command(filepath.Join(Programs, "etcdadm"), append([]string{"auto", h.StoreURL()}, h.Arguments()...)...)
	}
	if h.Pod {
		cmd = exec.Command(filepath.Join(Programs, "etcdadm"), append([]string{"pod", h.StoreURL()}, h.Arguments()...)...)
	}
	if h.Alone != nil {
		cmd = h.etcdAlone()
	}
	h.C.Options.mask(cmd)
	cmd.Env = slices.Concat(os.Environ(), h.C.Options.Env, h.Env)
	cmd.Stdout, cmd.Stderr = out, out
	if h.Stderr != nil {
		cmd.Stderr = h.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals for the test are not for it
	if err := h.spawn(cmd); err != nil {
		h.C.T.Fatal(err)
	}
	h.Cmd, h.Done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		cmd.Wait()
		close(done)
	}(h.Done)
}

func (h *Host) Running() bool {
	if h.Done == nil {
		return false
	}
	select {
	case <-h.Done:
		return false
	default:
		return true
	}
}

func (h *Host) Signal(sig syscall.Signal) {
	h.C.T.Helper()
	if err := h.Cmd.Process.Signal(sig); err != nil {
		h.C.T.Fatalf("send %s to the daemon of host %d: %v", sig, h.N, err)
	}
}

// Exit waits for the daemon's end and returns its exit code, -1 for a signal.
func (h *Host) Exit(within time.Duration) int {
	h.C.T.Helper()
	select {
	case <-h.Done:
	case <-time.After(within):
		h.C.T.Fatalf("the daemon of host %d does not end within %s", h.N, within)
	}
	return h.Cmd.ProcessState.ExitCode()
}

// Kill is kill -9 for the daemon; etcd is left.
func (h *Host) Kill() {
	h.C.T.Helper()
	h.Signal(syscall.SIGKILL)
	h.Exit(Soon)
}

// Interrupt is Ctrl-C: etcd ends with the daemon.
func (h *Host) Interrupt() {
	h.C.T.Helper()
	h.Signal(syscall.SIGINT)
	if code := h.Exit(Soon); code != 0 {
		h.C.T.Errorf("the daemon of host %d ends with %d on SIGINT, want 0", h.N, code)
	}
	if pid := h.EtcdPID(); pid != 0 {
		h.C.T.Errorf("etcd of host %d outlives SIGINT to its daemon", h.N)
	}
}

// Term is SIGTERM; what becomes of etcd is --on-sigterm's.
func (h *Host) Term() {
	h.C.T.Helper()
	h.Signal(syscall.SIGTERM)
	if code := h.Exit(Soon); code != 0 {
		h.C.T.Errorf("the daemon of host %d ends with %d on SIGTERM, want 0", h.N, code)
	}
}

// Crash kills the daemon and etcd at once, as a power cut does.
func (h *Host) Crash() {
	h.C.T.Helper()
	if err := EndAll(h.Dir); err != nil {
		h.C.T.Fatal(err)
	}
	h.reap()
}

func (h *Host) reap() {
	if h.Done != nil {
		<-h.Done
	}
}

// Wipe empties the data directory of a host that was crashed or stopped.
// keepIdentity leaves the file with the host's ID, as a machine that gets a
// new disk and its old name does.
func (h *Host) Wipe(keepIdentity bool) {
	h.C.T.Helper()
	if pids := ProcessesOf(h.Dir); len(pids) > 0 {
		h.C.T.Fatalf("host %d is to be wiped and still has the processes %v", h.N, pids)
	}
	entries, err := os.ReadDir(h.Dir)
	if err != nil {
		h.C.T.Fatal(err)
	}
	for _, e := range entries {
		if keepIdentity && e.Name() == "myid" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(h.Dir, e.Name())); err != nil {
			h.C.T.Fatal(err)
		}
	}
}

// EtcdPIDs are the processes that run on the host's data; not one in which a backup is
// tried out, which is thrown away.
func (h *Host) EtcdPIDs() []int {
	return find(func(args []string) bool {
		return slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "--data-dir="+h.Dir+"/") && !strings.Contains(a, "/etcdadm-drill-")
		})
	})
}

// EtcdPID is the one process that runs on the host's data; 0: none. More than
// one is an error in any test.
func (h *Host) EtcdPID() int {
	h.C.T.Helper()
	pids := h.EtcdPIDs()
	switch len(pids) {
	case 0:
		return 0
	case 1:
		return pids[0]
	}
	h.C.T.Fatalf("host %d runs %d etcds: %v", h.N, len(pids), pids)
	return 0
}

// KillEtcd is kill -9 for etcd, and returns the pid that it had.
func (h *Host) KillEtcd() int {
	h.C.T.Helper()
	pid := h.EtcdPID()
	if pid == 0 {
		h.C.T.Fatalf("host %d runs no etcd", h.N)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		h.C.T.Fatal(err)
	}
	return pid
}

// Healthy asks the host's member for a linearizable read.
func (h *Host) Healthy(ctx context.Context) error {
	client, err := h.C.Dial(h.ClientURL())
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Get(ctx, "health"); err != nil {
		return fmt.Errorf("the member of host %d: %w", h.N, err)
	}
	return nil
}

// Serves waits for the host's member to be healthy.
func (h *Host) Serves(within time.Duration) {
	h.C.T.Helper()
	Eventually(h.C.T, within, fmt.Sprintf("the member of host %d healthy", h.N), h.Healthy)
}

// ID is the host's ID, which the daemon wrote into its data directory.
func (h *Host) ID() cluster.HostID {
	h.C.T.Helper()
	data, err := os.ReadFile(filepath.Join(h.Dir, "myid"))
	if err != nil {
		h.C.T.Fatal(err)
	}
	return cluster.HostID(strings.TrimSpace(string(data)))
}

// Stopped waits until no etcd runs on the host.
func (h *Host) Stopped(within time.Duration) {
	h.C.T.Helper()
	Eventually(h.C.T, within, fmt.Sprintf("etcd of host %d stopped", h.N), func(context.Context) error {
		if pid := h.EtcdPID(); pid != 0 {
			return fmt.Errorf("etcd runs with pid %d", pid)
		}
		return nil
	})
}

// Said waits for words in the daemon's log.
func (h *Host) Said(within time.Duration, words string) {
	h.C.T.Helper()
	Eventually(h.C.T, within, fmt.Sprintf("host %d says %q", h.N, words), func(context.Context) error {
		data, err := os.ReadFile(h.Log)
		if err == nil && !strings.Contains(string(data), words) {
			err = errors.New("not in its log")
		}
		return err
	})
}

package machines

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

const (
	// bootWithin is for a machine that three of boot on at once, beside other tests.
	bootWithin = 2 * time.Minute
	// commandWithin bounds a command in a container, a join with its wait included.
	commandWithin = 2 * time.Minute
)

// booted is a container that systemd has booted, over a copy of this machine's files of its own.
type booted struct {
	t       *testing.T
	name    string
	address string
	dir     string // a tmpfs with the upper layer
	root    string // the container's files
	nspawn  int    // the process that keeps it
	leader  int    // its process 1, as this machine numbers it
	ended   chan struct{}
	shared  string // the directory that all machines see
}

// missingForMachines is why no machines can be booted here; empty: they can.
func missingForMachines() string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	for _, program := range []string{"systemd-nspawn", "nsenter", "ip", "systemctl"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not on this machine (Debian: systemd-container, util-linux, iproute2, systemd)"
		}
	}
	return ""
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// boot boots n machines on a network of their own, with a directory that all of them see at /mnt/etcd-store.
func boot(t *testing.T, n int) []*booted {
	t.Helper()
	if why := missingForMachines(); why != "" {
		t.Skip("no machines can be booted: " + why)
	}
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	tag := fmt.Sprintf("em%d", os.Getpid()%1000000)
	bridge := tag + "b"
	run(t, "ip", "link", "add", bridge, "type", "bridge")
	t.Cleanup(func() { run(t, "ip", "link", "del", bridge) })
	run(t, "ip", "link", "set", bridge, "up")
	var all []*booted
	for i := range n {
		b := &booted{t: t, name: fmt.Sprintf("%sm%d", tag, i+1), address: fmt.Sprintf("10.99.77.%d", i+1)}
		b.network(bridge, fmt.Sprintf("%sv%d", tag, i+1))
		b.files()
		b.start(shared)
		all = append(all, b)
	}
	for _, b := range all {
		b.awaitBoot()
	}
	return all
}

func (b *booted) network(bridge, link string) {
	t := b.t
	run(t, "ip", "netns", "add", b.name)
	t.Cleanup(func() { run(t, "ip", "netns", "del", b.name) })
	run(t, "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", b.name)
	t.Cleanup(func() { // before the name space, which ends when the kernel comes to it
		_ = exec.Command("ip", "link", "del", link).Run()
	})
	run(t, "ip", "link", "set", link, "master", bridge, "up")
	run(t, "ip", "-n", b.name, "link", "set", "lo", "up")
	run(t, "ip", "-n", b.name, "addr", "add", b.address+"/24", "dev", "eth0")
	run(t, "ip", "-n", b.name, "link", "set", "eth0", "up")
	run(t, "ip", "-n", b.name, "route", "add", "default", "via", "10.99.77.254")
}

func (b *booted) files() {
	t := b.t
	b.dir = t.TempDir()
	if err := syscall.Mount("tmpfs", b.dir, "tmpfs", 0, "size=3g"); err != nil {
		t.Skipf("no machines can be booted: mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(b.dir, syscall.MNT_DETACH) })
	upper, work := filepath.Join(b.dir, "upper"), filepath.Join(b.dir, "work")
	b.root = filepath.Join(b.dir, "root")
	for _, dir := range []string{upper, work, b.root} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("overlay", b.root, "overlay", 0, fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", upper, work)); err != nil {
		t.Skipf("no machines can be booted: mount an overlay: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(b.root, syscall.MNT_DETACH) })
	b.install("/usr/local/bin/etcdadm", nil)
	for path, text := range map[string]string{"etc/machine-id": "", "etc/hostname": b.name + "\n"} {
		if err := os.RemoveAll(filepath.Join(b.root, path)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// install puts the program in its place, as a package does: beside the one that may run, and over it by a rename.
func (b *booted) install(path string, more []byte) {
	b.t.Helper()
	b.put(filepath.Join(rig.Programs, "etcdadm"), path, more)
}

// put copies a program of this machine, which the booted one may not see: it has a /tmp of its own.
func (b *booted) put(program, path string, more []byte) {
	b.t.Helper()
	from, err := os.Open(program)
	if err != nil {
		b.t.Fatal(err)
	}
	defer from.Close()
	at := filepath.Join(b.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		b.t.Fatal(err)
	}
	to, err := os.OpenFile(at+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		b.t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.Copy(to, io.MultiReader(from, bytes.NewReader(more))); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(at+".new", at); err != nil {
		b.t.Fatal(err)
	}
}

func (b *booted) start(shared string) {
	t := b.t
	console, err := os.Create(filepath.Join(b.dir, "console"))
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	cmd := exec.Command("systemd-nspawn", "-D", b.root, "--machine="+b.name, "--register=no", "--keep-unit",
		"--network-namespace-path=/run/netns/"+b.name, "--bind="+shared+":/mnt/etcd-store", "--console=read-only", "--boot")
	cmd.Stdout, cmd.Stderr = console, console
	// It ends with this program, and with it everything in the container.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	b.ended, b.nspawn, b.leader, b.shared = ended, cmd.Process.Pid, 0, shared
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		b.cut()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
}

// cut takes the power from the machine.
func (b *booted) cut() {
	for _, pid := range b.children() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // with process 1 all of its name space end
	}
}

// powerCycle takes the power from the machine, and gives it back.
func (b *booted) powerCycle() {
	b.t.Helper()
	b.cut()
	select {
	case <-b.ended:
	case <-time.After(20 * time.Second):
		b.t.Fatalf("%s does not end", b.name)
	}
	b.start(b.shared)
	b.awaitBoot()
}

func (b *booted) awaitBoot() {
	deadline := time.Now().Add(bootWithin)
	state := ""
	for {
		// Its first child comes and goes; the one that stays is process 1.
		if pids := b.children(); len(pids) > 0 {
			b.leader = pids[0]
			_, state, _ = b.command("systemctl", "is-system-running")
		}
		if state = strings.TrimSpace(state); state == "running" || state == "degraded" {
			return
		}
		select {
		case <-b.ended:
			said, _ := os.ReadFile(filepath.Join(b.dir, "console"))
			b.t.Fatalf("the machine ended:\n%s", said)
		case <-time.After(200 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(filepath.Join(b.dir, "console"))
			b.t.Fatalf("the machine did not boot within %s: it is %q\n%s", bootWithin, state, said)
		}
	}
}

// children are the processes that systemd-nspawn has begun.
func (b *booted) children() (pids []int) {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", b.nspawn, b.nspawn))
	for _, f := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// command runs a command in the container.
func (b *booted) command(args ...string) (code int, out, errs string) {
	ctx, cancel := context.WithTimeout(context.Background(), commandWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", strconv.Itoa(b.leader), "-a"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.WaitDelay = 5 * time.Second
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		return -1, o.String(), err.Error()
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// must is a command that has to succeed.
func (b *booted) must(args ...string) string {
	b.t.Helper()
	code, out, errs := b.command(args...)
	if code != 0 {
		_, log, _ := b.command("journalctl", "-u", "etcdadm", "--no-pager", "-n", "60", "-o", "cat")
		b.t.Fatalf("%s: %s: exit code %d\n%s%s\nits journal:\n%s", b.name, strings.Join(args, " "), code, out, errs, log)
	}
	return out
}

// agent is the agent's process; 0: it does not run.
func (b *booted) agent() int {
	n, _ := strconv.Atoi(strings.TrimSpace(b.must("systemctl", "show", "-p", "MainPID", "--value", "etcdadm")))
	return n
}

// etcd are the processes of etcd, in the container's numbers.
func (b *booted) etcd() string {
	_, out, _ := b.command("pgrep", "-x", "etcd")
	return strings.TrimSpace(out)
}

// until waits until it is so.
func (b *booted) until(what string, is func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !is() {
		if time.Now().After(deadline) {
			_, log, _ := b.command("journalctl", "-u", "etcdadm", "--no-pager", "-n", "60", "-o", "cat")
			b.t.Fatalf("%s: not within a minute: %s\n%s", b.name, what, log)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

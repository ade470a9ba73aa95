package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// predecessorEnv names a directory with etcd-manager and etcd-manager-ctl of
// kubernetes-sigs/etcd-manager. They are no module that can be fetched, so
// whoever has them points to them; the other tests of that format go by files
// that they wrote. So far these tests have run with our own programs in their
// place only, which proves the tests and nothing about the predecessor.
const predecessorEnv = "ETCDADM_PREDECESSOR_BIN"

// predecessor is where its programs are.
type predecessor struct{ dir string }

func thePredecessor(t *testing.T) predecessor {
	t.Helper()
	dir := os.Getenv(predecessorEnv)
	if dir == "" {
		t.Skipf("SKIPPED, %s names no directory with etcd-manager and etcd-manager-ctl of kubernetes-sigs/etcd-manager", predecessorEnv)
	}
	for _, name := range []string{"etcd-manager", "etcd-manager-ctl"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Fatalf("%s: %v", predecessorEnv, err)
		}
	}
	return predecessor{dir}
}

// ctlOf is the same for either program: its flags come before the command,
// since the predecessor's take none behind it.
func ctlOf(c *testCluster, dir string, words ...string) result {
	return c.run(nil, filepath.Join(dir, "etcd-manager-ctl"), append([]string{"--backup-store=" + c.storeURL()}, words...)...)
}

// spaces are as many as protobuf's printers like: one or two, by build.
var spaces = regexp.MustCompile(` +`)

// Both ctls say the same of one store, and each takes what the other wrote.
func TestCtlBesideThePredecessors(t *testing.T) {
	p := thePredecessor(t)
	c := newCluster(t, options{hosts: 1, version: testetcd.V35})
	c.unpackPredecessor()
	same := func(words ...string) {
		t.Helper()
		ours, theirs := ctlOf(c, programs, words...), ctlOf(c, p.dir, words...)
		if ours.code != 0 || theirs.code != 0 || spaces.ReplaceAllString(ours.stdout, " ") != spaces.ReplaceAllString(theirs.stdout, " ") {
			t.Errorf("they differ:\n%s\n%s", ours, theirs)
		}
	}
	do := func(dir string, words ...string) {
		t.Helper()
		if r := ctlOf(c, dir, words...); r.code != 0 {
			t.Errorf("%s", r)
		}
	}
	for _, writer := range []string{p.dir, programs} {
		reader := programs
		if writer == programs {
			reader = p.dir
		}
		same("get")
		same("list-backups")
		same("list-commands")
		do(writer, "restore-backup", predecessorsBackup)
		same("list-commands")
		if r := ctlOf(c, reader, "list-commands"); !strings.Contains(r.stdout, predecessorsBackup) {
			t.Errorf("what the other queued is not there: %s", r)
		}
		word := predecessorsBackup
		if r := ctlOf(c, reader, "delete-command", word); r.code != 0 || strings.Contains(ctlOf(c, reader, "list-commands").stdout, word) {
			// Some of its releases want the timestamp.
			_, rest, _ := strings.Cut(ctlOf(c, reader, "list-commands").stdout, "timestamp:")
			word, _, _ = strings.Cut(rest, " ")
			do(reader, "delete-command", word)
		}
		same("list-commands")
		for _, count := range []string{"5", "1", "3"} {
			do(writer, "-member-count="+count, "configure-cluster")
			same("get")
		}
	}
	// Both write the same spec by it, and say the same.
	same("-etcd-version="+testetcd.V36, "configure-cluster")
	same("-member-count=1", "configure-cluster")
	same("get")
}

// The predecessor's daemon restores from a backup that ours took, by a command
// that our ctl queued.
func TestPredecessorsDaemonRestoresOurBackup(t *testing.T) {
	p := thePredecessor(t)
	c := formed(t, 1, options{})
	c.fill("k/", 500)
	name := c.takeBackup()
	c.fill("late/", 5)
	h := c.host(1)
	h.interrupt()
	h.wipe(false)
	p.start(t, h)
	if r := c.ctl("--backup-store="+c.storeURL(), "restore-backup", name); r.code != 0 {
		t.Fatalf("%s", r)
	}
	p.serves(t, h)
	if n := c.countKeys("k/"); n != 500 {
		t.Errorf("there are %d keys, want 500", n)
	}
	if n := c.countKeys("late/"); n != 0 {
		t.Errorf("%d keys are there that are not in the backup", n)
	}
	if r := ctlOf(c, p.dir, "get"); !strings.Contains(spaces.ReplaceAllString(r.stdout, " "), `member_count:1 etcd_version:"`+testetcd.V36+`"`) {
		t.Errorf("the spec afterwards: %s", r)
	}
}

// Ours restores from a backup that the predecessor's daemon took minutes ago,
// by a command that its ctl queued.
func TestOurDaemonRestoresThePredecessorsBackup(t *testing.T) {
	p := thePredecessor(t)
	c := newCluster(t, options{hosts: 1})
	if r := p.configure(c); r.code != 0 {
		t.Fatalf("%s", r)
	}
	h := c.host(1)
	h.flags = []string{"--backup-interval=5s"}
	stop := p.start(t, h)
	p.serves(t, h)
	c.fill("k/", 500)
	after := time.Now().UTC().Add(time.Second).Format(time.RFC3339) // names are of seconds
	var name string
	eventually(t, 2*time.Minute, "a backup by the predecessor's daemon", func(context.Context) error {
		for line := range strings.Lines(ctlOf(c, programs, "list-backups").stdout) {
			if line = strings.TrimSpace(line); !strings.Contains(line, ":") || strings.HasPrefix(line, "Backup Store") || line <= after {
				continue
			}
			name = line
			return nil
		}
		return errors.New("there is none that is new enough")
	})
	stop()
	h.wipe(false)
	h.flags = nil
	h.start()
	if r := ctlOf(c, p.dir, "restore-backup", name); r.code != 0 {
		t.Fatalf("%s", r)
	}
	c.takesWrites()
	if n := c.countKeys("k/"); n != 500 {
		t.Errorf("there are %d keys, want 500", n)
	}
}

func (p predecessor) configure(c *testCluster) result {
	return ctlOf(c, p.dir, "-member-count=1", "-etcd-version="+c.options.version, "configure-cluster")
}

// start runs the predecessor's daemon on a host, and gives what ends it and its
// etcd, which is told by its environment alone and found by no argument.
func (p predecessor) start(t *testing.T, h *host) (stop func()) {
	t.Helper()
	p.release(t, h.c.options.version)
	out, err := os.OpenFile(h.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	args := slices.DeleteFunc(h.arguments(), func(a string) bool { return strings.HasPrefix(a, "--release-dir") })
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(p.dir, "etcd-manager"), args...)
	cmd.Env = append(os.Environ(), "ETCDADM_RELEASES="+cache)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	stop = func() {
		select {
		case <-ended:
			return // the group is gone, and its number may be another's
		default:
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		if err := endAll(h.dir); err != nil { // an etcd with a group of its own
			t.Errorf("end what runs on %s: %v", h.dir, err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// release puts an etcd where the predecessor looks for it.
func (p predecessor) release(t *testing.T, version string) {
	t.Helper()
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("etcd-v%s-%s-%s", version, runtime.GOOS, runtime.GOARCH)
	if _, err := os.Stat(filepath.Join("/opt", name, "etcd")); err == nil {
		return
	}
	link := filepath.Join("/tmp", name)
	switch err := os.Symlink(filepath.Join(cache, name), link); {
	case err == nil:
		t.Cleanup(func() { os.Remove(link) })
	case !errors.Is(err, fs.ErrExist):
		t.Fatal(err)
	}
}

// serves waits for a write through the member on a host.
func (p predecessor) serves(t *testing.T, h *host) {
	t.Helper()
	eventually(t, 3*time.Minute, "a write under the predecessor's daemon", func(ctx context.Context) error {
		client, err := h.c.dial(h.clientURL())
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err = client.Put(ctx, "served", "there")
		return err
	})
}

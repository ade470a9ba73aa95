package backups

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

	"etcdadm.io/e2e/internal/rig"
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
func ctlOf(c *rig.Cluster, dir string, words ...string) rig.Result {
	return c.Run(nil, filepath.Join(dir, "etcd-manager-ctl"), append([]string{"--backup-store=" + c.StoreURL()}, words...)...)
}

// spaces are as many as protobuf's printers like: one or two, by build.
var spaces = regexp.MustCompile(` +`)

// Both ctls say the same of one store, and each takes what the other wrote.
func TestCtlBesideThePredecessors(t *testing.T) {
	p := thePredecessor(t)
	c := rig.NewCluster(t, rig.Options{Hosts: 1, Version: testetcd.V35})
	c.UnpackPredecessor()
	same := func(words ...string) {
		t.Helper()
		ours, theirs := ctlOf(c, rig.Programs, words...), ctlOf(c, p.dir, words...)
		if ours.Code != 0 || theirs.Code != 0 || spaces.ReplaceAllString(ours.Stdout, " ") != spaces.ReplaceAllString(theirs.Stdout, " ") {
			t.Errorf("they differ:\n%s\n%s", ours, theirs)
		}
	}
	do := func(dir string, words ...string) {
		t.Helper()
		if r := ctlOf(c, dir, words...); r.Code != 0 {
			t.Errorf("%s", r)
		}
	}
	for _, writer := range []string{p.dir, rig.Programs} {
		reader := rig.Programs
		if writer == rig.Programs {
			reader = p.dir
		}
		same("get")
		same("list-backups")
		same("list-commands")
		do(writer, "restore-backup", predecessorsBackup)
		same("list-commands")
		if r := ctlOf(c, reader, "list-commands"); !strings.Contains(r.Stdout, predecessorsBackup) {
			t.Errorf("what the other queued is not there: %s", r)
		}
		word := predecessorsBackup
		if r := ctlOf(c, reader, "delete-command", word); r.Code != 0 || strings.Contains(ctlOf(c, reader, "list-commands").Stdout, word) {
			// Some of its releases want the timestamp.
			_, rest, _ := strings.Cut(ctlOf(c, reader, "list-commands").Stdout, "timestamp:")
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
	c := rig.Formed(t, 1, rig.Options{})
	c.Fill("k/", 500)
	name := c.TakeBackup()
	c.Fill("late/", 5)
	h := c.Host(1)
	h.Interrupt()
	h.Wipe(false)
	p.Start(t, h)
	if r := c.Ctl("--backup-store="+c.StoreURL(), "restore-backup", name); r.Code != 0 {
		t.Fatalf("%s", r)
	}
	p.Serves(t, h)
	if n := c.CountKeys("k/"); n != 500 {
		t.Errorf("there are %d keys, want 500", n)
	}
	if n := c.CountKeys("late/"); n != 0 {
		t.Errorf("%d keys are there that are not in the backup", n)
	}
	if r := ctlOf(c, p.dir, "get"); !strings.Contains(spaces.ReplaceAllString(r.Stdout, " "), `member_count:1 etcd_version:"`+testetcd.V36+`"`) {
		t.Errorf("the spec afterwards: %s", r)
	}
}

// Ours restores from a backup that the predecessor's daemon took minutes ago,
// by a command that its ctl queued.
func TestOurDaemonRestoresThePredecessorsBackup(t *testing.T) {
	p := thePredecessor(t)
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	if r := p.Configure(c); r.Code != 0 {
		t.Fatalf("%s", r)
	}
	h := c.Host(1)
	h.Flags = []string{"--backup-interval=5s"}
	stop := p.Start(t, h)
	p.Serves(t, h)
	c.Fill("k/", 500)
	after := time.Now().UTC().Add(time.Second).Format(time.RFC3339) // names are of seconds
	var name string
	rig.Eventually(t, 2*time.Minute, "a backup by the predecessor's daemon", func(context.Context) error {
		for line := range strings.Lines(ctlOf(c, rig.Programs, "list-backups").Stdout) {
			if line = strings.TrimSpace(line); !strings.Contains(line, ":") || strings.HasPrefix(line, "Backup Store") || line <= after {
				continue
			}
			name = line
			return nil
		}
		return errors.New("there is none that is new enough")
	})
	stop()
	h.Wipe(false)
	h.Flags = nil
	h.Start()
	if r := ctlOf(c, p.dir, "restore-backup", name); r.Code != 0 {
		t.Fatalf("%s", r)
	}
	c.TakesWrites()
	if n := c.CountKeys("k/"); n != 500 {
		t.Errorf("there are %d keys, want 500", n)
	}
}

func (p predecessor) Configure(c *rig.Cluster) rig.Result {
	return ctlOf(c, p.dir, "-member-count=1", "-etcd-version="+c.Options.Version, "configure-cluster")
}

// Start runs the predecessor's daemon on a host, and gives what ends it and its
// etcd, which is told by its environment alone and found by no argument.
func (p predecessor) Start(t *testing.T, h *rig.Host) (stop func()) {
	t.Helper()
	p.release(t, h.C.Options.Version)
	out, err := os.OpenFile(h.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	args := slices.DeleteFunc(h.Arguments(), func(a string) bool { return strings.HasPrefix(a, "--release-dir") })
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
		if err := rig.EndAll(h.Dir); err != nil { // an etcd with a group of its own
			t.Errorf("end what runs on %s: %v", h.Dir, err)
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

// Serves waits for a write through the member on a host.
func (p predecessor) Serves(t *testing.T, h *rig.Host) {
	t.Helper()
	rig.Eventually(t, 3*time.Minute, "a write under the predecessor's daemon", func(ctx context.Context) error {
		client, err := h.C.Dial(h.ClientURL())
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

package runtime_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/runtime/runtimetest"
)

// etcdSpec is the spec of a real member, and its client URL.
func etcdSpec(t *testing.T, dir string) (runtime.Spec, string) {
	t.Helper()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	path, args := builtin.Command()
	client, peer := freeURL(t), freeURL(t)
	return runtime.Spec{
		Path: path,
		Args: append(args,
			"--data-dir="+data, "--name=m", "--logger=zap",
			"--listen-client-urls="+client, "--advertise-client-urls="+client,
			"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
			"--initial-cluster=m="+peer,
		),
		DataDir: data,
		LogFile: filepath.Join(dir, "etcd.log"),
	}, client
}

var nextPort = 21000 + os.Getpid()%500*20

// freeURL tries ports below the ephemeral range.
func freeURL(t *testing.T) string {
	t.Helper()
	for range 1000 {
		nextPort++
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(nextPort))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return "http://" + addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// awaitHealth waits until a member serves.
func awaitHealth(t *testing.T, url, log string) {
	t.Helper()
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.Now().Add(runtimetest.Patience)
	for {
		resp, err := client.Get(url + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			data, _ := os.ReadFile(log)
			t.Fatalf("etcd does not serve at %s: %v\n%s", url, err, data)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestEtcdLocksAndStops(t *testing.T) {
	spec, url := etcdSpec(t, t.TempDir())
	d := startDaemon(t, runtime.Options{})
	held := func(want bool) {
		t.Helper()
		if got, err := lockHeld(spec.DataDir); err != nil || got != want {
			t.Errorf("lock held: %v, %v; want %v", got, err, want)
		}
	}
	held(false) // there is nothing in it yet
	s := runtimetest.Ensure(t, d, spec)
	awaitHealth(t, url, spec.LogFile)
	held(true)
	var locked *runtime.LockedError
	if err := runtime.CheckUnlocked(spec.DataDir); !errors.As(err, &locked) || locked.PID != s.PID || locked.Name != "etcd" {
		t.Errorf("check: %v, want it to name etcd, process %d", err, s.PID)
	}
	// Another daemon that knows nothing of this process does not double it.
	if err := startDaemon(t, runtime.Options{}).Ensure(t.Context(), spec); !errors.Is(err, runtime.ErrLocked) {
		t.Errorf("ensure on the same directory: %v", err)
	}
	runtimetest.Stop(t, d, runtimetest.Patience/2)
	held(false)
	if e := runtimetest.Status(t, d).LastExit; e.Signal != "SIGTERM" || !e.Asked {
		t.Errorf("last exit is %+v", e)
	}
	runtimetest.Ensure(t, d, spec)
	awaitHealth(t, url, spec.LogFile)
}

// The write-ahead log alone is locked too, as in a directory that etcd opens.
func TestWriteAheadLogLock(t *testing.T) {
	spec, url := etcdSpec(t, t.TempDir())
	d := startDaemon(t, runtime.Options{})
	runtimetest.Ensure(t, d, spec)
	awaitHealth(t, url, spec.LogFile)
	moved := filepath.Join(t.TempDir(), "db")
	if err := os.Rename(filepath.Join(spec.DataDir, "member", "snap", "db"), moved); err != nil {
		t.Fatal(err)
	}
	if held, err := lockHeld(spec.DataDir); err != nil || !held {
		t.Errorf("lock held: %v, %v; want true", held, err)
	}
}

// A refused flag is named in the reason, by a real etcd.
func TestEtcdTellsWhyItEnded(t *testing.T) {
	spec, _ := etcdSpec(t, t.TempDir())
	spec.Args = append(spec.Args, "--no-such-flag")
	d := startDaemon(t, runtime.Options{Backoff: runtime.Backoff{Delays: []time.Duration{time.Hour}}})
	if err := d.Ensure(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	s := runtimetest.Await(t, d, "the end", func(s runtime.Status) bool { return s.LastExit != nil })
	if !strings.Contains(s.LastExit.Reason, "no-such-flag") {
		t.Errorf("reason is %q", s.LastExit.Reason)
	}
}

// The daemon is killed; etcd serves on, keeps no lock of the daemon's, and the
// next daemon takes over the very process.
func TestDaemonKilledNextOneAdopts(t *testing.T) {
	for _, uid := range []int{0, 65534} {
		t.Run(fmt.Sprint("uid ", uid), func(t *testing.T) {
			if uid != 0 && os.Getuid() != 0 {
				t.Skip("only root can start a daemon as somebody else")
			}
			state, err := os.MkdirTemp("", "daemon")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(state) })
			spec, url := etcdSpec(t, state)
			daemonState(t, state, spec)
			if uid != 0 {
				for _, path := range []string{state, spec.DataDir, filepath.Join(state, "spec.json")} {
					if err := os.Chown(path, uid, uid); err != nil {
						t.Fatal(err)
					}
				}
			}
			cmd, line := launchDaemon(t, "run", state, uid)
			pid := pidOf(t, line)
			awaitHealth(t, url, spec.LogFile)
			if _, err := runtime.LockStateDir(state); !errors.Is(err, runtime.ErrLocked) ||
				!strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) {
				t.Errorf("state directory of a running daemon: %v", err)
			}
			// As a shell does on ctrl-C, but without mercy.
			kill9(t, cmd.Process)
			_ = cmd.Wait()
			awaitHealth(t, url, spec.LogFile)
			lock := awaitStateLock(t, state)
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}

			next, line := launchDaemon(t, "stop", state, uid)
			if want := fmt.Sprintf("pid %d adopted true", pid); line != want {
				t.Fatalf("the next daemon says %q, want %q", line, want)
			}
			if err := next.Wait(); err != nil {
				t.Errorf("the next daemon: %v", err)
			}
			if unix.Kill(pid, 0) == nil {
				if data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); !strings.Contains(string(data), ") Z ") {
					t.Errorf("etcd still runs: %s", data)
				}
			}
			if held, err := lockHeld(spec.DataDir); held || err != nil {
				t.Errorf("lock held: %v, %v", held, err)
			}
		})
	}
}

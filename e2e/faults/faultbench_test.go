package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/teststore"
)

var faultsOut = flag.String("e2e.faults.out", "", "keep logs, histories and timelines of fault runs that fail in this directory")

// faultBench is a cluster of which every part can be hurt alone: each host has a
// network namespace with an address of its own and a file system of its own, the
// backup store is an S3 server on a host of its own behind a proxy, and the
// clients are on another. All of it hangs on one wire; who runs the tools stands
// on the wire itself, where no fault reaches.
type faultBench struct {
	*rig.Cluster
	proxy *teststore.Proxy
	began time.Time

	mu     sync.Mutex // guards events
	events []string   // what was done to the cluster, for people
}

// Places on the wire that are no hosts.
const (
	storePlace   = 250
	clientsPlace = 240
)

const (
	storePort = 7070
	proxyPort = 7071
)

// diskSize is the room of a host: logs of etcd that are laid out in advance, a
// small database, and a restore beside it. The files are sparse.
const diskSize = 2 << 30

// needsFaultBench skips where a bench cannot be made, and says all that is
// missing.
func needsFaultBench(t *testing.T) {
	t.Helper()
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	for _, tool := range []string{"ip", "tc", "mkfs.ext4", "mount", "umount", "fsfreeze"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		missing = append(missing, "linux/amd64 (clocks of processes)")
	}
	if len(missing) > 0 {
		t.Skipf("SKIPPED, the fault bench needs %s", strings.Join(missing, ", "))
	}
}

// newFaultBench makes hosts, store and clients' place; no daemon runs yet.
func newFaultBench(t *testing.T, o rig.Options) *faultBench {
	t.Helper()
	needsFaultBench(t)
	o.Network = true
	b := &faultBench{Cluster: rig.NewCluster(t, o), began: time.Now()}
	for _, place := range []int{storePlace, clientsPlace} {
		b.Net.Add(t, b.Block.Host(place))
	}
	b.serveStore()
	for _, h := range b.Hosts {
		h.DiskOfItsOwn(diskSize)
	}
	t.Cleanup(b.keepEvidence)
	return b
}

// serveStore starts the S3 server and a proxy before it, on the store's place.
func (b *faultBench) serveStore() {
	t := b.T
	t.Helper()
	program, err := teststore.Fetch(t.Context(), teststore.Versitygw)
	if err != nil {
		if os.Getenv("ETCDADM_TEST_OFFLINE") == "1" {
			t.Skipf("SKIPPED, %s is missing: %v", teststore.Versitygw, err)
		}
		t.Fatal(err)
	}
	data := filepath.Join(b.Dir, "objects")
	if err := os.MkdirAll(filepath.Join(data, teststore.Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	place := b.Net.Hosts[b.Block.Host(storePlace)]
	server := net.JoinHostPort(b.Block.Host(storePlace), fmt.Sprint(storePort))
	log, err := os.Create(filepath.Join(b.Dir, "store.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, "--port", server, "posix", data)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+teststore.AccessKey, "ROOT_SECRET_KEY="+teststore.SecretKey)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.Dir, log, log
	stop, err := place.Serve(cmd)
	if err != nil {
		t.Fatalf("start the store: %v", err)
	}
	t.Cleanup(stop)
	rig.Eventually(t, rig.Soon, "the store answers", func(ctx context.Context) error {
		conn, err := b.Net.Dial(ctx, server)
		if err == nil {
			conn.Close()
		}
		return err
	})
	var listener net.Listener
	if err := place.Do(func() (err error) {
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(b.Block.Host(storePlace), fmt.Sprint(proxyPort)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.proxy = teststore.NewProxyOn(t, listener, "http://"+server, func(ctx context.Context, _, address string) (net.Conn, error) {
		return place.Dial(ctx, address)
	})
	b.Options.Store = "s3://" + teststore.Bucket + "/test?endpoint=" + b.proxy.URL
}

// say writes an event down, for the log and the timeline.
func (b *faultBench) say(format string, args ...any) {
	line := fmt.Sprintf("%s  +%5.1fs  %s", time.Now().UTC().Format(rig.LogTime), time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
	b.mu.Lock()
	b.events = append(b.events, line)
	b.mu.Unlock()
	b.T.Log(line)
}

// evidence is where what is kept of this run goes; empty: nowhere.
func (b *faultBench) evidence() string {
	if *faultsOut == "" {
		return ""
	}
	return filepath.Join(*faultsOut, strings.NewReplacer("/", "-", " ", "-").Replace(b.T.Name()))
}

// keepEvidence copies the logs of a run that failed, before its disks are gone.
func (b *faultBench) keepEvidence() {
	to := b.evidence()
	if !b.T.Failed() || to == "" {
		return
	}
	err := os.MkdirAll(to, 0o700)
	copyLog := func(from, name string) {
		data, readErr := os.ReadFile(from)
		if errors.Is(readErr, os.ErrNotExist) {
			return
		}
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(to, name), data, 0o600))
	}
	for _, h := range b.Hosts {
		copyLog(h.Log, fmt.Sprintf("daemon-%d.log", h.N))
		copyLog(filepath.Join(h.Dir, "logs", "etcd.log"), fmt.Sprintf("etcd-%d.log", h.N))
	}
	copyLog(filepath.Join(b.Dir, "store.log"), "store.log")
	b.mu.Lock()
	err = errors.Join(err, os.WriteFile(filepath.Join(to, "schedule.txt"), []byte(strings.Join(b.events, "\n")+"\n"), 0o600))
	b.mu.Unlock()
	if err != nil {
		b.T.Errorf("keep what is known of the run: %v", err)
	}
	b.T.Logf("logs and schedule are kept in %s", to)
}

// command runs a tool beside the test.
type command struct {
	what string
	done chan rig.Result
}

// begin starts etcdadm where no fault reaches, for two minutes at most.
func (b *faultBench) begin(args ...string) *command {
	c := &command{what: "etcdadm " + strings.Join(args, " "), done: make(chan rig.Result, 1)}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, filepath.Join(rig.Programs, "etcdadm"), args...)
	cmd.WaitDelay = 5 * time.Second
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		err := b.RunHere(cmd)
		code := -1
		if cmd.ProcessState != nil {
			code = cmd.ProcessState.ExitCode()
		} else if err != nil {
			said.WriteString(err.Error())
		}
		c.done <- rig.Result{Command: c.what, Stdout: said.String(), Stderr: "", Code: code}
	}()
	b.T.Cleanup(func() {
		cancel()
		<-ended
	})
	return c
}

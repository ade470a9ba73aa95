package etcdargs_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/etcdargs"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/testetcd"
)

var (
	v35 = cluster.MustVersion("3.5.35")
	v36 = cluster.MustVersion("3.6.16")
)

func TestArgs(t *testing.T) {
	l := record.Launch{
		Version: v36, Name: "h1", Token: "t", Founding: true, Options: []string{"--quota-backend-bytes=1"},
		URLs: cluster.URLs{
			Peer: []string{"https://h1.internal:2380"}, Client: []string{"https://h1.internal:4001", "https://10.0.0.1:4001"},
			Quarantine: []string{"https://h1.internal:8001"},
		},
		InitialCluster: []cluster.Member{{Name: "h2", PeerURLs: []string{"https://h2:2380"}}, {Name: "h1", PeerURLs: []string{"https://h1.internal:2380"}}},
	}
	tls := etcdargs.TLSFiles{Cert: "c", Key: "k", CA: "ca"}
	p := etcdargs.Paths{DataDir: "/d/t", BindAddress: "::", Client: tls, Peer: tls, MetricsURLs: []string{"http://127.0.0.1:1"}}
	check := func(l record.Launch, p etcdargs.Paths, want, not []string) {
		t.Helper()
		args, err := etcdargs.For(l, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !slices.Contains(args, w) {
				t.Errorf("%s is missing in %v", w, args)
			}
		}
		for _, n := range not {
			if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, n) }) {
				t.Errorf("%s is in %v", n, args)
			}
		}
	}
	check(l, p, []string{
		"--name=h1", "--data-dir=/d/t", "--listen-peer-urls=https://[::]:2380", "--initial-advertise-peer-urls=https://h1.internal:2380",
		"--listen-client-urls=https://[::]:4001", "--advertise-client-urls=https://h1.internal:4001,https://10.0.0.1:4001",
		"--initial-cluster=h1=https://h1.internal:2380,h2=https://h2:2380", "--initial-cluster-state=new", "--initial-cluster-token=t",
		"--client-cert-auth=true", "--peer-client-cert-auth=true", "--trusted-ca-file=ca", "--peer-key-file=k",
		"--listen-metrics-urls=http://127.0.0.1:1", "--max-learners=2", "--quota-backend-bytes=1",
	}, nil)
	q := l
	q.Quarantined, q.Version, q.Founding, q.InitialCluster = true, v35, false, nil
	check(q, p, []string{
		"--listen-client-urls=https://[::]:8001", "--advertise-client-urls=https://h1.internal:8001", "--initial-cluster-state=existing",
	}, []string{"--initial-cluster=", "--max-learners"})
	old := l
	old.Version = cluster.MustVersion("3.4.25")
	check(old, p, []string{"--pre-vote=true", "--logger=zap"}, []string{"--max-learners"})

	for name, spoil := range map[string]func(*record.Launch, *etcdargs.Paths){
		"version":      func(l *record.Launch, _ *etcdargs.Paths) { l.Version = cluster.MustVersion("3.1.20") },
		"no client":    func(l *record.Launch, _ *etcdargs.Paths) { l.URLs.Client = nil },
		"bad URL":      func(l *record.Launch, _ *etcdargs.Paths) { l.URLs.Peer = []string{"h1:2380"} },
		"no port":      func(l *record.Launch, _ *etcdargs.Paths) { l.URLs.Peer = []string{"https://h1"} },
		"no cert":      func(_ *record.Launch, p *etcdargs.Paths) { p.Peer = etcdargs.TLSFiles{} },
		"name to bind": func(_ *record.Launch, p *etcdargs.Paths) { p.BindAddress = "" },
		"not in it":    func(l *record.Launch, _ *etcdargs.Paths) { l.Name = "h3" },
		"nobody in it": func(l *record.Launch, _ *etcdargs.Paths) { l.InitialCluster = nil },
		"reserved":     func(l *record.Launch, _ *etcdargs.Paths) { l.Options = []string{"--force-new-cluster=true"} },
	} {
		l, p := l, p
		spoil(&l, &p)
		if args, err := etcdargs.For(l, p); !errors.Is(err, etcdargs.ErrArgs) {
			t.Errorf("%s: %v %v", name, args, err)
		}
	}
}

func TestOptionArgs(t *testing.T) {
	options := map[string]string{
		"experimental-corrupt-check-time": "1h", "compact-hash-check-enabled": "true", "initial-corrupt-check": "true",
		"heartbeat-interval": "200",
	}
	for v, want := range map[string][]string{
		"3.5.35": {"--experimental-compact-hash-check-enabled=true", "--experimental-corrupt-check-time=1h0m0s", "--experimental-initial-corrupt-check=true", "--heartbeat-interval=200"},
		"3.6.16": {"--corrupt-check-time=1h0m0s", "--feature-gates=CompactHashCheck=true,InitialCorruptCheck=true", "--heartbeat-interval=200"},
		"3.7.3":  {"--corrupt-check-time=1h0m0s", "--feature-gates=CompactHashCheck=true,InitialCorruptCheck=true", "--heartbeat-interval=200"},
	} {
		got, left := etcdargs.Options(options, cluster.MustVersion(v))
		if left != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v %v", v, got, left)
		}
	}
	for name, value := range map[string]string{
		"data-dir": "/x", "discovery-srv": "x", "unsafe-no-fsync": "true", "Bad Name": "x", "": "x", "quota": "a\nb", "feature-gates": "A=true", "compact-hash-check-time=x": "",
	} {
		got, left := etcdargs.Options(map[string]string{name: value, "snapshot-count": "1000"}, v35)
		if !slices.Equal(got, []string{"--snapshot-count=1000"}) || len(left) != 1 || !errors.Is(left[0], cluster.ErrOption) {
			t.Errorf("%q: %v %v", name, got, left)
		}
	}
}

// everyOption has a valid value for each flag of the tables.
var everyOption = map[string]string{
	"bootstrap-defrag-threshold-megabytes": "100", "compact-hash-check-time": "1m", "compaction-batch-limit": "1000",
	"compaction-sleep-interval": "10ms", "corrupt-check-time": "1h", "distributed-tracing-address": "localhost:1",
	"distributed-tracing-sampling-rate": "0", "distributed-tracing-service-name": "x",
	"downgrade-check-time": "5s", "enable-distributed-tracing": "false", "memory-mlock": "false",
	"peer-skip-client-san-verification": "false", "snapshot-catchup-entries": "5000", "warning-apply-duration": "100ms",
	"warning-unary-request-duration": "300ms", "watch-progress-notify-interval": "10m",
	"compact-hash-check-enabled": "true", "enable-lease-checkpoint": "true", "enable-lease-checkpoint-persist": "true",
	"initial-corrupt-check": "true", "stop-grpc-service-on-defrag": "false", "txn-mode-write-with-shared-buffer": "true",
}

// TestRealReleasesKnowTheFlags: etcd parses its flags before it prints its
// version, and ends with an error at one that it does not know.
func TestRealReleasesKnowTheFlags(t *testing.T) {
	for _, version := range testetcd.Versions() {
		t.Run(version, func(t *testing.T) {
			r := testetcd.Binary(t, version)
			v := cluster.MustVersion(version)
			var args []string
			for name, value := range everyOption {
				a, left := etcdargs.Options(map[string]string{name: value}, v)
				if left != nil && strings.Contains(left[0].Error(), "needs enable-lease-checkpoint") {
					continue
				}
				if left != nil {
					t.Logf("left out: %v", left)
					if known(t, r, "--"+name+"="+value) || known(t, r, "--experimental-"+name+"="+value) {
						t.Errorf("etcd %s has --%s", version, name)
					}
					continue
				}
				args = append(args, a...)
			}
			for _, a := range args {
				if !known(t, r, a) {
					t.Errorf("etcd %s does not know %s", version, a)
				}
			}
		})
	}
}

func known(t *testing.T, r testetcd.Release, arg string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Etcd, arg, "--version")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return cmd.Run() == nil
}

// TestRealMember takes one member of each release through its life with the
// arguments and the files of the real host.
func TestRealMember(t *testing.T) {
	for _, version := range testetcd.Versions() {
		t.Run(version, func(t *testing.T) {
			r := testetcd.Binary(t, version)
			dir := t.TempDir()
			disk, err := datadir.Open(dir, runtime.CheckUnlocked, nil)
			if err != nil {
				t.Fatal(err)
			}
			url := func() string { return fmt.Sprintf("http://127.0.0.1:%d", testetcd.FreePort(t)) }
			l := record.Launch{
				Version: cluster.MustVersion(version), Name: "h1", Token: "t1", Founding: true,
				URLs: cluster.URLs{Peer: []string{url()}, Client: []string{url()}, Quarantine: []string{url()}},
			}
			l.InitialCluster = []cluster.Member{{Name: "h1", PeerURLs: l.URLs.Peer}}
			var left []error
			if l.Options, left = etcdargs.Options(map[string]string{"initial-corrupt-check": "true"}, l.Version); left != nil {
				t.Fatal(left)
			}
			if err := disk.CreateData("t1", "d1"); err != nil {
				t.Fatal(err)
			}
			e := &realEtcd{t: t, r: r, dir: dir}

			e.start(l, disk)
			e.healthy(l.URLs.Client[0])
			if m, w, err := disk.Data("t1", "d1"); !m || !w || err != nil {
				t.Fatalf("marked %v, log %v, %v", m, w, err)
			}
			if _, err := disk.SetAside("t1", cluster.SetAside{Reason: "x"}); !errors.Is(err, runtime.ErrLocked) {
				t.Fatalf("data in use was moved: %v", err)
			}
			e.stop()

			l.Founding, l.InitialCluster, l.Quarantined = false, nil, true
			e.start(l, disk)
			e.healthy(l.URLs.Quarantine[0])
			if c, err := net.Dial("tcp", strings.TrimPrefix(l.URLs.Client[0], "http://")); err == nil {
				c.Close()
				t.Fatal("a quarantined member listens at its client URL")
			}
			e.stop()

			if a, err := disk.SetAside("t1", cluster.SetAside{Reason: "x"}); err != nil || a.Bytes == 0 {
				t.Fatalf("%+v %v", a, err)
			}
			// The arguments of a restart found nothing on an empty directory.
			if err := disk.CreateData("t1", "d1"); err != nil {
				t.Fatal(err)
			}
			e.start(l, disk)
			e.ends()
			if _, w, err := disk.Data("t1", "d1"); w || err != nil {
				t.Fatalf("a restart made a log: %v", err)
			}
			log, err := os.ReadFile(filepath.Join(dir, "log"))
			if err != nil || strings.Contains(string(log), "found invalid file") {
				t.Fatalf("etcd warns about a file of ours: %v", err)
			}
		})
	}
}

type realEtcd struct {
	t     *testing.T
	r     testetcd.Release
	dir   string
	cmd   *exec.Cmd
	ended chan struct{} // closed after err was set
	err   error
}

func (e *realEtcd) start(l record.Launch, d *datadir.Dir) {
	e.t.Helper()
	args, err := etcdargs.For(l, etcdargs.Paths{DataDir: d.DataDir(l.Token)})
	if err != nil {
		e.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close()
	e.cmd = exec.Command(e.r.Etcd, args...)
	e.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	e.cmd.Stdout, e.cmd.Stderr = log, log
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	cmd, ended := e.cmd, make(chan struct{})
	e.ended = ended
	go func() { e.err = cmd.Wait(); close(ended) }()
	e.t.Cleanup(func() { cmd.Process.Kill(); <-ended })
}

// healthy asks until the member answers: there is no event to wait for.
func (e *realEtcd) healthy(url string) {
	e.t.Helper()
	client := &http.Client{Timeout: time.Second}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(60 * time.Second)
	for {
		if resp, err := client.Get(url + "/health"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-e.ended:
			e.t.Fatalf("etcd ended: %v\n%s", e.err, e.tail())
		case <-deadline:
			e.t.Fatalf("etcd does not become healthy\n%s", e.tail())
		case <-tick.C:
		}
	}
}

func (e *realEtcd) stop() {
	e.t.Helper()
	e.cmd.Process.Signal(os.Interrupt)
	e.ends()
}

func (e *realEtcd) ends() {
	e.t.Helper()
	select {
	case <-e.ended:
	case <-time.After(60 * time.Second):
		e.cmd.Process.Kill()
		e.t.Fatalf("etcd does not end\n%s", e.tail())
	}
}

func (e *realEtcd) tail() string {
	b, _ := os.ReadFile(filepath.Join(e.dir, "log"))
	return string(b[max(0, len(b)-3000):])
}

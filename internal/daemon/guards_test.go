package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/runtime"
)

// contents are the files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

// refuses runs a daemon that is to refuse its start, and returns what it says.
func refuses(t *testing.T, cfg Config) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := Run(ctx, cfg, Program{}, slog.New(slog.DiscardHandler))
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || hinted.Hint() == "" {
		t.Fatalf("%v, want a refusal with a hint", err)
	}
	return err.Error()
}

// keep writes a state into a data directory.
func keep(t *testing.T, dataDir string, s record.State) {
	t.Helper()
	disk, err := datadir.Open(dataDir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Format, s.Host, s.Disk = record.StateFormat, "h", "d"
	if err := disk.Save(s); err != nil {
		t.Fatal(err)
	}
}

// What another cluster's daemon has kept is read before anything is written, there or
// in the store.
func TestDataOfAnotherClusterIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	cfg := configOf(t, dir)
	keep(t, cfg.DataDir, record.State{Cluster: "another"})
	state := filepath.Join(cfg.DataDir, "etcdadm", "state.json")
	before := contents(t, dir)[state]
	if said := refuses(t, cfg); !strings.Contains(said, "another") {
		t.Errorf("it says %q", said)
	}
	// Nor is anybody told to start it for that cluster.
	if r := console.ReadRefusal(cfg.DataDir); r == nil || !strings.Contains(r.Why, "another") || !strings.Contains(r.Hint, `never start it for "another"`) || strings.Contains(r.Hint, "--cluster-name") {
		t.Errorf("kept is %+v", r)
	}
	after := contents(t, dir)
	if after[state] != before {
		t.Error("the state was changed")
	}
	if _, err := os.Stat(filepath.Join(dir, "store")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store was made: %v", err)
	}
}

// A store that has another cluster's record is not written to.
func TestStoreOfAnotherClusterIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	cfg := configOf(t, dir)
	store, err := open.Open(t.Context(), cfg.BackupStore, open.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	in := &cluster.Intent{Name: "another", Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded}
	if _, err := control.New(store, "another").CreateIntent(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "store")
	before := contents(t, root)
	if said := refuses(t, cfg); !strings.Contains(said, "another") {
		t.Errorf("it says %q", said)
	}
	after := contents(t, root)
	if len(after) != len(before) {
		t.Errorf("the store holds %d files, and held %d", len(after), len(before))
	}
	for path, was := range before {
		if after[path] != was {
			t.Errorf("%s was changed", path)
		}
	}
}

// One daemon a data directory: it has the lock before it adopts anything, and until
// nothing of it is at work any more.
func TestOneDaemonADataDirectory(t *testing.T) {
	dir := t.TempDir()
	cfg := configOf(t, dir)
	state := filepath.Join(cfg.DataDir, "etcdadm")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := runtime.LockStateDir(state)
	if err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	if said := refuses(t, cfg); !strings.Contains(said, "another daemon's") {
		t.Errorf("it says %q", said)
	}
	if after := contents(t, dir); len(after) != len(before) {
		t.Errorf("it wrote: %d files, before %d", len(after), len(before))
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, Program{}, slog.New(slog.DiscardHandler)) }()
	awaitDisk(t, cfg.DataDir, "")
	if lock, err := runtime.LockStateDir(state); !errors.Is(err, runtime.ErrLocked) {
		_ = lock.Unlock()
		t.Errorf("beside the daemon: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	lock, err = runtime.LockStateDir(state)
	if err != nil {
		t.Fatalf("after the daemon: %v", err)
	}
	_ = lock.Unlock()
}

// A host has been part of a cluster before if its state says so, or cannot be read.
func TestExperienced(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dataDir string)
		want    bool
	}{
		"nothing is there":    {func(*testing.T, string) {}, false},
		"it never had a part": {func(t *testing.T, dir string) { keep(t, dir, record.State{Cluster: "c"}) }, false},
		"it knows a generation": {func(t *testing.T, dir string) {
			keep(t, dir, record.State{Cluster: "c", Intent: &cluster.Intent{Name: "c", Generation: 1}})
		}, true},
		"it is prepared": {func(t *testing.T, dir string) {
			keep(t, dir, record.State{Cluster: "c", Local: cluster.LocalMember{State: cluster.MemberPrepared, Token: "t"}})
		}, true},
		"torn": {func(t *testing.T, dir string) {
			keep(t, dir, record.State{Cluster: "c"})
			if err := os.WriteFile(filepath.Join(dir, "etcdadm", "state.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.prepare(t, dir)
			d := &daemon{cfg: Config{ClusterName: "c", DataDir: dir}, log: slog.New(slog.DiscardHandler)}
			if err := d.openDisk(t.Context()); err != nil || d.experienced != c.want {
				t.Errorf("%v: experienced %v, want %v", err, d.experienced, c.want)
			}
		})
	}
}

// What a person asks of one host is not done on another, whoever has its address now.
func TestQuestionForAnotherHost(t *testing.T) {
	d := &daemon{id: "h1", log: slog.New(slog.DiscardHandler), host: host.New(host.Options{ID: "h1"})}
	q := console.Question{Host: "h2", Do: true, Dir: "x"}
	if p := d.prune(t.Context(), q); p.Done || !strings.Contains(p.Refuse, "h1") {
		t.Errorf("prune: %+v", p)
	}
	if f := d.resetFence(t.Context(), q); f.Done || !strings.Contains(f.Refuse, "h1") {
		t.Errorf("reset the fence: %+v", f)
	}
	if c := d.confirmDisk(q); c.Done || !strings.Contains(c.Refuse, "h1") {
		t.Errorf("confirm the disk: %+v", c)
	}
}

// Each mistake in a configuration is one by itself.
func TestConfigOneByOne(t *testing.T) {
	good := configOf(t, t.TempDir())
	good.DataDir = "/d"
	good.BackupStore = file.URL("/s")
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, vary := range map[string]func(*Config){
		"etcd goes on":          func(c *Config) { c.OnSigterm = SigtermLeave },
		"volumes name the rest": func(c *Config) { c.DataDir, c.VolumeProvider = "", "external" },
		"TLS, with a slash":     func(c *Config) { c.PeerURLs = []string{"https://127.0.0.1:7/"} },
		"seeds":                 func(c *Config) { c.Discovery = []string{"file:///seeds", "dns://x", "10.0.0.1:8000"} },
		"no metrics":            func(c *Config) { c.MetricsPort = 0 },
		"the record elsewhere":  func(c *Config) { c.ControlStore = "kubernetes://etcd/main" },
		"and no backups":        func(c *Config) { c.BackupStore, c.ControlStore = "", file.URL("/c") },
	} {
		c := good
		vary(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := []string{"http://127.0.0.1:7"}
	for name, spoil := range map[string]func(*Config){
		"no name":               func(c *Config) { c.ClusterName = "" },
		"no store":              func(c *Config) { c.BackupStore = "" },
		"static, and no store":  func(c *Config) { c.BackupStore, c.StaticConfig = "", "{}" },
		"a record of hosts":     func(c *Config) { c.ControlStore = "hosts:///d" },
		"backups of hosts":      func(c *Config) { c.BackupStore, c.ControlStore = "hosts:///d", file.URL("/c") },
		"backups in ConfigMaps": func(c *Config) { c.BackupStore = "kubernetes://etcd/main" },
		"no directory":          func(c *Config) { c.DataDir = "" },
		"a relative one":        func(c *Config) { c.DataDir = "d" },
		"another end":           func(c *Config) { c.OnSigterm = "kill" },
		"threshold below":       func(c *Config) { c.Upkeep.DefragThreshold = -1 },
		"threshold above":       func(c *Config) { c.Upkeep.DefragThreshold = 100 },
		"hashes back in time":   func(c *Config) { c.Upkeep.HashInterval = -1 },
		"dead before":           func(c *Config) { c.DeadAfter = -1 },
		"no port":               func(c *Config) { c.GRPCPort = 0 },
		"a large port":          func(c *Config) { c.GRPCPort = 65536 },
		"a negative port":       func(c *Config) { c.MetricsPort = -1 },
		"a large metrics port":  func(c *Config) { c.MetricsPort = 65536 },
		"etcd at a name":        func(c *Config) { c.EtcdAddress = "localhost" },
		"no address":            func(c *Config) { c.Address = "" },
		"an address with a /":   func(c *Config) { c.Address = "10.0.0.1/24" },
		"backups kept":          func(c *Config) { c.Backups.KeepLast = -1 },
		"packing":               func(c *Config) { c.Backups.Compression = "x" },
		"no peer URLs":          func(c *Config) { c.PeerURLs = nil },
		"a URL of a file":       func(c *Config) { c.PeerURLs = []string{"unix://x:1"} },
		"a URL without a host":  func(c *Config) { c.PeerURLs = []string{"http://"} },
		"a URL with a path":     func(c *Config) { c.PeerURLs = []string{"http://127.0.0.1:7/x"} },
		"a URL without a port":  func(c *Config) { c.PeerURLs = []string{"http://127.0.0.1"} },
		"a URL with port 0":     func(c *Config) { c.PeerURLs = []string{"http://127.0.0.1:0"} },
		"a URL beyond all":      func(c *Config) { c.PeerURLs = []string{"http://127.0.0.1:65536"} },
		"seeds in no directory": func(c *Config) { c.Discovery = []string{"file:seeds"} },
		"peers as clients":      func(c *Config) { c.PeerURLs, c.ClientURLs = other, other },
		"quarantine as clients": func(c *Config) { c.QuarantineURLs, c.ClientURLs = other, other },
	} {
		c := good
		spoil(&c)
		err := c.Validate()
		var hinted interface{ Hint() string }
		if !errors.As(err, &hinted) || hinted.Hint() == "" {
			t.Errorf("%s: %v, want a refusal with a hint", name, err)
		}
	}
}

// Members' URLs have this host's address and name in them, and no TLS where etcd runs
// without.
func TestURLsOfAHost(t *testing.T) {
	c := Config{Address: "fd00::1", DNSSuffix: ".x", PeerURLs: []string{"https://__address__:2380/"}, ClientURLs: []string{"https://__name__:4001"}}
	if u := c.URLs("h1"); u.Peer[0] != "https://[fd00::1]:2380" || u.Client[0] != "https://h1.x:4001" {
		t.Errorf("%+v", u)
	}
	c.Address, c.EtcdInsecure = "10.0.0.1", true
	if u := c.URLs("h1"); u.Peer[0] != "http://10.0.0.1:2380" || u.Client[0] != "http://h1.x:4001" {
		t.Errorf("%+v", u)
	}
}

// A host's ID is the one that it is given, and else the one that its directory has.
func TestIDOfAHost(t *testing.T) {
	d := &daemon{cfg: Config{DataDir: t.TempDir()}}
	if err := d.identify(t.Context()); err != nil || d.id == "" {
		t.Fatalf("%q, %v", d.id, err)
	}
	was := d.id
	if err := d.identify(t.Context()); err != nil || d.id != was {
		t.Errorf("%q after %q, %v", d.id, was, err)
	}
	d.cfg.HostID = "given"
	if err := d.identify(t.Context()); err != nil || d.id != "given" {
		t.Errorf("%q, %v", d.id, err)
	}
}

// Where the own host gives no facts, a person and a probe are told what it waits for.
func TestAHostWithoutFactsSaysWhy(t *testing.T) {
	boot := func(why, awaits string) *cluster.Busy {
		return &cluster.Busy{Op: cluster.Op{Kind: cluster.OpBoot}, Why: why, Awaits: awaits}
	}
	for want, b := range map[string]*cluster.Busy{
		"the host is starting":                                              boot("", ""),
		"the host is starting, and it awaits its disk":                      boot("", "it awaits its disk"),
		"the host is starting, and it is late":                              boot("it is late", "it awaits its disk"),
		"the host cannot be looked at: a mount has not answered since then": {Op: cluster.Op{Kind: cluster.OpPromise}, Why: "a mount has not answered since then"},
		"the host cannot be looked at: its disk takes its time":             {Op: cluster.Op{Kind: cluster.OpPromise}},
		"the host did not report its state":                                 nil,
	} {
		if got := unseen(cluster.ObserveReply{Busy: b}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	d := &daemon{id: "h1", log: slog.New(slog.DiscardHandler), host: host.New(host.Options{ID: "h1"})} // it does not run
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if end := d.logEnd(ctx); end.Unknown != "the host is starting" {
		t.Errorf("what it holds: %+v", end)
	}
	if p := d.prune(ctx, console.Question{Host: "h1"}); p.Refuse != "the host is starting" {
		t.Errorf("what it has set aside: %+v", p)
	}
}

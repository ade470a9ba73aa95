package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/snapshot"
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
}

// What lies ready is what was recorded, byte for byte.
func TestSourceHasTheRecordedSum(t *testing.T) {
	data := bytes.Repeat([]byte("some page of a database "), 512*10)
	sum := sha256.Sum256(data)
	data = append(data, sum[:]...)
	catalogue := backupstore.New(memory.New())
	b, err := catalogue.Write(t.Context(), backupstore.Request{Meta: backup.Meta{EtcdVersion: cluster.MustVersion("3.6.16")}}, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	disk, err := datadir.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	// No release is here, so whatever is taken for good fails after that.
	none := &inventory{finder: &release.Finder{Dirs: []string{t.TempDir()}, Caches: []string{}, Roots: []string{t.TempDir()}}, looking: true}
	s := &sources{d: &daemon{disk: disk, releases: none, log: slog.New(slog.DiscardHandler)}, catalogue: catalogue}
	for recorded, bad := range map[string]bool{"": false, hex.EncodeToString(sum[:]): false, strings.Repeat("0", 64): true} {
		o := bulk.StageOrder{Token: "t" + recorded, Disk: "d", Name: "h", Version: cluster.MustVersion("3.6.16"), Source: cluster.Source{
			Kind: cluster.SourceBackup, Backup: b.Name.String(), Wrote: cluster.MustVersion("3.6.16"), SHA256: recorded,
		}}
		if _, err := s.Stage(t.Context(), o, func(cluster.StageState, int64) {}); err == nil || errors.Is(err, bulk.ErrBadSource) != bad {
			t.Errorf("recorded %q: %v", recorded, err)
		}
	}
}

// A token names one directory of what is staged, and nothing beside it.
func TestStagedNames(t *testing.T) {
	disk, err := datadir.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	keep := filepath.Join(disk.StateDir(), "keep")
	if err := os.WriteFile(keep, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &sources{d: &daemon{disk: disk}}
	for _, token := range []string{"", "../keep", "/x", "a/b"} {
		if err := s.DropStaged(token); err == nil {
			t.Errorf("%q was taken away", token)
		}
	}
	if err := s.DropStaged("t"); err != nil { // which nothing lies under
		t.Error(err)
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
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

// etcd reads what its own line wrote, and the line before; across more than that, and
// from version 2 of the API, keys are carried one by one.
func TestWhatReadsWhat(t *testing.T) {
	for _, c := range []struct {
		kind, wrote, run string
		reads, keys      bool
	}{
		{cluster.SourceBackup, "", "3.6.16", true, false},
		{cluster.SourceBackup, "3.6.16", "3.6.16", true, false},
		{cluster.SourceBackup, "3.5.35", "3.6.16", true, false},
		{cluster.SourceBackup, "3.4.25", "3.6.16", false, false},
		{cluster.SourceBackup, "3.6.16", "3.5.35", false, false},
		{cluster.SourceHalted, "3.2.24", "3.6.16", false, true},
		{cluster.SourceHalted, "3.5.35", "3.6.16", true, false},
		{cluster.SourceSurvivor, "2.3.8", "3.2.24", false, true},
		{cluster.SourceSurvivor, "2.3.8", "2.3.8", true, true},
		{cluster.SourceSurvivor, "3.2.24", "2.3.8", false, true},
	} {
		var wrote cluster.Version
		if c.wrote != "" {
			wrote = cluster.MustVersion(c.wrote)
		}
		run := cluster.MustVersion(c.run)
		if got := reads(run, wrote); got != c.reads {
			t.Errorf("etcd %s reads what %q wrote: %v", c.run, c.wrote, got)
		}
		if got := keyByKey(bulk.StageOrder{Version: run, Source: cluster.Source{Kind: c.kind, Wrote: wrote}}); got != c.keys {
			t.Errorf("%s of %q to %s key by key: %v", c.kind, c.wrote, c.run, got)
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

// A backup is restored by the tool of what wrote it, else by the newest of its line, else
// by what is to run it; what was halted, always by what is to run it. Data are read by
// what wrote them, or by the newest of their line.
func TestReleaseThatRestores(t *testing.T) {
	for _, c := range []struct {
		kind, wrote, run string
		here             []string
		tool, line       string
	}{
		{cluster.SourceBackup, "3.5.20", "3.6.16", []string{"3.5.20", "3.5.35", "3.6.16"}, "3.5.20", "3.5.20"},
		{cluster.SourceBackup, "3.5.20", "3.6.16", []string{"3.5.35", "3.5.20", "3.5.36"}, "3.5.20", "3.5.20"},
		{cluster.SourceBackup, "3.5.20", "3.6.16", []string{"3.5.9", "3.5.35", "3.5.22", "3.6.16"}, "3.5.35", "3.5.35"},
		{cluster.SourceBackup, "3.5.20", "3.6.16", []string{"3.6.16", "3.4.25"}, "3.6.16", "3.5.20"},
		{cluster.SourceBackup, "3.5.20", "3.5.30", []string{"3.5.10", "3.5.30"}, "3.5.30", "3.5.30"},
		{cluster.SourceHalted, "3.5.20", "3.6.16", []string{"3.5.20", "3.6.16"}, "3.6.16", "3.5.20"},
		{cluster.SourceSurvivor, "2.3.8", "3.2.24", []string{"2.3.8", "3.2.24"}, "3.2.24", "2.3.8"},
	} {
		here := &inventory{finder: &release.Finder{Dirs: []string{t.TempDir()}, Caches: []string{}, Roots: []string{t.TempDir()}}, looking: true}
		for _, v := range c.here {
			here.found = append(here.found, cluster.MustVersion(v))
		}
		s := &sources{d: &daemon{releases: here}}
		wrote := cluster.MustVersion(c.wrote)
		// None of them can be run here, and it is said which one could not be found.
		_, err := s.tool(t.Context(), bulk.StageOrder{Version: cluster.MustVersion(c.run), Source: cluster.Source{Kind: c.kind, Wrote: wrote}})
		if err == nil || !strings.Contains(err.Error(), c.tool) {
			t.Errorf("%+v: the tool is of %v", c, err)
		}
		if _, err := s.ofLine(t.Context(), wrote); err == nil || !strings.Contains(err.Error(), c.line) {
			t.Errorf("%+v: the data are read by %v", c, err)
		}
	}
}

// A snapshot of raft's leader was received when the newest of them was written.
func TestReceived(t *testing.T) {
	disk, err := datadir.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &sources{d: &daemon{disk: disk}}
	if ago := s.Received("t"); ago != 0 {
		t.Errorf("nothing is there: %s", ago)
	}
	snap := filepath.Join(disk.DataDir("t"), "member", "snap")
	if err := os.MkdirAll(snap, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, ago := range map[string]time.Duration{"1.snap": 3 * time.Hour, "2.snap": time.Hour, "3.snap": 2 * time.Hour, "db": time.Minute} {
		path, at := filepath.Join(snap, name), time.Now().Add(-ago)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if ago := s.Received("t"); ago < time.Hour || ago > 2*time.Hour-time.Minute {
		t.Errorf("it was received %s ago", ago)
	}
}

// What no host can do better is marked so, and nothing else is.
func TestHopelessSources(t *testing.T) {
	for err, want := range map[error]bool{
		backupstore.ErrNoBackup: true, backupstore.ErrDamaged: true, snapshot.ErrDamaged: true, snapshot.ErrNoHash: true,
		backupstore.ErrEncrypted: false, fs.ErrPermission: false,
	} {
		if got := hopeless(fmt.Errorf("fetch it: %w", err)); errors.Is(got, bulk.ErrBadSource) != want || !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
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

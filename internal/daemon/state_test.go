package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/testetcd"
)

// configOf is a configuration below dir, with ports that are free.
func configOf(t *testing.T, dir string) Config {
	url := func() []string { return []string{"http://127.0.0.1:" + strconv.Itoa(testetcd.FreePort(t))} }
	c := Default()
	c.ClusterName, c.DataDir, c.BackupStore = "c", filepath.Join(dir, "a", "data"), file.URL(filepath.Join(dir, "store"))
	c.Insecure, c.EtcdInsecure, c.EtcdAddress, c.GRPCPort = true, true, "127.0.0.1", testetcd.FreePort(t)
	c.PeerURLs, c.ClientURLs, c.QuarantineURLs = url(), url(), url()
	return c
}

// A host whose whole data directory is wiped under the running daemon comes
// back by itself, as another disk.
func TestWipedStateBeginsAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := configOf(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, Program{}, slog.New(slog.DiscardHandler)) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	before := awaitDisk(t, cfg.DataDir, "")
	err := os.RemoveAll(cfg.DataDir)
	for tries := 0; err != nil && tries < 10; tries++ { // the daemon may write into it meanwhile
		err = os.RemoveAll(cfg.DataDir)
	}
	if err != nil {
		t.Fatal(err)
	}
	awaitDisk(t, cfg.DataDir, before)
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(cfg.Address, strconv.Itoa(cfg.GRPCPort)), 5*time.Second)
	if err != nil {
		t.Fatal("the daemon that began anew does not listen:", err)
	}
	conn.Close()
}

// What a start is refused for leaves the disk as it was.
func TestRefusedStartLeavesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	for name, change := range map[string]func(*Config){
		"daemons' port": func(c *Config) { c.GRPCPort = taken },
		"metrics port":  func(c *Config) { c.MetricsPort = taken },
		"peers' port":   func(c *Config) { c.PeerURLs = []string{"http://127.0.0.1:" + strconv.Itoa(taken)} },
		"clients' port": func(c *Config) { c.ClientURLs = []string{"http://127.0.0.1:" + strconv.Itoa(taken)} },
		"authorities":   func(c *Config) { c.Insecure, c.PKIDir = false, "/nowhere" },
		"discovery":     func(c *Config) { c.Discovery = []string{"http://x"} },
		"dns discovery": func(c *Config) { c.Discovery = []string{"dns://"} },
		"seed folder":   func(c *Config) { c.Discovery = []string{"file://relative/x"} },
		"store":         func(c *Config) { c.BackupStore = "ftp://x" },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := configOf(t, dir)
			change(&cfg)
			err := Run(t.Context(), cfg, Program{}, slog.New(slog.DiscardHandler))
			var hinted interface{ Hint() string }
			if !errors.As(err, &hinted) || hinted.Hint() == "" {
				t.Fatalf("%v, want a refusal with a hint", err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Fatalf("left %v, %v", entries, err)
			}
		})
	}
}

// awaitDisk waits until the state names a disk other than the given one.
func awaitDisk(t *testing.T, dataDir, not string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		data, err := os.ReadFile(filepath.Join(dataDir, "etcdadm", "state.json"))
		var file struct{ State struct{ Disk string } }
		if err != nil || json.Unmarshal(data, &file) != nil {
			continue
		}
		if disk := file.State.Disk; disk != "" && disk != not {
			return disk
		}
	}
	t.Fatalf("no state with a disk other than %q", not)
	return ""
}

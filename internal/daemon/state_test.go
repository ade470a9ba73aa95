package daemon

import (
	"context"
	"encoding/json"
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

// A host whose whole data directory is wiped under the running daemon comes
// back by itself, as another disk.
func TestWipedStateBeginsAnew(t *testing.T) {
	dir := t.TempDir()
	cfg := Default()
	cfg.ClusterName, cfg.DataDir, cfg.BackupStore = "c", filepath.Join(dir, "data"), file.URL(filepath.Join(dir, "store"))
	cfg.Insecure, cfg.EtcdInsecure, cfg.GRPCPort = true, true, testetcd.FreePort(t)
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
	if err := os.RemoveAll(cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	awaitDisk(t, cfg.DataDir, before)
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(cfg.Address, strconv.Itoa(cfg.GRPCPort)), 5*time.Second)
	if err != nil {
		t.Fatal("the daemon that began anew does not listen:", err)
	}
	conn.Close()
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

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/testlog"
)

// standsStill is a mount on which every look at a file waits until the test is over.
func standsStill(t *testing.T) string {
	t.Helper()
	kernel, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs a file system that nobody serves: %v", err)
	}
	dir := t.TempDir()
	if err := unix.Mount("still", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", kernel)); err != nil {
		unix.Close(kernel)
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		unix.Close(kernel) // whoever waits for an answer gets an error
		// What a daemon left behind comes to that error here, and not to a directory that
		// it can write to once the mount is gone.
		time.Sleep(500 * time.Millisecond)
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A daemon whose start goes through a mount that stands still says where, and ends
// when it is asked to.
func TestAStartOnAMountThatStandsStill(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(cfg *Config, still string)
		word string
	}{
		"data":        {func(cfg *Config, still string) { cfg.DataDir = filepath.Join(still, "data") }, "the lock of the data directory"},
		"authorities": {func(cfg *Config, still string) { cfg.PKIDir, cfg.EtcdInsecure = filepath.Join(still, "pki"), false }, "the certificate authorities to be read"},
		"environment": {func(cfg *Config, still string) { cfg.EnvFile = filepath.Join(still, "env") }, "the environment file, and the names in a static configuration"},
		"external volume": {func(cfg *Config, still string) {
			cfg.Root, cfg.VolumeProvider, cfg.VolumeTags = still, "external", []string{"x"}
		}, "the data volume to be found"},
		"releases":       {func(cfg *Config, still string) { cfg.ReleaseDirs = []string{still} }, "the releases of etcd to be found"},
		"etcd-manager's": {nil, "a look at whether etcd-manager has the data directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			still := standsStill(t)
			cfg := configOf(t, t.TempDir())
			var said testlog.Lines
			log := slog.New(slog.NewTextHandler(&said, nil))
			run := func(ctx context.Context) error { return Run(ctx, cfg, Program{}, log) }
			if c.put != nil {
				c.put(&cfg, still)
			} else { // with the port taken, which the lock comes before
				cfg.DataDir = filepath.Join(still, "data")
				d := &daemon{cfg: cfg, log: log}
				other, err := d.listen(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				run = func(ctx context.Context) error { _, err := d.listenInTurn(ctx); return err }
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- run(ctx) }()
			want := fmt.Sprintf("the start of this daemon waits, however long\" for=%q at=", c.word)
			for deadline := time.Now().Add(time.Minute); !strings.Contains(said.String(), want); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("want %s; it is said:\n%s", want, &said)
				}
				select {
				case err := <-ended:
					t.Fatalf("the daemon ended by itself: %v", err)
				default:
				}
			}
			cancel()
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				t.Fatal("the daemon does not end")
			}
			if all := said.String(); !strings.Contains(all, "the daemon ends while it waits") || !strings.Contains(all, still) {
				t.Errorf("it is said:\n%s", &said)
			}
		})
	}
}

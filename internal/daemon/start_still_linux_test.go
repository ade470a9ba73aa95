package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/testlog"
	"etcdadm.io/internal/teststill"
)

// A daemon whose start goes through a hung mount says where, and ends
// when it is asked to.
func TestAStartOnAMountThatStandsStill(t *testing.T) {
	t.Parallel()
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
		"etcd-manager's": {nil, "a look at whether etcd-manager has the data directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			still := teststill.Mount(t)
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

package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/regular"
)

// A daemon does not wait at a pipe that somebody named for a file, also where one writes to it.
func TestPipeInPlaceOfFile(t *testing.T) {
	for name, read := range map[string]func(ctx context.Context, path string) error{
		"environment": func(_ context.Context, p string) error { _, _, _, err := etcdEnvironment(p, false); return err },
		"password": func(ctx context.Context, p string) error {
			_, _, err := (&daemon{cfg: Config{EtcdUser: "root", EtcdPasswordFile: p}}).credential()(ctx)
			return err
		},
		"password of the coprocess": func(ctx context.Context, p string) error { _, _, err := passwordOf("root", p)(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			writer, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer writer.Close()
			said := make(chan error, 1)
			go func() { said <- read(t.Context(), path) }()
			select {
			case err := <-said:
				if !errors.Is(err, regular.ErrNotRegular) {
					t.Errorf("said %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("it waits at the pipe")
			}
		})
	}
}

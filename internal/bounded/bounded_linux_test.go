package bounded_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/bounded"
	"etcdadm.io/internal/teststill"
)

// A look at what stands still is given up in its time, and one after it at once, until one
// is given much more time. Others at other places are not held up, and what answers gives
// what it gives.
func TestALookAtWhatStandsStill(t *testing.T) {
	still := filepath.Join(teststill.Mount(t), "file")
	stat := func() (os.FileInfo, error) { return os.Stat(still) }
	look := func(ctx context.Context, most time.Duration) (time.Duration, error) {
		began := time.Now()
		_, err := bounded.Do(ctx, still, most, stat)
		return time.Since(began), err
	}
	const most = time.Second
	began := time.Now()
	took, err := look(t.Context(), most)
	var silent *bounded.SilentError
	if !errors.As(err, &silent) || !errors.Is(err, context.DeadlineExceeded) || took < most {
		t.Fatalf("after %s: %v", took, err)
	}
	if silent.Path != still || silent.Since.Before(began.Add(-time.Second)) || !strings.Contains(err.Error(), silent.Since.UTC().Format(time.RFC3339)) {
		t.Errorf("%+v: %v", silent, err)
	}
	if took, err := look(t.Context(), most); !errors.As(err, &silent) || took >= most {
		t.Errorf("the second after %s: %v", took, err)
	}
	if took, err := look(t.Context(), 2*most); !errors.As(err, &silent) || took < 2*most {
		t.Errorf("with twice the time, after %s: %v", took, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if took, err := look(ctx, time.Minute); !errors.Is(err, context.Canceled) || took > 30*time.Second {
		t.Errorf("with a caller that ended, after %s: %v", took, err)
	}
	if _, err := bounded.Do(t.Context(), t.TempDir(), time.Minute, func() (int, error) { return 1, fs.ErrInvalid }); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("beside it: %v", err)
	}
}

// One that answers late is looked at anew by who waits for it.
func TestALookThatEndsLate(t *testing.T) {
	gate := make(chan struct{})
	_, err := bounded.Do(t.Context(), "late", time.Millisecond, func() (int, error) { <-gate; return 1, nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	got := make(chan int)
	go func() {
		n, err := bounded.Do(t.Context(), "late", time.Minute, func() (int, error) { return 2, nil })
		if err != nil {
			t.Error(err)
		}
		got <- n
	}()
	close(gate)
	if n := <-got; n != 2 {
		t.Errorf("got %d", n)
	}
}

// Of programs only silence is told: whatever else is wrong, their start says.
func TestProgram(t *testing.T) {
	dir, still := t.TempDir(), teststill.Mount(t)
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/proc/self/exe", "/bin/sh", script, filepath.Join(dir, "none"), dir} {
		if err := bounded.Program(t.Context(), path, dir, filepath.Join(dir, "none")); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, at := range [][2]string{{filepath.Join(still, "etcd"), dir}, {script, still + "/."}} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := bounded.Program(ctx, at[0], dir, at[1])
		cancel()
		var silent *bounded.SilentError
		if !errors.As(err, &silent) || !strings.HasPrefix(silent.Path, still) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

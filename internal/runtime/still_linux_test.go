package runtime_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/teststill"
)

// A start of a program on a hung mount fails in its time and says so, and
// nothing else of the daemon waits for it. Without that the kernel holds a thread of Go's, and
// with it the whole program at its next collection of garbage: hence a process of its own.
func TestAProgramOnAMountThatStandsStill(t *testing.T) {
	still := teststill.Mount(t)
	self := exec.Command(os.Args[0])
	self.Env = append(os.Environ(), "TEST_STILL="+still)
	ended := make(chan error, 1)
	var said []byte
	go func() {
		var err error
		said, err = self.CombinedOutput()
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v:\n%s", err, said)
		}
	case <-time.After(time.Minute): // far more than it takes; the mount is taken away then, which ends it
		t.Error("the program stands still")
	}
}

// startOn starts what lies on a mount, and something else beside that.
func startOn(still string) error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, spec := range []runtime.Spec{
		{Path: filepath.Join(still, "etcd"), Dir: dir},
		{Path: "/bin/sh", Dir: filepath.Join(still, "work")},
	} {
		spec.DataDir, spec.LogFile = dir, filepath.Join(dir, "log")
		spec.Args = []string{"--data-dir=" + spec.DataDir}
		c := runtime.NewChild(runtime.Options{Record: func(runtime.ProcessRecord) error { return nil }})
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- c.Ensure(ctx, spec) }()
		time.Sleep(100 * time.Millisecond) // so that it is where it waits
		if err := exec.Command("/bin/true").Run(); err != nil {
			return err
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), still) || !strings.Contains(err.Error(), "has not answered since") {
			return fmt.Errorf("%s in %s: got %w, want that the mount has not answered", spec.Path, spec.Dir, err)
		}
	}
	return nil
}

package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/discovery"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/say"
)

// A hung disk over the record of a process keeps nobody from looking how
// that is doing: a host says that its disk does not answer, and is no silent one.
func TestStatusDoesNotWaitForTheRecord(t *testing.T) {
	p, err := NewProcess(t.TempDir(), slog.New(slog.DiscardHandler), func(record.Launch) (runtime.Spec, error) { return runtime.Spec{}, nil }, genuine, func(record.Launch) {})
	if err != nil {
		t.Fatal(err)
	}
	writes, stands, saved := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	p.write = func([]byte) error { close(writes); <-stands; return nil }
	go func() { saved <- p.save(runtime.ProcessRecord{Nonce: "n"}) }()
	<-writes
	looked := make(chan struct{})
	go func() { p.Status(); close(looked) }()
	select {
	case <-looked:
	case <-time.After(20 * time.Second):
		t.Error("Status waits for the disk")
	}
	close(stands)
	if err := <-saved; err != nil {
		t.Error(err)
	}
}

// A report of certificates does not wait for one that is being written.
func TestCertificatesAreToldWhileOneIsWritten(t *testing.T) {
	k := &certs{expiries: map[string]time.Time{"daemon": {}}}
	k.writing.Lock() // as for a write that takes long
	defer k.writing.Unlock()
	told := make(chan int, 1)
	go func() { told <- len(k.list()) }()
	select {
	case n := <-told:
		if n != 1 {
			t.Errorf("%d certificates", n)
		}
	case <-time.After(20 * time.Second):
		t.Error("a report waits for the disk")
	}
}

// The releases are asked for by every observation, which does not wait for the look
// through the directories, nor begins a second one.
func TestVersionsDoNotWait(t *testing.T) {
	known := []cluster.Version{cluster.MustVersion("3.6.16")}
	i := &inventory{log: slog.New(slog.DiscardHandler), said: say.NewOnce(slog.New(slog.DiscardHandler)), finder: &release.Finder{Dirs: []string{t.TempDir()}, Caches: []string{}, Roots: []string{t.TempDir()}}, found: known}
	i.looking = true // one that has not ended
	if got := i.versions(); len(got) != 1 || got[0] != known[0] {
		t.Errorf("versions %v", got)
	}
	i.looking = false
	if got := i.versions(); len(got) != 1 {
		t.Errorf("versions %v before the look has ended", got)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if len(i.versions()) == 0 {
			return // the look has found that nothing is there any more
		}
	}
	t.Error("the look did not end")
}

// A program that does not answer hides no other release, and not the one that it was
// before. It is said once, and once that it answers.
func TestSilentReleaseHidesNoOther(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	program := func(version, line string) {
		t.Helper()
		path := filepath.Join(root, "opt", "etcd-v"+version, "etcd")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program("3.5.30", "exec sleep 1000")
	program("3.6.16", `echo "etcd Version: 3.6.16"`)
	var log bytes.Buffer
	known := cluster.MustVersion("3.5.30")
	i := &inventory{
		finder: &release.Finder{Dirs: []string{}, Caches: []string{}, Roots: []string{root}},
		log:    slog.New(slog.NewTextHandler(&log, nil)), said: say.NewOnce(slog.New(slog.NewTextHandler(&log, nil))), found: []cluster.Version{known},
	}
	for range 2 {
		i.look(t.Context())
		if want := []cluster.Version{known, cluster.MustVersion("3.6.16")}; !slices.Equal(i.found, want) {
			t.Fatalf("found %v, want %v", i.found, want)
		}
	}
	if said := log.String(); strings.Count(said, "do not answer") != 1 || !strings.Contains(said, "opt/etcd-v3.5.30/etcd") {
		t.Errorf("it is said:\n%s", said)
	}
	log.Reset()
	program("3.5.30", `echo "etcd Version: 3.5.30"`)
	for range 2 {
		i.look(t.Context())
	}
	if len(i.found) != 2 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("found %v; it is said:\n%s", i.found, log.String())
	}

	// A look that failed is one: the next observation does not begin another.
	i.at = time.Time{}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	program("3.6.17", "exec sleep 1000")
	i.look(cancelled)
	if i.at.IsZero() || len(i.found) != 2 {
		t.Errorf("after a look that was cancelled: found %v at %v", i.found, i.at)
	}
}

// A call to a store that could not be opened does not wait longer than its own context
// for another one that is opening it.
func TestAbsentStoreWaitsAsLongAsItsCaller(t *testing.T) {
	a := newLateStore("file://" + filepath.Join(t.TempDir(), "store"))
	a.turn <- struct{}{} // somebody is at it, for hours
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := a.List(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("list: %v", err)
	}
}

// announceFunc is a place to announce oneself at.
type announceFunc func(context.Context) error

func (f announceFunc) Announce(ctx context.Context, _ discovery.Seed) error { return f(ctx) }

// A directory of --discovery on a hung disk is said once, keeps nobody from
// the other places, and does not hold the daemon's end up.
func TestAPlaceThatStandsStillHoldsNoOtherUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := &daemon{id: "h1", store: memory.New(), cfg: Config{DiscoveryPollInterval: time.Minute}, log: slog.New(slog.NewTextHandler(&log, nil))}
		stands := make(chan struct{})
		var begun, told atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- d.announceAt(ctx, []place{
				{name: "file:///still", at: announceFunc(func(context.Context) error { begun.Add(1); <-stands; return nil })},
				{name: "store", at: announceFunc(func(context.Context) error { told.Add(1); return nil })},
			})
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if begun.Load() != 1 || told.Load() < 9 {
			t.Errorf("announced %d times at the place that stands still, and %d times at the other one", begun.Load(), told.Load())
		}
		if said := log.String(); strings.Count(said, "could not tell other daemons") != 1 || strings.Contains(said, "can be told again") || !strings.Contains(said, "place=file:///still") {
			t.Errorf("the log says %q", said)
		}
		close(stands)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !strings.Contains(log.String(), "can be told again") || begun.Load() < 2 {
			t.Errorf("after it went on, %d announcements there, and the log says %q", begun.Load(), log.String())
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// Nor is it waited for at the daemon's end.
func TestAPlaceThatStandsStillDoesNotHoldTheEndUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{id: "h1", store: memory.New(), cfg: Config{DiscoveryPollInterval: time.Minute}, log: slog.New(slog.DiscardHandler)}
		stands := make(chan struct{})
		defer close(stands)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- d.announceAt(ctx, []place{{name: "file:///still", at: announceFunc(func(context.Context) error { <-stands; return nil })}})
		}()
		synctest.Wait()
		cancel()
		began := time.Now()
		<-ended
		if took := time.Since(began); took > time.Second {
			t.Errorf("it ended after %s", took)
		}
	})
}

// Zero says nothing, and a store is not asked without a pause.
func TestPollEvery(t *testing.T) {
	for said, want := range map[time.Duration]time.Duration{
		0: time.Minute, time.Nanosecond: announceLeast, 5 * time.Second: 5 * time.Second,
	} {
		if got := (&Config{DiscoveryPollInterval: said}).pollEvery(); got != want {
			t.Errorf("--discovery-poll-interval=%s: every %s, want %s", said, got, want)
		}
	}
}

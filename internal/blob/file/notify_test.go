package file

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/internal/blob"
)

// A file system that does not answer holds up nobody who wants to be told of changes,
// also where there is no deadline: it is a daemon's whole life that is asked about.
func TestNotifyGivesUpWhereTheFileSystemStandsStill(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range maxCalls { // each stands still
			s.calls <- struct{}{}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		if _, err := s.Notify(ctx, "control/"); !errors.Is(err, errStill) {
			t.Error(err)
		}
		if took := time.Since(began); took > watcherTimeout+callEnds {
			t.Errorf("it took %s", took)
		}
	})
}

func TestNotifyTellsOfChangesInTheFolderOnly(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	told, err := s.Notify(ctx, "control/")
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string) {
		t.Helper()
		if _, err := blob.PutBytes(ctx, s, key, []byte(key+time.Now().String()), blob.Any); err != nil {
			t.Fatal(err)
		}
	}
	put("control/spec") // makes the folder
	wait(t, told, "the first object")
	drainFor(told, 100*time.Millisecond)
	put("backups/one")
	select {
	case <-told:
		t.Fatal("told of another folder")
	case <-time.After(100 * time.Millisecond):
	}
	put("control/spec")
	wait(t, told, "a change")
	cancel()
	for range told { // it is closed
	}
}

func wait(t *testing.T, told <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-told:
	case <-time.After(5 * time.Second):
		t.Fatalf("not told of %s", what)
	}
}

func drainFor(told <-chan struct{}, quiet time.Duration) {
	for {
		select {
		case <-told:
		case <-time.After(quiet):
			return
		}
	}
}

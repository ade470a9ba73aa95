package file

import (
	"context"
	"testing"
	"time"

	"etcdadm.io/internal/blob"
)

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

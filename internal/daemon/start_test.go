package daemon

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A step of the start that takes long is told, again and again, and that it is over;
// it ends by itself, with what came of it.
func TestAStartSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, nil))
		failed := errors.New("it failed")
		slow := func(after time.Duration) step {
			return step{"the disk", []string{"", "/data", "/keys"}, func(context.Context) error { time.Sleep(after); return failed }}
		}
		if err := take(t.Context(), log, slow(startSays-1)); !errors.Is(err, failed) || said.Len() > 0 {
			t.Errorf("%v; it is said:\n%s", err, &said)
		}
		if err := take(t.Context(), log, slow(startSays+2*startSaysAgain+1)); !errors.Is(err, failed) {
			t.Error(err)
		}
		told := said.String()
		if err := await(t.Context(), log, "end", slow(startSays+1)); !errors.Is(err, failed) {
			t.Error(err)
		}
		if n := strings.Count(told, `msg="the start of this daemon waits, however long" for="the disk" at="/data, /keys" since=2000-01-01T00:00:09Z`); n != 3 || strings.Count(told, `msg="the start goes on"`) != 1 {
			t.Errorf("it is said:\n%s", told)
		}
		if end := strings.TrimPrefix(said.String(), told); !strings.Contains(end, `msg="the end of this daemon waits, however long"`) || !strings.Contains(end, `msg="the end goes on"`) || strings.Contains(end, "the start") {
			t.Errorf("it is said of the end:\n%s", end)
		}
	})
}

// The end of a daemon does not wait for a step that does not end, but for one that
// does when it is asked to, or is nearly over.
func TestAStartIsCalledOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		stands := make(chan struct{})
		for _, c := range []struct {
			name string
			do   func(context.Context) error
			want error
			most time.Duration
		}{
			{"it stands still", func(context.Context) error { <-stands; return nil }, errLeft, stepEnds},
			{"it is asked to end", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, context.Canceled, 0},
			{"it is nearly over", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(stepEnds - 1); return nil }, nil, stepEnds - 1},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(3*time.Second, cancel)
			began := time.Now()
			if err := take(ctx, log, step{what: c.name, do: c.do}); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
			if took := time.Since(began) - 3*time.Second; took != c.most {
				t.Errorf("%s: it took %s", c.name, took)
			}
		}
		close(stands)
	})
}

// The end of what takes backups is no failure while it opens its store either, but of
// the one backup that a person waits for.
func TestACoprocessIsCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := Coprocess{ClusterName: "c", BackupStore: "file://" + t.TempDir(), ClientURLs: []string{"http://127.0.0.1:1"}, Interval: time.Minute}
	if err := c.Run(ctx, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	c.Once = true
	if err := c.Run(ctx, slog.New(slog.DiscardHandler)); !errors.Is(err, context.Canceled) {
		t.Errorf("one backup: %v", err)
	}
}

// A start that finds a disk full waits for room, says so, and goes on; another error ends it.
func TestAStartWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		d := &daemon{log: slog.New(slog.NewTextHandler(&said, nil))}
		tries, began := 0, time.Now()
		err := d.take(t.Context(), step{"certificates", []string{"/data"}, func(context.Context) error {
			if tries++; tries < 4 {
				return &Error{Problem: "write it", Err: &fs.PathError{Op: "write", Path: "/data/x", Err: unix.ENOSPC}}
			}
			return nil
		}})
		if err != nil || tries != 4 || time.Since(began) != 3*roomLook {
			t.Errorf("%v after %d tries and %s", err, tries, time.Since(began))
		}
		if n := strings.Count(said.String(), "waits for room on a full disk"); n != 1 || !strings.Contains(said.String(), "there is room again") {
			t.Errorf("it is said:\n%s", &said)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		err = d.take(ctx, step{"certificates", []string{"/data"}, func(context.Context) error { return unix.ENOSPC }})
		if !errors.Is(err, context.Canceled) || !strings.Contains(d.begun.words(), "room on a full disk") {
			t.Errorf("%v, and it says %q", err, d.begun.words())
		}
		if err := d.take(t.Context(), step{"certificates", nil, func(context.Context) error { return unix.EACCES }}); !errors.Is(err, unix.EACCES) {
			t.Error(err)
		}
	})
}

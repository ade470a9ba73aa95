package control_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// runs notes in the record that a command was run, as the leader does.
func runs(t *testing.T, s *memory.Store, name string) {
	t.Helper()
	f := control.New(s, "etcd")
	in, _, tag, err := f.ReadIntent(t.Context())
	if err == nil {
		in.CommandsRun, in.CommandID = []string{name}, name
		_, err = f.ReplaceIntent(t.Context(), tag, in)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What has begun stays, whenever that was noted; what has not is never run after.
func TestWithdraw(t *testing.T) {
	for what, c := range map[string]struct {
		before func(t *testing.T, s *memory.Store, name string)
		begun  bool
		other  bool // another error: what is not known is not taken for not begun
	}{
		"a command that waits": {func(*testing.T, *memory.Store, string) {}, false, false},
		"one that was run":     {runs, true, false},
		"run while it is withdrawn": {func(t *testing.T, s *memory.Store, name string) {
			written := false
			s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
				if c.Op == memory.Put && c.Key == created && !written {
					written = true
					runs(t, s, name)
				}
				return memory.Fault{}
			})
		}, true, false},
		"a record that is not understood": {func(t *testing.T, s *memory.Store, _ string) {
			put(t, s, created, `{"generation":1,"nonce":"n","x":1}`)
		}, false, true},
	} {
		s := memory.New()
		f, name := queued(t, s)
		c.before(t, s, name)
		_, err := control.Withdraw(t.Context(), f, name)
		_, begun := errors.AsType[*control.BegunError](err)
		if begun != c.begun || (err != nil) != (c.begun || c.other) {
			t.Errorf("%s: %v", what, err)
		}
		if left := len(queueOf(t, s)); (left == 0) != (err == nil) {
			t.Errorf("%s: %v, and %d commands are left", what, err, left)
		}
		if err == nil {
			if end, ok := record(t, s).EndOf(name); !ok || end.Result != control.ResultCancelled {
				t.Errorf("%s: the record does not say that it was cancelled", what)
			}
		}
	}
	if _, err := control.Withdraw(t.Context(), control.New(memory.New(), "etcd"), "2026-11-20T23:17:07Z-000000"); !errors.Is(err, control.ErrNoCommand) {
		t.Error(err)
	}
}

// The queue tells who asked, and until when a command may begin.
func TestQueueTellsWhoAskedAndUntilWhen(t *testing.T) {
	s := memory.New()
	f, recover := queued(t, s)
	restore, err := f.AddRestore(t.Context(), control.RestoreBackup{Backup: "2026-11-20T22:00:00Z-000001", By: "me@here"})
	if err != nil {
		t.Fatal(err)
	}
	wish, err := f.AddWish(t.Context(), control.Wish{Kind: cluster.CommandBackup, By: "you@there"})
	if err != nil {
		t.Fatal(err)
	}
	runs(t, s, recover)
	all, err := control.Queue(t.Context(), f)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, q := range all {
		want := map[string]struct {
			by      string
			begun   bool
			expires bool
		}{recover: {"", true, true}, restore: {"me@here", false, true}, wish: {"you@there", false, false}}[q.Name]
		if q.By() != want.by || q.Begun != want.begun || q.Until.IsZero() == want.expires || want.expires && q.Until.Sub(q.Timestamp) != cluster.ConsentLasts {
			t.Errorf("%s: by %q, begun %t, until %s", q.Name, q.By(), q.Begun, q.Until)
		}
	}
	if _, err := control.Withdraw(t.Context(), f, restore); err != nil {
		t.Fatal(err)
	}
	if past, err := control.Past(t.Context(), f); err != nil || len(past) != 1 || past[0].Name != restore || past[0].At.IsZero() {
		t.Errorf("%+v, %v", past, err)
	}
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.List {
			return memory.Fault{Err: blob.ErrUnsupported}
		}
		return memory.Fault{}
	})
	if _, err := control.Queue(t.Context(), f); err == nil {
		t.Error("a queue that cannot be listed is no empty one")
	}
}

// What lies beside a command that never came, or is gone, is no command: it is in no list, and goes when that command is withdrawn.
func TestHalfACommand(t *testing.T) {
	reset := errors.New("connection reset")
	s := memory.New()
	f, _ := queued(t, s)
	name := ""
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if dir, is := strings.CutSuffix(c.Key, "/_command.json"); is && c.Op == memory.Put {
			name = strings.TrimPrefix(dir, control.Prefix)
			return memory.Fault{Err: reset}
		}
		return memory.Fault{}
	})
	if _, err := f.AddRestore(t.Context(), control.RestoreBackup{Backup: "2026-11-20T22:00:00Z-000001", By: "me@here"}); !errors.Is(err, reset) {
		t.Fatal(err)
	}
	s.Inject(nil)
	half := control.Prefix + name + "/_etcdadm.json"
	if left, err := s.List(t.Context(), half); err != nil || len(left) != 1 || control.IsCommand(half) || !control.OfCommand(half) || len(queueOf(t, s)) != 1 {
		t.Fatalf("%+v, %v, and the queue is %v", left, err, queueOf(t, s))
	}
	if _, err := control.Withdraw(t.Context(), f, name); err != nil {
		t.Fatal(err)
	}
	if left, err := s.List(t.Context(), half); err != nil || len(left) != 0 {
		t.Errorf("%+v, %v", left, err)
	}
	if end, ok := record(t, s).EndOf(name); !ok || end.Result != control.ResultCancelled {
		t.Error("a write of it that comes late would be run")
	}
	if _, err := control.Withdraw(t.Context(), f, name); !errors.Is(err, control.ErrNoCommand) {
		t.Error(err)
	}

	restore, err := f.AddRestore(t.Context(), control.RestoreBackup{Backup: "2026-11-20T22:00:00Z-000001", By: "me@here"})
	if err != nil {
		t.Fatal(err)
	}
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Delete && strings.HasSuffix(c.Key, "/_command.json") {
			return memory.Fault{Lost: reset}
		}
		return memory.Fault{}
	})
	if _, err := control.Withdraw(t.Context(), f, restore); !errors.Is(err, reset) {
		t.Error(err)
	}
	if left, err := s.List(t.Context(), control.Prefix+restore); err != nil || len(left) != 0 {
		t.Errorf("%+v, %v", left, err)
	}
}

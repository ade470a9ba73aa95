package control_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// queued is a folder with a record and a command for a generation.
func queued(t *testing.T, s *memory.Store) (f *control.Folder, name string) {
	t.Helper()
	f = control.New(s, "etcd")
	in := founding()
	in.State, in.By = cluster.IntentFounded, cluster.Fence{Number: 7, Host: "a"}
	if _, err := f.CreateIntent(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	name, err := f.AddWish(t.Context(), control.Wish{Kind: cluster.CommandRecover, Host: "a"})
	if err != nil {
		t.Fatal(err)
	}
	return f, name
}

func record(t *testing.T, s blob.Store) *cluster.Intent {
	t.Helper()
	in, _, _, err := control.New(s, "etcd").ReadIntent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func queueOf(t *testing.T, s blob.Store) (names []string) {
	t.Helper()
	all, err := control.New(s, "etcd").Commands(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// Before a command leaves the queue the record says that it is not to be run, in a write
// of its own: a leader that decided to run it finds that its record was written over.
func TestDeletedCommandIsCancelledFirst(t *testing.T) {
	s := memory.New()
	f, name := queued(t, s)
	gone := false
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		switch {
		case c.Op == memory.Put && c.Key == created && gone:
			t.Error("it was taken out of the queue first")
		case c.Op == memory.Put && c.Key == created && c.Cond == blob.Any:
			t.Error("the record was written without a condition")
		case c.Op == memory.Delete && strings.Contains(c.Key, name):
			gone = true
		}
		return memory.Fault{}
	})
	before := record(t, s)
	if err := f.DeleteCommand(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	in := record(t, s)
	end, ended := in.EndOf(name)
	if !ended || end.Result != control.ResultCancelled || in.Write != before.Write+1 || in.By != before.By {
		t.Errorf("the record says %+v in write %d after %d, by %s", end, in.Write, before.Write, in.By)
	}
	if q := queueOf(t, s); len(q) != 0 {
		t.Errorf("the queue is %v", q)
	}
}

// What the record needs not say it does not say; what cannot be said there keeps no
// command in the queue, but where the store fails, or others write without end.
func TestWhatIsCancelled(t *testing.T) {
	reset := errors.New("connection reset")
	putting := func(err error) func(context.Context, memory.Call) memory.Fault {
		return func(_ context.Context, c memory.Call) memory.Fault {
			if c.Op == memory.Put && c.Key == created {
				return memory.Fault{Err: err}
			}
			return memory.Fault{}
		}
	}
	rewrite := func(t *testing.T, s *memory.Store, change func(*cluster.Intent)) {
		t.Helper()
		f := control.New(s, "etcd")
		in, _, tag, err := f.ReadIntent(t.Context())
		if err == nil {
			change(in)
			_, err = f.ReplaceIntent(t.Context(), tag, in)
		}
		if err != nil {
			t.Error(err)
		}
	}
	for what, c := range map[string]struct {
		before func(t *testing.T, s *memory.Store, name string)
		err    error
		write  uint64 // of the record; zero: there is none of ours
	}{
		"a command": {func(*testing.T, *memory.Store, string) {}, nil, 2},
		"one that was run": {func(t *testing.T, s *memory.Store, name string) {
			rewrite(t, s, func(in *cluster.Intent) { in.CommandsRun = []string{name} })
		}, nil, 1},
		"one that has ended": {func(t *testing.T, s *memory.Store, name string) {
			rewrite(t, s, func(in *cluster.Intent) { in.NoteEnd(cluster.EndedCommand{Name: name}) })
		}, nil, 1},
		"without a record":  {func(t *testing.T, s *memory.Store, _ string) { _ = s.Delete(t.Context(), created) }, nil, 0},
		"the predecessor's": {func(t *testing.T, s *memory.Store, _ string) { put(t, s, created, `{"timestamp":"1"}`) }, nil, 0},
		"a later release's": {func(t *testing.T, s *memory.Store, _ string) {
			put(t, s, created, `{"generation":1,"nonce":"n","x":1}`)
		}, nil, 0},
		"no conditions":                {func(_ *testing.T, s *memory.Store, _ string) { s.Inject(putting(blob.ErrUnsupported)) }, nil, 1},
		"the store fails":              {func(_ *testing.T, s *memory.Store, _ string) { s.Inject(putting(reset)) }, reset, 1},
		"others write for ever":        {func(_ *testing.T, s *memory.Store, _ string) { s.Inject(putting(blob.ErrPreconditionFailed)) }, control.ErrConflict, 1},
		"conditions that are not kept": {func(*testing.T, *memory.Store, string) {}, nil, 1},
		"one that cannot be read": {func(_ *testing.T, s *memory.Store, name string) {
			s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
				if c.Op == memory.Get && strings.Contains(c.Key, name) {
					return memory.Fault{Err: reset}
				}
				return memory.Fault{}
			})
		}, nil, 2},
		"somebody writes in between": {func(t *testing.T, s *memory.Store, _ string) {
			written := false
			s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
				if c.Op == memory.Put && c.Key == created && !written {
					written = true
					rewrite(t, s, func(in *cluster.Intent) { in.Write, in.Lost = 2, []cluster.HostID{"x"} })
				}
				return memory.Fault{}
			})
		}, nil, 3},
	} {
		t.Run(what, func(t *testing.T) {
			s := memory.New()
			if what == "conditions that are not kept" {
				s = memory.NewWith(memory.Ignore)
			}
			f, name := queued(t, s)
			c.before(t, s, name)
			err := f.DeleteCommand(t.Context(), name)
			s.Inject(nil)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if left := slices.Contains(queueOf(t, s), name); left != (c.err != nil) {
				t.Errorf("it is in the queue: %t", left)
			}
			if c.write == 0 {
				return
			}
			in := record(t, s)
			if in.Write != c.write {
				t.Errorf("write %d, want %d", in.Write, c.write)
			}
			if what == "somebody writes in between" && (len(in.Lost) != 1 || len(in.Ended) != 1) {
				t.Errorf("one of both is not there: %+v", in)
			}
		})
	}
}

// A backup takes nothing away, and needs no word in the record; nor does a command that
// the leader ends, whose end is there already.
func TestEndsThatAreNoCancellation(t *testing.T) {
	s := memory.New()
	f, name := queued(t, s)
	backup, err := f.AddWish(t.Context(), control.Wish{Kind: cluster.CommandBackup})
	if err == nil {
		err = f.DeleteCommand(t.Context(), backup)
	}
	if err == nil {
		err = f.EndCommand(t.Context(), control.Ended{Name: name, Result: "rejected"})
	}
	if in := record(t, s); err != nil || in.Write != 1 || len(in.Ended) != 0 || len(queueOf(t, s)) != 0 {
		t.Errorf("record %+v, queue %v, %v", in, queueOf(t, s), err)
	}
}

// Two leaders of one generation count the same write. What the other one wrote is not taken
// for one's own, whether the store refused the write or its answer was lost.
func TestRivalsWriteIsNoSuccess(t *testing.T) {
	for what, theirs := range map[string]func(*cluster.Intent){
		"of another leader":             func(in *cluster.Intent) { in.By = cluster.Fence{Number: 8, Host: "b"} },
		"that says something else":      func(in *cluster.Intent) { in.Lost = []cluster.HostID{"x"} },
		"that ended a command as well":  func(in *cluster.Intent) { in.NoteEnd(cluster.EndedCommand{Name: "n"}) },
		"of a leader that names no one": func(in *cluster.Intent) { in.By = cluster.Fence{} },
	} {
		for _, lost := range []bool{false, true} {
			s := memory.New()
			f := control.New(s, "etcd")
			tag, err := f.CreateIntent(t.Context(), founding())
			if err != nil {
				t.Fatal(err)
			}
			mine, other := founding(), founding()
			mine.Write, mine.By = 2, cluster.Fence{Number: 7, Host: "a"}
			other.Write, other.By = 2, mine.By
			theirs(other)
			if _, err := control.New(s, "etcd").ReplaceIntent(t.Context(), tag, other); err != nil {
				t.Fatal(err)
			}
			want := control.ErrConflict
			if lost {
				want = control.ErrUnknownOutcome
				s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
					if c.Op == memory.Put {
						return memory.Fault{Err: errors.New("connection reset")}
					}
					return memory.Fault{}
				})
			}
			if _, err := f.ReplaceIntent(t.Context(), tag, mine); !errors.Is(err, want) {
				t.Errorf("%s, answer lost %t: %v, want %v", what, lost, err, want)
			}
		}
	}
}

// Of a write that was called off before it was sent it is known that it was not made.
func TestCalledOffIsNotWritten(t *testing.T) {
	s := memory.New()
	ctx := blob.While(t.Context(), func() error { return fmt.Errorf("%w: too old", control.ErrCalledOff) })
	_, err := control.New(s, "etcd").CreateIntent(ctx, founding())
	if !errors.Is(err, control.ErrCalledOff) || errors.Is(err, control.ErrUnknownOutcome) {
		t.Errorf("got %v", err)
	}
	if _, marker, _, err := control.New(s, "etcd").ReadIntent(t.Context()); marker || err != nil {
		t.Errorf("it was written: %t, %v", marker, err)
	}
}

// A command is read again with all that lies beside it, whoever queued it.
func TestReadCommandAgain(t *testing.T) {
	s := memory.New()
	f := control.New(s, "etcd")
	const theirs, gone = "2026-11-20T23:17:07Z-000000", "2026-11-20T23:17:07Z-000001"
	put(t, s, control.Prefix+theirs+"/_command.json", `{"timestamp":"1","restoreBackup":{"backup":"2026-11-20T23:17:07Z-000001"}}`)
	put(t, s, control.Prefix+theirs+"/_etcdadm.json", `{"lost":["b"]}`)
	ours, err := f.AddWish(t.Context(), control.Wish{Kind: cluster.CommandRecover, Host: "a"})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := f.Commands(t.Context())
	if err != nil || len(listed) != 2 {
		t.Fatal(listed, err)
	}
	for _, c := range listed {
		again, err := f.ReadCommand(t.Context(), c.Name)
		if err != nil || (again.Restore == nil) != (c.Restore == nil) || (again.Wish == nil) != (c.Wish == nil) || again.Name != c.Name || !again.Timestamp.Equal(c.Timestamp) {
			t.Errorf("%+v, listed %+v, %v", again, c, err)
		}
		if c.Name == theirs && (again.Restore == nil || len(again.Restore.Lost) != 1) {
			t.Errorf("without what lies beside it: %+v", again)
		}
	}
	if _, err := f.ReadCommand(t.Context(), gone); !errors.Is(err, control.ErrNoCommand) {
		t.Errorf("one that is not there: %v", err)
	}
	reset := errors.New("connection reset")
	for _, file := range []string{theirs + "/_command.json", theirs + "/_etcdadm.json", ours + "/_etcdadm_command.json"} {
		s.Inject(at(memory.Get, control.Prefix+file, reset))
		name := file[:len(theirs)]
		if c, err := f.ReadCommand(t.Context(), name); !errors.Is(err, reset) || errors.Is(err, control.ErrNoCommand) {
			t.Errorf("%s cannot be read: %+v, %v", file, c, err)
		}
	}
}

package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// Two leaders that raise the record at the same time lose nothing of what either had
// seen: the second one merges, and gives way to a third.
func TestRecordOfTwoWriters(t *testing.T) {
	for writers := range 3 {
		s := memory.New()
		f, other := control.New(s, "etcd"), control.New(s, "etcd")
		high := cluster.Progress{Revision: 1000, Term: 5, Index: 500}
		n := 0
		s.Inject(func(ctx context.Context, c memory.Call) memory.Fault {
			if c.Op != memory.Put || n >= writers {
				return memory.Fault{}
			}
			n++
			high.Revision++
			was := n
			n = writers // it has the store to itself
			if _, err := other.RaiseRecord(ctx, 1, high); err != nil {
				t.Error(err)
			}
			n = was
			return memory.Fault{}
		})
		got, err := f.RaiseRecord(t.Context(), 2, cluster.Progress{Revision: 7, Term: 1, Index: 7})
		s.Inject(nil)
		want := control.Record{Revision: 7, Clusters: []control.ClusterRecord{{Cluster: 2, Term: 1, Index: 7}}}
		if writers > 0 {
			want = control.Record{Revision: high.Revision, Clusters: []control.ClusterRecord{{Cluster: 1, Term: 5, Index: 500}}}
		}
		switch writers {
		case 1:
			want = want.With(2, cluster.Progress{Term: 1, Index: 7})
			fallthrough
		case 0:
			if err != nil || !got.Equal(want) {
				t.Errorf("beside %d: %+v, %v, want %+v", writers, got, err, want)
			}
		default:
			if !errors.Is(err, control.ErrConflict) {
				t.Errorf("beside %d: %+v, %v", writers, got, err)
			}
		}
		if r, err := other.ReadRecord(t.Context()); err != nil || !r.Equal(want) {
			t.Errorf("beside %d: the store has %+v, %v, want %+v", writers, r, err, want)
		}
	}
}

// Two commands of one moment do not share a folder: that is the ID by which both are
// known, and what a person said beside the one would be taken for the other's.
func TestFolderOfAnotherCommand(t *testing.T) {
	restore := control.RestoreBackup{Backup: "ours", Lost: []cluster.HostID{"gone"}, Flags: []string{control.FlagNoBackup}}
	for what, add := range map[string]func(f *control.Folder, ctx context.Context) (string, error){
		"a wish": func(f *control.Folder, ctx context.Context) (string, error) {
			return f.AddWish(ctx, control.Wish{Kind: cluster.CommandBackup})
		},
		"a restore": func(f *control.Folder, ctx context.Context) (string, error) {
			return f.AddRestore(ctx, control.RestoreBackup{Backup: "ours"})
		},
		"a restore with more": func(f *control.Folder, ctx context.Context) (string, error) { return f.AddRestore(ctx, restore) },
	} {
		for _, theirs := range []string{"_command.json", "_etcdadm_command.json", "_etcdadm.json"} {
			for _, late := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					s := memory.New()
					f := control.New(s, "etcd")
					const first = control.Prefix + "2000-01-01T00:00:00Z-000000/"
					wrote := false
					put := func(key string) {
						wrote = true
						if _, err := blob.PutBytes(t.Context(), s, key, []byte("theirs"), blob.Any); err != nil {
							t.Error(err)
						}
					}
					if !late {
						put(first + theirs)
					} else { // after the look, and before the write of that very object
						s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
							if c.Op == memory.Put && c.Key == first+theirs && !wrote {
								put(c.Key)
							}
							return memory.Fault{}
						})
					}
					name, err := add(f, t.Context())
					if err != nil {
						t.Fatalf("%s beside %s: %v", what, theirs, err)
					}
					there, err := s.List(t.Context(), first)
					if err != nil {
						t.Fatal(err)
					}
					ours := control.Prefix+name+"/" == first
					if ours && wrote {
						t.Errorf("%s beside %s, late %t: it has their name %s", what, theirs, late, name)
					}
					for _, o := range there {
						data, _, err := blob.ReadAll(t.Context(), s, o.Key, 1<<20)
						if err != nil {
							t.Fatal(err)
						}
						if (string(data) != "theirs") != ours {
							t.Errorf("%s beside %s, late %t: it is named %s, and %s is %s", what, theirs, late, name, o.Key, data)
						}
					}
				})
			}
		}
	}
}

// A reader that comes between the writes of two commands of one name takes the one
// without what was said beside the other, also when that one's writer never takes it
// back.
func TestReaderBetweenTwoCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		f := control.New(s, "etcd")
		const dir = control.Prefix + "2000-01-01T00:00:00Z-000000/"
		var between []control.Command
		s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			switch {
			case c.Op == memory.Put && c.Key == dir+"_command.json":
				s.Inject(nil) // what follows is another's
				put(t, s, c.Key, `{"timestamp":"1","restoreBackup":{"backup":"theirs"}}`)
				s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
					if c.Op == memory.Delete {
						return memory.Fault{Err: errors.New("the writer was killed")}
					}
					return memory.Fault{}
				})
				var err error
				if between, err = f.Commands(t.Context()); err != nil {
					t.Error(err)
				}
			}
			return memory.Fault{}
		})
		if _, err := f.AddRestore(t.Context(), control.RestoreBackup{Backup: "ours", Lost: []cluster.HostID{"gone"}, Flags: []string{control.FlagNoBackup}}); err == nil {
			t.Fatal("what was said beside our command could not be taken back, and nobody is told")
		}
		after, err := f.Commands(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range [][]control.Command{between, after} {
			if len(got) != 1 || got[0].Err != nil || got[0].Restore.Backup != "theirs" || got[0].Restore.Lost != nil || got[0].Restore.Flags != nil {
				t.Errorf("%+v", got)
			}
		}
	})
}

// A command that nobody can write a free name for is not written at all.
func TestNoNameIsFree(t *testing.T) {
	s := memory.New()
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Put && strings.HasSuffix(c.Key, "_command.json") {
			return memory.Fault{Err: fmt.Errorf("%w", blob.ErrPreconditionFailed)}
		}
		return memory.Fault{}
	})
	if name, err := control.New(s, "etcd").AddWish(t.Context(), control.Wish{Kind: cluster.CommandBackup}); err == nil || name != "" {
		t.Errorf("%q, %v", name, err)
	}
}

// Of how commands ended the newest are kept.
func TestNewestEndsAreKept(t *testing.T) {
	s := memory.New()
	f := control.New(s, "etcd")
	var all []string
	for i := range 200 {
		all = append(all, fmt.Sprintf(`{"name":"old-%d","result":"done","at":"2026-01-01T00:00:00Z"}`, i))
	}
	put(t, s, "control/etcdadm-commands-ended.json", "["+strings.Join(all, ",")+"]")
	if err := f.EndCommand(t.Context(), control.Ended{Name: "2026-11-20T23:17:07Z-000000", Result: "done"}); err != nil {
		t.Fatal(err)
	}
	ended, err := f.EndedCommands(t.Context())
	if err != nil || len(ended) != 200 || ended[0].Name != "old-1" || ended[199].Name != "2026-11-20T23:17:07Z-000000" {
		t.Errorf("%d, from %+v to %+v, %v", len(ended), ended[0], ended[len(ended)-1], err)
	}
}

// Who joins is written as the first one only where there is none.
func TestFirstJoiningIsTheFirst(t *testing.T) {
	f := control.New(memory.New(), "etcd")
	if err := f.PutJoining(t.Context(), "", &control.Joining{Cluster: 1}); err != nil {
		t.Fatal(err)
	}
	if err := f.PutJoining(t.Context(), "", &control.Joining{Cluster: 2}); !errors.Is(err, control.ErrConflict) {
		t.Errorf("a second first one: %v", err)
	}
	if j, _, err := f.ReadJoining(t.Context()); err != nil || j.Cluster != 1 {
		t.Errorf("%+v, %v", j, err)
	}
}

// Whenever the marking ends half way, the store has no spec without a marker: running
// daemons would found a cluster on it.
func TestMarkForeignMarksFirst(t *testing.T) {
	three := cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}
	for left := range 3 {
		s := &putsFew{Store: memory.New(), left: left}
		err := control.New(s, "etcd").MarkForeign(t.Context(), three, time.Unix(1, 0))
		if (err == nil) != (left == 2) {
			t.Errorf("after %d writes: %v", left, err)
		}
		has := func(key string) bool {
			_, err := s.Get(t.Context(), key, blob.GetOptions{})
			return err == nil
		}
		if has(spec) && !has(created) {
			t.Errorf("after %d writes the store has a spec and no marker", left)
		}
	}
}

// putsFew is a store that takes so many writes.
type putsFew struct {
	blob.Store
	left int
}

func (s *putsFew) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	if s.left--; s.left < 0 {
		return "", errors.New("the store has gone")
	}
	return s.Store.Put(ctx, key, body, cond)
}

// A store is marked as another program's only where nothing is: neither a record of
// ours nor a spec is written over.
func TestMarkForeignKeepsWhatIsThere(t *testing.T) {
	three := cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}
	for what, c := range map[string]struct {
		marker, spec string
		fails        bool
	}{
		"nothing":           {},
		"a spec":            {spec: `{"memberCount":5,"etcdVersion":"3.5.35"}`},
		"its own marker":    {marker: `{"timestamp":7}`},
		"a record of ours":  {marker: `{"name":"etcd","generation":1,"nonce":"n","token":"t","state":"founded"}`, fails: true},
		"what no one reads": {marker: `{`, fails: true},
	} {
		s := memory.New()
		if c.marker != "" {
			put(t, s, created, c.marker)
		}
		if c.spec != "" {
			put(t, s, spec, c.spec)
		}
		err := control.New(s, "etcd").MarkForeign(t.Context(), three, time.Unix(1, 0))
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := s.Get(t.Context(), spec, blob.GetOptions{}); c.fails {
			if !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("%s: a spec is beside it: %v", what, err)
			}
			continue
		}
		if got := get(t, s, created); c.marker != "" && got != c.marker || c.marker == "" && got != `{"timestamp":1000000000}` {
			t.Errorf("%s: the marker is %s", what, got)
		}
		if got := get(t, s, spec); c.spec != "" && got != c.spec {
			t.Errorf("%s: the spec is %s", what, got)
		}
	}
}

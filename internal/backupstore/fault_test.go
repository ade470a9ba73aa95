package backupstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/memory"
)

// faulty makes the n-th call to a store go wrong, counted from 0.
func faulty(s *memory.Store, n int, fault memory.Fault) (calls *atomic.Int64) {
	calls = new(atomic.Int64)
	s.Inject(func(context.Context, memory.Call) memory.Fault {
		if calls.Add(1)-1 == int64(n) {
			return fault
		}
		return memory.Fault{}
	})
	return calls
}

// Whichever call of the writing goes wrong, with an error or with a lost
// reply, or is where the caller gives up: there is a whole backup and no error,
// or an error and nothing that is listed.
func TestEveryFaultOfWriting(t *testing.T) {
	data := snapshotOf(300<<10, 1)
	gone := errors.New("connection reset")
	req, ids := request(t, encodings[0])
	store := memory.New()
	calls := faulty(store, -1, memory.Fault{})
	write(t, New(store), req, data)
	total := int(calls.Load())
	if total < 6 {
		t.Fatalf("only %d calls", total)
	}
	type way struct {
		name  string
		fault memory.Fault
		// dead makes all calls after that one fail as well, and deaf the next two: those
		// that would find out what became of it.
		dead, deaf, cancel bool
	}
	for _, w := range []way{
		{name: "error", fault: memory.Fault{Err: gone}}, {name: "lost", fault: memory.Fault{Lost: gone}},
		{name: "error, then dead", fault: memory.Fault{Err: gone}, dead: true}, {name: "lost, then dead", fault: memory.Fault{Lost: gone}, dead: true},
		{name: "error, not read back", fault: memory.Fault{Err: gone}, deaf: true}, {name: "lost, not read back", fault: memory.Fault{Lost: gone}, deaf: true},
		{name: "cancelled before", cancel: true}, {name: "cancelled after", fault: memory.Fault{Lost: context.Canceled}, cancel: true},
	} {
		for n := range total {
			t.Run(fmt.Sprintf("%s at call %d", w.name, n), func(t *testing.T) {
				store := memory.New()
				c := New(store)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var calls atomic.Int64
				var struck memory.Call
				store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
					i := int(calls.Add(1) - 1)
					switch {
					case i == n:
						struck = call
						if w.cancel {
							cancel()
						}
						return w.fault
					case i > n && w.dead, i > n && i <= n+2 && w.deaf:
						return memory.Fault{Err: gone}
					}
					return memory.Fault{}
				})
				b, err := c.Write(ctx, req, bytes.NewReader(data))
				store.Inject(nil)
				names := list(t, c)
				if err != nil && !errors.Is(err, gone) && !errors.Is(err, context.Canceled) {
					t.Errorf("the error is %v", err)
				}
				if small := struck.Op == memory.Put && !strings.Contains(struck.Key, "/etcd.backup"); w.name == "lost" && small && err != nil {
					t.Errorf("the lost reply to %s was not read back: %v", struck.Key, err)
				}
				switch {
				case err == nil && !slices.Equal(names, []backup.Name{b.Name}):
					t.Errorf("written, and listed are %q", names)
				case err != nil && len(names) > 0:
					// Only the reply to the very last write can be lost for good.
					if w.name != "lost, then dead" && w.name != "lost, not read back" {
						t.Errorf("failed with %v, and listed are %q", err, names)
					}
				}
				for _, name := range names {
					if v, err := c.Verify(t.Context(), name, ids); err != nil || !v.OK {
						t.Errorf("listed, and %+v, %v", v, err)
					}
				}
				// What is left is found by the clean-up, and nothing else is.
				if _, err := c.CleanUp(t.Context(), 0, time.Now().Add(2*MinUnfinishedAge)); err != nil {
					t.Error(err)
				}
				if l, err := c.Scan(t.Context()); err != nil || len(l.Unfinished) != 0 || len(l.Backups) != len(names) {
					t.Errorf("after the clean-up: %+v, %v", l, err)
				}
			})
		}
	}
}

// A caller who gives up while the meta is under way gets a backup if it came
// through, and an error if not.
func TestCancelledAtTheMeta(t *testing.T) {
	for _, lands := range []bool{true, false} {
		store := memory.New()
		ctx, cancel := context.WithCancel(t.Context())
		req, ids := request(t, encodings[0])
		b, err := New(&lastMoment{Store: store, lands: lands, cancel: cancel}).Write(ctx, req, bytes.NewReader(snapshotOf(4096, 1)))
		names := list(t, New(store))
		if lands != (err == nil) || lands != slices.Equal(names, []backup.Name{b.Name}) {
			t.Errorf("lands %v: %v, and listed are %q", lands, err, names)
		}
		if lands {
			if v, err := New(store).Verify(t.Context(), b.Name, ids); err != nil || !v.OK {
				t.Errorf("%+v, %v", v, err)
			}
		}
	}
}

// lastMoment cancels while a meta is written, which takes effect or not.
type lastMoment struct {
	blob.Store
	lands  bool
	cancel func()
}

func (s *lastMoment) Put(ctx context.Context, key string, r io.Reader, cond blob.Condition) (blob.ETag, error) {
	if !strings.HasSuffix(key, backup.FileMeta) {
		return s.Store.Put(ctx, key, r, cond)
	}
	if s.lands {
		if _, err := s.Store.Put(ctx, key, r, cond); err != nil {
			return "", err
		}
	}
	s.cancel()
	return "", ctx.Err()
}

// A caller who gives up in the middle of the stream leaves nothing.
func TestCancelledInTheStream(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, req Request, _ Identities) {
		for _, store := range []blob.Store{memory.New(), fileStore(t)} {
			ctx, cancel := context.WithCancel(t.Context())
			source := &cancelling{r: bytes.NewReader(snapshotOf(4<<20, 1)), after: 2 << 20, cancel: cancel, ctx: ctx}
			if b, err := New(store).Write(ctx, req, source); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, %v", b.Name, err)
			}
			if k := keys(t, store); len(k) != 0 {
				t.Errorf("left behind: %q", k)
			}
		}
	})
}

// cancelling ends a context in the middle, and then fails as etcd's stream does.
type cancelling struct {
	r      io.Reader
	after  int
	cancel func()
	ctx    context.Context
}

func (c *cancelling) Read(p []byte) (int, error) {
	if c.after <= 0 {
		c.cancel()
	}
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.after -= n
	return n, err
}

// Of many who want one name one gets it, whatever the store; once it is a
// backup's nobody does. Without conditional writes only the latter holds.
func TestNamesAreTakenOnce(t *testing.T) {
	dir := t.TempDir()
	for what, open := range map[string]func() blob.Store{
		"memory": func() func() blob.Store { s := memory.New(); return func() blob.Store { return s } }(),
		"file": func() blob.Store { // each has a store of its own, as processes do
			s, err := file.Open(t.Context(), dir, file.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		t.Run(what, func(t *testing.T) {
			for round := range 20 {
				name, err := backup.NewName(time.Unix(1795216397, 0), round)
				if err != nil {
					t.Fatal(err)
				}
				var won atomic.Int64
				var all sync.WaitGroup
				for i := range 8 {
					all.Go(func() {
						c := New(open())
						w, err := c.take(t.Context(), name, encodings[i%3].File())
						if errors.Is(err, ErrExists) {
							return
						} else if err != nil {
							t.Error(err)
							return
						}
						won.Add(1)
						if err := w.publish(t.Context(), backup.Manifest{}.Encode(), []byte(`{"etcdVersion":"3.7.3"}`)); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if n := won.Load(); n != 1 {
					t.Fatalf("%d have the name", n)
				}
			}
			if n := len(list(t, New(open()))); n != 20 {
				t.Errorf("%d are listed", n)
			}
		})
	}
	unconditional := memory.NewWith(memory.Refuse)
	c := New(unconditional)
	req, ids := request(t, encodings[0])
	b := write(t, c, req, snapshotOf(4096, 1))
	if _, err := c.take(t.Context(), b.Name, b.File); !errors.Is(err, ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	if v, err := c.Verify(t.Context(), b.Name, ids); err != nil || !v.OK {
		t.Errorf("%+v, %v", v, err)
	}
	if err := c.Record(t.Context(), b.Name, backup.Verification{OK: true}); err != nil {
		t.Error(err)
	}
}

// A writer that was away for so long that its folder was cleaned up, or taken
// by another, finds out before it says that its backup exists.
func TestWriterThatWasAway(t *testing.T) {
	for what, meanwhile := range map[string]func(t *testing.T, c *Catalogue, name backup.Name){
		"cleaned up": func(t *testing.T, c *Catalogue, name backup.Name) {
			if gone, err := c.CleanUp(t.Context(), 0, time.Now().Add(2*MinUnfinishedAge)); err != nil || !slices.Equal(gone, []backup.Name{name}) {
				t.Errorf("%v, %v", gone, err)
			}
		},
		"taken": func(t *testing.T, c *Catalogue, name backup.Name) {
			put(t, c.store, key(name, fileClaim), []byte("another's"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			store := memory.New()
			c := New(store)
			req, _ := request(t, encodings[0])
			var name backup.Name
			source := &pausing{r: bytes.NewReader(snapshotOf(1<<20, 1)), then: func() {
				l, err := c.Scan(t.Context())
				if err != nil || len(l.Unfinished) != 1 {
					t.Fatalf("%+v, %v", l, err)
				}
				name = l.Unfinished[0].Name
				meanwhile(t, c, name)
			}}
			if b, err := c.Write(t.Context(), req, source); err == nil {
				t.Errorf("wrote %s", b.Name)
			}
			if names := list(t, c); len(names) != 0 {
				t.Errorf("listed: %q", names)
			}
			if what == "taken" && !slices.Contains(keys(t, store), key(name, fileClaim)) {
				t.Error("the other's claim is gone")
			}
		})
	}
}

// A writer that was away finds a finished backup of another in its place, and leaves it
// as it is.
func TestWriterThatComesSecond(t *testing.T) {
	for _, meanwhile := range []bool{false, true} { // before its first byte, or while the last ones are on their way
		store := memory.New()
		c := New(store)
		req, ids := request(t, encodings[0])
		var name backup.Name
		theirs := write(t, New(memory.New()), req, snapshotOf(4096, 2))
		take := func() {
			l, err := c.Scan(t.Context())
			if err != nil || len(l.Unfinished) != 1 {
				t.Fatalf("%+v, %v", l, err)
			}
			name = l.Unfinished[0].Name
			if _, err := c.CleanUp(t.Context(), 0, time.Now().Add(2*MinUnfinishedAge)); err != nil {
				t.Error(err)
			}
			other, err := c.take(t.Context(), name, theirs.File)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.run(t.Context(), req, bytes.NewReader(snapshotOf(4096, 2)), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		source := io.Reader(bytes.NewReader(snapshotOf(1<<20, 1)))
		if meanwhile {
			source = &pausing{r: source, then: take}
		} else {
			store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
				if call.Op == memory.Put && strings.Contains(call.Key, "/etcd.backup") {
					store.Inject(nil)
					take()
				}
				return memory.Fault{}
			})
		}
		if b, err := c.Write(t.Context(), req, source); err == nil {
			t.Errorf("wrote %s", b.Name)
		}
		if v, err := c.Verify(t.Context(), name, ids); err != nil || !v.OK {
			t.Errorf("the other's backup: %+v, %v", v, err)
		}
		if got := keys(t, store); !slices.Equal(got, []string{key(name, backup.FileMeta), key(name, backup.FileManifest), key(name, theirs.File)}) {
			t.Errorf("%q", got)
		}
	}
}

// pausing calls a function before its first byte.
type pausing struct {
	r    io.Reader
	then func()
	once sync.Once
}

func (p *pausing) Read(buf []byte) (int, error) {
	p.once.Do(p.then)
	return p.r.Read(buf)
}

// Many record at once, and nothing is lost.
func TestRecordsAreNotLost(t *testing.T) {
	c := New(fileStore(t))
	req, _ := request(t, encodings[0])
	b := write(t, c, req, snapshotOf(4096, 1))
	const n = 8
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := c.Record(t.Context(), b.Name, backup.Verification{Revision: int64(i + 1), OK: true}); err != nil {
				t.Error(err)
			}
		})
	}
	if err := c.Pin(t.Context(), b.Name, "audit"); err != nil {
		t.Error(err)
	}
	all.Wait()
	got, err := c.Get(t.Context(), b.Name)
	if err != nil || len(got.Manifest.Verifications) != n || got.Manifest.Pinned != "audit" || got.Manifest.Stored != b.Manifest.Stored {
		t.Errorf("%+v, %v", got.Manifest, err)
	}
	if err := c.Record(t.Context(), "2026-01-01T00:00:00Z-000009", backup.Verification{}); !errors.Is(err, ErrNoBackup) {
		t.Errorf("of none: %v", err)
	}
	put(t, c.store, key(b.Name, backup.FileManifest), []byte(`{"format":9}`))
	if err := c.Record(t.Context(), b.Name, backup.Verification{}); !errors.Is(err, backup.ErrNewer) {
		t.Errorf("of a later release: %v", err)
	}
	if strings.Contains(fmt.Sprint(keys(t, c.store)), fileClaim) {
		t.Error("a claim is left")
	}
}

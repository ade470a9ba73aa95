package backupstore

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob/memory"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// quarters puts so many backups into a store, one each quarter of an hour up to
// noon, without content, and gives their names, newest first.
func quarters(t *testing.T, s *memory.Store, n int, manifest backup.Manifest) []backup.Name {
	t.Helper()
	var names []backup.Name
	for i := range n {
		name, err := backup.NewName(noon.Add(-time.Duration(i)*15*time.Minute), i)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, key(name, "etcd.backup.gz"), []byte("x"))
		put(t, s, key(name, backup.FileManifest), manifest.Encode())
		put(t, s, key(name, backup.FileMeta), []byte(`{"etcdVersion":"3.7.3"}`))
		names = append(names, name)
	}
	return names
}

func TestPrune(t *testing.T) {
	store := memory.New()
	c := New(store)
	names := quarters(t, store, 40, backup.Manifest{})
	put(t, store, key("2025-01-01T00:00:00Z-000001", "etcd.backup.gz"), []byte("half"))
	put(t, store, "control/etcd-cluster-created", []byte("x"))
	if err := errors.Join(c.Pin(t.Context(), names[9], "audit"), c.Record(t.Context(), names[13], backup.Verification{OK: true})); err != nil {
		t.Fatal(err)
	}
	put(t, store, key(names[14], "notes.txt"), []byte("somebody's"))
	used := map[backup.Name]string{names[10]: "the intent of generation 2"}
	var mu sync.Mutex
	gets := 0
	var deleted []string
	store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch call.Op {
		case memory.Get:
			gets++
		case memory.Delete:
			deleted = append(deleted, call.Key)
		}
		return memory.Fault{}
	})
	planned, err := c.Expire(t.Context(), backup.DefaultPolicy(), used, noon)
	if err != nil || len(planned) != 40 || len(deleted) != 0 {
		t.Fatalf("%d, %v, deleted %q", len(planned), err, deleted)
	}
	verdicts, err := c.Prune(t.Context(), backup.DefaultPolicy(), used, noon)
	if err != nil {
		t.Fatal(err)
	}
	store.Inject(nil)
	var want []backup.Name
	for i, v := range verdicts {
		if !slices.Equal(v.Rules, planned[i].Rules) {
			t.Errorf("%s: planned %v, then %v", v.Name, planned[i].Rules, v.Rules)
		}
		if v.Keep {
			want = append(want, v.Name)
		}
	}
	for _, n := range []int{0, 1, 3, 4, 9, 10, 13} {
		if !slices.Contains(want, names[n]) {
			t.Errorf("%s is not kept", names[n])
		}
	}
	if got := list(t, c); !slices.Equal(got, want) || len(got) > 20 {
		t.Errorf("listed are %q", got)
	}
	// Of each folder the meta went first.
	seen := map[string]bool{}
	for _, k := range deleted {
		dir, f := path.Split(k)
		if !seen[dir] && f != backup.FileMeta {
			t.Errorf("the first to go of %s was %s", dir, f)
		}
		seen[dir] = true
	}
	left := keys(t, store)
	for _, k := range []string{key(names[14], "notes.txt"), "2025-01-01T00:00:00Z-000001/etcd.backup.gz", "control/etcd-cluster-created"} {
		if !slices.Contains(left, k) {
			t.Errorf("%s is gone", k)
		}
	}
	if again, err := c.Prune(t.Context(), backup.DefaultPolicy(), used, noon); err != nil || len(again) != len(want) {
		t.Errorf("pruning again: %d of %d, %v", len(again), len(want), err)
	}
}

// A backup that was taken to be kept for a time goes by the policy only after it. Until then its manifest is read once.
func TestPruneKeepsForATime(t *testing.T) {
	store := memory.New()
	c := New(store)
	names := quarters(t, store, 3, backup.Manifest{})
	m := backup.Manifest{KeepUntil: noon.Add(time.Hour)}
	put(t, store, key(names[2], backup.FileManifest), m.Encode())
	gets := 0
	store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
		if call.Op == memory.Get && strings.HasPrefix(call.Key, string(names[2])) {
			gets++
		}
		return memory.Fault{}
	})
	for _, test := range []struct {
		now  time.Time
		keep bool
		rule backup.Rule
		gets int // so far, of its meta and its manifest
	}{{noon, true, backup.KeptUntil, 2}, {noon.Add(time.Minute), true, backup.KeptUntil, 2}, {noon.Add(time.Hour), false, backup.RemovedOld, 4}} {
		verdicts, err := c.Prune(t.Context(), backup.Policy{}, nil, test.now)
		if err != nil {
			t.Fatal(err)
		}
		v := verdicts[len(verdicts)-1]
		if v.Name != names[2] || v.Keep != test.keep || !slices.Equal(v.Rules, []backup.Rule{test.rule}) || gets != test.gets {
			t.Errorf("at %s: %+v, read %d times", test.now, verdicts, gets)
		}
	}
}

// Where nothing can go, nothing is read but the listing.
func TestPruneReadsWhatCouldGo(t *testing.T) {
	store := memory.New()
	c := New(store)
	quarters(t, store, 4, backup.Manifest{})
	calls := map[memory.Op]int{}
	store.Inject(func(_ context.Context, call memory.Call) memory.Fault { calls[call.Op]++; return memory.Fault{} })
	if _, err := c.Prune(t.Context(), backup.DefaultPolicy(), nil, noon); err != nil || calls[memory.List] != 1 || len(calls) != 1 {
		t.Errorf("%v, %v", calls, err)
	}
}

// A clock that is ahead of the store's makes no backup older than it is.
func TestPruneByAClockThatIsAhead(t *testing.T) {
	store := memory.New()
	c := New(store)
	names := quarters(t, store, 40, backup.Manifest{})
	if got, want := prunedTo(t, c, backup.Policy{}, time.Now().Add(100*24*time.Hour)), names[:1]; !slices.Equal(got, want) {
		t.Fatalf("what nothing keeps: %v, want %v", got, want)
	}
	store, now := memory.New(), time.Now()
	c = New(store)
	var young []backup.Name
	for i := range 4 {
		name, err := backup.NewName(now.Add(-time.Duration(i)*10*time.Minute), i)
		if err != nil {
			t.Fatal(err)
		}
		put(t, store, key(name, "etcd.backup.gz"), []byte("x"))
		put(t, store, key(name, backup.FileMeta), []byte(`{"etcdVersion":"3.7.3"}`))
		young = append(young, name)
	}
	for _, ahead := range []time.Duration{0, time.Hour, 30 * 24 * time.Hour} {
		if got := prunedTo(t, c, backup.Policy{All: time.Hour}, now.Add(ahead)); !slices.Equal(got, young) {
			t.Errorf("%s ahead: %v are left of %v", ahead, got, young)
		}
	}
}

// prunedTo is what a policy leaves.
func prunedTo(t *testing.T, c *Catalogue, p backup.Policy, now time.Time) []backup.Name {
	t.Helper()
	if _, err := c.Prune(t.Context(), p, nil, now); err != nil {
		t.Fatal(err)
	}
	return list(t, c)
}

// The newest backup that was proven stays, however old, until a newer one is.
func TestPruneKeepsTheNewestProven(t *testing.T) {
	store := memory.New()
	c := New(store)
	names := quarters(t, store, 40, backup.Manifest{})
	nothing := backup.Policy{}
	prove := func(n int, ok bool) {
		t.Helper()
		if err := c.Record(t.Context(), names[n], backup.Verification{OK: ok}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{20, 30} {
		prove(n, true)
	}
	prove(10, true)
	prove(10, false) // it was good, and is no more
	prune := func(want ...int) {
		t.Helper()
		if _, err := c.Prune(t.Context(), nothing, nil, noon); err != nil {
			t.Fatal(err)
		}
		var expected []backup.Name
		for _, n := range want {
			expected = append(expected, names[n])
		}
		if got := list(t, c); !slices.Equal(got, expected) {
			t.Errorf("listed are %q, want %q", got, expected)
		}
	}
	prune(0, 20)
	prove(0, true)
	prune(0)
	prune(0)
}

// What cannot be read is not removed: it may be pinned.
func TestPruneKeepsWhatItCannotRead(t *testing.T) {
	store := memory.New()
	c := New(store)
	names := quarters(t, store, 3, backup.Manifest{})
	put(t, store, key(names[1], backup.FileManifest), []byte(`{"format":9}`))
	put(t, store, key(names[2], backup.FileManifest), []byte(`{`))
	if _, err := c.Prune(t.Context(), backup.Policy{}, nil, noon); err != nil {
		t.Fatal(err)
	}
	if got := list(t, c); len(got) != 3 {
		t.Errorf("listed are %q", got)
	}
	gone := errors.New("connection reset")
	store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
		if call.Op == memory.Get {
			return memory.Fault{Err: gone}
		}
		return memory.Fault{}
	})
	if _, err := c.Prune(t.Context(), backup.Policy{}, nil, noon); !errors.Is(err, gone) {
		t.Errorf("with a store that does not answer: %v", err)
	}
	store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
		if call.Op == memory.List {
			return memory.Fault{Err: gone}
		}
		return memory.Fault{}
	})
	if verdicts, err := c.Prune(t.Context(), backup.Policy{}, nil, noon); !errors.Is(err, gone) || verdicts != nil {
		t.Errorf("with a store that lists nothing: %v, %v", verdicts, err)
	}
	store.Inject(nil)
	if got := list(t, c); len(got) != 3 {
		t.Errorf("listed are %q", got)
	}
}

// A store that refuses to delete is reported by one error, and each backup of
// it is whole or not listed.
func TestLockedObjects(t *testing.T) {
	locked := errors.New("object is locked")
	for what, holds := range map[string]func(key string) bool{
		"all":       func(string) bool { return true },
		"metas":     func(k string) bool { return strings.HasSuffix(k, backup.FileMeta) },
		"snapshots": func(k string) bool { return strings.HasSuffix(k, ".gz") },
		"some":      func(k string) bool { return strings.Contains(k, "T11:") },
	} {
		t.Run(what, func(t *testing.T) {
			store := memory.New()
			c := New(store)
			names := quarters(t, store, 20, backup.Manifest{})
			store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
				if call.Op == memory.Delete && holds(call.Key) {
					return memory.Fault{Err: locked}
				}
				return memory.Fault{}
			})
			_, err := c.Prune(t.Context(), backup.Policy{}, nil, noon)
			var refused *RemoveError
			if !errors.As(err, &refused) || !errors.Is(err, locked) {
				t.Fatalf("got %v", err)
			}
			if want := map[string]int{"all": 19, "metas": 19, "snapshots": 19, "some": 4}[what]; len(refused.Refused) != want || strings.Count(err.Error(), "locked") != 1 {
				t.Errorf("%d refused, %v", len(refused.Refused), err)
			}
			l, err := c.Scan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range l.Backups {
				if e.File == "" || !e.HasManifest {
					t.Errorf("half of %s is listed", e.Name)
				}
			}
			if want := map[string]int{"all": 20, "metas": 20, "snapshots": 1, "some": 5}[what]; len(l.Backups) != want || len(names) != 20 {
				t.Errorf("%d are listed", len(l.Backups))
			}
		})
	}
}

// Whenever a removal is interrupted, what is listed is whole.
func TestInterruptedRemoval(t *testing.T) {
	gone := errors.New("connection reset")
	for n := range 8 {
		store := memory.New()
		c := New(store)
		quarters(t, store, 3, backup.Manifest{})
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		var mu sync.Mutex
		store.Inject(func(context.Context, memory.Call) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls > n {
				cancel()
				return memory.Fault{Err: gone}
			}
			return memory.Fault{}
		})
		err := c.Remove(ctx, list3(t)...)
		cancel()
		store.Inject(nil)
		l, scanErr := c.Scan(t.Context())
		if scanErr != nil {
			t.Fatal(scanErr)
		}
		if err == nil && len(l.Backups) > 0 {
			t.Errorf("%d calls: no error, and %v", n, l.Backups)
		}
		for _, e := range l.Backups {
			if e.File == "" || !e.HasManifest {
				t.Errorf("%d calls: half of %s is listed", n, e.Name)
			}
		}
	}
	if err := New(memory.New()).Remove(t.Context(), "../etc"); !errors.Is(err, backup.ErrName) {
		t.Errorf("a path: %v", err)
	}
	if err := New(memory.New()).Remove(t.Context(), list3(t)...); err != nil {
		t.Errorf("what is not there: %v", err)
	}
}

func list3(t *testing.T) []backup.Name {
	t.Helper()
	return quarters(t, memory.New(), 3, backup.Manifest{})
}

// CleanUp takes what is half and old, by name and by the store's clock; not
// what is listed, young, or somebody else's.
func TestCleanUp(t *testing.T) {
	store := memory.New()
	c := New(store)
	quarters(t, store, 2, backup.Manifest{})
	const old, young backup.Name = "2026-01-01T00:00:00Z-000001", "2099-01-01T00:00:00Z-000001"
	put(t, store, key(old, "etcd.backup.gz"), []byte("half"))
	put(t, store, key(old, fileClaim), []byte("x"))
	put(t, store, key(old, "notes.txt"), []byte("somebody's"))
	put(t, store, key(young, "etcd.backup.gz"), []byte("half"))
	put(t, store, "2026-01-02T00:00:00Z-000001/notes.txt", []byte("somebody's"))
	put(t, store, "control/2026-01-01T00:00:00Z-000000/_command.json", []byte("x"))
	before := keys(t, store)
	for _, age := range []time.Duration{0, time.Hour, 24 * time.Hour} {
		if gone, err := c.CleanUp(t.Context(), age, time.Now()); err != nil || len(gone) != 0 {
			t.Errorf("at once, age %v: %q, %v", age, gone, err)
		}
	}
	if after := keys(t, store); !slices.Equal(before, after) {
		t.Errorf("left are %q", after)
	}
	later := time.Now().Add(25 * time.Hour)
	gone, err := c.CleanUp(t.Context(), 24*time.Hour, later)
	if err != nil || !slices.Equal(gone, []backup.Name{old}) {
		t.Errorf("later: %q, %v", gone, err)
	}
	want := slices.DeleteFunc(slices.Clone(before), func(k string) bool { return k == key(old, "etcd.backup.gz") || k == key(old, fileClaim) })
	if after := keys(t, store); !slices.Equal(want, after) {
		t.Errorf("left are %q, want %q", after, want)
	}
	put(t, store, key(old, "etcd.backup.gz"), []byte("half"))
	store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
		if call.Op == memory.Delete {
			return memory.Fault{Err: errors.New("locked")}
		}
		return memory.Fault{}
	})
	var refused *RemoveError
	if gone, err := c.CleanUp(t.Context(), 0, later); !errors.As(err, &refused) || len(gone) != 0 {
		t.Errorf("locked: %q, %v", gone, err)
	}
}

// What a writer left goes from its claim on, and nothing goes where that stays: a writer
// that comes back would take its folder for whole.
func TestTheClaimGoesFirst(t *testing.T) {
	const half backup.Name = "2026-01-01T00:00:00Z-000001"
	for _, locked := range []bool{false, true} {
		store := memory.New()
		for _, file := range []string{"etcd.backup.gz", backup.FileManifest, fileClaim} {
			put(t, store, key(half, file), []byte("x"))
		}
		var asked []string
		store.Inject(func(_ context.Context, call memory.Call) memory.Fault {
			if call.Op == memory.Delete {
				asked = append(asked, call.Key)
				if locked {
					return memory.Fault{Err: errors.New("locked")}
				}
			}
			return memory.Fault{}
		})
		_, err := New(store).CleanUp(t.Context(), 0, time.Now().Add(2*MinUnfinishedAge))
		if locked != (err != nil) || asked[0] != key(half, fileClaim) || len(asked) != map[bool]int{false: 3, true: 1}[locked] {
			t.Errorf("locked %v: %q, %v", locked, asked, err)
		}
	}
}

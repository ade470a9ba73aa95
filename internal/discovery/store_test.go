package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/memory"
)

func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := memory.New()
		var puts atomic.Int32
		objects.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if c.Op == memory.Put {
				puts.Add(1)
			}
			return memory.Fault{}
		})
		mine, theirs := NewStore(objects, 8000), NewStore(objects, 8000)
		if err := wantSeeds(t, mine); err != nil {
			t.Error(err)
		}
		a, b := Seed{"a", "10.0.0.1:3996"}, Seed{"proj/b", "host-b:3996"}
		announce := func(s *Store, self Seed) {
			t.Helper()
			if err := s.Announce(t.Context(), self); err != nil {
				t.Fatal(err)
			}
		}
		announce(mine, a)
		announce(theirs, b)
		for _, s := range []*Store{mine, theirs, mine} {
			if err := wantSeeds(t, s, a, b); err != nil {
				t.Error(err)
			}
		}
		infos, err := objects.List(t.Context(), "")
		if err != nil || len(infos) != 2 || infos[0].Key != "discovery/a" || infos[1].Key != "discovery/proj%2Fb" {
			t.Errorf("the store holds %v, %v", infos, err)
		}

		// Announcing again writes only when it has to.
		puts.Store(0)
		for range 10 {
			announce(mine, a)
		}
		if n := puts.Load(); n != 0 {
			t.Errorf("%d writes for nothing", n)
		}
		moved := Seed{"a", "10.0.0.9:3996"}
		announce(mine, moved)
		if err := objects.Delete(t.Context(), "discovery/proj%2Fb"); err != nil {
			t.Fatal(err)
		}
		wantSeeds(t, mine, moved)
		announce(theirs, b) // it was deleted by somebody
		wantSeeds(t, mine, moved, b)

		// Who does not renew is forgotten after a day, but not removed; who does stays.
		for range 9 {
			time.Sleep(3 * time.Hour)
			announce(mine, moved)
		}
		if err := wantSeeds(t, theirs, moved); err != nil {
			t.Error(err)
		}
		if _, _, err := blob.ReadAll(t.Context(), objects, "discovery/proj%2Fb", 1000); err != nil {
			t.Errorf("the stale entry: %v", err)
		}
		announce(theirs, b)
		wantSeeds(t, mine, moved, b)

		// Foreign objects are named, and do no harm; entries without a time have that of their object.
		for key, data := range map[string]string{
			"discovery/half": `{"id":`, "discovery/c": `{"id":"c","endpoints":[{"ip":"10.0.0.3"}]}`, "discovery/sub/d": "", "control/x/_command.json": "",
			"discovery/.etcdadm-probe-x": "", "discovery/big": strings.Repeat(" ", maxEntry+1),
		} {
			if _, err := blob.PutBytes(t.Context(), objects, key, []byte(data), blob.Any); err != nil {
				t.Fatal(err)
			}
		}
		c := Seed{"c", "10.0.0.3:8000"}
		err = wantSeeds(t, mine, moved, c, b)
		if err == nil || !strings.Contains(err.Error(), `"half"`) || !strings.Contains(err.Error(), `"big"`) || len(strings.Split(err.Error(), "\n")) != 2 {
			t.Errorf("foreign objects: %v", err)
		}
		// What an entry says of its time counts, and not when somebody wrote it there.
		old, err := formatEntry(Seed{"old", "10.0.0.4:1"}, time.Now().Add(-MaxAge-time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := blob.PutBytes(t.Context(), objects, "discovery/old", old, blob.Any); err != nil {
			t.Fatal(err)
		}
		wantSeeds(t, mine, moved, c, b)
		time.Sleep(MaxAge + time.Minute)
		if err := wantSeeds(t, mine); err == nil || strings.Contains(err.Error(), `"half"`) {
			t.Errorf("a day later: %v", err)
		}
	})
}

// While the store fails, what was read before is still given as far as it is known to be there.
func TestStoreFails(t *testing.T) {
	objects := memory.New()
	source := NewStore(objects, 0)
	a, b := Seed{"a", "10.0.0.1:1"}, Seed{"b", "10.0.0.2:1"}
	for _, seed := range []Seed{a, b} {
		if err := source.Announce(t.Context(), seed); err != nil {
			t.Fatal(err)
		}
	}
	wantSeeds(t, source, a, b)
	down := errors.New("down")
	objects.Inject(func(_ context.Context, c memory.Call) (f memory.Fault) {
		if c.Key == "discovery/b" {
			f.Err = down
		}
		return f
	})
	if err := wantSeeds(t, source, a, b); !errors.Is(err, down) {
		t.Error(err)
	}
	if err := wantSeeds(t, NewStore(objects, 0), a); !errors.Is(err, down) {
		t.Error(err)
	}
	objects.Inject(func(context.Context, memory.Call) memory.Fault { return memory.Fault{Err: down} })
	if err := wantSeeds(t, source); !errors.Is(err, down) {
		t.Error(err)
	}
	if err := source.Announce(t.Context(), a); !errors.Is(err, down) {
		t.Error(err)
	}
}

// A slow store is asked for many announcements in the time of a source, and one that it is silent about hides no other.
func TestASlowStoreIsAskedBesideItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := memory.New()
		var all []Seed
		for i := range 30 {
			seed := Seed{fmt.Sprintf("h%02d", i), fmt.Sprintf("10.0.0.%d:1", i+1)}
			all = append(all, seed)
			if err := NewStore(objects, 0).Announce(t.Context(), seed); err != nil {
				t.Fatal(err)
			}
		}
		var asked, most atomic.Int64
		objects.Inject(func(ctx context.Context, c memory.Call) memory.Fault {
			if c.Op != memory.Get {
				return memory.Fault{}
			}
			now := asked.Add(1)
			defer asked.Add(-1)
			for {
				if was := most.Load(); now <= was || most.CompareAndSwap(was, now) {
					break
				}
			}
			pause := 1500 * time.Millisecond
			if c.Key == "discovery/h03" {
				pause = time.Hour
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			return memory.Fault{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), SourceTimeout)
		defer cancel()
		began := time.Now()
		source := NewStore(objects, 0)
		seeds, err := source.Seeds(ctx)
		if want := slices.Delete(slices.Clone(all), 3, 4); !slices.Equal(seeds, want) {
			t.Errorf("%v, want %v", seeds, want)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"h03"`) || strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
		if took := time.Since(began); took >= SourceTimeout || most.Load() != readTogether {
			t.Errorf("it took %s, with %d at a time", took, most.Load())
		}
	})
}

// In a directory store, the folder of announcements is also a Directory: hosts that use one and the other see each other.
func TestStoreIsDirectory(t *testing.T) {
	path := t.TempDir()
	objects, err := file.Open(t.Context(), path, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, dir := NewStore(objects, 0), Directory{Path: path + "/" + StoreFolder}
	a, b := Seed{"a", "10.0.0.1:1"}, Seed{"b", "10.0.0.2:1"}
	if err := store.Announce(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := dir.Announce(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, source := range []Seeds{store, dir} {
		if err := wantSeeds(t, source, a, b); err != nil {
			t.Error(fmt.Errorf("%T: %w", source, err))
		}
	}
}

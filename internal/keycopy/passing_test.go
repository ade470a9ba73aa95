package keycopy_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/testetcd"
)

// shortLived puts keys with TTLs of one to twenty seconds, renewed while it goes on, and
// all that a list of losses is made of beside them.
func (s *server) shortLived(n int) {
	s.t.Helper()
	s.set("/void", "", "dir", "true")
	s.set("/lease", "", "dir", "true", "ttl", "7200")
	s.set("/lease/k", "v")
	s.set("/binary", "\xff")
	s.set("/lock", "", "dir", "true", "ttl", "3")
	s.set("/lock/sub/mine", "v", "ttl", "100")
	s.set("/soon/binary", "\xff", "ttl", "2")
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := w; i < n; i += 16 {
				s.set(fmt.Sprintf("/soon/%d/%05d", i%7, i), strings.Repeat("v", i%50), "ttl", fmt.Sprint(1+i%20))
			}
		})
	}
	all.Wait()
	s.set("/lasting/k", "v")
	s.set("/lasting/soon", "v", "ttl", "4")
}

// expiring is how many keys with a TTL there are.
func (s *server) expiring() int64 {
	s.t.Helper()
	r := survey(s.t, s, testetcd.V32)
	return r.Expiring
}

// enough adds keys with a TTL of twenty seconds until so many that expire are there, since
// on a busy machine those of before are gone when the last one is written.
func (s *server) enough(n int64) {
	s.t.Helper()
	s.until(fmt.Sprintf("%d keys with a TTL", n), func() bool {
		if s.expiring() >= n {
			return true
		}
		var all sync.WaitGroup
		for w := range 16 {
			all.Go(func() {
				for i := w; int64(i) < n; i += 16 {
					s.set(fmt.Sprintf("/soon/%d/more-%05d", i%7, i), "v", "ttl", "20")
				}
			})
		}
		all.Wait()
		return false
	})
}

func (s *server) until(what string, f func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !f(); {
		if time.Now().After(end) {
			s.t.Fatal("no ", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// The list that a person accepts is the same before any of thousands of keys has run
// out, while they do, and after all of them have.
func TestListWhileKeysRunOut(t *testing.T) {
	t.Parallel()
	from := start(t, testetcd.V23)
	from.shortLived(3000)
	first := survey(t, from, testetcd.V32)
	want := map[keycopy.Kind]int64{keycopy.EmptyDirectory: 9, keycopy.DirectoryTTL: 1, keycopy.MaybeBinary: 1}
	if diff := cmp.Diff(want, kinds(first)); diff != "" || first.Expiring == 0 {
		t.Errorf("%+v\n%s", first, diff)
	}
	surveys, last := 0, first
	from.until("end of keys with a TTL", func() bool {
		last = survey(t, from, testetcd.V32)
		surveys++
		if last.Digest() != first.Digest() {
			t.Fatalf("another list: %+v", last)
		}
		return last.Expiring == 1
	})
	t.Logf("%d surveys, %d keys expire in the first, and %d in the last", surveys, first.Expiring, last.Expiring)
	from.set("/another", "", "dir", "true")
	if last = survey(t, from, testetcd.V32); last.Digest() == first.Digest() {
		t.Error("a directory was made, and the list is the same")
	}
}

// Keys that run out while they are copied are carried over, with some time left; only a
// write ends the copy. It stands still, once it has begun to write, until all have run out.
func TestCopyWhileKeysRunOut(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V32, testetcd.V23} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			from, to := start(t, testetcd.V23), start(t, version)
			from.shortLived(3000)
			from.enough(400)
			var once sync.Once
			done, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{LeaveOut: true, Renew: true, Progress: func(int64, int64) {
				once.Do(func() { from.until("end of keys with a TTL", func() bool { return from.expiring() == 1 }) })
			}})
			if err != nil {
				t.Fatal(err)
			}
			if done.RanOut < 100 || done.Keys < 100 {
				t.Errorf("%d keys, %d ran out", done.Keys, done.RanOut)
			}
			t.Logf("%d keys, %d ran out in %s", done.Keys, done.RanOut, done.Took)
			if version == testetcd.V23 {
				for key, want := range map[string]string{"/lasting/k": "v", "/lease/k": "v"} {
					if value, _, _ := to.get(key); value != want {
						t.Errorf("%s is %q", key, value)
					}
				}
				return
			}
			ended := time.Now()
			there := to.read()
			for key, kv := range there {
				// The rest of a test's reading is not the copy's.
				if _, left := to.ttl(kv.Lease); kv.Lease != 0 && left+int64(time.Since(ended).Seconds()) < 5 {
					t.Errorf("%s has %d s left, %s after the copy", key, left, time.Since(ended))
				}
			}
			if there["/lasting/k"] != (held{Value: "v"}) || int64(len(there)) != done.Keys {
				t.Errorf("%d keys", len(there))
			}
		})
	}
}

// A write is told from keys that run out, however many do.
func TestWriteWhileKeysRunOut(t *testing.T) {
	t.Parallel()
	from, into := start(t, testetcd.V23), start(t, testetcd.V32)
	from.shortLived(500)
	var once sync.Once
	o := keycopy.Options{LeaveOut: true, Renew: true, Progress: func(int64, int64) {
		once.Do(func() {
			time.Sleep(3 * time.Second)
			from.set("/lasting/k", "w")
		})
	}}
	if _, err := keycopy.Copy(t.Context(), from.endpoint(), into.endpoint(), o); !errors.Is(err, keycopy.ErrSourceChanged) {
		t.Error(err)
	}
}

package keycopy_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/testetcd"
)

// empty takes everything out of an etcd of version 3.
func (s *server) empty() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	client := s.client()
	if _, err := client.Delete(ctx, "\x00", clientv3.WithFromKey()); err != nil {
		s.t.Fatal(err)
	}
	leases, err := client.Leases(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range leases.Leases {
		if _, err := client.Revoke(ctx, l.ID); err != nil {
			s.t.Fatal(err)
		}
	}
}

// emptyV2 takes everything out of an etcd of version 2 whose first parts of paths
// are these.
func (s *server) emptyV2(first []string) {
	s.t.Helper()
	for _, part := range first {
		s.v2do(http.MethodDelete, "/"+part, url.Values{"recursive": {"true"}, "dir": {"true"}})
	}
}

var parts = []string{"a", "a-", "b", "_h", "é%2F", "..."}

func examples(r keycopy.Report) map[keycopy.Kind][]string {
	names := map[keycopy.Kind][]string{}
	for _, l := range r.Losses {
		if !l.Always {
			names[l.Kind] = slices.Sorted(slices.Values(l.Examples))
		}
	}
	return names
}

// Of random keys of version 3, what a survey lists is what is lost, and the rest
// is there.
func TestRandomKeysToVersion2(t *testing.T) {
	t.Parallel()
	from, to := start(t, testetcd.V34), start(t, testetcd.V23)
	first := append([]string{"A", "\x01"}, parts...)
	rapid.Check(t, func(rt *rapid.T) {
		from.empty()
		to.emptyV2(first)
		keys := map[string]string{}
		part := rapid.SampledFrom(append([]string{"", ".", "..", "\xff", "A", "\x01"}, append(parts, parts...)...))
		for _, ps := range rapid.SliceOfN(rapid.SliceOfN(part, 1, 4), 0, 10).Draw(rt, "keys") {
			key := rapid.SampledFrom([]string{"/", "/", "/", ""}).Draw(rt, "start") + strings.Join(ps, "/")
			if key != "" {
				keys[key] = rapid.SampledFrom([]string{"", "text", "ü\x00&", "\xfe"}).Draw(rt, "value")
			}
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			lease := clientv3.LeaseID(0)
			if rapid.IntRange(0, 3).Draw(rt, "leased") == 0 {
				lease = from.grant(1000)
			}
			from.put(key, keys[key], lease)
		}
		lost, hidden := map[string]bool{}, 0
		for key, value := range keys {
			ok := strings.HasPrefix(key, "/") && utf8.ValidString(key+value)
			for p := range strings.SplitSeq(strings.TrimPrefix(key, "/"), "/") {
				ok = ok && p != "" && p != "." && p != ".."
			}
			lost[key] = !ok
		}
		leaf := map[string]bool{}
		for key := range keys {
			for other := range keys {
				leaf[key] = leaf[key] || !lost[key] && !lost[other] && strings.HasPrefix(other, key+"/")
			}
		}
		all := 0
		for key := range keys {
			lost[key] = lost[key] || leaf[key]
			if lost[key] {
				all++
			} else if strings.Contains(key, "/_") {
				hidden++
			}
		}
		r := survey(t, from, testetcd.V23)
		k := kinds(r)
		if int(k[keycopy.NotAPath]+k[keycopy.NotText]+k[keycopy.LeafAndDirectory]) != all || int(k[keycopy.Hidden]) != hidden || int(r.Carried) != len(keys)-all {
			rt.Fatalf("%q: survey: %+v", keys, r)
		}
		done, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{LeaveOut: true})
		if err != nil {
			rt.Fatal(err)
		}
		if int(done.LeftOut) != all {
			rt.Fatalf("%+v", done)
		}
		for key, value := range keys {
			if lost[key] {
				continue
			}
			if got, _, there := to.get(key); !there || got != value {
				rt.Fatalf("%q is %q, %v instead of %q", key, got, there, value)
			}
		}
	})
}

// Of random trees of version 2, too.
func TestRandomTreesFromVersion2(t *testing.T) {
	t.Parallel()
	from, to := start(t, testetcd.V23), start(t, testetcd.V37)
	rapid.Check(t, func(rt *rapid.T) {
		to.empty()
		from.emptyV2(parts)
		tree := randomTree(rt, from)
		keys, lost := tree.expect()
		r := survey(t, from, testetcd.V37)
		counted, shown := kinds(r), examples(r)
		for kind, names := range lost {
			if int(counted[kind]) != len(names) {
				rt.Fatalf("%s: %d instead of %q", kind, counted[kind], names)
			}
			if len(names) > 10 { // then not all are shown
				shown[kind] = names
			}
		}
		if diff := cmp.Diff(lost, shown); diff != "" {
			rt.Fatal(diff)
		}
		if _, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{LeaveOut: true}); err != nil {
			rt.Fatal(err)
		}
		got := map[string]string{}
		for key, h := range to.read() {
			got[key] = h.Value
			left := int64(0)
			if h.Lease != 0 {
				_, left = to.ttl(h.Lease)
			}
			if want := tree.ttl(key); left > want || left < want-60 {
				rt.Fatalf("%s: a TTL of %d s instead of %d s", key, left, want)
			}
		}
		if diff := cmp.Diff(keys, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// v2tree is what was made in an etcd of version 2.
type v2tree map[string]v2entry

type v2entry struct {
	value string
	dir   bool
	ttl   int64
}

func randomTree(rt *rapid.T, s *server) v2tree {
	tree := v2tree{}
	for range rapid.IntRange(0, 10).Draw(rt, "size") {
		ps := rapid.SliceOfN(rapid.SampledFrom(parts), 1, 4).Draw(rt, "path")
		e := v2entry{
			dir:   rapid.IntRange(0, 2).Draw(rt, "dir") == 0,
			ttl:   rapid.SampledFrom([]int64{0, 0, 1000, 3000, 9000}).Draw(rt, "ttl"),
			value: rapid.SampledFrom([]string{"", "text", "ü\x00&<"}).Draw(rt, "value"),
		}
		if tree.add(ps, e) {
			pairs := []string{}
			if e.ttl != 0 {
				pairs = append(pairs, "ttl", fmt.Sprint(e.ttl))
			}
			if e.dir {
				pairs = append(pairs, "dir", "true")
			}
			s.set("/"+strings.Join(ps, "/"), e.value, pairs...)
		}
	}
	return tree
}

// add says whether etcd can have it.
func (t v2tree) add(ps []string, e v2entry) bool {
	path := "/" + strings.Join(ps, "/")
	if _, there := t[path]; there {
		return false
	}
	above := []string{}
	for i := 1; i < len(ps); i++ {
		dir := "/" + strings.Join(ps[:i], "/")
		if at, there := t[dir]; there && !at.dir {
			return false
		}
		above = append(above, dir)
	}
	for _, dir := range above {
		if _, there := t[dir]; !there {
			t[dir] = v2entry{dir: true}
		}
	}
	t[path] = e
	return true
}

// expect is what arrives, and what is listed as lost.
func (t v2tree) expect() (keys map[string]string, lost map[keycopy.Kind][]string) {
	keys, lost = map[string]string{}, map[keycopy.Kind][]string{}
	for _, path := range slices.Sorted(maps.Keys(t)) {
		e := t[path]
		if strings.Contains(path, "/_") {
			continue
		}
		if !e.dir {
			keys[path] = e.value
			continue
		}
		lasting := false
		for other, o := range t {
			lasting = lasting || !o.dir && strings.HasPrefix(other, path+"/") && !strings.Contains(other, "/_") && t.ttl(other) == 0
		}
		switch least := t.ttl(path); {
		case least != 0 && least <= 3600: // it runs out by itself
		case e.ttl != 0:
			lost[keycopy.DirectoryTTL] = append(lost[keycopy.DirectoryTTL], path)
		case !lasting:
			lost[keycopy.EmptyDirectory] = append(lost[keycopy.EmptyDirectory], path)
		}
	}
	return keys, lost
}

// ttl is the least of the key's and its directories'.
func (t v2tree) ttl(key string) int64 {
	least := int64(0)
	for path, e := range t {
		if e.ttl != 0 && (path == key || strings.HasPrefix(key, path+"/")) && (least == 0 || e.ttl < least) {
			least = e.ttl
		}
	}
	return least
}

// Package blobtest is the conformance suite that every driver of blob.Store passes.
package blobtest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"etcdadm.io/internal/blob"
)

// testTimeout bounds every test of the suite, generously: the machine may be busy.
const testTimeout = 2 * time.Minute

// Traits are what blob.Store leaves open and a driver's store has its own way with.
type Traits struct {
	// ContentTags: the ETag is made of the bytes, so that writing them again gives the same one.
	ContentTags bool
	// Refused are valid keys that the store cannot keep apart from others, and refuses with blob.ErrInvalidKey.
	Refused []string
	// MaxObject is the largest object that the store takes, in bytes; 0: it takes all.
	MaxObject int
}

// Run runs the suite. The function gives an empty store; it is called once for each test.
func Run(t *testing.T, empty func(t *testing.T) blob.Store) { RunWith(t, Traits{}, empty) }

// RunWith is Run for a store with traits.
func RunWith(t *testing.T, traits Traits, empty func(t *testing.T) blob.Store) {
	tests := []struct {
		name string
		run  func(*suite)
	}{
		{"a written object is read back", (*suite).readBack},
		{"what is not there is not found", (*suite).notFound},
		{"an empty object exists", (*suite).emptyObject},
		{"sizes around every limit survive", (*suite).sizes},
		{"a write replaces the object whole", (*suite).replace},
		{"an unchanged object is not sent again", (*suite).notModified},
		{"if absent writes once", (*suite).ifAbsent},
		{"if match writes over that version only", (*suite).ifMatch},
		{"a listing is recursive, sorted and cut by a string prefix", (*suite).list},
		{"delete is idempotent and touches one object", (*suite).delete},
		{"bad keys are refused everywhere", (*suite).badKeys},
		{"unusual keys are kept apart", (*suite).unusualKeys},
		{"an ended context ends every call", (*suite).cancelled},
		{"a failing body writes nothing", (*suite).failingBody},
		{"what may not be written any more is not", (*suite).gated},
		{"a reader keeps the version it opened", (*suite).openReader},
		{"an object is modified about now", (*suite).modified},
		{"one of many creators wins", (*suite).raceCreate},
		{"one of many updaters wins", (*suite).raceUpdate},
		{"no update is lost", (*suite).raceCount},
		{"readers never see half a write", (*suite).raceRead},
		{"writers and deleters of one folder do not disturb each other", (*suite).raceFolder},
		{"a probe finds all capabilities and leaves nothing", (*suite).probe},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			defer cancel()
			test.run(&suite{T: t, ctx: ctx, store: empty(t), traits: traits})
		})
	}
}

type suite struct {
	*testing.T
	ctx    context.Context
	store  blob.Store
	traits Traits
}

func (s *suite) put(key, data string, cond blob.Condition) blob.ETag {
	s.Helper()
	tag, err := blob.PutBytes(s.ctx, s.store, key, []byte(data), cond)
	if err != nil {
		s.Fatalf("put %q: %v", key, err)
	}
	if tag == "" {
		s.Fatalf("put %q gave no ETag", key)
	}
	return tag
}

// refused makes a write whose condition does not hold.
func (s *suite) refused(key, data string, cond blob.Condition) {
	s.Helper()
	tag, err := blob.PutBytes(s.ctx, s.store, key, []byte(data), cond)
	if !errors.Is(err, blob.ErrPreconditionFailed) {
		s.Fatalf("put %q under %q gave %q, %v; want ErrPreconditionFailed", key, cond, tag, err)
	}
}

func (s *suite) want(key, data string) blob.ETag {
	s.Helper()
	got, tag, err := blob.ReadAll(s.ctx, s.store, key, 64<<20)
	if err != nil {
		s.Fatalf("read %q: %v", key, err)
	}
	if string(got) != data {
		s.Fatalf("%q holds %.80q (%d bytes), want %.80q (%d bytes)", key, got, len(got), data, len(data))
	}
	return tag
}

func (s *suite) wantAbsent(key string) {
	s.Helper()
	if _, _, err := blob.ReadAll(s.ctx, s.store, key, 1<<20); !errors.Is(err, blob.ErrNotFound) {
		s.Fatalf("read %q gave %v, want ErrNotFound", key, err)
	}
}

func (s *suite) keys(prefix string) []string {
	s.Helper()
	infos, err := s.store.List(s.ctx, prefix)
	if err != nil {
		s.Fatalf("list %q: %v", prefix, err)
	}
	keys := []string{}
	for _, info := range infos {
		keys = append(keys, info.Key)
	}
	return keys
}

func (s *suite) readBack() {
	tag := s.put("control/etcd-cluster-spec", `{"memberCount":3}`, blob.Any)
	object, err := s.store.Get(s.ctx, "control/etcd-cluster-spec", blob.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	defer object.Body.Close()
	data, err := io.ReadAll(object.Body)
	if err != nil || string(data) != `{"memberCount":3}` {
		s.Errorf("read %q, %v", data, err)
	}
	if object.ETag != tag {
		s.Errorf("get says ETag %q, put said %q", object.ETag, tag)
	}
	if object.Size != int64(len(data)) {
		s.Errorf("size %d, want %d", object.Size, len(data))
	}
}

func (s *suite) notFound() {
	s.wantAbsent("nothing")
	s.put("folder/object", "x", blob.Any)
	s.wantAbsent("folder")
	s.wantAbsent("folder/other")
	s.wantAbsent("folder/object/below")
	s.refused("nothing", "x", blob.IfMatch("some-etag"))
	s.refused("folder/object/below", "x", blob.IfMatch("some-etag"))
}

func (s *suite) emptyObject() {
	s.put("empty", "", blob.Any)
	tag := s.want("empty", "")
	s.refused("empty", "x", blob.IfAbsent)
	s.put("empty", "now full", blob.IfMatch(tag))
	s.want("empty", "now full")
}

func (s *suite) sizes() {
	for _, size := range []int{1, 4095, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5<<20 + 3} {
		if limit := s.traits.MaxObject; limit > 0 && size > limit {
			if _, err := blob.PutBytes(s.ctx, s.store, "too large", pattern(limit+1, 1), blob.Any); !errors.Is(err, blob.ErrTooLarge) {
				s.Errorf("%d bytes: %v, want %v", limit+1, err, blob.ErrTooLarge)
			}
			continue
		}
		data := string(pattern(size, 1))
		tag := s.put("object", data, blob.Any)
		if got := s.want("object", data); got != tag {
			s.Errorf("size %d: get says ETag %q, put said %q", size, got, tag)
		}
		s.refused("object", "x", blob.IfMatch(tag+"x"))
		tag = s.put("object", data, blob.IfMatch(tag))
		if _, _, err := blob.ReadAllIfChanged(s.ctx, s.store, "object", tag, 8<<20); !errors.Is(err, blob.ErrNotModified) {
			s.Errorf("size %d: read if changed gave %v", size, err)
		}
		if _, _, err := blob.ReadAll(s.ctx, s.store, "object", int64(size-1)); !errors.Is(err, blob.ErrTooLarge) {
			s.Errorf("size %d: read of at most one byte less gave %v", size, err)
		}
	}
}

func (s *suite) replace() {
	s.put("a/b", "a long first version", blob.Any)
	s.put("a/b", "short", blob.Any)
	s.want("a/b", "short")
	if got := s.keys(""); !slices.Equal(got, []string{"a/b"}) {
		s.Errorf("the store holds %q", got)
	}
}

func (s *suite) notModified() {
	tag := s.put("a", "1", blob.Any)
	data, same, err := blob.ReadAllIfChanged(s.ctx, s.store, "a", tag, 10)
	if !errors.Is(err, blob.ErrNotModified) || same != tag || data != nil {
		s.Errorf("unchanged: %q, %q, %v", data, same, err)
	}
	s.put("a", "2", blob.Any)
	data, changed, err := blob.ReadAllIfChanged(s.ctx, s.store, "a", tag, 10)
	if err != nil || string(data) != "2" || changed == tag {
		s.Errorf("changed: %q, %q, %v", data, changed, err)
	}
	if err := s.store.Delete(s.ctx, "a"); err != nil {
		s.Fatal(err)
	}
	if _, _, err := blob.ReadAllIfChanged(s.ctx, s.store, "a", changed, 10); !errors.Is(err, blob.ErrNotFound) {
		s.Errorf("deleted: %v", err)
	}
}

func (s *suite) ifAbsent() {
	s.put("a", "first", blob.IfAbsent)
	s.refused("a", "second", blob.IfAbsent)
	s.want("a", "first")
	if err := s.store.Delete(s.ctx, "a"); err != nil {
		s.Fatal(err)
	}
	s.put("a", "third", blob.IfAbsent)
	s.want("a", "third")
}

func (s *suite) ifMatch() {
	first := s.put("a", "1", blob.Any)
	second := s.put("a", "2", blob.IfMatch(first))
	s.refused("a", "3", blob.IfMatch(first))
	s.want("a", "2")
	other := s.put("b", "other", blob.Any)
	s.refused("a", "3", blob.IfMatch(other))
	s.refused("a", "3", blob.IfMatch(""))
	s.put("a", "3", blob.Any)
	s.refused("a", "4", blob.IfMatch(second))
	s.want("a", "3")
	if err := s.store.Delete(s.ctx, "a"); err != nil {
		s.Fatal(err)
	}
	s.refused("a", "5", blob.IfMatch(second))
	s.wantAbsent("a")
}

func (s *suite) list() {
	if got := s.keys(""); len(got) != 0 {
		s.Fatalf("an empty store lists %q", got)
	}
	keys := []string{
		"2026-11-20T23:08:18Z-000005/_etcd_backup.meta", "2026-11-20T23:08:18Z-000005/etcd.backup.gz",
		"a", "b-c", "b-c2/d", "b/c", "b/c-d", "b/c2/d/e", "b0", "control/etcd-cluster-spec", "ß",
	}
	for _, key := range slices.Backward(keys) {
		s.put(key, key, blob.Any)
	}
	slices.Sort(keys)
	for _, prefix := range []string{"", "a", "b", "b-", "b/", "b/c", "b/c-", "b/c2/", "b/c2/d/e", "control/", "2026-", "none", "none/below", "a/", "b/c/", "b/c2/d/e/f"} {
		want := []string{}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		if diff := cmp.Diff(want, s.keys(prefix)); diff != "" {
			s.Errorf("list %q (-want +got):\n%s", prefix, diff)
		}
	}
	told := -1
	infos, err := s.store.List(blob.Hearing(s.ctx, func(objects int) { told = objects }), "control/")
	if err != nil || len(infos) != 1 || told != 1 {
		s.Fatalf("%v, told of %d, %v", infos, told, err)
	}
	if infos[0].Size != int64(len("control/etcd-cluster-spec")) || infos[0].Modified.IsZero() {
		s.Errorf("%+v", infos[0])
	}
}

func (s *suite) delete() {
	if err := s.store.Delete(s.ctx, "never/was"); err != nil {
		s.Errorf("delete of what never was: %v", err)
	}
	s.put("a/b/c", "1", blob.Any)
	s.put("a/d", "2", blob.Any)
	for range 2 {
		if err := s.store.Delete(s.ctx, "a/b/c"); err != nil {
			s.Fatal(err)
		}
	}
	s.wantAbsent("a/b/c")
	s.want("a/d", "2")
	if err := s.store.Delete(s.ctx, "a"); err != nil {
		s.Errorf("delete of a folder's name: %v", err)
	}
	s.want("a/d", "2")
	if err := s.store.Delete(s.ctx, "a/d"); err != nil {
		s.Fatal(err)
	}
	// The folder is no more, so its name is free.
	s.put("a", "3", blob.IfAbsent)
	if got := s.keys(""); !slices.Equal(got, []string{"a"}) {
		s.Errorf("the store holds %q", got)
	}
}

// badKeys are keys that every driver refuses.
var badKeys = []string{
	"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/..", "../a", "a/../b", "a\x00b", "a\nb", "\xff",
	strings.Repeat("x", blob.MaxSegment+1), strings.Repeat("x/", blob.MaxKey/2) + "x",
}

func (s *suite) badKeys() {
	for _, key := range badKeys {
		if _, err := s.store.Get(s.ctx, key, blob.GetOptions{}); !errors.Is(err, blob.ErrInvalidKey) {
			s.Errorf("get %.40q: %v", key, err)
		}
		if _, err := blob.PutBytes(s.ctx, s.store, key, nil, blob.Any); !errors.Is(err, blob.ErrInvalidKey) {
			s.Errorf("put %.40q: %v", key, err)
		}
		if err := s.store.Delete(s.ctx, key); !errors.Is(err, blob.ErrInvalidKey) {
			s.Errorf("delete %.40q: %v", key, err)
		}
	}
	for _, prefix := range []string{"/", "/a", "a//", "../", "a/../", "a\x00", "\xff"} {
		if _, err := s.store.List(s.ctx, prefix); !errors.Is(err, blob.ErrInvalidKey) {
			s.Errorf("list %.40q: %v", prefix, err)
		}
	}
	if got := s.keys(""); len(got) != 0 {
		s.Errorf("the store holds %q", got)
	}
}

func (s *suite) unusualKeys() {
	keys := []string{
		"...", ".hidden", "a b", "a%20b", "a+b", "a&b=c", "a?b", "a#b", `a\b`, "a'b\"c", "~", "*", "A", "ä", "2026-11-20T23:08:18Z-000005/x",
		strings.Repeat("y", blob.MaxSegment),
	}
	for _, key := range s.traits.Refused {
		if _, err := blob.PutBytes(s.ctx, s.store, key, nil, blob.Any); !errors.Is(err, blob.ErrInvalidKey) {
			s.Errorf("put %q: %v, want it refused", key, err)
		}
		keys = slices.DeleteFunc(keys, func(k string) bool { return k == key })
	}
	for _, key := range keys {
		s.put(key, "content of "+key, blob.IfAbsent)
	}
	for _, key := range keys {
		s.want(key, "content of "+key)
	}
	slices.Sort(keys)
	if diff := cmp.Diff(keys, s.keys("")); diff != "" {
		s.Errorf("list (-want +got):\n%s", diff)
	}
}

func (s *suite) modified() {
	s.put("a", "1", blob.Any)
	infos, err := s.store.List(s.ctx, "a")
	if err != nil || len(infos) != 1 {
		s.Fatalf("%v, %v", infos, err)
	}
	if age := time.Since(infos[0].Modified).Abs(); age > time.Minute {
		s.Errorf("modified %v, which is %v away from now", infos[0].Modified, age)
	}
}

func (s *suite) probe() {
	s.put("control/x", "1", blob.Any)
	caps, err := blob.Probe(s.ctx, s.store, "")
	if err != nil {
		s.Fatal(err)
	}
	want := blob.Capabilities{Conditional: true, NotModified: true, List: true, Delete: true}
	if diff := cmp.Diff(want, caps); diff != "" {
		s.Errorf("capabilities (-want +got):\n%s", diff)
	}
	if got := s.keys(""); !slices.Equal(got, []string{"control/x"}) {
		s.Errorf("after the probe the store holds %q", got)
	}
}

// pattern gives bytes that differ by seed and do not compress to nothing.
func pattern(size int, seed uint64) []byte {
	data := make([]byte, size)
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := range data {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		data[i] = byte(x)
	}
	return data
}

// gated: a Put that may not take effect any more does not, whether that is so from the start or by the time that the driver has
// come to its last moment; one that may does.
func (s *suite) gated() {
	tag := s.put("a", "before", blob.IfAbsent)
	over := errors.New("it is over")
	for _, asked := range []int{0, 1} {
		calls := 0
		ctx := blob.While(s.ctx, func() error {
			if calls++; calls > asked {
				return over
			}
			return nil
		})
		_, err := blob.PutBytes(ctx, s.store, "a", []byte("after"), blob.IfMatch(tag))
		if calls == 0 {
			s.Fatal("the driver did not ask")
		}
		if calls > asked && !errors.Is(err, over) {
			s.Errorf("over after %d looks: error %v, want %v", asked, err, over)
		}
		if got, _, err := blob.ReadAll(s.ctx, s.store, "a", 100); err == nil && calls > asked && string(got) != "before" {
			s.Errorf("over after %d looks: %q was written", asked, got)
		}
	}
	if _, err := blob.PutBytes(blob.While(s.ctx, func() error { return nil }), s.store, "b", []byte("now"), blob.IfAbsent); err != nil {
		s.Error(err)
	}
}

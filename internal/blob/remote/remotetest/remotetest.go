// Package remotetest hurts the drivers of object stores across a network: it stands between them and a real server, and loses,
// delays and cuts what passes. Every such driver passes Run.
package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/teststore"
)

// Kind is what a request is for.
type Kind int

// Kinds of requests. Write is the one that makes an object.
const (
	Other Kind = iota
	Write
	Part
	Read
	List
)

// Driver is what Run needs of a driver and its server.
type Driver struct {
	Server *teststore.Server
	// Open opens a store in a folder of its own, reached through an endpoint.
	Open func(t *testing.T, endpoint, folder string, stall time.Duration) blob.Store
	Kind func(*http.Request) Kind
	// Leftovers counts what uploads that were given up have left behind; nil where that cannot be seen.
	Leftovers func(t *testing.T) int
	// Unconditional: the server does not keep the condition of a large object.
	Unconditional bool
	// Durable: the server has its objects again after it was killed.
	Durable bool
}

const (
	// patient is what connections are cut after where that is not what is tested.
	patient = 30 * time.Second
	// stall is what connections are cut after where it is.
	stall = time.Second
	// soon bounds a call on which a server hangs: some attempts of a stall each, with their pauses, on a busy machine.
	soon = 30 * time.Second
	// large is several parts, and not a whole number of them.
	large = 20<<20 + 17
)

// Run runs the suite.
func Run(t *testing.T, d Driver) {
	proxy := teststore.NewProxy(t, d.Server)
	var n atomic.Int64
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"an answer that is lost leaves the outcome open", (*suite).lostConditional},
		{"an answer that is lost to a plain write is made good", (*suite).lostPlain},
		{"a lost answer to the end of an upload leaves the outcome open", (*suite).lostCompletion},
		{"a server that is overloaded for a moment is asked again", (*suite).overloaded},
		{"a server that stays overloaded is not asked for ever", (*suite).overloadedForEver},
		{"a server that hangs is left", (*suite).hanging},
		{"a context ends a call on a server that hangs", (*suite).hangingInTime},
		{"a transfer that breaks off is taken up again", (*suite).cutRead},
		{"a transfer that always breaks off is an error", (*suite).cutReads},
		{"what may be another part is not put in its place", (*suite).cutAndUnplaced},
		{"two versions are never mixed", (*suite).cutAndReplaced},
		{"a large body takes constant memory", (*suite).memory},
		{"one of many creators of a large object wins", (*suite).raceLarge},
		{"a large upload that is given up leaves nothing", (*suite).givenUp},
		{"a slow body is waited for", (*suite).slowBody},
		{"a listing has pages", (*suite).pages},
		{"a server that dies in a write has all or nothing", (*suite).killedInWrite},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			defer proxy.Inject(nil)
			folder := fmt.Sprintf("faults-%d", n.Add(1))
			test.run(&suite{T: t, Driver: d, ctx: ctx, proxy: proxy, folder: folder, store: d.Open(t, proxy.URL, folder, patient)})
		})
	}
}

type suite struct {
	*testing.T
	Driver
	ctx    context.Context
	proxy  *teststore.Proxy
	folder string
	store  blob.Store
}

// hurt does something to the first so many requests of a kind.
func (s *suite) hurt(kind Kind, fault teststore.Fault, times int64) *atomic.Int64 {
	var seen atomic.Int64
	s.proxy.Inject(func(r *http.Request) teststore.Fault {
		if s.Driver.Kind(r) == kind && seen.Add(1) <= times {
			return fault
		}
		return teststore.Pass
	})
	return &seen
}

func (s *suite) want(key string, data []byte) {
	s.Helper()
	got, _, err := blob.ReadAll(s.ctx, s.store, key, 1<<30)
	if err != nil {
		s.Fatalf("read %q: %v", key, err)
	}
	if !bytes.Equal(got, data) {
		s.Fatalf("%q holds other bytes: %d of them, want %d", key, len(got), len(data))
	}
}

func (s *suite) wantAbsent(key string) {
	s.Helper()
	if _, _, err := blob.ReadAll(s.ctx, s.store, key, 1<<30); !errors.Is(err, blob.ErrNotFound) {
		s.Fatalf("read %q: %v, want not found", key, err)
	}
	if infos, err := s.store.List(s.ctx, key); err != nil || len(infos) > 0 {
		s.Fatalf("list %q: %v, %v", key, infos, err)
	}
}

func (s *suite) noLeftovers() {
	s.Helper()
	if s.Leftovers != nil {
		if n := s.Leftovers(s.T); n != 0 {
			s.Errorf("%d unfinished uploads are left", n)
		}
	}
}

func (s *suite) put(key string, data []byte, cond blob.Condition) blob.ETag {
	s.Helper()
	tag, err := blob.PutBytes(s.ctx, s.store, key, data, cond)
	if err != nil {
		s.Fatalf("put %q: %v", key, err)
	}
	return tag
}

func (s *suite) lostConditional() {
	s.hurt(Write, teststore.Lose, 1)
	_, err := blob.PutBytes(s.ctx, s.store, "new", []byte("mine"), blob.IfAbsent)
	if errors.Is(err, blob.ErrPreconditionFailed) {
		s.Errorf("if absent: %v, although the object is the one that was written", err)
	}
	s.want("new", []byte("mine"))

	tag := s.put("old", []byte("1"), blob.Any)
	s.hurt(Write, teststore.Lose, 1)
	if _, err = blob.PutBytes(s.ctx, s.store, "old", []byte("2"), blob.IfMatch(tag)); errors.Is(err, blob.ErrPreconditionFailed) {
		s.Errorf("if match: %v, although the object is the one that was written", err)
	}
	s.want("old", []byte("2"))

	// A refusal that follows a request which never arrived is no proof for the driver, but may not become a success.
	s.hurt(Write, teststore.Drop, 1)
	if _, err = blob.PutBytes(s.ctx, s.store, "old", []byte("3"), blob.IfMatch(tag)); err == nil {
		s.Error("a write whose condition does not hold succeeded")
	}
	s.want("old", []byte("2"))
}

func (s *suite) lostPlain() {
	for _, fault := range []teststore.Fault{teststore.Lose, teststore.Drop} {
		s.hurt(Write, fault, 1)
		tag := s.put("object", []byte("content"), blob.Any)
		if object, err := s.store.Get(s.ctx, "object", blob.GetOptions{IfNoneMatch: tag}); !errors.Is(err, blob.ErrNotModified) {
			if err == nil {
				object.Body.Close()
			}
			s.Errorf("the ETag that was told is not the object's: %v", err)
		}
	}
}

func (s *suite) lostCompletion() {
	data := pattern(large)
	s.hurt(Write, teststore.Lose, 1)
	_, err := s.store.Put(s.ctx, "object", unknownLength{bytes.NewReader(data)}, blob.IfAbsent)
	if errors.Is(err, blob.ErrPreconditionFailed) || errors.Is(err, blob.ErrNotFound) {
		s.Errorf("%v, although the object is the one that was written", err)
	}
	s.want("object", data)
	s.noLeftovers()
}

func (s *suite) overloaded() {
	for _, fault := range []teststore.Fault{teststore.Refuse, teststore.Drop} {
		key := fmt.Sprintf("object-%d", fault)
		s.hurt(Write, fault, 2)
		s.put(key, []byte("content"), blob.IfAbsent)
		s.hurt(Read, fault, 2)
		s.want(key, []byte("content"))
		s.hurt(List, fault, 2)
		if infos, err := s.store.List(s.ctx, key); err != nil || len(infos) != 1 {
			s.Errorf("%v, %v", infos, err)
		}
		s.hurt(Part, fault, 2)
		if _, err := s.store.Put(s.ctx, key+"-large", unknownLength{bytes.NewReader(pattern(large))}, blob.IfAbsent); err != nil {
			s.Error(err)
		}
		s.want(key+"-large", pattern(large))
	}
	s.noLeftovers()
}

func (s *suite) overloadedForEver() {
	seen := s.hurt(Write, teststore.Refuse, 1<<30)
	began := time.Now()
	_, err := blob.PutBytes(s.ctx, s.store, "object", []byte("content"), blob.IfAbsent)
	if err == nil || !strings.Contains(err.Error(), "503") {
		s.Errorf("%v, want the server's words", err)
	}
	if n := seen.Load(); n < 2 || n > 6 {
		s.Errorf("the server was asked %d times", n)
	}
	if took := time.Since(began); took > soon {
		s.Errorf("it took %v", took)
	}
}

// calls are all calls on one object, with the kind of request that each is about.
func (s *suite) calls() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"get": func(ctx context.Context) error {
			_, _, err := blob.ReadAll(ctx, s.store, "object", 1<<30)
			return err
		},
		"put": func(ctx context.Context) error {
			_, err := blob.PutBytes(ctx, s.store, "other", []byte("x"), blob.IfAbsent)
			return err
		},
		"large put": func(ctx context.Context) error {
			_, err := s.store.Put(ctx, "large", unknownLength{bytes.NewReader(pattern(large))}, blob.IfAbsent)
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := s.store.List(ctx, "")
			return err
		},
		"delete": func(ctx context.Context) error { return s.store.Delete(ctx, "object") },
	}
}

func (s *suite) hanging() {
	s.put("object", []byte("content"), blob.Any)
	s.store = s.Open(s.T, s.proxy.URL, s.folder, stall)
	s.proxy.Inject(func(*http.Request) teststore.Fault { return teststore.Hang })
	var all sync.WaitGroup
	for name, call := range s.calls() {
		all.Go(func() {
			began := time.Now()
			err := call(s.ctx) // nothing in it ends before the suite's two minutes
			if took := time.Since(began); err == nil || took > soon {
				s.Errorf("%s: %v after %v", name, err, took)
			}
			var told interface{ Hint() string }
			if !errors.As(err, &told) || told.Hint() == "" {
				s.Errorf("%s: there is no hint: %v", name, err)
			}
		})
	}
	all.Wait()
	s.proxy.Inject(nil)
	s.want("object", []byte("content"))
	s.noLeftovers()
}

func (s *suite) hangingInTime() {
	s.put("object", []byte("content"), blob.Any)
	s.store = s.Open(s.T, s.proxy.URL, s.folder, time.Hour) // so that nothing but the context can end it
	s.proxy.Inject(func(*http.Request) teststore.Fault { return teststore.Hang })
	var all sync.WaitGroup
	for name, call := range s.calls() {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, stall)
			defer cancel()
			began := time.Now()
			err := call(ctx)
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > soon {
				s.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
	all.Wait()
}

func (s *suite) slowBody() {
	data := pattern(large)
	const stall = 6 * stall // the server has to take 20 MiB in within it, on a busy machine
	s.store = s.Open(s.T, s.proxy.URL, s.folder, stall)
	var all sync.WaitGroup
	for key, body := range map[string]io.Reader{
		"object":      io.MultiReader(bytes.NewReader(data[:10<<20]), pause(2*stall), bytes.NewReader(data[10<<20:])),
		"slow to end": io.MultiReader(bytes.NewReader(data), pause(2*stall)),
	} {
		all.Go(func() {
			if _, err := s.store.Put(s.ctx, key, body, blob.IfAbsent); err != nil {
				s.Errorf("%s: %v", key, err)
			}
		})
	}
	all.Wait()
	s.want("object", data)
	s.want("slow to end", data)
}

// pause is a reader that takes its time to say that there is nothing.
type pause time.Duration

func (p pause) Read([]byte) (int, error) {
	time.Sleep(time.Duration(p)) // the slowness is what is tested
	return 0, io.EOF
}

// unknownLength hides what a reader knows about its length.
type unknownLength struct{ io.Reader }

// pattern gives bytes that do not repeat within a part.
func pattern(size int) []byte {
	data := make([]byte, size)
	x := uint64(size) | 1
	for i := range data {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		data[i] = byte(x)
	}
	return data
}

package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/teststore"
)

func (s *suite) cutRead() {
	data := pattern(large)
	s.put("object", data, blob.Any)
	s.hurt(Read, teststore.Cut, 2)
	s.want("object", data)
}

func (s *suite) cutReads() {
	s.put("object", pattern(large), blob.Any)
	// What is left to transfer never becomes nothing: at some time half of it is no byte.
	s.hurt(Read, teststore.Cut, 1<<30)
	began := time.Now()
	if data, _, err := blob.ReadAll(s.ctx, s.store, "object", 1<<30); err == nil {
		s.Errorf("%d bytes came through, of which half were always cut", len(data))
	}
	if took := time.Since(began); took > soon {
		s.Errorf("it took %v", took)
	}
}

// cutAndUnplaced: of what comes after the break nobody knows where in the object it
// belongs, as from a server that passes over the range and begins again.
func (s *suite) cutAndUnplaced() {
	s.put("object", pattern(large), blob.Any)
	var seen atomic.Int64
	s.proxy.Inject(func(r *http.Request) teststore.Fault {
		switch {
		case s.Kind(r) != Read:
			return teststore.Pass
		case seen.Add(1) == 1:
			return teststore.Cut
		}
		return teststore.Unplaced
	})
	if _, _, err := blob.ReadAll(s.ctx, s.store, "object", 1<<30); err == nil {
		s.Error("it was taken for the part that was asked for")
	}
	if n := seen.Load(); n != 2 {
		s.Errorf("it took %d requests", n)
	}
}

func (s *suite) cutAndReplaced() {
	old := pattern(large)
	s.put("object", old, blob.Any)
	s.hurt(Read, teststore.Cut, 1)
	object, err := s.store.Get(s.ctx, "object", blob.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	defer object.Body.Close()
	s.put("object", bytes.Repeat([]byte{1}, large), blob.Any)
	if got, err := io.ReadAll(object.Body); err == nil && !bytes.Equal(got, old) {
		s.Error("the reader saw two versions")
	}
}

// memory streams much more than may be held, and looks what is.
func (s *suite) memory() {
	const size, most = 160 << 20, 72 << 20
	var peak uint64
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	body := &watched{left: size, each: 4 << 20, look: func() {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc-min(before.HeapAlloc, now.HeapAlloc))
	}}
	direct := s.Open(s.T, s.Server.URL, s.folder, patient) // the proxy is in this process, and is not what is looked at
	if _, err := direct.Put(s.ctx, "object", body, blob.IfAbsent); err != nil {
		s.Fatal(err)
	}
	if peak > most {
		s.Errorf("an upload of %d MiB held %d MiB", size>>20, peak>>20)
	}
	s.Logf("an upload of %d MiB held up to %d MiB", size>>20, peak>>20)
	object, err := direct.Get(s.ctx, "object", blob.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	defer object.Body.Close()
	if n, err := io.Copy(io.Discard, object.Body); err != nil || n != size {
		s.Errorf("read %d bytes, %v", n, err)
	}
	if err := direct.Delete(s.ctx, "object"); err != nil {
		s.Error(err)
	}
}

// watched is a body of so many bytes, that calls look every so many.
type watched struct {
	left, each int
	since      int
	look       func()
}

func (w *watched) Read(p []byte) (int, error) {
	if w.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), w.left)
	clear(p[:n])
	w.left -= n
	if w.since += n; w.since >= w.each {
		w.since = 0
		w.look()
	}
	return n, nil
}

func (s *suite) raceLarge() {
	if s.Unconditional {
		s.Skip("SKIPPED, this server does not keep the condition of a large object")
	}
	var winners, others atomic.Int64
	var all sync.WaitGroup
	var winner atomic.Int64
	body := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 9<<20) }
	for i := range 3 {
		all.Go(func() {
			_, err := s.store.Put(s.ctx, "object", unknownLength{bytes.NewReader(body(i))}, blob.IfAbsent)
			switch {
			case err == nil:
				winners.Add(1)
				winner.Store(int64(i))
			case errors.Is(err, blob.ErrPreconditionFailed):
			default:
				others.Add(1)
				s.Logf("writer %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if winners.Load() != 1 || others.Load() != 0 {
		s.Fatalf("%d winners, and %d that do not know", winners.Load(), others.Load())
	}
	s.want("object", body(int(winner.Load())))
	s.noLeftovers()
	// And over a version: the one that was seen, only.
	tag := s.put("object", []byte("small"), blob.Any)
	if _, err := s.store.Put(s.ctx, "object", unknownLength{bytes.NewReader(body(5))}, blob.IfMatch(tag)); err != nil {
		s.Fatal(err)
	}
	if _, err := s.store.Put(s.ctx, "object", unknownLength{bytes.NewReader(body(6))}, blob.IfMatch(tag)); !errors.Is(err, blob.ErrPreconditionFailed) {
		s.Errorf("over a version that was replaced: %v", err)
	}
	s.want("object", body(5))
	s.noLeftovers()
}

func (s *suite) givenUp() {
	data := pattern(large)
	broken := errors.New("the pipe broke")
	_, err := s.store.Put(s.ctx, "object", io.MultiReader(bytes.NewReader(data), failing{broken}), blob.Any)
	if !errors.Is(err, broken) {
		s.Errorf("a body that fails: %v", err)
	}
	s.wantAbsent("object")
	s.noLeftovers()

	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	began := time.Now()
	_, err = s.store.Put(ctx, "object", io.MultiReader(bytes.NewReader(data), calling(cancel), endless{}), blob.Any)
	if took := time.Since(began); !errors.Is(err, context.Canceled) || took > soon {
		s.Errorf("a context that ends: %v after %v", err, took)
	}
	s.wantAbsent("object")
	s.noLeftovers()

	// A part that never gets through ends the upload, although its body has no end.
	s.proxy.Inject(func(r *http.Request) teststore.Fault {
		if s.Kind(r) == Part {
			return teststore.Refuse
		}
		return teststore.Pass
	})
	if _, err = s.store.Put(s.ctx, "object", endless{}, blob.Any); err == nil {
		s.Error("an upload whose parts are refused succeeded")
	}
	s.proxy.Inject(nil)
	s.wantAbsent("object")
	s.noLeftovers()
}

func (s *suite) pages() {
	const objects, writers = 1005, 16
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	direct := s.Open(s.T, s.Server.URL, s.folder, patient)
	for w := range writers {
		all.Go(func() {
			for i := w; i < objects; i += writers {
				if _, err := blob.PutBytes(s.ctx, direct, fmt.Sprintf("page/%04d", i), nil, blob.Any); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		s.Fatal(*err)
	}
	seen := s.hurt(List, teststore.Pass, 0)
	infos, err := s.store.List(s.ctx, "page/")
	if err != nil || len(infos) != objects {
		s.Fatalf("%d objects, %v", len(infos), err)
	}
	for i, info := range infos {
		if want := fmt.Sprintf("page/%04d", i); info.Key != want {
			s.Fatalf("object %d is %q, want %q", i, info.Key, want)
		}
	}
	if n := seen.Load(); n > 2 {
		s.Errorf("it took %d requests", n)
	}
}

func (s *suite) killedInWrite() {
	if !s.Durable {
		s.Skip("SKIPPED, this server keeps its objects in memory")
	}
	s.put("before", []byte("content"), blob.Any)
	began := time.Now()
	_, err := s.store.Put(s.ctx, "object", io.MultiReader(bytes.NewReader(pattern(large)), calling(s.Server.Kill), bytes.NewReader(pattern(large))), blob.Any)
	if took := time.Since(began); err == nil || took > soon {
		s.Errorf("%v after %v", err, took)
	}
	var told interface{ Hint() string }
	if !errors.As(err, &told) || told.Hint() == "" {
		s.Errorf("there is no hint: %v", err)
	}
	if err := s.Server.Launch(s.ctx); err != nil {
		s.Fatal(err)
	}
	s.wantAbsent("object")
	s.want("before", []byte("content"))
}

// calling is a reader that calls a function and is at its end.
type calling func()

func (c calling) Read([]byte) (int, error) {
	c()
	return 0, io.EOF
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

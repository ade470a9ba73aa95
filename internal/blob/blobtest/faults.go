package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"etcdadm.io/internal/blob"
)

func (s *suite) cancelled() {
	s.put("a", "1", blob.Any)
	ctx, cancel := context.WithCancel(s.ctx)
	object, err := s.store.Get(ctx, "a", blob.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	object.Body.Close()
	cancel()
	if _, err := s.store.Get(ctx, "a", blob.GetOptions{}); !errors.Is(err, context.Canceled) {
		s.Errorf("get: %v", err)
	}
	if _, err := blob.PutBytes(ctx, s.store, "a", []byte("2"), blob.Any); !errors.Is(err, context.Canceled) {
		s.Errorf("put: %v", err)
	}
	if _, err := s.store.List(ctx, ""); !errors.Is(err, context.Canceled) {
		s.Errorf("list: %v", err)
	}
	if err := s.store.Delete(ctx, "a"); !errors.Is(err, context.Canceled) {
		s.Errorf("delete: %v", err)
	}
	s.want("a", "1")

	// A context that ends in the middle of an upload ends it.
	ctx, cancel = context.WithCancel(s.ctx)
	defer cancel()
	_, err = s.store.Put(ctx, "a", endless{cancel}, blob.Any)
	if !errors.Is(err, context.Canceled) {
		s.Errorf("put of an endless body: %v", err)
	}
	s.want("a", "1")
}

func (s *suite) failingBody() {
	s.put("a", "1", blob.Any)
	broken := errors.New("the pipe broke")
	for _, size := range []int{0, 10, s.least(2 << 20)} {
		body := io.MultiReader(bytes.NewReader(pattern(size, 2)), failing{broken})
		if _, err := s.store.Put(s.ctx, "a", body, blob.Any); !errors.Is(err, broken) {
			s.Errorf("put of a body that fails after %d bytes: %v", size, err)
		}
	}
	s.want("a", "1")
	if got := s.keys(""); !slices.Equal(got, []string{"a"}) {
		s.Errorf("the store holds %q", got)
	}
}

func (s *suite) openReader() {
	for _, size := range []int{10, s.least(3 << 20)} {
		old := pattern(size, 3)
		s.put("a", string(old), blob.Any)
		object, err := s.store.Get(s.ctx, "a", blob.GetOptions{})
		if err != nil {
			s.Fatal(err)
		}
		s.put("a", string(pattern(size, 4)), blob.Any)
		if err := s.store.Delete(s.ctx, "a"); err != nil {
			s.Fatal(err)
		}
		// A remote store may instead end the transfer with an error; bytes of two versions it may not mix.
		if got, err := io.ReadAll(object.Body); err == nil && !bytes.Equal(got, old) {
			s.Errorf("size %d: the open reader saw another version", size)
		}
		object.Body.Close()
	}
}

// least is the size, or the largest that the store takes.
func (s *suite) least(size int) int {
	if limit := s.traits.MaxObject; limit > 0 {
		return min(size, limit)
	}
	return size
}

// endless is a body that never ends, and calls a function when it is read.
type endless struct{ then func() }

func (e endless) Read(p []byte) (int, error) {
	e.then()
	clear(p)
	return len(p), nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

package file

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/blob"
)

// stuck is a store in a directory whose file system answers nothing until the test
// lets it go on.
func stuck(t *testing.T) (s *Store, goOn func()) {
	t.Helper()
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	stands := make(chan struct{})
	s.open = func(dir string) (*os.Root, error) {
		<-stands
		return os.OpenRoot(dir)
	}
	return s, func() { close(stands) }
}

// Every call ends with its context although the file system does not answer, says
// so, and holds up nothing else.
func TestCallsEndWhileTheFileSystemStandsStill(t *testing.T) {
	s, goOn := stuck(t)
	for name, call := range map[string]func(context.Context) error{
		"get": func(ctx context.Context) error { _, err := s.Get(ctx, "a", blob.GetOptions{}); return err },
		"put": func(ctx context.Context) error {
			_, err := blob.PutBytes(ctx, s, "a", []byte("x"), blob.Any)
			return err
		},
		"list":   func(ctx context.Context) error { _, err := s.List(ctx, ""); return err },
		"delete": func(ctx context.Context) error { return s.Delete(ctx, "a") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		began := time.Now()
		err := call(ctx)
		cancel()
		var told *blob.Error
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errStill) || !errors.As(err, &told) || told.Advice == "" {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
	goOn()
	if _, err := s.List(t.Context(), ""); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// What is written is not read any more once its writer has not waited.
func TestSourceIsLeftAlone(t *testing.T) {
	s, goOn := stuck(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	from := strings.NewReader("content")
	if _, err := s.Put(ctx, "a", from, blob.Any); !errors.Is(err, errStill) {
		t.Fatal(err)
	}
	goOn()
	for deadline := time.Now().Add(time.Minute); len(s.calls) > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if from.Len() != len("content") {
		t.Errorf("%d bytes are left", from.Len())
	}
}

// endsAt is a context that ends at a moment which the test names.
type endsAt struct {
	context.Context
	ended func() bool
}

func (c endsAt) Err() error {
	if c.ended() {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// A write or removal whose caller's time ended while the file system stood still is
// not made when that goes on: somebody else may have written since.
func TestNothingIsBegunLate(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	locked := func() bool { return there(lockName) }
	looks := 0
	for name, c := range map[string]struct {
		ended func() bool
		call  func(context.Context) error
		made  string
	}{
		"a write whose lock comes late": {
			ended: locked, made: "new",
			call: func(ctx context.Context) error {
				_, err := blob.PutBytes(ctx, s, "new/a", []byte("late"), blob.Any)
				return err
			},
		},
		"a write whose folder comes late": {
			ended: func() bool { return there("made") }, made: "made/a",
			call: func(ctx context.Context) error {
				_, err := blob.PutBytes(ctx, s, "made/a", []byte("late"), blob.Any)
				return err
			},
		},
		"a removal whose file is found late": {
			ended: func() bool {
				if locked() {
					looks++
				}
				return looks > 1
			},
			call: func(ctx context.Context) error { return s.Delete(ctx, "old") },
		},
	} {
		if _, err := blob.PutBytes(t.Context(), s, "old", []byte("content"), blob.Any); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
			t.Fatal(err)
		}
		if err := c.call(endsAt{t.Context(), c.ended}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if c.made != "" && there(c.made) || !there("old") {
			t.Errorf("%s was made", name)
		}
	}
	if infos, err := s.List(t.Context(), ""); err != nil || len(infos) != 1 {
		t.Errorf("%v, %v", infos, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// slowBody gives one byte a read; each read is told of, and ends when it is let go on.
type slowBody struct {
	reads chan struct{}
	goOn  chan struct{}
}

func (b slowBody) Read(p []byte) (int, error) {
	b.reads <- struct{}{}
	<-b.goOn
	return copy(p, "x"), nil
}

// A body is its caller's again when Put returns: a read that is under way at the end
// is waited for, and none comes after it.
func TestBodyIsNotReadOnceItsWriterHasAnAnswer(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := slowBody{make(chan struct{}, 10), make(chan struct{})}
	answered := make(chan error, 1)
	go func() {
		_, err := s.Put(ctx, "a", b, blob.Any)
		answered <- err
	}()
	<-b.reads
	cancel()
	select {
	case err = <-answered:
		t.Errorf("answered while the body was read: %v", err)
		close(b.goOn)
	case <-time.After(2 * callEnds):
		close(b.goOn)
		err = <-answered
	}
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); len(s.calls) > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if len(b.reads) > 0 {
		t.Errorf("it was read %d times more", len(b.reads))
	}
}

// slow is a file that gives nothing until it is let go on.
type slow struct {
	stands chan struct{}
	closed chan struct{}
}

func (f slow) Read([]byte) (int, error) { <-f.stands; return 0, io.EOF }
func (f slow) Close() error             { close(f.closed); return nil }

// A body ends with its context too, and its file is closed when that answers.
func TestBodyEndsWhileTheFileSystemStandsStill(t *testing.T) {
	s, goOn := stuck(t)
	defer goOn()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	f := slow{make(chan struct{}), make(chan struct{})}
	b := &body{ctx: ctx, s: s, file: f}
	if _, err := b.Read(make([]byte, 10)); !errors.Is(err, errStill) {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-f.closed:
		t.Error("the file was closed while it was read")
	default:
	}
	close(f.stands)
	select {
	case <-f.closed:
	case <-time.After(time.Minute):
		t.Error("the file was not closed")
	}
}

// A write that stood still in any of its steps is over by the time of its rename.
func TestGateIsAskedLast(t *testing.T) {
	over := errors.New("it is over")
	for _, directory := range []bool{false, true} {
		s, err := Open(t.Context(), t.TempDir(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		late := false
		s.sync = func(f *os.File) error {
			i, err := f.Stat()
			late = late || err == nil && i.IsDir() == directory
			return err
		}
		ctx := blob.While(t.Context(), func() error {
			if late {
				return over
			}
			return nil
		})
		if _, err := blob.PutBytes(ctx, s, "a/b", []byte("x"), blob.Any); !errors.Is(err, over) || !late {
			t.Errorf("it stood still over a directory %t: %v", directory, err)
		}
		if all, err := s.List(t.Context(), ""); err != nil || len(all) != 0 {
			t.Errorf("it is written: %v, %v", all, err)
		}
	}
}

package file

import (
	"context"
	"errors"
	"io"
	"os"
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

package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

var (
	errFinal  = errors.New("final")
	errAgain  = errors.New("again")
	errUnsure = errors.New("unsure")
)

func judge(err error) remote.Verdict {
	switch {
	case errors.Is(err, errAgain):
		return remote.Again
	case errors.Is(err, errUnsure):
		return remote.Unsure
	}
	return remote.Final
}

func TestTry(t *testing.T) {
	for _, test := range []struct {
		errs   []error // of the attempts; the last one counts from then on
		want   error
		unsure bool
		asked  int
	}{
		{[]error{nil}, nil, false, 1},
		{[]error{errFinal}, errFinal, false, 1},
		{[]error{errAgain, errFinal}, errFinal, false, 2},
		{[]error{errUnsure, errFinal}, errFinal, true, 2},
		{[]error{errUnsure, errAgain, nil}, nil, true, 3},
		{[]error{errAgain}, errAgain, false, 4},
		{[]error{errUnsure}, errUnsure, true, 4},
	} {
		t.Run(fmt.Sprint(test.errs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				began := time.Now()
				unsure, err := remote.Try(t.Context(), judge, func(context.Context) error {
					asked++
					return test.errs[min(asked, len(test.errs))-1]
				})
				if !errors.Is(err, test.want) || unsure != test.unsure || asked != test.asked {
					t.Errorf("%v, unsure %v, %d attempts", err, unsure, asked)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A context that ends ends the wait between attempts, and an attempt that could only begin after its deadline is not made.
func TestTryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
		defer cancel()
		asked := 0
		_, err := remote.Try(ctx, judge, func(context.Context) error { asked++; return errAgain })
		if !errors.Is(err, errAgain) || asked > 2 {
			t.Errorf("%v after %d attempts", err, asked)
		}
		ctx, stop := context.WithCancel(t.Context())
		_, err = remote.Try(ctx, judge, func(context.Context) error { stop(); return errAgain })
		if !errors.Is(err, context.Canceled) || !errors.Is(err, errAgain) {
			t.Error(err)
		}
	})
}

// Parts are whole, in order by their numbers, as large as they should be, and never more of them in hand than allowed.
func TestParts(t *testing.T) {
	for _, size := range []int{remote.PartSize, remote.PartSize + 1, 3 * remote.PartSize, 5*remote.PartSize + 7} {
		data := bytes.Repeat([]byte("0123456789abcdef0"), size/17+1)[:size]
		body := io.Reader(iotest.HalfReader(bytes.NewReader(data)))
		first, whole, err := remote.First(t.Context(), body)
		if err != nil || whole || len(first) != remote.PartSize {
			t.Fatalf("size %d: first has %d bytes, whole %v, %v", size, len(first), whole, err)
		}
		var mu sync.Mutex
		got := map[int][]byte{}
		inHand, most := 0, 0
		n, err := remote.Parts(t.Context(), first, body, func(_ context.Context, number int, part []byte) error {
			mu.Lock()
			inHand++
			most = max(most, inHand)
			got[number] = bytes.Clone(part)
			mu.Unlock()
			mu.Lock()
			inHand--
			mu.Unlock()
			return nil
		})
		if want := (size + remote.PartSize - 1) / remote.PartSize; err != nil || n != want || len(got) != want || most > 3 {
			t.Fatalf("size %d: %d parts, %d sent, %d at a time, %v", size, n, len(got), most, err)
		}
		var joined []byte
		for i := range n {
			if i < n-1 && len(got[i+1]) != remote.PartSize {
				t.Errorf("size %d: part %d has %d bytes", size, i+1, len(got[i+1]))
			}
			joined = append(joined, got[i+1]...)
		}
		if !bytes.Equal(joined, data) {
			t.Errorf("size %d: other bytes", size)
		}
	}
}

func TestFirstOfAShortBody(t *testing.T) {
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, remote.PartSize - 1} {
		data := bytes.Repeat([]byte("x"), size)
		got, whole, err := remote.First(t.Context(), iotest.DataErrReader(bytes.NewReader(data)))
		if err != nil || !whole || !bytes.Equal(got, data) {
			t.Errorf("size %d: %d bytes, whole %v, %v", size, len(got), whole, err)
		}
	}
}

// The first error of a part is the upload's, and a body without an end is read no further.
func TestPartsEnd(t *testing.T) {
	broken := errors.New("refused")
	_, err := remote.Parts(t.Context(), make([]byte, remote.PartSize), zeros{}, func(_ context.Context, number int, _ []byte) error {
		if number == 2 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

// However an upload ends early, with its context, for its body or for one of its parts, it is an error, and everything that
// was begun is waited for.
func TestPartsOfAnUploadThatEnds(t *testing.T) {
	for name, test := range map[string]struct {
		body io.Reader
		send func(ctx context.Context, stop func(), number int) error
		want error
	}{
		"ended while all parts are on their way": {zeros{}, func(ctx context.Context, stop func(), number int) error {
			if number == 3 {
				stop()
			}
			<-ctx.Done()
			return nil
		}, context.Canceled},
		"ended with its last part": {strings.NewReader("x"), func(_ context.Context, stop func(), number int) error {
			if number == 2 {
				stop()
			}
			return nil
		}, context.Canceled},
		"the last part is refused": {strings.NewReader("x"), func(_ context.Context, _ func(), number int) error {
			if number == 2 {
				return errFinal
			}
			return nil
		}, errFinal},
		"the body breaks off": {iotest.ErrReader(errFinal), func(context.Context, func(), int) error { return nil }, errFinal},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var mu sync.Mutex
				under := 0
				_, err := remote.Parts(ctx, make([]byte, remote.PartSize), test.body, func(ctx context.Context, number int, _ []byte) error {
					mu.Lock()
					under++
					mu.Unlock()
					err := test.send(ctx, stop, number)
					time.Sleep(time.Second)
					mu.Lock()
					under--
					mu.Unlock()
					return err
				})
				if !errors.Is(err, test.want) || under != 0 {
					t.Errorf("%v, with %d parts on their way", err, under)
				}
			})
		})
	}
}

// A body that cannot be read is no object, and neither is one whose context ended first.
func TestFirstFails(t *testing.T) {
	for _, size := range []int{0, 1 << 10, 100 << 10} {
		_, whole, err := remote.First(t.Context(), io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(errFinal)))
		if !errors.Is(err, errFinal) || whole {
			t.Errorf("after %d bytes: whole %v, %v", size, whole, err)
		}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errUnsure)
	if _, whole, err := remote.First(ctx, zeros{}); !errors.Is(err, errUnsure) || whole {
		t.Errorf("whole %v, %v", whole, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestBody(t *testing.T) {
	const content = "the whole content"
	broken := errors.New("reset")
	damaged := errors.New("checksum")
	part := func(from, to int, then error) io.ReadCloser {
		return io.NopCloser(io.MultiReader(strings.NewReader(content[from:to]), iotest.ErrReader(then)))
	}
	for name, test := range map[string]struct {
		first  io.ReadCloser
		reopen func(offset int64) (io.ReadCloser, error)
		want   string // part of the error
	}{
		"whole":                {part(0, len(content), io.EOF), nil, ""},
		"damaged":              {part(0, len(content), damaged), nil, "checksum"},
		"too long":             {io.NopCloser(strings.NewReader(content + "!")), nil, "more than"},
		"ended early, resumed": {part(0, 5, io.EOF), func(o int64) (io.ReadCloser, error) { return part(int(o), len(content), io.EOF), nil }, ""},
		"broken, resumed": {part(0, 5, broken), func(o int64) (io.ReadCloser, error) {
			if o == int64(len(content)-1) {
				return part(int(o), len(content), io.EOF), nil
			}
			return part(int(o), int(o)+1, broken), nil
		}, ""},
		"broken, gone":    {part(0, 5, broken), func(int64) (io.ReadCloser, error) { return nil, blob.ErrPreconditionFailed }, "precondition failed"},
		"broken for ever": {part(0, 5, broken), func(o int64) (io.ReadCloser, error) { return part(int(o), int(o), broken), nil }, "broke off after 5 of 17"},
	} {
		t.Run(name, func(t *testing.T) {
			body := remote.NewBody(t.Context(), test.first, int64(len(content)), func(_ context.Context, o int64) (io.ReadCloser, error) {
				if test.reopen == nil {
					t.Error("it was opened again")
					return nil, errFinal
				}
				return test.reopen(o)
			})
			got, err := io.ReadAll(body)
			if test.want == "" && (err != nil || string(got) != content) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// Once its context has ended a body is not taken up again, nor is one that could not be opened again, and what was open is
// closed.
func TestBodyEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	opened, closed := 0, 0
	reopen := func(context.Context, int64) (io.ReadCloser, error) {
		opened++
		return nil, errFinal
	}
	body := remote.NewBody(ctx, reading{func([]byte) (int, error) { stop(); return 0, errUnsure }, &closed}, 3, reopen)
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) || !errors.Is(err, errUnsure) || opened != 0 {
		t.Errorf("%v, opened %d times", err, opened)
	}
	if _, err := body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) || opened != 0 {
		t.Errorf("again: %v, opened %d times", err, opened)
	}
	if err := body.Close(); err != nil || closed != 1 {
		t.Errorf("%v, closed %d times", err, closed)
	}
	body = remote.NewBody(t.Context(), reading{func([]byte) (int, error) { return 0, errUnsure }, &closed}, 3, reopen)
	for range 2 {
		if _, err := body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) || opened != 1 || closed != 2 {
			t.Errorf("%v, opened %d times, closed %d times", err, opened, closed)
		}
	}
}

type reading struct {
	read   func([]byte) (int, error)
	closed *int
}

func (r reading) Read(p []byte) (int, error) { return r.read(p) }
func (r reading) Close() error               { *r.closed++; return nil }

func FuzzParse(f *testing.F) {
	for _, url := range []string{"s3://b", "s3://b/f/g", "gs://b/%2e%2e", "s3://u:p@b", "s3://b?endpoint=x", "s3://b/a//c", "S3://b/ä", "s3://", "x"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		l, err := remote.Parse(url, "endpoint")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Fatalf("%q: %q", url, err)
			}
			return
		}
		if l.Prefix != "" && blob.ValidateKey(strings.TrimSuffix(l.Prefix, "/")) != nil || strings.ContainsAny(l.Bucket, "/?#@:%") {
			t.Fatalf("%q: %+v", url, l)
		}
		if name, err := l.Key("a/b"); err == nil {
			if key, ok := l.Own(name); !ok || key != "a/b" {
				t.Fatalf("%q: %q is %q, %v", url, name, key, ok)
			}
		}
		if len(l.Params) > 1 {
			t.Fatalf("%q: %q", url, l.Params)
		}
	})
}

// Pages are put together and sorted, what is not this store's is left out, and a listing that
// goes in a circle is an error.
func TestListInPages(t *testing.T) {
	place := remote.Location{Scheme: "s3", Bucket: "b", Prefix: "folder/"}
	pages := map[string][]string{"": {"folder/a/2", "folder/a/1", "folder/", "folder/a/"}, "x": {"other/a/3", "folder/b"}}
	next := map[string]string{"": "x"}
	list := func() ([]blob.Info, error) {
		return place.List(t.Context(), "a/", func(whole, token string) (objects []blob.Info, _ string, _ error) {
			if whole != "folder/a/" {
				t.Errorf("asked for %q", whole)
			}
			for _, name := range pages[token] {
				objects = append(objects, blob.Info{Key: name})
			}
			return objects, next[token], nil
		})
	}
	infos, err := list()
	if want := []blob.Info{{Key: "a/1"}, {Key: "a/2"}}; err != nil || !slices.Equal(infos, want) {
		t.Errorf("%v, %v", infos, err)
	}
	next["x"] = "y"
	failed := errors.New("of one page")
	if infos, err := place.List(t.Context(), "a/", func(_, token string) ([]blob.Info, string, error) {
		if token == "x" {
			return nil, "", failed
		}
		return []blob.Info{{Key: "folder/a/1"}}, next[token], nil
	}); !errors.Is(err, failed) || infos != nil {
		t.Errorf("a page that fails: %v, %v", infos, err)
	}
	if _, err := place.List(t.Context(), "../", func(string, string) ([]blob.Info, string, error) { t.Error("it was asked for"); return nil, "", nil }); !errors.Is(err, blob.ErrInvalidKey) {
		t.Error(err)
	}
	next["x"] = "x"
	if infos, err := list(); err == nil || infos != nil {
		t.Errorf("a circle: %v, %v", infos, err)
	}
}

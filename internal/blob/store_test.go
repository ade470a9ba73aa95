package blob_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

func TestValidateKey(t *testing.T) {
	long := strings.Repeat("s", blob.MaxSegment)
	whole := strings.Repeat(long+"/", 4) // 1024 bytes
	for _, key := range []string{"a", ".a", "...", "a/..b", "\u00e4 ~!", long, whole[:blob.MaxKey-2] + "/k", long + "/" + long} {
		if err := blob.ValidateKey(key); err != nil {
			t.Errorf("%.40q: %v", key, err)
		}
	}
	for key, words := range map[string]string{
		"":                    "it is empty",
		"/a":                  "begins with a slash",
		"a/":                  "empty segment",
		"a//b":                "empty segment",
		"./a":                 `the segment "."`,
		"a/..":                `the segment ".."`,
		long + "s":            "a segment is longer",
		"a/" + long + "s/b":   "a segment is longer",
		whole + "k":           "it is longer than 1024",
		"\xff":                "not UTF-8",
		"a\x1fb":              "control character U+001F",
		"a\x7fb":              "control character U+007F",
		"a\n/" + long + "sss": "control character U+000A",
	} {
		if err := blob.ValidateKey(key); !errors.Is(err, blob.ErrInvalidKey) || !strings.Contains(err.Error(), words) {
			t.Errorf("%.40q: %v, want %q", key, err, words)
		}
	}
}

// announcing gives one object, of another size than it has.
type announcing struct {
	blob.Store
	body string
	size int64
	err  error // of the body, at its end
}

func (s announcing) Get(context.Context, string, blob.GetOptions) (*blob.Object, error) {
	body := io.Reader(strings.NewReader(s.body))
	if s.err != nil {
		body = io.MultiReader(body, failing{s.err})
	}
	return &blob.Object{Body: io.NopCloser(body), ETag: "tag", Size: s.size}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// An object in memory is whole and no larger than the caller is ready for, whatever the store
// announces.
func TestReadAll(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		object announcing
		want   error
	}{
		{announcing{body: "12345", size: 5}, nil},
		{announcing{body: "", size: 0}, nil},
		{announcing{body: "12345", size: 6}, blob.ErrTooLarge},
		{announcing{body: "123456", size: 5}, blob.ErrTooLarge},
		{announcing{body: "1234", size: 5}, io.ErrUnexpectedEOF},
		{announcing{body: "12345", size: 4}, io.ErrUnexpectedEOF},
		{announcing{body: "123", size: 5, err: broken}, broken},
		{announcing{body: "never read", size: 1 << 40, err: broken}, blob.ErrTooLarge},
	} {
		data, tag, err := blob.ReadAll(t.Context(), test.object, "key", 5)
		if !errors.Is(err, test.want) || test.want == nil && (err != nil || string(data) != test.object.body || tag != "tag") || test.want != nil && (data != nil || tag != "") {
			t.Errorf("%+v: %q, %q, %v", test.object, data, tag, err)
		}
	}
	s := memory.New()
	tag, err := blob.PutBytes(t.Context(), s, "key", []byte("1"), blob.Any)
	if err != nil {
		t.Fatal(err)
	}
	if data, same, err := blob.ReadAllIfChanged(t.Context(), s, "key", tag, 5); !errors.Is(err, blob.ErrNotModified) || data != nil || same != tag {
		t.Errorf("not modified: %q, %q, %v", data, same, err)
	}
	if data, now, err := blob.ReadAllIfChanged(t.Context(), s, "key", "another", 5); err != nil || string(data) != "1" || now != tag {
		t.Errorf("modified: %q, %q, %v", data, now, err)
	}
	if _, _, err := blob.ReadAll(t.Context(), s, "none", 5); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
}

// A listing that fails says which one it was.
func TestListError(t *testing.T) {
	cause := errors.New("cause")
	named := &blob.Error{Op: "use", Object: "store of its own", Err: cause}
	for want, got := range map[string]error{
		`list "a/": cause`:                       blob.ListError(place{}, "a/", cause),
		"list store s3://b/f: cause":             blob.ListError(place{}, "", cause),
		"use store of its own: cause":            blob.ListError(place{}, "", named),
		`list "b/": use store of its own: cause`: blob.ListError(place{}, "b/", named),
	} {
		if got.Error() != want || !errors.Is(got, cause) {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

type place struct{}

func (place) String() string { return "s3://b/f" }

// lying is a store of which one thing is not as it should be.
type lying struct {
	*memory.Store
	put    func(n int, err error) error // makes another answer of that to the n-th write, from 1
	list   func([]blob.Info, error) ([]blob.Info, error)
	get    func(n int, o *blob.Object, err error) (*blob.Object, error)
	delete func(error) error
	as     func(n int, cond blob.Condition) blob.Condition // under which condition the n-th write is done

	puts, gets int
	key        string
}

func (s *lying) Put(ctx context.Context, key string, r io.Reader, cond blob.Condition) (blob.ETag, error) {
	s.puts++
	s.key = key
	if s.as != nil {
		cond = s.as(s.puts, cond)
	}
	tag, err := s.Store.Put(ctx, key, r, cond)
	if s.put != nil {
		err = s.put(s.puts, err)
	}
	return tag, err
}

func (s *lying) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	s.gets++
	o, err := s.Store.Get(ctx, key, opts)
	if s.get != nil {
		return s.get(s.gets, o, err)
	}
	return o, err
}

func (s *lying) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	infos, err := s.Store.List(ctx, prefix)
	if s.list != nil {
		return s.list(infos, err)
	}
	return infos, err
}

func (s *lying) Delete(ctx context.Context, key string) error {
	if s.delete != nil {
		return s.delete(nil)
	}
	return s.Store.Delete(ctx, key)
}

// Each promise that a store does not keep is found, and costs what hangs on it and nothing
// else; a store that does not answer is an error, whichever call it is, and not one that
// cannot do something.
func TestProbe(t *testing.T) {
	broken := errors.New("broken")
	all := blob.Capabilities{Conditional: true, NotModified: true, List: true, Delete: true}
	without := func(change func(c *blob.Capabilities)) blob.Capabilities {
		c := all
		change(&c)
		return c
	}
	unconditional := without(func(c *blob.Capabilities) { c.Conditional = false })
	nth := func(which int, answer error) func(int, error) error {
		return func(n int, err error) error {
			if n == which {
				return answer
			}
			return err
		}
	}
	as := func(which int) func(int, blob.Condition) blob.Condition {
		return func(n int, cond blob.Condition) blob.Condition {
			if n == which {
				return blob.Any
			}
			return cond
		}
	}
	for name, test := range map[string]struct {
		store *lying
		want  blob.Capabilities
		words string
		err   error
	}{
		"all":                           {store: &lying{}, want: all},
		"no conditions":                 {store: &lying{put: nth(1, blob.ErrUnsupported)}, want: unconditional, words: "refuses conditional writes"},
		"writes over":                   {store: &lying{as: as(2)}, want: unconditional, words: "only if absent"},
		"no if absent":                  {store: &lying{put: nth(2, blob.ErrUnsupported)}, want: unconditional, words: "refuses to write only if absent"},
		"no if match":                   {store: &lying{put: nth(3, blob.ErrUnsupported)}, want: unconditional, words: "refuses to write only if unchanged"},
		"if match never holds":          {store: &lying{put: nth(3, blob.ErrPreconditionFailed)}, want: unconditional, words: "although nothing had changed"},
		"if match always holds":         {store: &lying{as: as(4)}, want: unconditional, words: "only if unchanged"},
		"another write than confirmed":  {store: &lying{as: as(4), put: nth(4, blob.ErrPreconditionFailed)}, want: unconditional, words: "is not what it returns"},
		"sends what has not changed":    {store: &lying{get: func(_ int, o *blob.Object, err error) (*blob.Object, error) { return sent(o, err) }}, want: without(func(c *blob.Capabilities) { c.NotModified = false }), words: "have not changed"},
		"lists late":                    {store: &lying{list: func([]blob.Info, error) ([]blob.Info, error) { return []blob.Info{{Key: "another"}}, nil }}, want: without(func(c *blob.Capabilities) { c.List = false }), words: "can be seen late"},
		"does not delete":               {store: &lying{delete: func(error) error { return blob.ErrRetained }}, want: without(func(c *blob.Capabilities) { c.Delete = false }), words: "did not delete"},
		"says that it deletes":          {store: &lying{delete: func(error) error { return nil }}, want: without(func(c *blob.Capabilities) { c.Delete = false }), words: "it is still there"},
		"fails the first write":         {store: &lying{put: nth(1, broken)}, err: broken},
		"fails the second write":        {store: &lying{put: nth(2, broken)}, err: broken},
		"fails the third write":         {store: &lying{put: nth(3, broken)}, err: broken},
		"fails the fourth write":        {store: &lying{put: nth(4, broken)}, err: broken},
		"fails the fifth write":         {store: &lying{put: nth(5, broken)}, err: broken},
		"fails to read back":            {store: &lying{get: func(n int, o *blob.Object, err error) (*blob.Object, error) { return failed(n == 1, broken, o, err) }}, err: broken},
		"fails to read what is known":   {store: &lying{get: func(n int, o *blob.Object, err error) (*blob.Object, error) { return failed(n == 2, broken, o, err) }}, err: broken},
		"fails to list":                 {store: &lying{list: func([]blob.Info, error) ([]blob.Info, error) { return nil, broken }}, err: broken},
		"does not tell what is deleted": {store: &lying{get: func(n int, o *blob.Object, err error) (*blob.Object, error) { return failed(n == 3, broken, o, err) }}, want: without(func(c *blob.Capabilities) { c.Delete = false }), words: "broken"},
	} {
		test.store.Store = memory.New()
		got, err := blob.Probe(t.Context(), test.store, "control/")
		problems := got.Problems
		got.Problems = nil
		same := got.Conditional == test.want.Conditional && got.NotModified == test.want.NotModified && got.List == test.want.List && got.Delete == test.want.Delete
		if !same || !errors.Is(err, test.err) || test.err == nil && err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if test.words == "" && len(problems) > 0 || test.words != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.words)) {
			t.Errorf("%s: %q", name, problems)
		}
		if !strings.HasPrefix(test.store.key, "control/"+blob.ProbePrefix) {
			t.Errorf("%s: it was tried on %q", name, test.store.key)
		}
		left, err := test.store.Store.List(t.Context(), "")
		if err != nil || test.store.delete == nil && len(left) > 0 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
	}
	untouched := &lying{Store: memory.New()}
	if _, err := blob.Probe(t.Context(), untouched, "control"+strings.Repeat("/x", 600)+"/"); !errors.Is(err, blob.ErrInvalidKey) || untouched.puts > 0 {
		t.Errorf("%v after %d writes", err, untouched.puts)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := &lying{Store: memory.New(), list: func([]blob.Info, error) ([]blob.Info, error) { cancel(); return nil, context.Canceled }}
	_, err := blob.Probe(ctx, ended, "")
	if left, _ := ended.Store.List(t.Context(), ""); !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("given up: %v, %v is left", err, left)
	}
	if strings.Contains(ended.key, "/") {
		t.Errorf("it was tried on %q", ended.key)
	}
}

// silentStore answers no removal, and what it is asked before that it passes on.
type silentStore struct {
	blob.Store
	asked chan struct{}
}

func (s silentStore) Delete(ctx context.Context, _ string) error {
	close(s.asked)
	<-ctx.Done()
	return ctx.Err()
}

// A trial is over a moment after its caller has ended, also where the store does not answer to
// the removal of what it wrote: the end of a daemon, and of its etcd, waits for it.
func TestProbeEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := silentStore{memory.New(), make(chan struct{})}
		var ended time.Time
		go func() {
			<-store.asked
			ended = time.Now()
			cancel()
		}()
		caps, err := blob.Probe(ctx, store, "")
		if took := time.Since(ended); !errors.Is(err, context.Canceled) || len(caps.Problems) > 0 || took > 2*time.Second {
			t.Errorf("after %s: %+v, %v", took, caps, err)
		}
	})
}

// sent is an object that was sent although it has not changed.
func sent(o *blob.Object, err error) (*blob.Object, error) {
	if errors.Is(err, blob.ErrNotModified) {
		return &blob.Object{Body: io.NopCloser(strings.NewReader("")), ETag: "same"}, nil
	}
	return o, err
}

func failed(fails bool, with error, o *blob.Object, err error) (*blob.Object, error) {
	if fails {
		return nil, with
	}
	return o, err
}

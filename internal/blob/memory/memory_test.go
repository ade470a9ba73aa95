package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/blobtest"
	"etcdadm.io/internal/blob/memory"
)

func TestConformance(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return memory.New() })
}

// Faults and delays work on virtual time, as the simulator needs it.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		down := errors.New("the store is down")
		var seen []memory.Call

		store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			seen = append(seen, c)
			return memory.Fault{Err: down}
		})
		if _, err := blob.PutBytes(t.Context(), store, "a", nil, blob.IfAbsent); !errors.Is(err, down) {
			t.Errorf("put: %v", err)
		}
		if len(seen) != 1 || seen[0] != (memory.Call{Op: memory.Put, Key: "a", Cond: blob.IfAbsent}) {
			t.Errorf("the hook saw %v", seen)
		}

		store.Inject(func(context.Context, memory.Call) memory.Fault { return memory.Fault{Lost: down} })
		if _, err := blob.PutBytes(t.Context(), store, "a", []byte("1"), blob.IfAbsent); !errors.Is(err, down) {
			t.Errorf("put: %v", err)
		}
		store.Inject(nil)
		if data, _, err := blob.ReadAll(t.Context(), store, "a", 10); err != nil || string(data) != "1" {
			t.Errorf("after a lost reply the store holds %q, %v", data, err)
		}

		store.Inject(func(context.Context, memory.Call) memory.Fault { return memory.Fault{Delay: time.Hour} })
		start := time.Now()
		if _, err := store.List(t.Context(), ""); err != nil || time.Since(start) != time.Hour {
			t.Errorf("list after %v: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start = time.Now()
		if err := store.Delete(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("delete after %v: %v", time.Since(start), err)
		}
		store.Inject(nil)
		if _, _, err := blob.ReadAll(t.Context(), store, "a", 10); err != nil {
			t.Errorf("a delete that timed out before it began took effect: %v", err)
		}
	})
}

func TestProbe(t *testing.T) {
	down := errors.New("the store is down")
	for _, test := range []struct {
		name    string
		store   *memory.Store
		hook    memory.Hook
		want    string // in the one problem
		wantErr error
		caps    blob.Capabilities
	}{
		{name: "refuses conditions", store: memory.NewWith(memory.Refuse), want: "refuses conditional writes", caps: blob.Capabilities{NotModified: true, List: true, Delete: true}},
		{name: "ignores conditions", store: memory.NewWith(memory.Ignore), want: "overwrote an object that was to be written only if absent", caps: blob.Capabilities{NotModified: true, List: true, Delete: true}},
		{
			name: "knows if absent only", store: memory.New(), want: "refuses to write only if unchanged", caps: blob.Capabilities{NotModified: true, List: true, Delete: true},
			hook: func(_ context.Context, c memory.Call) (f memory.Fault) {
				if _, ok := c.Cond.Match(); ok {
					f.Err = blob.ErrUnsupported
				}
				return f
			},
		},
		{
			name: "may not delete", store: memory.New(), want: "did not delete", caps: blob.Capabilities{Conditional: true, NotModified: true, List: true},
			hook: func(_ context.Context, c memory.Call) (f memory.Fault) {
				if c.Op == memory.Delete {
					f.Err = errors.New("access denied")
				}
				return f
			},
		},
		{
			name: "is down", store: memory.New(), wantErr: down,
			hook: func(context.Context, memory.Call) memory.Fault { return memory.Fault{Err: down} },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.store.Inject(test.hook)
			caps, err := blob.Probe(t.Context(), test.store, "folder/")
			if !errors.Is(err, test.wantErr) {
				t.Fatalf("%v, want %v", err, test.wantErr)
			}
			if caps.Conditional != test.caps.Conditional || caps.NotModified != test.caps.NotModified || caps.List != test.caps.List || caps.Delete != test.caps.Delete {
				t.Errorf("capabilities %+v, want %+v", caps, test.caps)
			}
			if problems := strings.Join(caps.Problems, "\n"); !strings.Contains(problems, test.want) || (test.want == "") != (problems == "") || len(caps.Problems) > 1 {
				t.Errorf("problems %q, want one with %q", problems, test.want)
			}
			test.store.Inject(nil)
			if infos, err := test.store.List(t.Context(), ""); err != nil || (len(infos) != 0) != (test.name == "may not delete") {
				t.Errorf("the probe left %v, %v", infos, err)
			}
		})
	}
}

// A probe that is cut short cleans up behind it.
func TestProbeCutShort(t *testing.T) {
	store := memory.New()
	ctx, cancel := context.WithCancel(t.Context())
	store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if _, ok := c.Cond.Match(); ok {
			cancel()
		}
		return memory.Fault{}
	})
	if _, err := blob.Probe(ctx, store, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("probe: %v", err)
	}
	if infos, err := store.List(t.Context(), ""); err != nil || len(infos) != 0 {
		t.Errorf("the probe left %v, %v", infos, err)
	}
}

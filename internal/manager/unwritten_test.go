package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
)

// readOnly is a store that can be read, and for now not be written.
type readOnly struct {
	blob.Store
	now atomic.Bool
}

func (s *readOnly) Put(ctx context.Context, key string, r io.Reader, c blob.Condition) (blob.ETag, error) {
	if s.now.Load() {
		return "", errors.New("read-only file system")
	}
	return s.Store.Put(ctx, key, r, c)
}

// A store that can be read and takes no writes is told of once that lasts, and no longer
// than it does.
func TestStoreThatTakesNoWritesIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		store := &readOnly{Store: w.store}
		a := w.add("a", func(o *Options) {
			o.Control, o.Seeds = control.New(store, clusterName), seeds{"a"}
			o.Planner = func(plan.Goal, *cluster.Observation) plan.Decision {
				return plan.Decision{Rule: "test", Reason: fmt.Sprintf("something new at %s", time.Now())}
			}
		})
		w.run(a)
		w.untilLeads(time.Minute, "a")
		told := func() string {
			if o := a.Status().Observation; o != nil {
				return o.Store.Unwritten
			}
			return ""
		}
		time.Sleep(20 * time.Second)
		if why := told(); why != "" {
			t.Fatalf("a store that takes writes: %s", why)
		}
		store.now.Store(true)
		time.Sleep(5 * time.Second)
		if why := told(); why != "" {
			t.Errorf("it is told after 5 s: %s", why)
		}
		w.until(30*time.Second, "it is told", func() bool { return strings.Contains(told(), "read-only file system") })
		store.now.Store(false)
		w.until(30*time.Second, "it is told no more", func() bool { return told() == "" })
	})
}

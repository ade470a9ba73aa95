package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// What a cluster is to begin with is seen together with how its last restore ended; where it
// cannot be read, the store does not count as read.
func TestOriginIsRead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.store.Inject(func(_ context.Context, c memory.Call) memory.Fault {
			if strings.Contains(c.Key, "origin") {
				return memory.Fault{Err: errors.New("connection reset")}
			}
			return memory.Fault{}
		})
		a, _, _ := w.three()
		w.untilLeads(time.Second, "a")
		sees := func() cluster.StoreView {
			if o := a.Status().Observation; o != nil {
				return o.Store
			}
			return cluster.StoreView{}
		}
		time.Sleep(time.Minute)
		if sees().Read {
			t.Error("nobody knows what the cluster begins with, and the store counts as read")
		}
		w.store.Inject(nil)
		w.until(time.Minute, "the store is read", func() bool { return sees().Read })
		if o := sees().Origin; o != nil {
			t.Errorf("nothing says what the cluster begins with, and it is %v", o)
		}
		folder := control.New(w.store, clusterName)
		if err := folder.WriteOrigin(t.Context(), nil, &cluster.Origin{Backup: "B"}); err != nil {
			t.Fatal(err)
		}
		if err := folder.EndCommand(t.Context(), control.Ended{Name: "c", Kind: cluster.CommandRestore, Result: "rejected", Reason: "it is damaged"}); err != nil {
			t.Fatal(err)
		}
		w.until(time.Minute, "the origin is seen", func() bool {
			o := sees().Origin
			return o != nil && o.Backup == "B" && o.Ended == "rejected: it is damaged"
		})
	})
}

package sources

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// listCounter counts listings.
type listCounter struct {
	blob.Store
	lists atomic.Int64
}

func (l *listCounter) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	l.lists.Add(1)
	return l.Store.List(ctx, prefix)
}

// All that the leader asks of the backups at a time takes one list of the store.
func TestCatalogueListsOnce(t *testing.T) {
	ctx := t.Context()
	store := &listCounter{Store: memory.New()}
	c := backupstore.New(store)
	data := bytes.Repeat([]byte("some page of a database "), 512*10)
	sum := sha256.Sum256(data)
	data = append(data, sum[:]...)
	var names []backup.Name
	for range 5 {
		b, err := c.Write(ctx, backupstore.Request{
			Meta:     backup.Meta{EtcdVersion: cluster.MustVersion("3.6.16")},
			Manifest: backup.Manifest{Position: backup.Position{Revision: 7}},
		}, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, b.Name)
	}
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	drilled := backup.Verification{At: at, Depth: backup.DepthDrilled, OK: true, Revision: 9}
	bad := backup.Verification{At: at, Depth: backup.DepthContent, Problem: "it was cut"}
	slices.Sort(names) // those of one millisecond are in any order
	if err := c.Record(ctx, names[0], drilled); err != nil {
		t.Fatal(err)
	}
	if err := c.Record(ctx, names[4], bad); err != nil {
		t.Fatal(err)
	}
	before := store.lists.Load()
	v := &View{Catalogue: c}
	if _, ok, err := v.Proven(ctx); ok || err != nil {
		t.Errorf("before any list: %t, %v", ok, err)
	}
	newest, err := v.List(ctx)
	if err != nil || len(newest) != 3 || newest[0].Name != names[4].String() || newest[0].Doubt == "" || newest[0].Proven || newest[0].Revision != 7 {
		t.Errorf("%+v, %v", newest, err)
	}
	if b, ok, err := v.Proven(ctx); err != nil || !ok || b.Name != names[0].String() || !b.Drilled.Equal(at) || b.Revision != 9 || b.Doubt != "" {
		t.Errorf("%+v, %t, %v", b, ok, err)
	}
	if b, ok, err := v.Listed(ctx, names[1].String()); err != nil || !ok || b.Name != names[1].String() {
		t.Errorf("%+v, %t, %v", b, ok, err)
	}
	if _, ok, err := v.Listed(ctx, "2026-01-01T00:00:00Z-000001"); ok || err != nil {
		t.Errorf("one that is not there: %t, %v", ok, err)
	}
	if n := store.lists.Load() - before; n != 1 {
		t.Errorf("the store was listed %d times", n)
	}
}

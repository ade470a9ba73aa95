package daemon

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
)

// readable is a store for credentials that may only read, or may not delete.
type readable struct {
	blob.Store
	deletes bool
}

func (r readable) Put(ctx context.Context, key string, body io.Reader, c blob.Condition) (blob.ETag, error) {
	if r.deletes {
		return "", blob.ErrForbidden
	}
	return r.Store.Put(ctx, key, body, c)
}

func (r readable) Delete(ctx context.Context, key string) error {
	if !r.deletes {
		return blob.ErrForbidden
	}
	return r.Store.Delete(ctx, key)
}

// Credentials that replace good ones reach the same cluster's record, and can do what those
// could.
func TestNewCredentialsAreTriedOut(t *testing.T) {
	kept := func(edit func(*cluster.Intent)) *cluster.Intent {
		in := &cluster.Intent{Name: "etcd", Generation: 2, Nonce: "n", Token: "t", Cluster: 7, State: cluster.IntentFounded, Timestamp: 1, History: []cluster.PastGeneration{{Generation: 1, Cluster: 6}}}
		if edit != nil {
			edit(in)
		}
		return in
	}
	holding := func(in *cluster.Intent) blob.Store {
		t.Helper()
		store := memory.New()
		if in != nil {
			if _, err := control.New(store, in.Name).CreateIntent(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
		return store
	}
	dir := t.TempDir()
	before := holding(kept(nil))
	d := &daemon{cfg: Config{ClusterName: "etcd", DataDir: dir}, log: slog.New(slog.DiscardHandler), folder: control.New(before, "etcd")}
	if _, err := d.folder.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.answers(t.Context(), holding(nil)); err != nil {
		t.Errorf("a host that was never part of a cluster: %v", err)
	}
	disk, err := datadir.Open(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.Save(record.State{Cluster: "etcd", Intent: kept(nil)}); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		store blob.Store
		why   string // empty: they are taken
	}{
		"the same": {before, ""},
		"a later generation": {holding(kept(func(in *cluster.Intent) {
			in.Generation, in.Nonce, in.Cluster, in.History = 3, "m", 8, []cluster.PastGeneration{{Generation: 2, Cluster: 7}}
		})), ""},
		"only reads":              {readable{before, true}, "not allowed"},
		"deletes nothing":         {readable{before, false}, "less than those from before"},
		"an empty bucket":         {holding(nil), "no record of this cluster"},
		"another of that name":    {holding(kept(func(in *cluster.Intent) { in.Nonce = "m" })), "another cluster"},
		"a later one of the name": {holding(kept(func(in *cluster.Intent) { in.Generation, in.Nonce = 9, "m" })), "another cluster"},
		"an earlier one":          {holding(kept(func(in *cluster.Intent) { in.Generation, in.Cluster, in.History = 1, 66, nil })), "another cluster"},
		"another name":            {holding(kept(func(in *cluster.Intent) { in.Name = "theirs" })), "theirs"},
	} {
		if err := d.answers(t.Context(), x.store); (err == nil) != (x.why == "") || err != nil && !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s: %v, want %q", name, err, x.why)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "etcdadm", "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.answers(t.Context(), before); err == nil {
		t.Error("what this host keeps cannot be read, and the credentials are taken")
	}
}

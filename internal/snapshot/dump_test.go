package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/testetcd"
)

// A dump has exactly what a client reads, however many passes it takes.
func TestDump(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		t.Parallel()
		c := testetcd.Start(t, testetcd.Config{Version: version})
		client := c.Client(t)
		fill(t, client)
		put(t, client, "bin\x00\xff", "\xfe")
		put(t, client, "empty", "")
		file := filepath.Join(t.TempDir(), "snapshot.db")
		save(t, client, file)
		want := map[string]string{}
		r, err := client.Get(within(t), "", clientv3.WithPrefix())
		must(t, err)
		for _, kv := range r.Kvs {
			want[string(kv.Key)] = fmt.Sprintf("%s %d %d %d %d", kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease)
		}
		for _, tracked := range []int64{dumpTracked, 4, 1} {
			got := map[string]string{}
			must(t, dump(within(t), file, tracked, func(kv KeyValue) error {
				if _, twice := got[string(kv.Key)]; twice {
					t.Errorf("%q is there twice", kv.Key)
				}
				got[string(kv.Key)] = fmt.Sprintf("%s %d %d %d %d", kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease)
				return nil
			}))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("with %d keys a pass: %s", tracked, diff)
			}
		}
		last := int64(0)
		must(t, Dump(within(t), file, func(kv KeyValue) error {
			if kv.ModRevision < last {
				t.Errorf("%q of revision %d comes after %d", kv.Key, kv.ModRevision, last)
			}
			last = kv.ModRevision
			return nil
		}))
		enough := errors.New("enough")
		if err := Dump(within(t), file, func(KeyValue) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("a visitor that ends it: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_ = Dump(ended, file, func(KeyValue) error { return nil }) // returns
		if err := Dump(t.Context(), filepath.Join(t.TempDir(), "none"), nil); err == nil {
			t.Error("a file that is not there")
		}
	})
}

package etcd_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/testetcd"
)

// Where nobody writes, etcd's own compaction comes up to the newest revision, and
// old releases refuse a hash up to it; newer ones tell of the compaction before,
// until they are restarted. The members of such a cluster can be
// compared all the same, and a revision that is gone stays refused.
func TestHashOfWhatIsCompactedToItsEnd(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V33, testetcd.V34, testetcd.V35, testetcd.V37} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c, _ := start(t, testetcd.Config{Version: version, Members: 3})
			ctx := within(t, time.Minute)
			client := c.Client(t)
			var last int64
			for i := range 20 {
				r, err := client.Put(ctx, fmt.Sprintf("/key/%03d", i), "value")
				if err != nil {
					t.Fatal(err)
				}
				last = r.Header.Revision
			}
			if _, err := client.Compact(ctx, last); err != nil {
				t.Fatal(err)
			}
			compared(t, c, last)
			if err := errors.Join(c.Kill(ctx, 1, syscall.SIGKILL), c.Restart(ctx, 1)); err != nil {
				t.Fatal(err)
			}
			compared(t, c, last)
			_, err := drive(t, c, 0).HashKV(ctx, last-1)
			wantErr(t, "hash of what was compacted", err, etcd.ErrCompacted)
		})
	}
}

// compared has every member tell the same hash of the same compaction.
func compared(t *testing.T, c *testetcd.Cluster, last int64) {
	t.Helper()
	var first etcd.KVHash
	for i := range c.Members {
		d := drive(t, c, i)
		var h etcd.KVHash
		until(t, 20*time.Second, "the member has compacted", func() (err error) {
			if h, err = d.HashKV(within(t, 5*time.Second), last); err == nil && h.Compacted != last {
				err = fmt.Errorf("compacted up to %d", h.Compacted)
			}
			return err
		})
		if i == 0 {
			first = h
		}
		if h.Revision != last || h.Hash == 0 || h.Hash != first.Hash {
			t.Errorf("member %d: %+v, the first: %+v", i, h, first)
		}
	}
}

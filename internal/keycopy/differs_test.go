package keycopy_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/testetcd"
)

// copyBeside copies all, and has something done once so many keys are written.
func copyBeside(t *testing.T, from, to *server, keys int64, do func()) (keycopy.Result, error) {
	t.Helper()
	var once sync.Once
	return keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{LeaveOut: true, Progress: func(n, _ int64) {
		if n == keys {
			once.Do(do)
		}
	}})
}

// Whatever of what was written is not there when it is read back, the copy says so, and so
// it does of what is there besides.
func TestTargetThatDiffers(t *testing.T) {
	t.Parallel()
	from, to := start(t, testetcd.V36), start(t, testetcd.V34)
	lease := from.grant(600)
	from.put("/a", "1", 0)
	from.put("/leased", "2", lease)
	from.put("/empty", "", 0)
	for what, do := range map[string]func(ctx context.Context, c *clientv3.Client) error{
		"nothing":                 nil,
		"a key is gone":           func(ctx context.Context, c *clientv3.Client) error { _, err := c.Delete(ctx, "/empty"); return err },
		"a key has another value": func(ctx context.Context, c *clientv3.Client) error { _, err := c.Put(ctx, "/a", "2"); return err },
		"there is a key more":     func(ctx context.Context, c *clientv3.Client) error { _, err := c.Put(ctx, "/b", ""); return err },
		"a key has another name": func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.Txn(ctx).Then(clientv3.OpDelete("/a"), clientv3.OpPut("/c", "1")).Commit()
			return err
		},
		"a key has no lease": func(ctx context.Context, c *clientv3.Client) error { _, err := c.Put(ctx, "/leased", "2"); return err },
		"a key has a lease": func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.Put(ctx, "/a", "1", clientv3.WithLease(lease))
			return err
		},
		"there is a lease more":        func(ctx context.Context, c *clientv3.Client) error { _, err := c.Grant(ctx, 600); return err },
		"a lease is gone with its key": func(ctx context.Context, c *clientv3.Client) error { _, err := c.Revoke(ctx, lease); return err },
	} {
		to.empty()
		done, err := copyBeside(t, from, to, 3, func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if do == nil {
				return
			}
			if err := do(ctx, to.client()); err != nil {
				t.Error(err)
			}
		})
		if do == nil && (err != nil || done.Digest == "" || done.Leases != 1) || do != nil && (!errors.Is(err, keycopy.ErrDiffers) || done.Digest != "") {
			t.Errorf("%s: %+v, %v", what, done, err)
		}
	}
	// A lease alone is no empty target, and one that is there and shorter is another one.
	to.empty()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := clientv3.RetryLeaseClient(to.client()).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(lease), TTL: 300}); err != nil {
		t.Fatal(err)
	}
	if _, err := copyBeside(t, from, to, 3, func() {}); !errors.Is(err, keycopy.ErrNotEmpty) {
		t.Errorf("a target with a lease: %v", err)
	}
	if _, err := keycopy.Copy(ctx, from.endpoint(), to.endpoint(), keycopy.Options{Resume: true}); !errors.Is(err, keycopy.ErrDiffers) {
		t.Errorf("a target with a shorter lease: %v", err)
	}
}

// The same of the tree of version 2, where keys with a TTL and hidden ones are looked for
// one by one.
func TestTargetOfVersion2ThatDiffers(t *testing.T) {
	t.Parallel()
	from, to := start(t, testetcd.V34), start(t, testetcd.V23)
	lease := from.grant(600)
	from.put("/a", "1", 0)
	from.put("/leased", "2", lease)
	from.put("/_hidden", "3", 0)
	from.put("/d/_hidden/leased", "4", lease)
	from.put("/d/e", "", 0)
	first := []string{"a", "b", "leased", "_hidden", "d"}
	remove := func(key string) func() { return func() { to.v2do(http.MethodDelete, key, nil) } }
	set := func(key, value string, pairs ...string) func() { return func() { to.set(key, value, pairs...) } }
	for what, do := range map[string]func(){
		"nothing":                                nil,
		"a key is gone":                          remove("/d/e"),
		"a key has another value":                set("/a", "2"),
		"there is a key more":                    set("/b", ""),
		"a key has a TTL":                        set("/a", "1", "ttl", "600"),
		"a key with a TTL is gone":               remove("/leased"),
		"a key with a TTL has another value":     set("/leased", "3", "ttl", "600"),
		"a key has no TTL":                       set("/leased", "2"),
		"a hidden key is gone":                   remove("/_hidden"),
		"a hidden key has another value":         set("/_hidden", "4"),
		"a hidden key has a TTL":                 set("/_hidden", "3", "ttl", "600"),
		"a hidden key with a TTL is gone":        remove("/d/_hidden/leased"),
		"a hidden key with a TTL, another value": set("/d/_hidden/leased", "5", "ttl", "600"),
		"a hidden key has no TTL":                set("/d/_hidden/leased", "4"),
	} {
		to.emptyV2(first)
		done, err := copyBeside(t, from, to, 5, func() {
			if do != nil {
				do()
			}
		})
		if do == nil && (err != nil || done.Keys != 5 || done.RanOut != 0) || do != nil && !errors.Is(err, keycopy.ErrDiffers) {
			t.Errorf("%s: %+v, %v", what, done, err)
		}
	}
	to.emptyV2(first)
	for what, set := range map[string]func(){
		"a key":       set("/a", "1"),
		"a directory": set("/a", "", "dir", "true"),
	} {
		set()
		if _, err := copyBeside(t, from, to, 5, func() {}); !errors.Is(err, keycopy.ErrNotEmpty) {
			t.Errorf("a target with %s: %v", what, err)
		}
		to.v2do(http.MethodDelete, "/a", url.Values{"recursive": {"true"}, "dir": {"true"}})
	}
}

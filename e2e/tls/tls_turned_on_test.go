package tls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// TestTLSTurnedOn: a cluster whose etcd was made without TLS gets it while it is
// written to: one daemon after the other is restarted without --etcd-insecure. In
// the middle, with one host still to come, a daemon is killed.
func TestTLSTurnedOn(t *testing.T) {
	rig.TakesLong(t, "40 s")
	for _, version := range []string{testetcd.V35, testetcd.V37} {
		t.Run(version, func(t *testing.T) {
			if version != testetcd.V37 && !*rig.Long {
				t.Skip("a long test: run with -e2e.long")
			}
			c := rig.NewCluster(t, rig.Options{Hosts: 3, TLS: true, Version: version, Flags: []string{"--etcd-insecure"}})
			c.Start(1, 2, 3)
			c.Configure(3)
			plain, secure := c.PlainClient(), c.NewClient()
			defer plain.Close()
			defer secure.Close()
			before := c.ListedAt(plain, "http://")

			longest, stop := writeBothWays(t, plain, secure)
			c.Options.Flags = nil
			for n := 1; n <= 3; n++ {
				h := c.Host(n)
				h.Kill() // its etcd runs on, and is taken over
				h.Start()
				rig.Eventually(t, rig.Soon, "the leader knows what the host is set to", func(context.Context) error {
					if n < 3 && !strings.Contains(c.Etcdadm("status", "--data-dir="+h.Dir).Stdout, "speak TLS with the other members") {
						return errors.New("nobody says what it waits for")
					}
					return nil
				})
			}
			after := c.ListedAt(secure, "https://")
			for id := range before {
				if !after[id] {
					t.Errorf("member %x is gone", id)
				}
			}
			n := stop()
			got, err := secure.Get(t.Context(), "both/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil || got.Count < int64(n) || n == 0 {
				t.Errorf("%d of %d acknowledged writes are there, %v", got.Count, n, err)
			}
			t.Logf("%d writes, longest stall %s", n, *longest)
			rig.Eventually(t, rig.Soon, "etcdctl finds every member healthy", func(context.Context) error { // the last one was restarted just now
				if r := c.Etcdctl(c.Host(2), version, "endpoint", "health", "--cluster"); r.Code != 0 {
					return errors.New(r.String())
				}
				return nil
			})
			for _, h := range c.Hosts { // nobody listens without it any more
				client, err := clientv3.New(clientv3.Config{Endpoints: []string{strings.Replace(h.ClientURL(), "https", "http", 1)}, Logger: zap.NewNop()})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if _, err := client.Get(ctx, "x"); err == nil {
					t.Errorf("host %d answers without TLS", h.N)
				}
				cancel()
				client.Close()
			}
		})
	}
}

// writeBothWays puts keys of its own through whichever client is let in, until
// the returned function is called, which tells how many were acknowledged.
func writeBothWays(t *testing.T, clients ...*clientv3.Client) (longest *time.Duration, stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	n, last := 0, time.Now()
	longest = new(time.Duration)
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			for _, client := range clients {
				callCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
				_, err := client.Put(callCtx, fmt.Sprintf("both/%08d", i), "x")
				cancel()
				if err == nil {
					n++
					*longest = max(*longest, time.Since(last))
					last = time.Now()
					break
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	stop = func() int {
		cancel()
		done.Wait()
		return n
	}
	t.Cleanup(func() { stop() })
	return longest, stop
}

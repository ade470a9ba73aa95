package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Pour writes values of a size as fast as it can, over and over the same so many
// keys (0: each a new one), and counts what was acknowledged and what was refused
// for want of room.
func (c *Cluster) Pour(prefix string, keys int64, size int) (acked, refused *atomic.Int64, stop func()) {
	acked, refused = new(atomic.Int64), new(atomic.Int64)
	var next atomic.Int64
	value := strings.Repeat("x", size)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 4 {
		client := c.NewClient()
		all.Go(func() {
			defer client.Close()
			for ctx.Err() == nil {
				n := next.Add(1)
				if keys > 0 {
					n %= keys
				}
				call, end := context.WithTimeout(ctx, 3*time.Second)
				_, err := client.Put(call, fmt.Sprintf("%s%08d", prefix, n), value)
				end()
				switch {
				case err == nil:
					acked.Add(1)
				case errors.Is(err, rpctypes.ErrNoSpace):
					refused.Add(1)
					select {
					case <-ctx.Done():
					case <-time.After(20 * time.Millisecond):
					}
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	c.T.Cleanup(stop)
	return acked, refused, stop
}

func (c *Cluster) alarms(ctx context.Context) (string, error) {
	r, err := c.Etcd().AlarmList(ctx)
	if err != nil {
		return "", err
	}
	var out []string
	for _, a := range r.Alarms {
		out = append(out, fmt.Sprintf("%s %x", a.Alarm, a.MemberID))
	}
	return strings.Join(out, ", "), nil
}

// Unalarmed waits until there is no alarm.
func (c *Cluster) Unalarmed(within time.Duration) {
	c.T.Helper()
	Eventually(c.T, within, "no alarm", func(ctx context.Context) error {
		now, err := c.alarms(ctx)
		if err == nil && now != "" {
			err = errors.New(now)
		}
		return err
	})
}

// Count is how often the daemons have said some words.
func (c *Cluster) Count(words string) (n int) {
	c.T.Helper()
	for _, h := range c.Hosts {
		data, err := os.ReadFile(h.Log)
		if err != nil {
			c.T.Fatal(err)
		}
		n += bytes.Count(data, []byte(words))
	}
	return n
}

// Rot changes every place of a value in the database of a host whose etcd does not run.
func (h *Host) Rot(value, into string) {
	h.C.T.Helper()
	files, err := filepath.Glob(filepath.Join(h.Dir, "data", "*", "member", "snap", "db"))
	if err != nil || len(files) != 1 {
		h.C.T.Fatalf("databases of host %d: %q, %v", h.N, files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		h.C.T.Fatal(err)
	}
	if bytes.Count(data, []byte(value)) == 0 {
		h.C.T.Fatalf("%q is not in %s", value, files[0])
	}
	if err := os.WriteFile(files[0], bytes.ReplaceAll(data, []byte(value), []byte(into)), 0o600); err != nil {
		h.C.T.Fatal(err)
	}
}

package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Config runs etcdadm config through a host's daemon.
func (c *Cluster) Config(h *Host, words ...string) Result {
	c.T.Helper()
	return c.Etcdadm(slices.Concat([]string{"config"}, words, []string{"--data-dir", h.Dir})...)
}

// EtcdArguments are those of the etcd that runs on a host, by /proc.
func (h *Host) EtcdArguments(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(h.EtcdPID()), "cmdline"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
}

// Retrying writes one key after the other, each again and again until it is
// acknowledged, and gives the longest that one of them took.
func (c *Cluster) Retrying() (stop func() (longest time.Duration, again int64)) {
	var worst, failed atomic.Int64
	end := c.During(func(ctx context.Context, client *clientv3.Client) {
		for n := 0; ctx.Err() == nil; n++ {
			began := time.Now()
			for ctx.Err() == nil {
				attempt, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				_, err := client.Put(attempt, fmt.Sprintf("retried/%06d", n), "x")
				cancel()
				if err == nil {
					break
				}
				if ctx.Err() == nil {
					failed.Add(1)
				}
			}
			worst.Store(max(worst.Load(), int64(time.Since(began))))
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return func() (time.Duration, int64) {
		end()
		return time.Duration(worst.Load()), failed.Load()
	}
}

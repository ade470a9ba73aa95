package keycopy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/testetcd"
)

// How fast it is, and in how much memory. ETCDADM_KEYCOPY_KEYS asks for another
// number of keys than 5000, and then the time is only told.
func TestSpeed(t *testing.T) {
	const size = 1000
	keys, told := 5000, os.Getenv("ETCDADM_KEYCOPY_KEYS")
	if told != "" {
		var err error
		if keys, err = strconv.Atoi(told); err != nil {
			t.Fatal(err)
		}
	}
	large := []string{"--quota-backend-bytes=8589934592"}
	for _, way := range []struct{ from, to string }{
		{testetcd.V36, testetcd.V34}, {testetcd.V32, testetcd.V23}, {testetcd.V23, testetcd.V37},
	} {
		t.Run(way.from+" to "+way.to, func(t *testing.T) {
			args := map[string][]string{testetcd.V36: large, testetcd.V32: large, testetcd.V34: large, testetcd.V37: large}
			from, to := start(t, way.from, args[way.from]...), start(t, way.to, args[way.to]...)
			from.load(keys, size)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			began := time.Now()
			r, err := keycopy.Survey(ctx, from.endpoint(), to.version)
			surveyed := time.Since(began)
			if err != nil || int(r.Keys) != keys {
				t.Fatal(r, err)
			}
			peak := watchHeap(ctx)
			done, err := keycopy.Copy(ctx, from.endpoint(), to.endpoint(), keycopy.Options{})
			heap := peak()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d keys of %d bytes: survey %v, copy with verification %v, at most %d MiB of heap", keys, size, surveyed, done.Took, heap>>20)
			if told == "" && done.Took > 20*time.Second {
				t.Errorf("it took %v", done.Took)
			}
			if heap > 160<<20 {
				t.Errorf("%d MiB of heap", heap>>20)
			}
		})
	}
}

// watchHeap returns how to learn the most that was live or not yet collected.
func watchHeap(ctx context.Context) func() uint64 {
	ctx, cancel := context.WithCancel(ctx)
	runtime.GC()
	var most uint64
	var wg sync.WaitGroup
	wg.Go(func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for ctx.Err() == nil {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() uint64 { cancel(); wg.Wait(); return most }
}

// load fills an etcd with keys, through as many requests at a time as make it
// busy.
func (s *server) load(keys, size int) {
	s.t.Helper()
	value := make([]byte, size)
	for i := range value {
		value[i] = "0123456789abcdef"[rand.IntN(16)]
	}
	client, todo := s.client(), make(chan int)
	var wg sync.WaitGroup
	workers, step := 8, 100
	if s.version.Major == 2 {
		workers, step = 64, 1
	}
	for range workers {
		wg.Go(func() {
			for from := range todo {
				var ops []clientv3.Op
				for i := from; i < min(from+step, keys); i++ {
					key := fmt.Sprintf("/registry/things/namespace-%03d/thing-%07d", i%200, i)
					if s.version.Major == 2 {
						s.set(key, string(value))
					} else {
						ops = append(ops, clientv3.OpPut(key, string(value)))
					}
				}
				if len(ops) > 0 {
					if _, err := client.Txn(s.t.Context()).Then(ops...).Commit(); err != nil {
						s.t.Error(err)
					}
				}
			}
		})
	}
	for i := 0; i < keys; i += step {
		todo <- i
	}
	close(todo)
	wg.Wait()
	if s.t.Failed() {
		s.t.FailNow()
	}
}

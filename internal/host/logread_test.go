package host_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
)

// TestLogIsReadOverSeveralLooks: each says how far it has come, one reading goes on
// under all of them, and what is told at the end began after the look that tells it.
func TestLogIsReadOverSeveralLooks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		x, with := staging(m)
		var mu sync.Mutex // guards what follows
		count, under := 0, 0
		end, takes := cluster.Progress{Term: 3, Index: 70}, 45*time.Second
		set := func(f func()) {
			mu.Lock()
			defer mu.Unlock()
			f()
		}
		readings := func() (n int) {
			set(func() { n = count })
			return n
		}
		x.logEnd = func(ctx context.Context, tell func(cluster.LogReading)) (cluster.Progress, error) {
			var was cluster.Progress
			var seconds time.Duration
			set(func() {
				count++
				if under++; under > 1 {
					t.Error("two readings at a time")
				}
				was, seconds = end, takes/time.Second // what the log holds when the reading begins
			})
			defer set(func() { under-- })
			next := 900 * time.Millisecond // no look ends at the moment at which the reading does
			for s := range seconds {
				select {
				case <-ctx.Done():
					return cluster.Progress{}, ctx.Err()
				case <-time.After(next):
					tell(cluster.LogReading{Bytes: int64(s) << 20, Of: 50 << 20})
				}
				next = time.Second
			}
			set(func() { takes = 0 }) // it is known from now on
			return was, nil
		}
		d = m.boot(with)
		defer d.end()
		look := func() cluster.HostState {
			at := time.Now()
			s := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Log: true}).State
			if took := time.Since(at); took > 1900*time.Millisecond {
				t.Fatalf("a look took %s, longer than a leader waits", took)
			}
			return *s
		}
		var far int64
		began, looks := time.Now(), 0
		for ; ; looks++ {
			s := look()
			if s.Log != nil {
				if *s.Log != end || s.Reading != nil {
					t.Fatalf("the end is %v, reading %v; want %v", s.Log, s.Reading, end)
				}
				break
			}
			if s.Reading == nil || s.Reading.Bytes < far {
				t.Fatalf("after %s: reading %v, and it was at %d", time.Since(began), s.Reading, far)
			}
			far = s.Reading.Bytes
			if time.Since(began) > 40*time.Second {
				set(func() { end.Index = 71 }) // the member wrote once more
			}
			if time.Since(began) > time.Minute {
				t.Fatal("it does not end")
			}
		}
		if far < 40<<20 || looks < 40 || readings() != 2 {
			t.Errorf("%d looks, %d readings, the last progress was %d", looks, readings(), far)
		}

		set(func() { takes = time.Hour }) // and there is an end of it
		for look().Log == nil && readings() == 3 {
		}
		if readings() != 4 || time.Since(began) > 12*time.Minute {
			t.Errorf("%d readings after %s", readings(), time.Since(began))
		}
		set(func() { takes = 0 })
		later(11 * time.Minute)
		synctest.Wait()
		if s := look(); s.Log == nil {
			t.Error("a reading that came to nothing spoils the next one")
		}
	})
}

// TestLogOfAMemberThatWritesAllTheTime: one of etcd 3.4 without a quorum campaigns
// every second or two, so each look reads its last file anew, and has only the time
// that its caller gives it. The answer leaves before that is over.
func TestLogOfAMemberThatWritesAllTheTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		x, with := staging(m)
		takes := time.Duration(0)
		x.logEnd = func(ctx context.Context, _ func(cluster.LogReading)) (cluster.Progress, error) {
			select {
			case <-time.After(takes):
				return cluster.Progress{Term: 5, Index: 40}, nil
			case <-ctx.Done():
				return cluster.Progress{}, ctx.Err()
			}
		}
		d = m.boot(with)
		defer d.end()
		for _, c := range []struct {
			takes, gives, answers time.Duration // gives: 0 is no bound
			told                  bool
		}{
			{1500 * time.Millisecond, 2 * time.Second, 1500 * time.Millisecond, true},
			{1900 * time.Millisecond, 2 * time.Second, 1700 * time.Millisecond, false},
			{4 * time.Second, time.Minute, 4 * time.Second, true},
			{6 * time.Second, time.Minute, 5 * time.Second, false},
			{time.Second, 0, 500 * time.Millisecond, false},
			{time.Second, 200 * time.Millisecond, 0, false},
		} {
			takes = c.takes
			ctx, cancel := context.WithCancel(context.Background())
			if c.gives > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.gives)
			}
			at := time.Now()
			s := d.Observe(ctx, cluster.ObserveRequest{Log: true}).State
			took := time.Since(at)
			cancel()
			if (s.Log != nil) != c.told || (s.Reading != nil) == c.told || took != c.answers {
				t.Errorf("%+v: after %s the log is %v, its reading %v", c, took, s.Log, s.Reading)
			}
			later(10 * time.Second) // the reading ends, and what it found is too old for the next look
			synctest.Wait()
		}
	})
}

// TestNoLogIsReadOnceTheHostEnds: and no look is told that there is nothing in it.
func TestNoLogIsReadOnceTheHostEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		_, with := staging(m)
		d = m.boot(with)
		d.end()
		var looks sync.WaitGroup
		for range 64 {
			looks.Go(func() {
				for range 20 {
					if s := d.Observe(context.Background(), cluster.ObserveRequest{Log: true}).State; s == nil || s.Log != nil {
						t.Errorf("a host that has ended observes %+v", s)
					}
				}
			})
		}
		looks.Wait()
	})
}

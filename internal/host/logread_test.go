package host_test

import (
	"context"
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
		readings, under := 0, 0
		end, takes := cluster.Progress{Term: 3, Index: 70}, 45*time.Second
		x.logEnd = func(ctx context.Context, tell func(cluster.LogReading)) (cluster.Progress, error) {
			readings++
			under++
			defer func() { under-- }()
			if under > 1 {
				t.Error("two readings at a time")
			}
			was := end // what the log holds when the reading begins
			for s := range takes / time.Second {
				select {
				case <-ctx.Done():
					return cluster.Progress{}, ctx.Err()
				case <-time.After(time.Second):
					tell(cluster.LogReading{Bytes: int64(s) << 20, Of: 50 << 20})
				}
			}
			takes = 0 // it is known from now on
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
				end.Index = 71 // the member wrote once more
			}
			if time.Since(began) > time.Minute {
				t.Fatal("it does not end")
			}
		}
		if far < 40<<20 || looks < 40 || readings != 2 {
			t.Errorf("%d looks, %d readings, the last progress was %d", looks, readings, far)
		}

		takes = time.Hour // and there is an end of it
		for look().Log == nil && readings == 3 {
		}
		if readings != 4 || time.Since(began) > 12*time.Minute {
			t.Errorf("%d readings after %s", readings, time.Since(began))
		}
		takes = 0
		later(11 * time.Minute)
		synctest.Wait()
		if s := look(); s.Log == nil {
			t.Error("a reading that came to nothing spoils the next one")
		}
	})
}

package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
)

// A promise that no leader can come up to, as a damaged state may hold, is taken
// back by a person's command only, and no other one ever is.
func TestResetFence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		ctx := context.Background()
		if d.look(5) == nil {
			t.Fatal("no promise")
		}
		if _, err := d.ResetFence(ctx, fence(1)); !errors.Is(err, host.ErrFenceInReach) || m.state().Promised != fence(5) {
			t.Fatalf("a promise in reach: %v, promised %s", err, m.state().Promised)
		}
		absurd := cluster.Fence{Number: cluster.MaxFence + 1, Host: "x"}
		if r := d.Observe(ctx, cluster.ObserveRequest{Fence: absurd}); r.Refused == nil || m.state().Promised != fence(5) {
			t.Fatalf("a fence out of reach was promised: %+v", r)
		}
		d.end()
		m.edit(func(s *record.State) { s.Promised = absurd })
		d = m.boot()
		defer d.end()
		if r := d.Observe(ctx, cluster.ObserveRequest{Fence: fence(6)}); r.Refused == nil || r.Refused.Promised != absurd {
			t.Fatalf("%+v", r)
		}
		if _, err := d.ResetFence(ctx, cluster.Fence{Number: cluster.MaxFence + 9}); err == nil {
			t.Fatal("reset to a fence that is out of reach as well")
		}
		was, err := d.ResetFence(ctx, fence(5))
		if err != nil || was != absurd || m.state().Promised != fence(5) {
			t.Fatalf("%s, %v, promised %s", was, err, m.state().Promised)
		}
		if r := d.Observe(ctx, cluster.ObserveRequest{Fence: fence(4)}); r.Refused == nil {
			t.Fatalf("a fence below the reset one: %+v", r)
		}
		if d.look(6) == nil || m.state().Promised != fence(6) {
			t.Fatal("no promise after the reset")
		}
	})
}

// A person who waited in vain hears for what.
func TestAPersonIsToldWhatWasWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, first := started(t)
		first.end()
		var stall *stalledDisk
		gate := make(chan struct{})
		d := m.boot(func(s *session, o *host.Options) { stall = &stalledDisk{Disk: s}; o.Disk = keeper{stall} })
		defer d.end()
		if d.look(5) == nil {
			t.Fatal("no promise")
		}
		stall.gate.Store(&gate)
		go d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(6)})
		synctest.Wait()
		for _, c := range []struct {
			within time.Duration
			want   string
		}{{time.Second, "which takes its disk long: context deadline exceeded"}, {10 * time.Second, "its disk has not finished a write that began at"}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.within)
			_, err := d.ResetFence(ctx, fence(1))
			if err == nil || !strings.Contains(err.Error(), "makes a promise or begins an op") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("reset the fence: %v", err)
			}
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			if _, err := d.PruneAside(ctx, "x"); err == nil || !strings.Contains(err.Error(), "makes a promise or begins an op") {
				t.Errorf("prune: %v", err)
			}
			cancel()
		}
		stall.gate.Store(nil)
		close(gate)

		unstarted := host.New(host.Options{ID: "h", Disk: keeper{stall}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := unstarted.PruneAside(ctx, "x"); err == nil || !strings.Contains(err.Error(), "host h is starting: context deadline exceeded") {
			t.Errorf("before it has started: %v", err)
		}
		if _, err := unstarted.ResetFence(ctx, fence(1)); err == nil || !strings.Contains(err.Error(), "host h is starting: context deadline exceeded") {
			t.Errorf("before it has started: %v", err)
		}
	})
}

// keeper is a disk that could remove what was set aside.
type keeper struct{ host.Disk }

func (keeper) RemoveAside(string) (func() error, error) { return nil, errors.New("nothing is removed") }
func (keeper) FinishRemovals() error                    { return nil }

func TestForgetAnotherHost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		name := m.state().Cluster
		d.Remember([]cluster.Ping{{Cluster: name, Host: "gone", Disk: "d", Epoch: 4, Endpoint: "gone:1"}, {Cluster: name, Host: "voter", Disk: "e", Epoch: 9}})
		local := m.state().Local
		in := &cluster.Intent{Name: name, Generation: local.Generation, Nonce: local.Nonce, Token: local.Token, Write: 9, State: cluster.IntentFounded}
		in.Next = []cluster.Voter{{Host: "voter", Member: 7}}
		if r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(9), Intent: in}); r.State == nil {
			t.Fatalf("%+v", r)
		}
		if err := d.Forget("voter"); !errors.Is(err, record.ErrCountedOn) {
			t.Fatalf("a host that carries a voter: %v", err)
		}
		if err := d.Forget("gone"); err != nil {
			t.Fatal(err)
		}
		later(time.Minute) // some epochs
		if peers := m.state().Peers; len(peers) != 1 || peers[0].Host != "voter" {
			t.Fatalf("remembered: %+v", peers)
		}
	})
}

package fakeetcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/sim/fakeetcd"
)

// A process that is killed at any of its durable writes, and restarted on its
// data, costs nothing that was acknowledged.
func TestCrashAtEachWrite(t *testing.T) {
	for after := range 2 {
		for number := 1; number <= 60; number += 3 {
			t.Run(fmt.Sprintf("write-%d-%d", number, after), func(t *testing.T) { crashAt(t, number, after == 1) })
		}
	}
}

func crashAt(t *testing.T, number int, after bool) {
	opt := fakeetcd.Options{Seed: uint64(number), OnWrite: func(w fakeetcd.Write) bool {
		return w.Number == number && w.After == after
	}}
	inBubble(t, opt, func(t *testing.T, b *bed) {
		var initial []cluster.Member
		for i := range 3 {
			initial = append(initial, cluster.Member{Name: string(name(i)), PeerURLs: []string{peerURL(name(i))}})
		}
		l := record.Launch{Founding: true, Token: "t", InitialCluster: initial}
		for i := range 3 {
			b.start(name(i), l)
		}
		acknowledged := map[string]string{}
		for i := range 25 {
			for j := range 3 {
				if b.net.Running(name(j)) == nil {
					b.start(name(j), l)
				}
			}
			k := fmt.Sprint("k", i)
			ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
			_, err := b.net.Client(name(i%3), name((i+1)%3), name((i+2)%3)).Put(ctx, k, "v")
			cancel()
			if err == nil {
				acknowledged[k] = "v"
			}
		}
		for i := range 3 {
			b.ready(name(i))
		}
		if len(acknowledged) < 20 {
			t.Errorf("%d of 25 writes were acknowledged", len(acknowledged))
		}
		for k, want := range acknowledged {
			if v, err := b.net.Client("h1").Get(b.ctx, k); err != nil || v.Value != want {
				t.Errorf("%s: %+v, %v", k, v, err)
			}
		}
	})
}

// A lost reply is an unknown outcome, and the change has taken effect.
func TestLostReply(t *testing.T) {
	lose := false
	opt := fakeetcd.Options{LoseReply: func(c fakeetcd.Call) bool { return lose && c.Mutating }}
	inBubble(t, opt, func(t *testing.T, b *bed) {
		b.found(1)
		lose = true
		m := b.net.Member("h1")
		_, err := m.AddMember(b.ctx, []string{peerURL("h2")}, true)
		want(t, "add with a lost reply", err, etcd.ErrUnknownOutcome)
		view, err := m.View(b.ctx, true)
		if err != nil || len(view.Members) != 2 {
			t.Errorf("list after it: %+v, %v", view, err)
		}
	})
}

// A change that was sent to a paused process has an unknown outcome; it takes
// effect when the process goes on.
func TestPausedTakesTheCallLater(t *testing.T) {
	inBubble(t, fakeetcd.Options{}, func(t *testing.T, b *bed) {
		b.found(1)
		b.net.Running("h1").Pause()
		began := time.Now()
		_, err := b.net.Client("h1").Put(b.ctx, "k", "v")
		want(t, "put to a paused member", err, etcd.ErrUnknownOutcome)
		if took := time.Since(began); took != etcd.CallTimeout {
			t.Errorf("the call ended after %s", took)
		}
		if open, answers := b.net.Reach("h2", []string{peerURL("h1")}); !open || answers {
			t.Errorf("of a paused process the port is open: %t, and it answers: %t", open, answers)
		}
		b.net.Running("h1").Resume()
		b.ready("h1")
		if _, answers := b.net.Reach("h2", []string{peerURL("h1")}); !answers {
			t.Error("a process that goes on does not answer")
		}
	})
}

func TestQuarantineKeepsClientsOut(t *testing.T) {
	inBubble(t, fakeetcd.Options{}, func(t *testing.T, b *bed) {
		initial := []cluster.Member{{Name: "h1", PeerURLs: []string{peerURL("h1")}}}
		b.start("h1", record.Launch{Founding: true, Token: "t", InitialCluster: initial, Quarantined: true})
		b.ready("h1")
		want(t, "put under quarantine", b.put("k", "v", "h1"), etcd.ErrUnreachable)
		b.net.Running("h1").Kill()
		b.start("h1", record.Launch{})
		b.ready("h1")
		if err := b.put("k", "v", "h1"); err != nil {
			t.Error(err)
		}
	})
}

func TestStartRefusals(t *testing.T) {
	inBubble(t, fakeetcd.Options{}, func(t *testing.T, b *bed) {
		b.found(3)
		_, err := b.net.Start("h1", record.Launch{Version: v37}, b.disks["h1"])
		want(t, "second process on the data", err, fakeetcd.ErrDataInUse)
		refused := func(what string, h cluster.HostID, l record.Launch) {
			t.Helper()
			p := b.start(h, l)
			select {
			case <-p.Done():
				b.lines = append(b.lines, what+": "+p.Exit())
			case <-time.After(15 * time.Second):
				t.Errorf("%s: it runs", what)
				p.Kill()
			}
			if b.disks[h].HasWAL() && what != "older release" {
				t.Errorf("%s: there is a log", what)
			}
		}
		members := b.net.Running("h1").Launch().InitialCluster
		joined := append([]cluster.Member{{Name: "h4", PeerURLs: []string{peerURL("h4")}}}, members...)
		refused("join without being added", "h4", record.Launch{InitialCluster: joined})
		refused("not in the initial cluster", "h5", record.Launch{InitialCluster: members})
		b.net.Running("h3").Kill()
		wiped := b.disks["h3"]
		b.disks["h3"] = nil
		refused("bootstrapped before", "h3", record.Launch{Founding: true, Token: "t", InitialCluster: members})
		b.disks["h3"] = wiped
		refused("older release", "h3", record.Launch{Version: cluster.MustVersion("3.6.16")})
	})
}

// A minority that is cut off loses its leader, and what it took is undone.
func TestPartition(t *testing.T) {
	inBubble(t, fakeetcd.Options{Seed: 2}, func(t *testing.T, b *bed) {
		b.found(5)
		l := b.leader("h1", "h2", "h3", "h4", "h5")
		b.cut[l] = true
		ctx, cancel := context.WithTimeout(b.ctx, 500*time.Millisecond)
		_, err := b.net.Member(l).AddMember(ctx, []string{peerURL("h9")}, true)
		cancel()
		if !errors.Is(err, etcd.ErrUnknownOutcome) && !errors.Is(err, etcd.ErrUnhealthy) {
			t.Errorf("add at a cut-off leader: %v", err)
		}
		var others []cluster.HostID
		for i := range 5 {
			if name(i) != l {
				others = append(others, name(i))
			}
		}
		second := b.leader(others...)
		if s := b.status(second); !s.Healthy {
			t.Errorf("the majority: %+v", s)
		}
		time.Sleep(2 * time.Second)
		if s := b.status(l); s.Healthy || s.Leader != 0 {
			t.Errorf("the minority: %+v", s)
		}
		b.cut[l] = false
		b.eventually("the minority comes back", func() error {
			if s := b.status(l); !s.Healthy {
				return errors.New("not healthy")
			}
			return nil
		})
		view, err := b.net.Member(l).View(b.ctx, true)
		if err != nil || len(view.Members) != 5 {
			t.Errorf("%+v, %v", view, err)
		}
	})
}

// TestMinute bounds what virtual time costs: the simulator runs thousands of
// seeds of minutes each.
func TestMinute(t *testing.T) {
	began := time.Now()
	inBubble(t, fakeetcd.Options{Seed: 1}, func(t *testing.T, b *bed) {
		b.found(3)
		for range 600 {
			if err := b.put("k", "v", "h1"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	took := time.Since(began)
	t.Logf("a minute of three members with ten writes a second took %s", took)
	if took > 10*time.Second {
		t.Errorf("a minute took %s", took)
	}
}

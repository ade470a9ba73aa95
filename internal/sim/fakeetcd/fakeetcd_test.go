package fakeetcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/sim/fakeetcd"
)

var v37 = cluster.MustVersion("3.7.3")

// bed is a cluster under test: hosts h1, h2, … with a disk each.
type bed struct {
	t     *testing.T
	net   *fakeetcd.Net
	ctx   context.Context
	disks map[cluster.HostID]*fakeetcd.Data
	cut   map[cluster.HostID]bool // hosts without a network
	lines []string
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, opt fakeetcd.Options, f func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		b := &bed{t: t, ctx: ctx, disks: map[cluster.HostID]*fakeetcd.Data{}, cut: map[cluster.HostID]bool{}}
		if opt.Link == nil {
			opt.Link = func(from, to cluster.HostID) (time.Duration, bool) {
				return time.Millisecond, !b.cut[from] && !b.cut[to]
			}
		}
		began := time.Now()
		opt.Trace = func(at time.Time, h cluster.HostID, what string) {
			b.lines = append(b.lines, fmt.Sprintf("%9s %s %s", at.Sub(began), h, what))
		}
		b.net = fakeetcd.New(opt)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = b.net.Run(ctx)
		}()
		defer func() {
			cancel()
			<-done
			if t.Failed() {
				t.Log(strings.Join(b.lines, "\n"))
			}
		}()
		f(t, b)
	})
}

func peerURL(h cluster.HostID) string { return "http://" + string(h) + ":2380" }

func urls(h cluster.HostID) cluster.URLs {
	return cluster.URLs{Peer: []string{peerURL(h)}, Client: []string{"http://" + string(h) + ":2379"}}
}

func (b *bed) start(h cluster.HostID, l record.Launch) *fakeetcd.Proc {
	b.t.Helper()
	if b.disks[h] == nil {
		b.disks[h] = &fakeetcd.Data{}
	}
	l.Name, l.URLs = h, urls(h)
	if l.Version.IsZero() {
		l.Version = v37
	}
	p, err := b.net.Start(h, l, b.disks[h])
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// found starts founders h1 … hn and waits until all serve.
func (b *bed) found(n int) []cluster.MemberID {
	b.t.Helper()
	var initial []cluster.Member
	for i := range n {
		h := name(i)
		initial = append(initial, cluster.Member{Name: string(h), PeerURLs: []string{peerURL(h)}})
	}
	for i := range n {
		b.start(name(i), record.Launch{Founding: true, Token: "t", InitialCluster: initial})
	}
	for i := range n {
		b.ready(name(i))
	}
	ids, _ := etcd.MemberIDs("t", initial)
	return ids
}

func name(i int) cluster.HostID { return cluster.HostID(fmt.Sprintf("h%d", i+1)) }

func (b *bed) ready(h cluster.HostID) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	if err := b.net.Member(h).WaitReady(ctx); err != nil {
		b.t.Fatalf("%s does not serve: %v", h, err)
	}
}

func (b *bed) status(h cluster.HostID) cluster.MemberStatus {
	b.t.Helper()
	s, err := b.net.Member(h).Status(b.ctx)
	if err != nil {
		b.t.Fatalf("status of %s: %v", h, err)
	}
	return s
}

// leader finds the host that leads, within ten seconds.
func (b *bed) leader(among ...cluster.HostID) cluster.HostID {
	b.t.Helper()
	for range 100 {
		for _, h := range among {
			if s, err := b.net.Member(h).LocalStatus(b.ctx); err == nil && s.Leader == s.Member {
				return h
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatal("no leader within ten seconds")
	return ""
}

func (b *bed) put(key, value string, hosts ...cluster.HostID) error {
	_, err := b.net.Client(hosts...).Put(b.ctx, key, value)
	return err
}

// eventually repeats a call, for ten seconds of virtual time at most.
func (b *bed) eventually(what string, try func() error) {
	b.t.Helper()
	var err error
	for range 100 {
		if err = try(); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatalf("%s: %v", what, err)
}

func want(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestFoundWriteAndFailOver(t *testing.T) {
	inBubble(t, fakeetcd.Options{Seed: 1}, func(t *testing.T, b *bed) {
		ids := b.found(3)
		for i := range 3 {
			s := b.status(name(i))
			if !s.Healthy || s.Member != ids[i] || s.Learner {
				t.Errorf("status of %s: %+v", name(i), s)
			}
		}
		if err := b.put("k", "v", "h1"); err != nil {
			t.Fatal(err)
		}
		l := b.leader("h1", "h2", "h3")
		b.net.Running(l).Kill()
		began := time.Now()
		var others []cluster.HostID
		for i := range 3 {
			if name(i) != l {
				others = append(others, name(i))
			}
		}
		b.leader(others...)
		if took := time.Since(began); took < 900*time.Millisecond || took > 4*time.Second {
			t.Errorf("a new leader after %s", took)
		}
		v, err := b.net.Client(others...).Get(b.ctx, "k")
		if err != nil || v.Value != "v" {
			t.Errorf("read after fail-over: %+v, %v", v, err)
		}
		b.start(l, record.Launch{})
		b.ready(l)
		if s := b.status(l); !s.Healthy {
			t.Errorf("restarted: %+v", s)
		}
	})
}

// A restarted founder whose disk was wiped votes with an empty log: with the
// third member away the write that it had acknowledged is gone.
func TestAmnesiaLosesAWrite(t *testing.T) {
	inBubble(t, fakeetcd.Options{Seed: 3}, func(t *testing.T, b *bed) {
		b.found(3)
		initial := b.net.Running("h1").Launch().InitialCluster
		l := b.leader("h1", "h2", "h3")
		var with, without cluster.HostID
		for i := range 3 {
			if h := name(i); h != l && with == "" {
				with = h
			} else if h != l {
				without = h
			}
		}
		b.net.Running(without).Kill() // has not the write
		if err := b.put("k", "v", l); err != nil {
			t.Fatal(err)
		}
		b.net.Running(l).Kill()
		b.net.Running(with).Kill()
		b.disks[with] = &fakeetcd.Data{} // acknowledged it, and forgets
		b.start(without, record.Launch{})
		b.start(with, record.Launch{Founding: true, Token: "t", InitialCluster: initial})
		b.ready(without)
		b.ready(with)
		v, err := b.net.Client(without, with).Get(b.ctx, "k")
		if err != nil || v.Found {
			t.Errorf("the model does not lose what raft loses: %+v, %v", v, err)
		}
	})
}

// The same with the disk kept loses nothing.
func TestRestartKeepsTheWrite(t *testing.T) {
	inBubble(t, fakeetcd.Options{Seed: 3}, func(t *testing.T, b *bed) {
		b.found(3)
		l := b.leader("h1", "h2", "h3")
		if err := b.put("k", "v", l); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			b.net.Running(name(i)).Kill()
		}
		b.start("h1", record.Launch{})
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		_, err := b.net.Member("h1").Status(ctx)
		cancel()
		want(t, "status of a member restarted without a quorum", err, etcd.ErrUnreachable)
		b.start("h2", record.Launch{})
		b.ready("h1")
		if v, err := b.net.Client("h1").Get(b.ctx, "k"); err != nil || v.Value != "v" {
			t.Errorf("read: %+v, %v", v, err)
		}
	})
}

func TestGrowAndShrink(t *testing.T) {
	inBubble(t, fakeetcd.Options{Seed: 5}, func(t *testing.T, b *bed) {
		b.found(1)
		m := b.net.Member("h1")
		for _, h := range []cluster.HostID{"h2", "h3"} {
			var added cluster.Member
			for {
				var err error
				if added, err = m.AddMember(b.ctx, []string{peerURL(h)}, true); err == nil {
					break
				}
				want(t, "add", err, etcd.ErrUnhealthy)
				time.Sleep(100 * time.Millisecond)
			}
			want(t, "promote before the start", m.Promote(b.ctx, added.ID), etcd.ErrNotReady)
			view, err := m.View(b.ctx, true)
			if err != nil {
				t.Fatal(err)
			}
			for i := range view.Members {
				if view.Members[i].ID == added.ID {
					view.Members[i].Name = string(h)
				}
			}
			b.start(h, record.Launch{InitialCluster: view.Members})
			b.ready(h)
			if s := b.status(h); !s.Learner || !s.Healthy || s.Member != added.ID {
				t.Errorf("learner: %+v", s)
			}
			_, err = b.net.Member(h).View(b.ctx, true)
			want(t, "list through a learner", err, etcd.ErrLearner)
			if err := b.net.Member(h).Promote(b.ctx, added.ID); !errors.Is(err, etcd.ErrLearner) {
				t.Errorf("promote through the learner: %v", err)
			}
			b.eventually("promote", func() error { return m.Promote(b.ctx, added.ID) })
		}
		view, err := m.View(b.ctx, true)
		if err != nil || len(view.Members) != 3 {
			t.Fatalf("%+v, %v", view, err)
		}
		time.Sleep(6 * time.Second)
		gone := b.net.Running("h3")
		id := b.status("h3").Member
		if err := m.Remove(b.ctx, id); err != nil {
			t.Fatal(err)
		}
		<-gone.Done()
		if gone.Exit() == "" || b.net.Running("h3") != nil {
			t.Error("a removed member runs on")
		}
	})
}

// Equal seeds give equal histories.
func TestDeterministic(t *testing.T) {
	history := func(seed uint64) string {
		var lines string
		inBubble(t, fakeetcd.Options{Seed: seed}, func(t *testing.T, b *bed) {
			b.found(5)
			for i := range 30 {
				h := name(i % 5)
				if p := b.net.Running(h); p != nil && i%3 == 0 {
					p.Kill()
					time.Sleep(700 * time.Millisecond)
					b.start(h, record.Launch{})
				}
				ctx, cancel := context.WithTimeout(b.ctx, time.Second)
				_, err := b.net.Client("h1", "h2", "h3", "h4", "h5").Put(ctx, "k", fmt.Sprint(i))
				cancel()
				b.lines = append(b.lines, fmt.Sprintf("put %d: %v", i, err))
			}
			lines = strings.Join(b.lines, "\n")
		})
		return lines
	}
	first := history(7)
	for range 5 {
		if again := history(7); again != first {
			t.Fatalf("two runs differ:\n%s\n----\n%s", first, again)
		}
	}
	if history(8) == first {
		t.Error("the seed makes no difference")
	}
}

package host_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/etcdargs"
	"etcdadm.io/internal/host/record"
)

var v37 = cluster.MustVersion("3.7.3")

// running is a host whose member runs a release, with all releases at hand.
func running(t *testing.T, v cluster.Version, with ...func(*session, *host.Options)) (*machine, *daemon) {
	m := newMachine(t)
	d := m.boot(append(with, manyReleases)...)
	m.joined()
	d.must(1, prepareOp)
	join := joinOp(9)
	join.Version = v
	d.must(1, join)
	m.says(func(f *fakeMember) { f.agreed, f.status.Version = v.Base(), v })
	d.look(1)
	return m, d
}

func manyReleases(_ *session, o *host.Options) {
	o.Releases = func() []cluster.Version {
		return []cluster.Version{cluster.MustVersion("3.4.45"), cluster.MustVersion("3.5.26"), v35, v36, v37}
	}
}

// says changes what the member answers.
func (m *machine) says(change func(*fakeMember)) {
	m.etcd.mu.Lock()
	defer m.etcd.mu.Unlock()
	change(m.etcd)
}

func changeTo(v cluster.Version) cluster.Op {
	return cluster.Op{Kind: cluster.OpRestart, Member: 9, Cluster: 0xc, Version: v, Changes: true}
}

// TestMayChangeRelease: the host asks its own member, whatever the leader knows.
func TestMayChangeRelease(t *testing.T) {
	agreed := func(v cluster.Version) func(*machine) {
		return func(m *machine) { m.says(func(f *fakeMember) { f.agreed = v }) }
	}
	downgrading := func(v cluster.Version) func(*machine) {
		return func(m *machine) { m.says(func(f *fakeMember) { f.agreed, f.status.Downgrading = v, v }) }
	}
	silent := func(m *machine) { m.says(func(f *fakeMember) { f.callErr = errCrashed }) }
	dies := func(m *machine) {
		m.mu.Lock()
		m.running, m.restarts = nil, 1
		m.mu.Unlock()
	}
	for name, c := range map[string]struct {
		runs, to cluster.Version
		world    func(*machine)
		refused  string // part of the reason; empty: done
	}{
		"a line up":                    {v35, v36, agreed(v35.Base()), ""},
		"a line up, half way":          {v35, v36, agreed(cluster.Version{Major: 3, Minor: 5}), ""},
		"two lines up":                 {v35, v37, agreed(v35.Base()), "does not start beside that"},
		"a line up on the line before": {v36, v37, agreed(v35.Base()), "does not start beside that"},
		"back, half way up":            {v36, v35, agreed(v35.Base()), ""},
		"below the agreed line":        {v36, v35, agreed(v36.Base()), "does not start beside that"},
		"nothing agreed on":            {v35, v36, agreed(cluster.Version{}), "does not start beside that"},
		"no answer":                    {v35, v36, silent, "cannot tell which version"},
		"down, made ready":             {v36, v35, downgrading(v35.Base()), ""},
		"up while a downgrade is on":   {v36, v37, downgrading(v35.Base()), "has no part in"},
		"a patch without an answer":    {v35, cluster.MustVersion("3.5.26"), silent, ""},
		"anywhere from a process that dies": {v37, v35, func(m *machine) {
			silent(m)
			dies(m)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m, d := running(t, c.runs)
				defer d.end()
				c.world(m)
				_, before := m.process()
				r := d.do(1, changeTo(c.to), cluster.Guard{})
				_, starts := m.process()
				switch {
				case c.refused == "" && (r.Outcome != cluster.OutcomeDone || starts[len(starts)-1].Version != c.to):
					t.Fatalf("%s: %s", r.Outcome, r.Reason)
				case c.refused != "" && (r.Outcome != cluster.OutcomeRefused || !strings.Contains(r.Reason, c.refused)):
					t.Fatalf("%s: %s; want it refused because %q", r.Outcome, r.Reason, c.refused)
				case c.refused != "" && (len(starts) != len(before) || m.state().Local.Version != c.runs):
					t.Fatalf("it was restarted all the same: %+v", m.state().Local)
				}
			})
		})
	}
}

// TestReleaseOfAnotherTime: an op that does not mean to change the release is
// refused when it names another one.
func TestReleaseOfAnotherTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, d := running(t, v35)
		defer d.end()
		op := changeTo(v36)
		op.Changes = false
		if r := d.mustRefuse(1, op); !strings.Contains(r.Reason, "restarts etcd 3.6.16") {
			t.Fatal(r.Reason)
		}
	})
}

// TestPreviousRelease: it is remembered until the member has answered with the
// new one, also over a crash of the daemon.
func TestPreviousRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := running(t, v35)
		d.must(1, changeTo(v36))
		if got := m.state().Local.Previous; got != v35 {
			t.Fatalf("previous is %s", got)
		}
		d.look(1) // it answers as 3.5 still
		d.end()
		d = m.boot(manyReleases)
		defer d.end()
		if st := d.look(2); st.Local.Previous != v35 {
			t.Fatalf("previous is %s after a crash", st.Local.Previous)
		}
		m.says(func(f *fakeMember) { f.status.Version, f.status.Healthy = v36, false })
		d.look(2)
		if got := m.state().Local.Previous; got != v35 {
			t.Fatalf("previous is %s although the member is not healthy", got)
		}
		m.says(func(f *fakeMember) { f.status.Healthy = true })
		d.look(2)
		if got := m.state().Local.Previous; !got.IsZero() {
			t.Fatalf("previous is %s after the member answered", got)
		}
	})
}

// TestFailedRelease is remembered while the daemon runs, so that a restart of it
// has the release tried again.
func TestFailedRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := running(t, v36)
		op := changeTo(v35)
		op.Failed = true
		m.mu.Lock()
		m.running, m.restarts = nil, 1
		m.mu.Unlock()
		d.must(1, op)
		if st := d.look(1); st.FailedRelease != v36 || st.Local.Version != v35 {
			t.Fatalf("failed %s, runs %s", st.FailedRelease, st.Local.Version)
		}
		d.end()
		d = m.boot(manyReleases)
		defer d.end()
		if st := d.look(2); !st.FailedRelease.IsZero() {
			t.Fatalf("failed %s after a restart of the daemon", st.FailedRelease)
		}
	})
}

// logReader is a source of one fact, told when it is asked for.
type logReader struct {
	bulk.Sources
	asked   chan struct{}
	answers chan bool
}

func (r logReader) V2InLog(ctx context.Context, _ string) (bool, error) {
	r.asked <- struct{}{}
	select {
	case found := <-r.answers:
		return found, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (logReader) Received(string) time.Duration { return 0 }
func (logReader) FreeSpace() int64              { return 0 }

// TestV2InLogIsLookedAtOnce: one look at a time, beside observations, again
// after a minute while there is something, after two seconds in a member that is
// to cut a raft snapshot, and for another process.
func TestV2InLogIsLookedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := logReader{asked: make(chan struct{}, 100), answers: make(chan bool)}
		m, d := running(t, v36, func(_ *session, o *host.Options) { o.Sources = r })
		defer d.end()
		look := func(want string, asked int) {
			t.Helper()
			got := "unknown"
			st := d.Observe(context.Background(), cluster.ObserveRequest{Versions: true}).State
			if a := st.V2InLog; a != nil {
				got = map[bool]string{true: "found", false: "clean"}[*a]
			}
			synctest.Wait()
			if got != want || len(r.asked) != asked {
				t.Fatalf("%s, asked %d times in all; want %s, %d", got, len(r.asked), want, asked)
			}
		}
		answer := func(found bool) { r.answers <- found; synctest.Wait() }
		if d.look(1); len(r.asked) != 0 {
			t.Fatal("the log was read, and nobody asked for it")
		}
		look("unknown", 1)
		later(3 * time.Second)
		look("unknown", 1) // not twice at once
		answer(true)
		look("found", 1)
		later(59 * time.Second)
		look("found", 1)
		later(time.Second)
		look("found", 2) // again after a minute
		answer(true)
		d.must(1, cluster.Op{Kind: cluster.OpRestart, Cut: true})
		look("unknown", 3)
		answer(true)
		later(time.Second)
		look("found", 3)
		later(time.Second)
		look("found", 4) // again after two seconds
		answer(false)
		look("clean", 4)
		later(time.Minute)
		look("clean", 4) // a clean log stays so
		m.mu.Lock()
		m.pid++
		m.mu.Unlock()
		look("unknown", 5) // another process
		answer(false)
		look("clean", 5)
		m.says(func(f *fakeMember) { f.agreed = v35.Base() })
		look("unknown", 5) // a member of 3.5 may write any time
		m.says(func(f *fakeMember) { f.agreed = v36.Base() })
		look("unknown", 6)
		answer(true)
		look("found", 6)
	})
}

// TestCut: a member that is to cut a raft snapshot is another launch, and the
// flag comes after a person's own, so that it counts.
func TestCut(t *testing.T) {
	l := record.Launch{Version: v36, Name: "h1", Token: "t", URLs: ownURLs, Options: []string{"--snapshot-count=10000"}}
	cut := l
	cut.Cut = true
	if l.Same(cut) || !cut.Same(cut) {
		t.Error("a launch that cuts is the same as one that does not")
	}
	for _, c := range []record.Launch{l, cut} {
		args, err := etcdargs.For(c, etcdargs.Paths{DataDir: "/d/t", BindAddress: "::"})
		if err != nil {
			t.Fatal(err)
		}
		one, own := slices.Index(args, "--snapshot-count=1"), slices.Index(args, "--snapshot-count=10000")
		if c.Cut != (one > own) || own < 0 {
			t.Errorf("cut %t: %v", c.Cut, args)
		}
	}
	bubble(t, func(t *testing.T) {
		m, d := running(t, v36)
		defer d.end()
		op := cluster.Op{Kind: cluster.OpRestart, Member: 9, Cluster: 0xc, Version: v36, Cut: true}
		d.must(1, op)
		op.Cut = false
		d.must(1, op)
		_, starts := m.process()
		if len(starts) != 3 || starts[0].Cut || !starts[1].Cut || starts[2].Cut {
			t.Fatalf("started as %+v", starts)
		}
	})
}

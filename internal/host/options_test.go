package host_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
)

// TestRefusedOptionsAreGivenBack: a member that does not start with new options
// runs again with the ones before, its host says so, and does not try them
// again before others are asked for, or the daemon is another one.
func TestRefusedOptionsAreGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		var option atomic.Value
		option.Store("--snapshot-count=5000")
		with := func(_ *session, o *host.Options) {
			o.Options = func(cluster.Version) []string { return []string{option.Load().(string)} }
		}
		d := m.boot(with)
		defer func() { d.end() }()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9))
		d.look(1)
		launched := func() string {
			_, starts := m.process()
			return starts[len(starts)-1].Options[0]
		}
		restart := cluster.Op{Kind: cluster.OpRestart, Member: 9, Cluster: joinOp(9).Cluster}

		// A change that works is forgotten as soon as the member has answered.
		option.Store("--snapshot-count=6000")
		d.must(1, restart)
		if b := m.state().Before; b == nil || b.Options[0] != "--snapshot-count=5000" || b.Version != v35 {
			t.Fatalf("before an answer it remembers %+v", b)
		}
		d.look(1)
		if b := m.state().Before; b != nil {
			t.Fatalf("after an answer it remembers %+v", b)
		}

		option.Store("--auth-token=nonsense")
		d.must(1, restart)
		if launched() != "--auth-token=nonsense" {
			t.Fatal("the new option was not tried")
		}
		m.die()
		m.mu.Lock()
		m.restarts += cluster.CrashLoop
		m.mu.Unlock()
		later(15 * time.Second) // past the next epoch
		if launched() != "--snapshot-count=6000" || m.state().Before != nil || m.state().Local.Options[0] != "--snapshot-count=6000" {
			t.Fatalf("it runs %s, recorded %+v", launched(), m.state().Local)
		}
		st := d.look(1)
		if !slices.Equal(st.FailedOptions, []string{"--auth-token=nonsense"}) || !slices.Equal(st.Options, st.Local.Options) {
			t.Fatalf("it says that %v failed, and would start with %v", st.FailedOptions, st.Options)
		}
		d.must(1, restart)
		if launched() != "--snapshot-count=6000" {
			t.Fatal("a restart tried them again")
		}

		option.Store("--snapshot-count=7000")
		if st := d.look(1); st.FailedOptions != nil || st.Options[0] != "--snapshot-count=7000" {
			t.Fatalf("with others asked for: %v failed, %v next", st.FailedOptions, st.Options)
		}
		option.Store("--auth-token=nonsense")
		if st := d.look(1); st.FailedOptions == nil {
			t.Fatal("it forgot what failed")
		}
		d.end()
		d = m.boot(with)
		synctest.Wait()
		if st := d.look(1); st.FailedOptions != nil || st.Options[0] != "--auth-token=nonsense" {
			t.Fatalf("after a restart of the daemon: %v failed, %v next", st.FailedOptions, st.Options)
		}
	})
}

// TestOptionsBesideARefusedSpec: a member that takes another one's place is started
// with the settings beside a spec that is refused, and a look without a leader takes
// nothing back.
func TestOptionsBesideARefusedSpec(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot(func(_ *session, o *host.Options) { o.Options = nil })
		defer d.end()
		m.joined()
		d.Observe(t.Context(), cluster.ObserveRequest{Fence: fence(1), Standing: &cluster.Standing{Options: map[string]string{"snapshot-count": "5000"}}})
		d.Observe(t.Context(), cluster.ObserveRequest{})
		if s := d.Spec(); s != nil {
			t.Fatalf("it is remembered as the spec %+v", s)
		}
		d.must(1, prepareOp)
		d.Observe(t.Context(), cluster.ObserveRequest{Fence: fence(1), Standing: &cluster.Standing{Options: map[string]string{"snapshot-count": "5000"}}})
		r := d.Observe(t.Context(), cluster.ObserveRequest{})
		if r.State == nil || !slices.Equal(r.State.Options, []string{"--snapshot-count=5000"}) {
			t.Fatalf("it would run %+v", r.State)
		}
	})
}

// TestSpecOptionsAreLeftOutAndSaid: what the release has not got keeps no member
// from running.
func TestSpecOptionsAreLeftOutAndSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot(func(_ *session, o *host.Options) { o.Options = nil })
		defer d.end()
		m.joined()
		d.RememberSpec(cluster.Spec{MemberCount: 1, EtcdVersion: v36, Options: map[string]string{
			"snapshot-count": "5000", "initial-corrupt-check": "true", "warning-unary-request-duration": "1s", "no-such-flag": "x",
		}})
		d.must(1, prepareOp)
		d.must(1, joinOp(9)) // of 3.5
		st := d.look(1)
		want := []string{"--experimental-initial-corrupt-check=true", "--snapshot-count=5000"}
		if !slices.Equal(st.Options, want) || !slices.Equal(st.Local.Options, want) {
			t.Fatalf("it runs %v, and would run %v", st.Local.Options, st.Options)
		}
		at := slices.IndexFunc(st.Problems, func(p cluster.Problem) bool { return p.Code == "options-left-out" })
		if at < 0 || !strings.Contains(st.Problems[at].Sentence, "--no-such-flag") || !strings.Contains(st.Problems[at].Sentence, "3.5.") {
			t.Fatalf("it says %+v", st.Problems)
		}
	})
}

// TestVariablesLeftOutAreSaid: the host says which variables its member runs without, and
// ahead of any upgrade which ones each release line has no flag for.
func TestVariablesLeftOutAreSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newMachine(t)
		d := m.boot(func(_ *session, o *host.Options) {
			o.Variables = []string{"ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT=5", "ETCD_ENABLE_V2=secret", "ETCD_LOGGER=capnslog"}
		})
		defer d.end()
		m.joined()
		d.must(1, prepareOp)
		d.must(1, joinOp(9)) // of 3.5
		st := d.look(1)
		at := slices.IndexFunc(st.Problems, func(p cluster.Problem) bool { return p.Code == "variables-left-out" })
		if at < 0 || !strings.Contains(st.Problems[at].Sentence, "ETCD_LOGGER (it does not take capnslog") || strings.Contains(st.Problems[at].Sentence, "COMPACTION") {
			t.Fatalf("it says %+v", st.Problems)
		}
		var of37 []string
		for _, l := range st.LeftVariables {
			if strings.Contains(l.Why, "secret") {
				t.Errorf("it tells a value: %+v", l)
			}
			if l.Line == "3.7" {
				of37 = append(of37, l.Name)
			}
		}
		if !slices.Equal(of37, []string{"ETCD_ENABLE_V2", "ETCD_LOGGER"}) {
			t.Errorf("3.7 is run without %q", of37)
		}
	})
}

package host_test

import (
	"context"
	"testing"
	"testing/synctest"

	"etcdadm.io/cluster"
)

// A halt that the host keeps ends its member, also over a restart of the daemon
// and whoever asks for it; once it is taken back the member goes on as it was.
func TestHalt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		local := m.state().Local
		in := &cluster.Intent{
			Name: "test", Generation: local.Generation, Nonce: local.Nonce, Write: 7, State: cluster.IntentFounded,
			Halt: &cluster.Halt{ID: "change-1-7", Generation: local.Generation, From: local.Version, To: cluster.MustVersion("3.4.25")},
		}
		d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Intent: in})
		synctest.Wait()
		if m.running != nil {
			t.Fatal("the member runs while it is halted")
		}
		if !m.state().Local.Run {
			t.Error("it is not known any more that the member is to go on")
		}
		d.end()
		d = m.boot()
		defer d.end()
		if d.look(1); m.running != nil {
			t.Fatal("the next daemon started it")
		}
		r := d.do(1, cluster.Op{Kind: cluster.OpRestart, Member: local.Member, Version: local.Version}, cluster.Guard{})
		if synctest.Wait(); m.running != nil || r.Outcome != cluster.OutcomeRefused {
			t.Fatalf("a leader had it started: %+v", r)
		}
		back := in.Clone()
		ended := *in.Halt
		ended.Ended, back.Write, back.Halt = "nobody wants it", 8, &ended
		d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Intent: back})
		synctest.Wait()
		if m.running == nil {
			t.Fatal("it does not go on")
		}
		d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(1), Intent: in}) // late on its way
		if synctest.Wait(); m.running == nil || m.state().Local.Member != local.Member {
			t.Fatal("an intent from before stopped it again")
		}
	})
}

package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// at is a store that fails a call on a key.
func at(op memory.Op, key string, err error) memory.Hook {
	return func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == op && c.Key == key {
			return memory.Fault{Err: err}
		}
		return memory.Fault{}
	}
}

// What the store did not do is not said to be done.
func TestWhatTheStoreRefusesIsAnError(t *testing.T) {
	reset := errors.New("connection reset")
	three := cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16")}
	s := memory.New()
	f := control.New(s, "etcd")
	s.Inject(at(memory.Put, created, blob.ErrUnsupported))
	if _, err := f.CreateIntent(t.Context(), founding()); !errors.Is(err, blob.ErrUnsupported) {
		t.Errorf("an intent that the store cannot write on a condition: %v", err)
	}
	s.Inject(at(memory.Put, spec, reset))
	if err := f.MarkForeign(t.Context(), three, time.Unix(1, 0)); !errors.Is(err, reset) {
		t.Errorf("a spec that could not be written: %v", err)
	}
	s.Inject(nil)
	name, err := f.AddWish(t.Context(), control.Wish{Kind: cluster.CommandBackup})
	if err != nil {
		t.Fatal(err)
	}
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Delete {
			return memory.Fault{Err: reset}
		}
		return memory.Fault{}
	})
	if err := f.DeleteCommand(t.Context(), name); !errors.Is(err, reset) {
		t.Errorf("a command that is still in the queue: %v", err)
	}
	// Another kind of file is read elsewhere.
	s.Inject(nil)
	const theirs = "2026-11-20T23:17:07Z-000000"
	put(t, s, control.Prefix+theirs+"/_command.json", `{"timestamp":"1","restoreBackup":{"backup":"2026-11-20T23:17:07Z-000001"}}`)
	s.Inject(at(memory.Get, control.Prefix+theirs+"/_command.json", reset))
	all, err := f.Commands(t.Context())
	if err != nil || len(all) != 2 || all[1].Name != theirs || !errors.Is(all[1].Unread, reset) {
		t.Errorf("a restore that cannot be read: %+v, %v", all, err)
	}
}

// Who joins is written over by nobody who could not read it.
func TestTornJoining(t *testing.T) {
	s := memory.New()
	f := control.New(s, "etcd")
	if err := f.PutJoining(t.Context(), "", &control.Joining{Cluster: 1}); err != nil {
		t.Fatal(err)
	}
	all, err := s.List(t.Context(), control.Prefix)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	put(t, s, all[0].Key, `{"cluster":`)
	if j, _, err := f.ReadJoining(t.Context()); err == nil {
		t.Errorf("it was read as %+v", j)
	}
}

func TestWhoseMember(t *testing.T) {
	j := &control.Joining{Foreign: []cluster.Member{{ID: 1, PeerURLs: []string{"http://x:2380"}}}, Ours: [][]string{{"http://a:2380", "http://b:2380"}}}
	for _, c := range []struct {
		member        cluster.Member
		ours, foreign bool
	}{
		{cluster.Member{ID: 1, PeerURLs: []string{"http://x:2380"}}, false, true},
		{cluster.Member{ID: 2, PeerURLs: []string{"http://b:2380", "http://a:2380"}}, true, false},
		{cluster.Member{ID: 3, PeerURLs: []string{"http://a:2380"}}, false, false},
	} {
		if j.IsOurs(c.member) != c.ours || j.IsForeign(c.member) != c.foreign {
			t.Errorf("%+v: ours %t, foreign %t", c.member, j.IsOurs(c.member), j.IsForeign(c.member))
		}
	}
}

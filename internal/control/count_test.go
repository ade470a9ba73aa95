package control_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

const specOfThree = `{"memberCount": 3, "etcdVersion": "3.6.16"}`

// A count travels with a command, and nothing is changed by queueing it.
func TestCountTravelsWithTheCommand(t *testing.T) {
	s := memory.New()
	f := control.New(s, "etcd")
	if _, err := f.AskForMembers(t.Context(), 1); !errors.Is(err, control.ErrNoSpec) {
		t.Errorf("without a spec: %v", err)
	}
	put(t, s, spec, specOfThree)
	put(t, s, more, `{"hosts": ["a", "b", "c"]}`)
	for _, bad := range []int{-1, 2, 5, 11} {
		if _, err := f.AskForMembers(t.Context(), bad); !errors.Is(err, cluster.ErrSpec) {
			t.Errorf("%d members of three named hosts: %v", bad, err)
		}
	}
	n, err := f.AskForMembers(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.AddRestore(t.Context(), control.RestoreBackup{Backup: "b", Count: n}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AddWish(t.Context(), control.Wish{Kind: cluster.CommandRecover, Host: "a", Count: n}); err != nil {
		t.Fatal(err)
	}
	want := cluster.CountChange{Members: 1, Was: 3, Version: cluster.MustVersion("3.6.16")}
	cs, err := f.Commands(t.Context())
	if err != nil || len(cs) != 2 || cs[0].Restore == nil || *cs[0].Restore.Count != want || cs[1].Wish == nil || *cs[1].Wish.Count != want {
		t.Errorf("the queue is %+v, %v", cs, err)
	}
	if got := get(t, s, spec); got != specOfThree {
		t.Errorf("the spec was changed to %s", got)
	}
}

// The count is written over the very spec that the command was given for, and
// what else a person asks for stays.
func TestPutCount(t *testing.T) {
	s := memory.New()
	f := control.New(s, "etcd")
	put(t, s, spec, specOfThree)
	put(t, s, more, `{"hold": true, "deadAfter": "1m0s"}`)
	n := &cluster.CountChange{Members: 5, Was: 3, Version: cluster.MustVersion("3.6.16")}
	if err := f.PutCount(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	read, err := f.ReadSpec(t.Context())
	if err != nil || read.Spec.MemberCount != 5 || read.Spec.Hold || read.Spec.DeadAfterOrDefault().String() != "1m0s" {
		t.Errorf("the spec is %+v, %v", read.Spec, err)
	}
	if err := f.PutCount(t.Context(), n); !errors.Is(err, control.ErrConflict) {
		t.Errorf("over what is not that spec any more: %v", err)
	}
	put(t, s, spec, `{"memberCount": 3, "etcdVersion": "3.5.35"}`)
	if err := f.PutCount(t.Context(), n); !errors.Is(err, control.ErrConflict) {
		t.Errorf("over a spec of another version: %v", err)
	}
}

// late is a store into which a person writes between a daemon's look and its
// write.
type late struct {
	*memory.Store
	key  string
	then func()
}

func (l *late) Put(ctx context.Context, key string, body io.Reader, c blob.Condition) (blob.ETag, error) {
	if then := l.then; key == l.key && then != nil {
		l.then = nil
		then()
	}
	return l.Store.Put(ctx, key, body, c)
}

func TestAPersonsSpecIsNotOverwritten(t *testing.T) {
	const persons = `{"memberCount": 7, "etcdVersion": "3.6.16"}`
	for name, settings := range map[string]string{"": "", "on hold": `{"hold": true}`} {
		t.Run(name, func(t *testing.T) {
			s := &late{Store: memory.New(), key: spec}
			put(t, s.Store, spec, specOfThree)
			if settings != "" {
				put(t, s.Store, more, settings)
			}
			s.then = func() { put(t, s.Store, spec, persons) }
			f := control.New(s, "etcd")
			err := f.PutCount(t.Context(), &cluster.CountChange{Members: 1, Was: 3, Version: cluster.MustVersion("3.6.16")})
			if !errors.Is(err, control.ErrConflict) {
				t.Errorf("written over a spec that nobody had read: %v", err)
			}
			if got := get(t, s.Store, spec); got != persons {
				t.Errorf("the spec is %s", got)
			}
		})
	}
}

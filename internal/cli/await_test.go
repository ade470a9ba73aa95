package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// awaiting is a store in which a restore was queued, and what a leader does to
// it at times after that.
type awaiting struct {
	t      *testing.T
	store  *memory.Store
	folder *control.Folder
	name   string
	intent *cluster.Intent
	tag    blob.ETag
}

func newAwaiting(t *testing.T) *awaiting {
	s := memory.New()
	a := &awaiting{t: t, store: s, folder: control.New(s, "etcd")}
	var err error
	if a.name, err = a.folder.AddRestore(t.Context(), control.RestoreBackup{Backup: "b"}); err != nil {
		t.Fatal(err)
	}
	a.intent = &cluster.Intent{Name: "etcd", Generation: 2, Nonce: "n", Token: "t", Write: 1, State: cluster.IntentFounded, CommandID: a.name, CommandsRun: []string{a.name}, Quarantined: true}
	if a.tag, err = a.folder.CreateIntent(t.Context(), a.intent); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *awaiting) end(result string) {
	e := control.Ended{Name: a.name, Kind: cluster.CommandRestore, Result: result, Reason: "generation 2 serves"}
	if err := a.folder.EndCommand(a.t.Context(), e); err != nil {
		a.t.Error(err)
	}
}

func (a *awaiting) open() {
	in := a.intent.Clone()
	in.Write, in.Quarantined = in.Write+1, false
	if _, err := a.folder.ReplaceIntent(a.t.Context(), a.tag, in); err != nil {
		a.t.Error(err)
	}
}

func (a *awaiting) say(s control.Status) {
	if err := a.folder.WriteStatus(a.t.Context(), s); err != nil {
		a.t.Error(err)
	}
}

func (a *awaiting) wait(bound time.Duration) (out, say string, took time.Duration, err error) {
	began := time.Now()
	var o, e bytes.Buffer
	q := queue{wait: bound}
	err = q.await(a.t.Context(), control.New(a.store, ""), a.name, &o, &e) // a person's command knows no cluster name
	return o.String(), e.String(), time.Since(began), err
}

func TestAwaitUntilClientsAreLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAwaiting(t)
		a.say(control.Status{Commands: []control.CommandStatus{{Command: a.name, For: "host a makes it ready"}}})
		time.AfterFunc(10*time.Second+300*time.Millisecond, func() { // between two looks, of which none sees the one without the other
			a.end("done")
			a.say(control.Status{Blockers: []control.BlockerStatus{{Code: "quarantine", Sentence: "2 members are needed and 1 is up"}}})
		})
		time.AfterFunc(30*time.Second, a.open)
		out, say, took, err := a.wait(time.Minute)
		if err != nil || took < 30*time.Second || took > 32*time.Second {
			t.Errorf("it took %s: %v", took, err)
		}
		if want := "done: generation 2 serves\nopened: ordinary clients are let in\n"; out != want {
			t.Errorf("it said %q, want %q", out, want)
		}
		if want := "waiting up to 1m0s; Ctrl-C is safe, the command stays in the queue\nwaiting: the leading daemon has not begun it\nwaiting: host a makes it ready\nwaiting: 2 members are needed and 1 is up\n"; say != want {
			t.Errorf("it waited for %q, want %q", say, want)
		}
	})
}

// It is open once every member is: the one that completed the majority is not all. While
// the leader is at something else, its words about the quarantine stay.
func TestAwaitUntilEveryMemberLetsClientsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAwaiting(t)
		a.end("done")
		quarantine := control.Status{Blockers: []control.BlockerStatus{{Code: "quarantine", Sentence: "2 members are needed and 1 is up"}}}
		a.say(quarantine)
		for i := range 4 {
			time.AfterFunc(time.Duration(2*i+1)*time.Second, func() { a.say(control.Status{Reason: "add a learner"}) })
			time.AfterFunc(time.Duration(2*i+2)*time.Second, func() { a.say(quarantine) })
		}
		time.AfterFunc(10*time.Second, func() {
			a.say(control.Status{Members: []control.MemberStatus{{Member: 1, Quarantined: true}, {Member: 2}}})
			a.open()
		})
		time.AfterFunc(20*time.Second, func() { a.say(control.Status{Members: []control.MemberStatus{{Member: 1}, {Member: 2}}}) })
		out, say, took, err := a.wait(time.Minute)
		if err != nil || took < 20*time.Second || !strings.Contains(out, "opened") {
			t.Errorf("after %s: %q, %v", took, out, err)
		}
		if strings.Count(say, "\n") != 4 || !strings.Contains(say, "waiting: clients are let in by some members already; 1 member left to be restarted for that\n") {
			t.Errorf("it waited for:\n%s", say)
		}
	})
}

func TestAwaitWithoutQuarantineIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAwaiting(t)
		a.open()
		a.end("done")
		if out, _, took, err := a.wait(time.Minute); err != nil || took > time.Second || strings.Contains(out, "opened") {
			t.Errorf("it took %s and said %q: %v", took, out, err)
		}
	})
}

func TestAwaitIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(a *awaiting)
		want    string
	}{
		"nobody runs it": {func(*awaiting) {}, "was not run within 1m0s: the leading daemon has not begun it"},
		"it waits for hosts": {func(a *awaiting) {
			a.say(control.Status{Commands: []control.CommandStatus{{Command: a.name, For: "the hosts b and c"}}})
		}, "the hosts b and c"},
		"too few hosts join": {func(a *awaiting) { a.end("done") }, "ordinary clients are not let in after 1m0s: generation 2 is quarantined"},
		"it is rejected":     {func(a *awaiting) { a.end("rejected") }, "was rejected"},
		"the store does not answer": {func(a *awaiting) {
			a.store.Inject(func(context.Context, memory.Call) memory.Fault { return memory.Fault{Err: errors.New("503")} })
		}, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAwaiting(t)
				c.prepare(a)
				_, _, took, err := a.wait(time.Minute)
				var f *Failure
				if !errors.As(err, &f) || !strings.Contains(err.Error(), c.want) || took > time.Minute+time.Second {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

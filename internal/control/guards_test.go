package control_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// What no writer can have meant is neither written nor read, one thing at a time.
func TestIntentOfNobody(t *testing.T) {
	for name, spoil := range map[string]func(*cluster.Intent){
		"no generation": func(in *cluster.Intent) { in.Generation = 0 },
		"no nonce":      func(in *cluster.Intent) { in.Nonce = "" },
		"no token":      func(in *cluster.Intent) { in.Token = "" },
		"another state": func(in *cluster.Intent) { in.State = "done" },
	} {
		s := memory.New()
		f := control.New(s, "etcd")
		in := founding()
		spoil(in)
		if _, err := f.CreateIntent(t.Context(), in); err == nil {
			t.Errorf("%s: it was written", name)
		}
		if _, marker, _, err := f.ReadIntent(t.Context()); marker || err != nil {
			t.Errorf("%s: marker %v, %v", name, marker, err)
		}
	}
	for name, text := range map[string]string{
		"no name":       `{"generation":1,"nonce":"n","token":"t","state":"founded"}`,
		"no nonce":      `{"name":"etcd","generation":1,"token":"t","state":"founded"}`,
		"no token":      `{"name":"etcd","generation":1,"nonce":"n","state":"founded"}`,
		"another state": `{"name":"etcd","generation":1,"nonce":"n","token":"t","state":"done"}`,
	} {
		s := memory.New()
		put(t, s, created, text)
		if _, _, _, err := control.New(s, "etcd").ReadIntent(t.Context()); !errors.Is(err, control.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A write that was lost is not taken for one that another generation made.
func TestLostReplyOfAnotherGeneration(t *testing.T) {
	s := memory.New()
	f := control.New(s, "etcd")
	theirs := founding()
	theirs.Generation = 2
	if _, err := f.CreateIntent(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	if _, err := f.CreateIntent(t.Context(), founding()); !errors.Is(err, control.ErrConflict) {
		t.Errorf("generation 1 over 2, with one nonce: %v", err)
	}
}

// A name of a backup that is a path leads nowhere, whoever wrote it, and a command
// of ours that lacks what it is about is never run.
func TestCommandsThatAreRefused(t *testing.T) {
	const name = "2026-11-20T23:17:07Z-000000"
	for what, c := range map[string]struct{ file, text string }{
		"a path":            {"_command.json", `{"timestamp":"1","restoreBackup":{"backup":"other/2026-11-20T23:17:07Z-000001"}}`},
		"a path up":         {"_command.json", `{"timestamp":"1","restoreBackup":{"backup":".."}}`},
		"from no host":      {"_etcdadm_command.json", `{"timestamp":"1","kind":"recover"}`},
		"undo of nothing":   {"_etcdadm_command.json", `{"timestamp":"1","kind":"undo","host":"a"}`},
		"undo of no host":   {"_etcdadm_command.json", `{"timestamp":"1","kind":"undo","dir":"d"}`},
		"undo of a path":    {"_etcdadm_command.json", `{"timestamp":"1","kind":"undo","host":"a","dir":"../d"}`},
		"undo of a way up":  {"_etcdadm_command.json", `{"timestamp":"1","kind":"undo","host":"a","dir":".."}`},
		"a later release's": {"_etcdadm_command.json", `{"timestamp":"1","kind":"recover","host":"a","unless":"x"}`},
	} {
		s := memory.New()
		put(t, s, control.Prefix+name+"/"+c.file, c.text)
		all, err := control.New(s, "etcd").Commands(t.Context())
		if err != nil || len(all) != 1 || !errors.Is(all[0].Err, control.ErrMalformed) {
			t.Errorf("%s: %+v, %v", what, all, err)
		}
	}
	// What a later release said beside a restore may be a condition.
	s := memory.New()
	put(t, s, control.Prefix+name+"/_command.json", `{"timestamp":"1","restoreBackup":{"backup":"2026-11-20T23:17:07Z-000001"}}`)
	put(t, s, control.Prefix+name+"/_etcdadm.json", `{"unless":"x"}`)
	if all, err := control.New(s, "etcd").Commands(t.Context()); err != nil || len(all) != 1 || !errors.Is(all[0].Err, control.ErrMalformed) {
		t.Errorf("beside a restore: %+v, %v", all, err)
	}
}

// A command that cannot be read just now is not left out of the queue, and keeps no other
// from being run: one that is read later is older than the generation of the other by then.
func TestUnreadableCommandWaits(t *testing.T) {
	s := memory.New()
	f := control.New(s, "etcd")
	var names []string
	for range 2 {
		name, err := f.AddWish(t.Context(), control.Wish{Kind: cluster.CommandBackup})
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Get && strings.Contains(c.Key, names[0]) {
			return memory.Fault{Err: errors.New("connection reset")}
		}
		return memory.Fault{}
	})
	all, err := f.Commands(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != names[1] || all[0].Wish == nil || all[1].Name != names[0] || all[1].Unread == nil {
		t.Errorf("the queue is %+v, %v", all, err)
	}
	// One that hangs takes half of the time.
	s.Inject(func(ctx context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Get && strings.Contains(c.Key, names[0]) {
			<-ctx.Done()
		}
		return memory.Fault{}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	if all, err = f.Commands(ctx); err != nil || len(all) != 2 || all[1].Unread == nil {
		t.Errorf("where one hangs, the queue is %+v, %v", all, err)
	}
}

// How a command ended is written before it leaves the queue, once, and not over what
// another leader wrote meanwhile.
func TestEndComesBeforeTheQueue(t *testing.T) {
	s := memory.New()
	f := control.New(s, "etcd")
	name, err := f.AddWish(t.Context(), control.Wish{Kind: cluster.CommandBackup})
	if err != nil {
		t.Fatal(err)
	}
	s.Inject(func(_ context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Put {
			return memory.Fault{Err: errors.New("connection reset")}
		}
		return memory.Fault{}
	})
	end := control.Ended{Name: name, Result: "done", At: time.Unix(1, 0).UTC()}
	if err := f.EndCommand(t.Context(), end); err == nil {
		t.Error("an end that could not be written is no error")
	}
	s.Inject(nil)
	if all, err := f.Commands(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the command left the queue, and nothing says how it ended: %+v, %v", all, err)
	}
	// Another leader's end comes between the look and the write.
	other := false
	s.Inject(func(ctx context.Context, c memory.Call) memory.Fault {
		if c.Op == memory.Put && !other && strings.HasSuffix(c.Key, "commands-ended.json") {
			other = true
			if _, err := blob.PutBytes(ctx, s, c.Key, []byte(`[{"name":"theirs","result":"done","at":"2026-01-01T00:00:00Z"}]`), blob.Any); err != nil {
				t.Error(err)
			}
		}
		return memory.Fault{}
	})
	for range 2 { // done twice it is no error, and nothing new
		if err := f.EndCommand(t.Context(), end); err != nil {
			t.Error(err)
		}
	}
	s.Inject(nil)
	ended, err := f.EndedCommands(t.Context())
	var names []string
	for _, e := range ended {
		names = append(names, e.Name)
	}
	if err != nil || !slices.Equal(names, []string{"theirs", name}) {
		t.Errorf("ended %v, %v", names, err)
	}
	if all, err := f.Commands(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("the queue is %+v, %v", all, err)
	}
}

// A record that cannot be read is not taken for none, and who joins is not written
// over what somebody else has written since.
func TestWhatIsThereIsKept(t *testing.T) {
	s := memory.New()
	f := control.New(s, "etcd")
	put(t, s, "control/etcdadm-record.json", `{"revision":`)
	if _, err := f.ReadRecord(t.Context()); !errors.Is(err, control.ErrMalformed) {
		t.Errorf("a torn record: %v", err)
	}
	if voted, err := f.Promoted(t.Context(), 7); voted || err == nil {
		t.Errorf("whether a member voted, where nothing says who joins: %v, %v", voted, err)
	}
	if err := f.PutJoining(t.Context(), "", &control.Joining{Cluster: 1, Former: []cluster.MemberID{7}}); err != nil {
		t.Fatal(err)
	}
	if voted, err := f.Promoted(t.Context(), 7); !voted || err != nil {
		t.Errorf("a member of an adoption that was given up: %v, %v", voted, err)
	}
	_, tag, err := f.ReadJoining(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.PutJoining(t.Context(), tag, &control.Joining{Cluster: 2}); err != nil {
		t.Fatal(err)
	}
	if err := f.PutJoining(t.Context(), tag, &control.Joining{Cluster: 3}); !errors.Is(err, control.ErrConflict) {
		t.Errorf("over what was written since: %v", err)
	}
}

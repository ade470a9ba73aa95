package control_test

import (
	"errors"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// A command under a name of its asker's is one, however often it is asked for: in the queue, and after it ended.
func TestOnce(t *testing.T) {
	ctx := t.Context()
	f := control.New(memory.New(), "etcd")
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("", 3600))
	backup, restore := control.CommandName(since, "0d1f-22"), control.CommandName(since, "0d1f-23")
	if backup != "2026-11-20T11:00:00Z-0d1f22" {
		t.Errorf("it is called %s", backup)
	}
	for range 2 {
		if err := f.AddWishOnce(ctx, backup, since, control.Wish{Kind: cluster.CommandBackup, KeepFor: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if err := f.AddRestoreOnce(ctx, restore, since, control.RestoreBackup{Backup: "2026-11-20T10:00:00Z-000001", Lost: []cluster.HostID{"a"}}); err != nil {
			t.Fatal(err)
		}
		queued, err := f.Commands(ctx)
		if err != nil || len(queued) != 2 || queued[0].Name != backup || queued[0].Wish.KeepFor != time.Hour || queued[1].Name != restore || len(queued[1].Restore.Lost) != 1 {
			t.Errorf("the queue has %+v, %v", queued, err)
		}
		for _, c := range queued { // a word ages since it was said
			if !c.Timestamp.Equal(since) {
				t.Errorf("%s is of %s, and was said at %s", c.Name, c.Timestamp, since)
			}
		}
	}
	for _, name := range []string{backup, restore} {
		if err := f.EndCommand(ctx, control.Ended{Name: name, Result: "done"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.AddWishOnce(ctx, backup, since, control.Wish{Kind: cluster.CommandBackup}), f.AddRestoreOnce(ctx, restore, since, control.RestoreBackup{Backup: "b"})); err != nil {
		t.Fatal(err)
	}
	if queued, err := f.Commands(ctx); err != nil || len(queued) != 0 {
		t.Errorf("what ended is in the queue again: %+v, %v", queued, err)
	}
	for name, wish := range map[string]control.Wish{"../x": {Kind: cluster.CommandBackup}, backup: {Kind: "dance"}, restore: {Kind: cluster.CommandBackup, KeepFor: -1}} {
		if err := f.AddWishOnce(ctx, name, since, wish); err == nil {
			t.Errorf("%s with %v was taken", name, wish)
		}
	}
}

// One that a generation was written for is not asked for again, although its end is not written down yet.
func TestOnceRan(t *testing.T) {
	ctx := t.Context()
	f := control.New(memory.New(), "etcd")
	name := control.CommandName(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), "a")
	in := &cluster.Intent{Timestamp: 1, Name: "etcd", Generation: 2, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 1, CommandsRun: []string{name}}
	if _, err := f.CreateIntent(ctx, in); err != nil {
		t.Fatal(err)
	}
	if err := f.AddRestoreOnce(ctx, name, time.Now(), control.RestoreBackup{Backup: "b"}); err != nil {
		t.Fatal(err)
	}
	if queued, err := f.Commands(ctx); err != nil || len(queued) != 0 {
		t.Errorf("it is in the queue again: %+v, %v", queued, err)
	}
}

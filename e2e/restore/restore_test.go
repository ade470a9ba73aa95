package restore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// A running cluster is restored under its clients: users, roles, leases and
// keys are those of the backup, watchers learn that they must list again,
// revisions never go back, and what is written from then on stays.
func TestRestore(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3, TLS: true})
	c.Configure(3)
	c.Start(1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	c.EnableAuth("root", "--no-password")
	client := c.Etcd()
	ctx := t.Context()
	lease := c.Grant("/leased")
	c.MayRead("app", "k/")
	c.Fill("k/", 500)
	before, err := client.Get(ctx, "k/000000")
	if err != nil {
		t.Fatal(err)
	}
	name := c.TakeBackup()
	if _, err := client.Put(ctx, "after", "the backup"); err != nil {
		t.Fatal(err)
	}
	relist := c.Watch("k/", before.Header.Revision)
	p := c.Poll()
	p.Reaches(before.Header.Revision)

	began := time.Now()
	if r := c.Restore(name); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "done: generation 2 serves") {
		t.Fatalf("%s", r)
	}
	told := time.Since(began)
	c.Generation(2, 1, 2, 3)
	t.Logf("restored after %s, three voters after %s", told.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	w := c.Write()

	if got, err := client.Get(ctx, "after"); err != nil || got.Count != 0 {
		t.Errorf("what was written after the backup is still there: %v (%v)", got, err)
	}
	if n := c.CountKeys("k/"); n != 500 {
		t.Errorf("there are %d keys, want 500", n)
	}
	select {
	case err := <-relist:
		if err != nil {
			t.Errorf("the watch ends with %v, want that it is compacted", err)
		}
	case <-time.After(rig.Soon):
		t.Error("the watch at an old revision is not told to list again")
	}
	c.Kept(lease, "/leased")
	c.KeptUser("app", "k/")
	for _, h := range c.Hosts {
		if len(c.AsideOn(h)) == 0 {
			t.Errorf("host %d set nothing aside", h.N)
		}
	}
	p.Reaches(before.Header.Revision + 1_000_000_000)
	p.End()
	reasons := c.ListBackups()
	if !slices.ContainsFunc(reasons, func(b rig.Listed) bool { return b.Reason == "before-restore" }) {
		t.Errorf("no backup was taken before the restore: %+v", reasons)
	}
	c.SeesTheCluster(t)
	w.Check()
}

package backups

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/teststore"
)

// Everything but the object store is lost: three hosts find one another through
// it, one command restores the backup that is in it, and every write of before
// the backup is there. The backup was verified and tried out from there, too.
func TestTotalLossWithObjectStore(t *testing.T) {
	t.Parallel()
	for _, name := range []string{teststore.Versitygw, teststore.Gofakes3, teststore.FakeGCSServer, teststore.Azurite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != teststore.Versitygw && !*rig.Long {
				t.Skip("one object store is enough for every day: -e2e.long")
			}
			server := teststore.Start(t, name)
			c := rig.Formed(t, 3, rig.Options{Store: rig.ObjectStore(t, server, name, "")})
			w := c.Write()
			c.Fill("k/", 2000)
			w.WaitFor(100)
			w.End()
			backup := c.TakeBackup()
			if r := c.Backups("verify", backup); r.Code != cli.ExitOK {
				t.Errorf("%s", r)
			}
			c.WipeAll(false)
			c.Start(1, 2, 3)
			c.Blocked(c.Host(1), "must issue restore-backup command to proceed", "etcdadm restore "+backup)
			began := time.Now()
			command := c.RestoreByCtl(backup)
			c.TakesWrites()
			t.Logf("ordinary clients are served %s after the command", time.Since(began).Round(time.Millisecond))
			c.Generation(2, 1, 2, 3)
			c.Ended(command, "done")
			w.Compare(c.Etcd())
			if n := c.CountKeys("k/"); n != 2000 {
				t.Errorf("there are %d keys, want 2000", n)
			}
			later := c.Write()
			c.TakeBackup()
			later.Check()
			for _, h := range c.Hosts {
				h.Never(teststore.SecretKey)
				h.Never(teststore.AzureKey)
			}
		})
	}
}

// slowStore is how long a slow object store thinks about each request: longer
// than one on another continent that is busy.
const slowStore = 400 * time.Millisecond

// An object store that takes no backups, and one that answers with errors or with
// nothing for a while. What takes a member away waits for a backup and says so, and
// a person need not; nothing that runs is touched; and what was missed is made up
// for when the store is itself again.
func TestObjectStoreIsBroken(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes a minute: -e2e.long")
	}
	t.Parallel()
	server := teststore.Start(t, teststore.Versitygw)
	proxy := teststore.NewProxy(t, server)
	proxy.Inject(func(r *http.Request) teststore.Fault {
		if rig.Uploads(r) {
			return teststore.Fail
		}
		return teststore.Pass
	})
	c := rig.Formed(t, 3, rig.Options{Store: rig.ObjectStore(t, server, teststore.Versitygw, proxy.URL), Flags: []string{"--backup-interval=15s"}})
	w := c.Write()
	removal := func(n int, words ...string) rig.Result {
		return c.Etcdadm(append([]string{"member", "remove", string(c.Host(n).ID()), "--hold", "--yes", "--data-dir", c.Host(1).Dir}, words...)...)
	}
	if r := removal(3, "--timeout=20s"); r.Code == cli.ExitOK || !strings.Contains(r.Stdout+r.Stderr, "--no-backup") {
		t.Errorf("a member is to be taken out, and no backup can be taken: %s", r)
	}
	c.Voters(rig.Soon, 1, 2, 3)
	if n := len(c.ListBackups()); n != 0 {
		t.Fatalf("%d backups are listed, and none was written", n)
	}
	if r := removal(3, "--no-backup", "--timeout=40s"); r.Code != cli.ExitOK {
		t.Errorf("a person does not want to wait for a backup: %s", r)
	}
	c.Voters(rig.Soon, 1, 2)
	if r := c.Etcdadm("member", "add", string(c.Host(3).ID()), "--hold", "--timeout=40s", "--data-dir", c.Host(1).Dir); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	members := c.Voters(rig.Soon, 1, 2, 3)
	proxy.Inject(nil)
	first := c.NewerBackup("")

	for _, fault := range []teststore.Fault{teststore.Fail, teststore.Refuse, teststore.Drop} {
		proxy.Inject(func(*http.Request) teststore.Fault { return fault })
		c.Blocked(c.Agree(), "store")
		pids := c.Pids()
		w.WaitFor(50)
		c.Host(2).KillEtcd()
		c.Voters(rig.Soon, 1, 2, 3)
		if now := c.Pids(); now[0] != pids[0] || now[2] != pids[2] {
			t.Errorf("the store fails, and the etcds had the pids %v and have %v", pids, now)
		}
		proxy.Inject(nil)
		first = c.NewerBackup(first)
	}

	rig.Same(t, members, c.Voters(rig.Soon, 1, 2, 3))
	w.Check()
}

// An object store that thinks about every request is no silent one: a cluster is
// formed and grows over it, backups are taken, and one is restored.
func TestObjectStoreIsSlow(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes a minute: -e2e.long")
	}
	t.Parallel()
	server := teststore.Start(t, teststore.Versitygw)
	proxy := teststore.NewProxy(t, server)
	proxy.Inject(func(r *http.Request) teststore.Fault {
		select {
		case <-r.Context().Done():
		case <-time.After(slowStore):
		}
		return teststore.Pass
	})
	c := rig.NewCluster(t, rig.Options{Hosts: 3, Store: rig.ObjectStore(t, server, teststore.Versitygw, proxy.URL)})
	c.Configure(1)
	c.Start(1, 2, 3)
	c.Members(90*time.Second, 1)
	w := c.Write()
	c.Configure(3)
	c.Voters(90*time.Second, 1, 2, 3)
	c.Fill("k/", 200)
	w.WaitFor(10)
	w.End()
	name := c.TakeBackup()
	c.Fill("later/", 100)
	if r := c.Restore(name); r.Code != cli.ExitOK {
		t.Errorf("a restore from a slow store: %s", r)
	}
	c.Generation(2, 1, 2, 3)
	w.Compare(c.Etcd())
	if kept, dropped := c.CountKeys("k/"), c.CountKeys("later/"); kept != 200 || dropped != 0 {
		t.Errorf("there are %d keys of before the backup and %d of after it", kept, dropped)
	}
	c.Write().Check()
}

// The upload of a backup is cut off in the middle, by the end of the daemon that
// sends it. What is there of it is listed nowhere and restored by nobody, the next
// one is whole, and what was left behind goes when it is old.
func TestUploadIsCutOff(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes half a minute: -e2e.long")
	}
	t.Parallel()
	server := teststore.Start(t, teststore.Versitygw)
	proxy := teststore.NewProxy(t, server)
	begun := make(chan struct{}, 100)
	proxy.Inject(func(r *http.Request) teststore.Fault {
		if rig.Uploads(r) {
			begun <- struct{}{}
			return teststore.Hang
		}
		return teststore.Pass
	})
	c := rig.Formed(t, 1, rig.Options{Store: rig.ObjectStore(t, server, teststore.Versitygw, proxy.URL)})
	w := c.Write()
	c.Fill("k/", 500)
	select {
	case <-begun: // the first one is due at once
	case <-time.After(rig.Soon):
		t.Fatal("no backup is uploaded")
	}
	c.Host(1).Kill()
	if all := c.ListBackups(); len(all) != 0 {
		t.Errorf("what was cut off is listed: %+v", all)
	}
	proxy.Inject(nil)
	c.Host(1).Start()
	name := c.TakeBackup()
	if r := c.Backups("verify", name); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	catalogue := backupstore.New(c.OpenStore())
	l, err := catalogue.Scan(t.Context())
	if err != nil || len(l.Unfinished) != 1 {
		t.Fatalf("left behind is %+v (%v), want what was cut off", l.Unfinished, err)
	}
	left := l.Unfinished[0].Name
	if r := c.Ctl("--backup-store="+c.StoreURL(), "restore-backup", string(left)); r.Code == cli.ExitOK {
		t.Errorf("a backup that was cut off can be restored: %s", r)
	}
	for age, want := range map[time.Duration]int{0: 0, 4 * time.Hour: 1} {
		gone, err := catalogue.CleanUp(t.Context(), 3*time.Hour, time.Now().Add(age))
		if err != nil || len(gone) != want {
			t.Errorf("%s later %q is cleaned up (%v)", age, gone, err)
		}
	}
	if l, err := catalogue.Scan(t.Context()); err != nil || len(l.Unfinished) != 0 || len(l.Backups) == 0 {
		t.Errorf("at the end there is %+v (%v)", l, err)
	}
	w.Check()
}

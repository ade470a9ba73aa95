package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/teststore"
)

// objectStoreKeys lets every program of a test, and the test itself, into the
// object stores that it runs.
func objectStoreKeys() {
	for name, value := range map[string]string{
		"S3_REGION": teststore.Region, "S3_ACCESS_KEY_ID": teststore.AccessKey, "S3_SECRET_ACCESS_KEY": teststore.SecretKey,
		"AZURE_STORAGE_ACCOUNT": teststore.AzureAccount, "AZURE_STORAGE_KEY": teststore.AzureKey,
	} {
		os.Setenv(name, value)
	}
}

// objectStore is the URL of a store in a server, by way of another address if
// one is given.
func objectStore(t *testing.T, server *teststore.Server, name, endpoint string) string {
	t.Helper()
	if endpoint == "" {
		endpoint = server.URL
	}
	switch name {
	case teststore.FakeGCSServer:
		return "gs://" + teststore.Bucket + "/test?endpoint=" + endpoint
	case teststore.Azurite:
		account := endpoint + "/" + teststore.AzureAccount
		key, err := azblob.NewSharedKeyCredential(teststore.AzureAccount, teststore.AzureKey)
		if err != nil {
			t.Fatal(err)
		}
		client, err := azblob.NewClientWithSharedKeyCredential(account, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CreateContainer(t.Context(), teststore.Bucket, nil); err != nil {
			t.Fatal(err)
		}
		return "azureblob://" + teststore.Bucket + "/test?endpoint=" + account
	}
	return "s3://" + teststore.Bucket + "/test?endpoint=" + endpoint
}

// Everything but the object store is lost: three hosts find one another through
// it, one command restores the backup that is in it, and every write of before
// the backup is there. The backup was verified and tried out from there, too.
func TestTotalLossWithObjectStore(t *testing.T) {
	t.Parallel()
	for _, name := range []string{teststore.Versitygw, teststore.Gofakes3, teststore.FakeGCSServer, teststore.Azurite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != teststore.Versitygw && !*long {
				t.Skip("one object store is enough for every day: -e2e.long")
			}
			server := teststore.Start(t, name)
			c := formed(t, 3, options{store: objectStore(t, server, name, "")})
			w := c.write()
			c.fill("k/", 2000)
			w.waitFor(100)
			w.end()
			backup := c.takeBackup()
			if r := c.backups("verify", backup); r.code != cli.ExitOK {
				t.Errorf("%s", r)
			}
			c.wipeAll(false)
			c.start(1, 2, 3)
			c.blocked(c.host(1), "must issue restore-backup command to proceed", "etcdadm restore "+backup)
			began := time.Now()
			command := c.restoreByCtl(backup)
			c.takesWrites()
			t.Logf("ordinary clients are served %s after the command", time.Since(began).Round(time.Millisecond))
			c.generation(2, 1, 2, 3)
			c.ended(command, "done")
			w.compare(c.etcd())
			if n := c.countKeys("k/"); n != 2000 {
				t.Errorf("there are %d keys, want 2000", n)
			}
			later := c.write()
			c.takeBackup()
			later.check()
			for _, h := range c.hosts {
				h.never(teststore.SecretKey)
				h.never(teststore.AzureKey)
			}
		})
	}
}

// slowStore is how long a slow object store thinks about each request: longer
// than one on another continent that is busy.
const slowStore = 400 * time.Millisecond

// uploads are the requests that carry the snapshot of a backup to S3.
func uploads(r *http.Request) bool {
	return (r.Method == http.MethodPut || r.Method == http.MethodPost) && strings.Contains(r.URL.Path, "/etcd.backup")
}

// An object store that takes no backups, and one that answers with errors or with
// nothing for a while. What takes a member away waits for a backup and says so, and
// a person need not; nothing that runs is touched; and what was missed is made up
// for when the store is itself again.
func TestObjectStoreIsBroken(t *testing.T) {
	if !*long {
		t.Skip("takes a minute: -e2e.long")
	}
	t.Parallel()
	server := teststore.Start(t, teststore.Versitygw)
	proxy := teststore.NewProxy(t, server)
	proxy.Inject(func(r *http.Request) teststore.Fault {
		if uploads(r) {
			return teststore.Fail
		}
		return teststore.Pass
	})
	c := formed(t, 3, options{store: objectStore(t, server, teststore.Versitygw, proxy.URL), flags: []string{"--backup-interval=15s"}})
	w := c.write()
	removal := func(n int, words ...string) result {
		return c.etcdadm(append([]string{"member", "remove", string(c.host(n).id()), "--hold", "--yes", "--data-dir", c.host(1).dir}, words...)...)
	}
	if r := removal(3, "--timeout=20s"); r.code == cli.ExitOK || !strings.Contains(r.stdout+r.stderr, "--no-backup") {
		t.Errorf("a member is to be taken out, and no backup can be taken: %s", r)
	}
	c.voters(soon, 1, 2, 3)
	if n := len(c.listBackups()); n != 0 {
		t.Fatalf("%d backups are listed, and none was written", n)
	}
	if r := removal(3, "--no-backup", "--timeout=40s"); r.code != cli.ExitOK {
		t.Errorf("a person does not want to wait for a backup: %s", r)
	}
	c.voters(soon, 1, 2)
	if r := c.etcdadm("member", "add", string(c.host(3).id()), "--hold", "--timeout=40s", "--data-dir", c.host(1).dir); r.code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	members := c.voters(soon, 1, 2, 3)
	proxy.Inject(nil)
	first := c.newerBackup("")

	for _, fault := range []teststore.Fault{teststore.Fail, teststore.Refuse, teststore.Drop} {
		proxy.Inject(func(*http.Request) teststore.Fault { return fault })
		c.blocked(c.agree(), "store")
		pids := c.pids()
		w.waitFor(50)
		c.host(2).killEtcd()
		c.voters(soon, 1, 2, 3)
		if now := c.pids(); now[0] != pids[0] || now[2] != pids[2] {
			t.Errorf("the store fails, and the etcds had the pids %v and have %v", pids, now)
		}
		proxy.Inject(nil)
		first = c.newerBackup(first)
	}

	same(t, members, c.voters(soon, 1, 2, 3))
	w.check()
}

// An object store that thinks about every request is no silent one: a cluster is
// formed and grows over it, backups are taken, and one is restored.
func TestObjectStoreIsSlow(t *testing.T) {
	if !*long {
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
	c := newCluster(t, options{hosts: 3, store: objectStore(t, server, teststore.Versitygw, proxy.URL)})
	c.configure(1)
	c.start(1, 2, 3)
	c.members(90*time.Second, 1)
	w := c.write()
	c.configure(3)
	c.voters(90*time.Second, 1, 2, 3)
	c.fill("k/", 200)
	w.waitFor(10)
	w.end()
	name := c.takeBackup()
	c.fill("later/", 100)
	if r := c.restore(name); r.code != cli.ExitOK {
		t.Errorf("a restore from a slow store: %s", r)
	}
	c.generation(2, 1, 2, 3)
	w.compare(c.etcd())
	if kept, dropped := c.countKeys("k/"), c.countKeys("later/"); kept != 200 || dropped != 0 {
		t.Errorf("there are %d keys of before the backup and %d of after it", kept, dropped)
	}
	c.write().check()
}

// The upload of a backup is cut off in the middle, by the end of the daemon that
// sends it. What is there of it is listed nowhere and restored by nobody, the next
// one is whole, and what was left behind goes when it is old.
func TestUploadIsCutOff(t *testing.T) {
	if !*long {
		t.Skip("takes half a minute: -e2e.long")
	}
	t.Parallel()
	server := teststore.Start(t, teststore.Versitygw)
	proxy := teststore.NewProxy(t, server)
	begun := make(chan struct{}, 100)
	proxy.Inject(func(r *http.Request) teststore.Fault {
		if uploads(r) {
			begun <- struct{}{}
			return teststore.Hang
		}
		return teststore.Pass
	})
	c := formed(t, 1, options{store: objectStore(t, server, teststore.Versitygw, proxy.URL)})
	w := c.write()
	c.fill("k/", 500)
	select {
	case <-begun: // the first one is due at once
	case <-time.After(soon):
		t.Fatal("no backup is uploaded")
	}
	c.host(1).kill()
	if all := c.listBackups(); len(all) != 0 {
		t.Errorf("what was cut off is listed: %+v", all)
	}
	proxy.Inject(nil)
	c.host(1).start()
	name := c.takeBackup()
	if r := c.backups("verify", name); r.code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	catalogue := backupstore.New(c.openStore())
	l, err := catalogue.Scan(t.Context())
	if err != nil || len(l.Unfinished) != 1 {
		t.Fatalf("left behind is %+v (%v), want what was cut off", l.Unfinished, err)
	}
	left := l.Unfinished[0].Name
	if r := c.ctl("--backup-store="+c.storeURL(), "restore-backup", string(left)); r.code == cli.ExitOK {
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
	w.check()
}

// newerBackup waits for a backup that is newer than a given one.
func (c *testCluster) newerBackup(than string) (name string) {
	c.t.Helper()
	eventually(c.t, 90*time.Second, "a newer backup", func(context.Context) error {
		all := c.listBackups()
		if len(all) == 0 {
			return errors.New("there is none")
		}
		if name = all[0].Name; name <= than {
			return fmt.Errorf("the newest is %s", name)
		}
		return nil
	})
	if i := slices.IndexFunc(c.listBackups(), func(b listed) bool { return b.Name == name }); i < 0 {
		c.t.Errorf("backup %s was listed, and is not any more", name)
	}
	return name
}

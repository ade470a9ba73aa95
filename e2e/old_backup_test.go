package e2e

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

func (w *v2Writer) sofar() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.acked)
}

// v2Keys reads all keys of version 2, through a quorum.
func (c *testCluster) v2Keys(h *host) map[string]string {
	c.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: c.clientTLS()}, Timeout: time.Minute}
	all, err := testetcd.KeysV2(c.t.Context(), client, h.clientURL())
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

// holds says how many of the keys that are wanted are not there.
func (c *testCluster) holds(what string, got, want map[string]string) {
	c.t.Helper()
	lost := 0
	for key, value := range want {
		if got[key] != value {
			lost++
		}
	}
	if lost > 0 {
		c.t.Errorf("%s: %d of %d acknowledged writes are lost", what, lost, len(want))
	}
	c.t.Logf("%s: %d acknowledged writes are there", what, len(want))
}

// asPredecessor makes a backup of a member of etcd 2 as kubernetes-sigs/etcd-manager
// does: etcdctl's directory, packed with tar and gzip, and a meta beside it.
func (c *testCluster) asPredecessor(h *host, name string) {
	c.t.Helper()
	cache, err := testetcd.CacheDir()
	if err != nil {
		c.t.Fatal(err)
	}
	tools, err := filepath.Glob(filepath.Join(cache, "etcd-v"+testetcd.V23+"-*", "etcdctl"))
	if err != nil || len(tools) == 0 {
		c.t.Fatalf("no etcdctl of %s: %v", testetcd.V23, err)
	}
	data, err := filepath.Glob(filepath.Join(h.dir, "data", "*", "member"))
	if err != nil || len(data) != 1 {
		c.t.Fatalf("the data directories are %v: %v", data, err)
	}
	dir := filepath.Join(c.t.TempDir(), "backup")
	if said, err := exec.CommandContext(c.t.Context(), tools[0], "backup", "--data-dir", filepath.Dir(data[0]), "--backup-dir", dir).CombinedOutput(); err != nil {
		c.t.Fatalf("etcdctl backup: %v: %s", err, said)
	}
	to := filepath.Join(c.store, name)
	if err := os.Mkdir(to, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if said, err := exec.CommandContext(c.t.Context(), "tar", "-czf", filepath.Join(to, backupFile), "-C", dir, "member").CombinedOutput(); err != nil {
		c.t.Fatalf("tar: %v: %s", err, said)
	}
	meta := fmt.Sprintf(`{"etcdVersion":%q,"timestamp":"%d","clusterSpec":{"memberCount":3,"etcdVersion":%q}}`, testetcd.V23, time.Now().Unix(), testetcd.V23)
	if err := os.WriteFile(filepath.Join(to, "_etcd_backup.meta"), []byte(meta), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// tarOf lists what a backup of etcd 2 holds.
func (c *testCluster) tarOf(name string) (files []string) {
	c.t.Helper()
	f, err := os.Open(c.file(name, backupFile))
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		c.t.Fatal(err)
	}
	for t := tar.NewReader(z); ; {
		head, err := t.Next()
		if err == io.EOF { //nolint:errorlint // a wrapped one is no end
			return files
		}
		if err != nil {
			c.t.Fatal(err)
		}
		files = append(files, path.Dir(head.Name))
	}
}

// A cluster of 2.3 is backed up while clients write, in the predecessor's format; the
// backup is tried out, and restored to 2.3 and, with the losses accepted, to 3.2. A
// backup that etcdctl of 2.3 made is restored, too.
func TestOldV2Backups(t *testing.T) {
	if !*old {
		t.Skip("members of releases before 3.4: -e2e.old")
	}
	testetcd.Binary(t, testetcd.V32)
	t.Run("same version", func(t *testing.T) {
		t.Parallel()
		c, name, before := c23(t)
		c.v2Put(c.host(1), "later", "1")
		if r := c.restore(name, "--to-version", "2.2.5"); r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "nothing was queued") {
			t.Errorf("to a release that does not read it: %s", r)
		}
		if r := c.restore(append(oldWait, name)...); r.code != cli.ExitOK {
			t.Fatalf("%s", r)
		}
		c.v2Voters(oldWithin, 1, 2, 3)
		got := c.v2Keys(c.host(2))
		c.holds("restored", got, before)
		if in := c.intent(); in.Generation != 2 || in.Source.Kind != cluster.SourceBackup || in.Version.String() != testetcd.V23 || got["/later"] != "" {
			t.Errorf("generation %d of etcd %s, made from %+v; /later is %q", in.Generation, in.Version, in.Source, got["/later"])
		}
		const theirs = "2018-01-01T00:00:00Z-000001"
		c.v2Put(c.host(1), "theirs", "1")
		c.asPredecessor(c.host(1), theirs)
		c.v2Put(c.host(1), "theirs", "2")
		c.restoreByCtl(theirs)
		c.becomes(3)
		c.v2Voters(oldWithin, 1, 2, 3)
		got = c.v2Keys(c.host(3))
		c.holds("restored from etcdctl's", got, before)
		if got["/theirs"] != "1" {
			t.Errorf("/theirs is %q", got["/theirs"])
		}
	})
	t.Run("to version 3", func(t *testing.T) {
		t.Parallel()
		c, name, before := c23(t)
		if r := c.restore(append(oldWait, name, "--to-version", testetcd.V32)...); r.code != cli.ExitUnsafe || !strings.Contains(r.stdout, "empty-directory") || !strings.Contains(r.stdout, "--accept-loss=") {
			t.Fatalf("a directory was lost without a word: %s", r)
		} else if _, digest, ok := strings.Cut(r.stdout, "--accept-loss="); ok {
			digest, _, _ = strings.Cut(digest, " ")
			c.v2Voters(soon, 1, 2, 3) // nothing was stopped
			c.options.version = testetcd.V32
			if r := c.restore(append(oldWait, name, "--to-version", testetcd.V32, "--accept-loss", digest)...); r.code != cli.ExitOK {
				t.Fatalf("%s", r)
			}
		}
		c.configure(3)
		c.runs(oldWithin, 1, 2, 3)
		c.voters(soon, 1, 2, 3)
		got := c.keysOfThree()
		c.holds("carried over", got, before)
	})
}

// oldWithin bounds a restore that copies keys, also where the machine is busy.
const oldWithin = 4 * time.Minute

var oldWait = slices.Clip([]string{"--wait=" + oldWithin.String()})

// becomes waits for a generation that is out of quarantine.
func (c *testCluster) becomes(n uint64) {
	c.t.Helper()
	eventually(c.t, oldWithin, fmt.Sprintf("generation %d out of quarantine", n), func(context.Context) error {
		if in := c.intent(); in.Generation != n || in.State != cluster.IntentFounded || in.Quarantined {
			return fmt.Errorf("generation %d is %s, quarantined %t", in.Generation, in.State, in.Quarantined)
		}
		return nil
	})
}

// c23 is a cluster of 2.3.8 with a backup, and what was acknowledged before that began.
func c23(t *testing.T) (c *testCluster, name string, before map[string]string) {
	t.Helper()
	c = newCluster(t, options{hosts: 3, version: testetcd.V23})
	c.configure(3)
	c.start(1, 2, 3)
	c.v2Voters(soon, 1, 2, 3)
	if _, err := c.host(1).v2(t.Context(), http.MethodPut, "/v2/keys/empty", url.Values{"dir": {"true"}}); err != nil {
		t.Fatal(err)
	}
	w := c.v2Write()
	before = w.sofar()
	name = c.takeBackup()
	w.end()
	if files := c.tarOf(name); !slices.Contains(files, "member/wal") {
		t.Errorf("the tar holds %v", files)
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"verify", name}, {"drill", name, "--release-dir", cache}} {
		if r := c.backups(words...); r.code != cli.ExitOK {
			t.Errorf("%s", r)
		}
	}
	for _, b := range c.listBackups() {
		if b.Name == name && (b.Proven != "drilled" || b.Revision == 0) {
			t.Errorf("it is listed as %+v", b)
		}
	}
	return c, name, before
}

// keysOfThree reads all keys of a cluster that has come to version 3 of the API, where
// those of version 2 have the names that they had.
func (c *testCluster) keysOfThree() map[string]string {
	c.t.Helper()
	client := c.newClient()
	defer client.Close()
	got := map[string]string{}
	eventually(c.t, soon, "reading all keys", func(ctx context.Context) error {
		clear(got)
		said, err := client.Get(ctx, "/", clientv3.WithPrefix())
		if err != nil {
			return err
		}
		for _, kv := range said.Kvs {
			got[string(kv.Key)] = string(kv.Value)
		}
		return nil
	})
	return got
}

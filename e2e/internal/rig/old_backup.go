package rig

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

func (w *v2Writer) Sofar() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.Acked)
}

// V2Keys reads all keys of version 2, through a quorum.
func (c *Cluster) V2Keys(h *Host) map[string]string {
	c.T.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: c.ClientTLS()}, Timeout: time.Minute}
	all, err := testetcd.KeysV2(c.T.Context(), client, h.ClientURL())
	if err != nil {
		c.T.Fatal(err)
	}
	return all
}

// Holds says how many of the keys that are wanted are not there.
func (c *Cluster) Holds(what string, got, want map[string]string) {
	c.T.Helper()
	lost := 0
	for key, value := range want {
		if got[key] != value {
			lost++
		}
	}
	if lost > 0 {
		c.T.Errorf("%s: %d of %d acknowledged writes are lost", what, lost, len(want))
	}
	c.T.Logf("%s: %d acknowledged writes are there", what, len(want))
}

// AsPredecessor makes a backup of a member of etcd 2 as kubernetes-sigs/etcd-manager
// does: etcdctl's directory, packed with tar and gzip, and a meta beside it.
func (c *Cluster) AsPredecessor(h *Host, name string) {
	c.T.Helper()
	cache, err := testetcd.CacheDir()
	if err != nil {
		c.T.Fatal(err)
	}
	tools, err := filepath.Glob(filepath.Join(cache, "etcd-v"+testetcd.V23+"-*", "etcdctl"))
	if err != nil || len(tools) == 0 {
		c.T.Fatalf("no etcdctl of %s: %v", testetcd.V23, err)
	}
	data, err := filepath.Glob(filepath.Join(h.Dir, "data", "*", "member"))
	if err != nil || len(data) != 1 {
		c.T.Fatalf("the data directories are %v: %v", data, err)
	}
	dir := filepath.Join(c.T.TempDir(), "backup")
	if said, err := exec.CommandContext(c.T.Context(), tools[0], "backup", "--data-dir", filepath.Dir(data[0]), "--backup-dir", dir).CombinedOutput(); err != nil {
		c.T.Fatalf("etcdctl backup: %v: %s", err, said)
	}
	to := filepath.Join(c.Store, name)
	if err := os.Mkdir(to, 0o700); err != nil {
		c.T.Fatal(err)
	}
	if said, err := exec.CommandContext(c.T.Context(), "tar", "-czf", filepath.Join(to, BackupFile), "-C", dir, "member").CombinedOutput(); err != nil {
		c.T.Fatalf("tar: %v: %s", err, said)
	}
	meta := fmt.Sprintf(`{"etcdVersion":%q,"timestamp":"%d","clusterSpec":{"memberCount":3,"etcdVersion":%q}}`, testetcd.V23, time.Now().Unix(), testetcd.V23)
	if err := os.WriteFile(filepath.Join(to, "_etcd_backup.meta"), []byte(meta), 0o600); err != nil {
		c.T.Fatal(err)
	}
}

// TarOf lists what a backup of etcd 2 holds.
func (c *Cluster) TarOf(name string) (files []string) {
	c.T.Helper()
	f, err := os.Open(c.File(name, BackupFile))
	if err != nil {
		c.T.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		c.T.Fatal(err)
	}
	for t := tar.NewReader(z); ; {
		head, err := t.Next()
		if err == io.EOF { //nolint:errorlint // a wrapped one is no end
			return files
		}
		if err != nil {
			c.T.Fatal(err)
		}
		files = append(files, path.Dir(head.Name))
	}
}

// OldWithin bounds a restore that copies keys, also where the machine is busy.
const OldWithin = 4 * time.Minute

// Becomes waits for a generation that is out of quarantine.
func (c *Cluster) Becomes(n uint64) {
	c.T.Helper()
	Eventually(c.T, OldWithin, fmt.Sprintf("generation %d out of quarantine", n), func(context.Context) error {
		if in := c.Intent(); in.Generation != n || in.State != cluster.IntentFounded || in.Quarantined {
			return fmt.Errorf("generation %d is %s, quarantined %t", in.Generation, in.State, in.Quarantined)
		}
		return nil
	})
}

// KeysOfThree reads all keys of a cluster that has come to version 3 of the API, where
// those of version 2 have the names that they had.
func (c *Cluster) KeysOfThree() map[string]string {
	c.T.Helper()
	client := c.NewClient()
	defer client.Close()
	got := map[string]string{}
	Eventually(c.T, Soon, "reading all keys", func(ctx context.Context) error {
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

package rig

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/testetcd"
)

// Backups runs etcdadm backup on the cluster's store.
func (c *Cluster) Backups(words ...string) Result {
	c.T.Helper()
	return c.Etcdadm(append([]string{"backup", "--store", c.StoreURL()}, words...)...)
}

// Listed is a backup as backup list -o json shows it.
type Listed struct {
	Name, Reason, Proven, Problem string
	Size, Revision                int64
	RevisionAtLeast               bool
	Keys                          int64
}

// ListBackups is what is in the store, the newest first.
func (c *Cluster) ListBackups() []Listed {
	c.T.Helper()
	r := c.Backups("list", "-o", "json")
	var all []Listed
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil || r.Code != cli.ExitOK {
		c.T.Fatalf("%v: %s", err, r)
	}
	return all
}

// TakeBackup has a backup taken on demand, and returns its name.
func (c *Cluster) TakeBackup() string {
	c.T.Helper()
	r := c.Backups("create", "--wait=1m")
	_, name, ok := strings.Cut(strings.TrimSpace(r.Stdout), "done: backup ")
	if r.Code != cli.ExitOK || !ok {
		c.T.Fatalf("a backup on demand: %s", r)
	}
	return name
}

// File is the path of a file of a backup in the store's directory.
func (c *Cluster) File(backup, name string) string { return filepath.Join(c.Store, backup, name) }

const BackupFile = "etcd.backup.gz"

// CopyBackup copies a backup under another name into the store, as a person does
// with files: the meta last.
func (c *Cluster) CopyBackup(from, to string, change func(file string, data []byte) []byte) {
	c.T.Helper()
	files, err := os.ReadDir(filepath.Join(c.Store, from))
	if err != nil {
		c.T.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(c.Store, to), 0o700); err != nil {
		c.T.Fatal(err)
	}
	slices.SortFunc(files, func(a, b os.DirEntry) int { return strings.Compare(b.Name(), a.Name()) })
	for _, f := range files {
		data, err := os.ReadFile(c.File(from, f.Name()))
		if err != nil {
			c.T.Fatal(err)
		}
		if change != nil {
			data = change(f.Name(), data)
		}
		if data == nil {
			continue
		}
		if err := os.WriteFile(c.File(to, f.Name()), data, 0o600); err != nil {
			c.T.Fatal(err)
		}
	}
}

// Fill puts n keys below a prefix.
func (c *Cluster) Fill(prefix string, n int) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), Soon)
	defer cancel()
	var ops []clientv3.Op
	for i := range n {
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s%06d", prefix, i), strings.Repeat("v", 100)))
	}
	for some := range slices.Chunk(ops, 100) {
		if _, err := c.Etcd().Txn(ctx).Then(some...).Commit(); err != nil {
			c.T.Fatal(err)
		}
	}
}

// CountKeys is how many keys there are below a prefix.
func (c *Cluster) CountKeys(prefix string) int64 {
	c.T.Helper()
	var n int64
	Eventually(c.T, Soon, "counting the keys below "+prefix, func(ctx context.Context) error {
		got, err := c.Etcd().Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil {
			n = got.Count
		}
		return err
	})
	return n
}

// SnapshotStatus is what the release's own etcdutl says of a backup's file.
func (c *Cluster) SnapshotStatus(name string) (status struct {
	Hash, Revision, TotalKey, TotalSize int64
	Version                             string
}) {
	c.T.Helper()
	packed, err := os.Open(c.File(name, BackupFile))
	if err != nil {
		c.T.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		c.T.Fatal(err)
	}
	data, err := io.ReadAll(plain)
	if err != nil {
		c.T.Fatal(err)
	}
	db := filepath.Join(c.T.TempDir(), "snapshot.db")
	if err := os.WriteFile(db, data, 0o600); err != nil {
		c.T.Fatal(err)
	}
	r := c.Run(nil, testetcd.Binary(c.T, c.Options.Version).Etcdutl, "snapshot", "status", db, "-w", "json")
	if err := json.Unmarshal([]byte(r.Stdout), &status); err != nil || r.Code != 0 {
		c.T.Fatalf("%v: %s", err, r)
	}
	return status
}

// KeepsTheFormat looks at a backup's files as another program reads them.
func (c *Cluster) KeepsTheFormat(name string) {
	c.T.Helper()
	data, err := os.ReadFile(c.File(name, "_etcd_backup.meta"))
	if err != nil {
		c.T.Fatal(err)
	}
	type spec struct {
		MemberCount int    `json:"memberCount"`
		EtcdVersion string `json:"etcdVersion"`
	}
	var meta struct {
		EtcdVersion string `json:"etcdVersion"`
		Timestamp   string `json:"timestamp"`
		ClusterSpec spec   `json:"clusterSpec"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&meta); err != nil {
		c.T.Fatalf("the meta %s: %v", data, err)
	}
	at, err := time.Parse(time.RFC3339, name[:len("2006-01-02T15:04:05Z")])
	if err != nil {
		c.T.Fatal(err)
	}
	var read int64
	if _, err := fmt.Sscan(meta.Timestamp, &read); err != nil || max(read-at.Unix(), at.Unix()-read) > 60 {
		c.T.Errorf("the meta of %s says the time %q", name, meta.Timestamp)
	}
	if meta.EtcdVersion != c.Options.Version || meta.ClusterSpec.EtcdVersion != c.Options.Version || meta.ClusterSpec.MemberCount == 0 {
		c.T.Errorf("the meta is %s", data)
	}
}

// Folder is the control folder of the store.
func (c *Cluster) Folder() *control.Folder {
	c.T.Helper()
	return control.New(c.OpenStore(), c.Name)
}

// RejectsARelease restores a backup of a release that nobody knows: nothing could ever
// come of it, and it would keep what is queued behind it waiting.
func (c *Cluster) RejectsARelease(of string) {
	c.T.Helper()
	const unknown = "2026-01-01T00:00:00Z-000077"
	c.CopyBackup(of, unknown, func(file string, data []byte) []byte {
		if file == BackupFile {
			return data
		}
		return bytes.ReplaceAll(data, []byte(c.Options.Version), []byte("3.99.0"))
	})
	if end := c.Ended(c.RestoreByCtl(unknown), "rejected"); !strings.Contains(end.Reason, "knows etcd 3.99") {
		c.T.Errorf("it ended as %+v", end)
	}
}

// QueueByHand writes a command into the store's directory.
func (c *Cluster) QueueByHand(name, command string) {
	c.T.Helper()
	dir := filepath.Join(c.Store, "control", name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "_command.json"), []byte(command), 0o600); err != nil {
		c.T.Fatal(err)
	}
}

// Ended waits for the end of a command.
func (c *Cluster) Ended(name, how string) control.Ended {
	c.T.Helper()
	var end control.Ended
	folder := c.Folder()
	Eventually(c.T, RestoreWithin, fmt.Sprintf("command %s is %s", name, how), func(ctx context.Context) (err error) {
		end, err = EndOf(ctx, folder, name)
		return err
	})
	if end.Result != how || end.Reason == "" {
		c.T.Errorf("command %s ended as %+v, want %s and why", name, end, how)
	}
	return end
}

// Pids are the etcds of all hosts, zero where none runs.
func (c *Cluster) Pids() []int {
	c.T.Helper()
	var out []int
	for _, h := range c.Hosts {
		out = append(out, h.EtcdPID())
	}
	return out
}

package e2e

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
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/backup"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/testetcd"
)

// backups runs etcdadm backup on the cluster's store.
func (c *testCluster) backups(words ...string) result {
	c.t.Helper()
	return c.etcdadm(append([]string{"backup", "--store", c.storeURL()}, words...)...)
}

// listed is a backup as backup list -o json shows it.
type listed struct {
	Name, Reason, Proven, Problem string
	Size, Revision                int64
	RevisionAtLeast               bool
	Keys                          int64
}

// listBackups is what is in the store, the newest first.
func (c *testCluster) listBackups() []listed {
	c.t.Helper()
	r := c.backups("list", "-o", "json")
	var all []listed
	if err := json.Unmarshal([]byte(r.stdout), &all); err != nil || r.code != cli.ExitOK {
		c.t.Fatalf("%v: %s", err, r)
	}
	return all
}

// takeBackup has a backup taken on demand, and returns its name.
func (c *testCluster) takeBackup() string {
	c.t.Helper()
	r := c.backups("create", "--wait=1m")
	_, name, ok := strings.Cut(strings.TrimSpace(r.stdout), "done: backup ")
	if r.code != cli.ExitOK || !ok {
		c.t.Fatalf("a backup on demand: %s", r)
	}
	return name
}

// file is the path of a file of a backup in the store's directory.
func (c *testCluster) file(backup, name string) string { return filepath.Join(c.store, backup, name) }

const backupFile = "etcd.backup.gz"

// copyBackup copies a backup under another name into the store, as a person does
// with files: the meta last.
func (c *testCluster) copyBackup(from, to string, change func(file string, data []byte) []byte) {
	c.t.Helper()
	files, err := os.ReadDir(filepath.Join(c.store, from))
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(c.store, to), 0o700); err != nil {
		c.t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b os.DirEntry) int { return strings.Compare(b.Name(), a.Name()) })
	for _, f := range files {
		data, err := os.ReadFile(c.file(from, f.Name()))
		if err != nil {
			c.t.Fatal(err)
		}
		if change != nil {
			data = change(f.Name(), data)
		}
		if data == nil {
			continue
		}
		if err := os.WriteFile(c.file(to, f.Name()), data, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// fill puts n keys below a prefix.
func (c *testCluster) fill(prefix string, n int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), soon)
	defer cancel()
	var ops []clientv3.Op
	for i := range n {
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s%06d", prefix, i), strings.Repeat("v", 100)))
	}
	for some := range slices.Chunk(ops, 100) {
		if _, err := c.etcd().Txn(ctx).Then(some...).Commit(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// countKeys is how many keys there are below a prefix.
func (c *testCluster) countKeys(prefix string) int64 {
	c.t.Helper()
	var n int64
	eventually(c.t, soon, "counting the keys below "+prefix, func(ctx context.Context) error {
		got, err := c.etcd().Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil {
			n = got.Count
		}
		return err
	})
	return n
}

// snapshotStatus is what the release's own etcdutl says of a backup's file.
func (c *testCluster) snapshotStatus(name string) (status struct {
	Hash, Revision, TotalKey, TotalSize int64
	Version                             string
}) {
	c.t.Helper()
	packed, err := os.Open(c.file(name, backupFile))
	if err != nil {
		c.t.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		c.t.Fatal(err)
	}
	data, err := io.ReadAll(plain)
	if err != nil {
		c.t.Fatal(err)
	}
	db := filepath.Join(c.t.TempDir(), "snapshot.db")
	if err := os.WriteFile(db, data, 0o600); err != nil {
		c.t.Fatal(err)
	}
	r := c.run(nil, testetcd.Binary(c.t, c.options.version).Etcdutl, "snapshot", "status", db, "-w", "json")
	if err := json.Unmarshal([]byte(r.stdout), &status); err != nil || r.code != 0 {
		c.t.Fatalf("%v: %s", err, r)
	}
	return status
}

// Backups come on demand and by themselves, in the shape that others read;
// they are listed, shown, verified and restored in a drill; the damaged one is
// found out.
func TestBackups(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1, flags: []string{"--backup-interval=3s"}})
	c.configure(1)
	c.start(1)
	c.voters(soon, 1)
	w := c.write()
	c.fill("k/", 500)
	name := c.takeBackup()
	eventually(t, soon, "two backups by themselves", func(context.Context) error {
		n := len(slices.DeleteFunc(c.listBackups(), func(b listed) bool { return b.Reason != string(backup.ReasonPeriodic) }))
		if n < 2 {
			return fmt.Errorf("%d were", n)
		}
		return nil
	})
	all := c.listBackups()
	at := slices.IndexFunc(all, func(b listed) bool { return b.Name == name })
	if at < 0 || all[at].Reason != string(backup.ReasonRequested) {
		t.Fatalf("backup %s is not listed as requested: %+v", name, all)
	}
	// It was taken while clients wrote, and yet it says exactly where it ends.
	if s, b := c.snapshotStatus(name), all[at]; s.TotalKey < 500 || s.Revision != b.Revision || b.RevisionAtLeast || b.Keys < 500 {
		t.Errorf("etcdutl says %+v of a backup listed as %+v", s, all[at])
	}
	c.keepsTheFormat(name)
	var shown struct {
		Manifest struct{ Snapshot backup.Content }
	}
	if r := c.backups("show", name, "-o", "json"); json.Unmarshal([]byte(r.stdout), &shown) != nil || shown.Manifest.Snapshot.Size == 0 {
		t.Errorf("show: %s", r)
	}
	if r := c.backups("verify", name); r.code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if r := c.backups("drill", name, "--release-dir", cache); r.code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	if i := slices.IndexFunc(c.listBackups(), func(b listed) bool { return b.Name == name && b.Proven == string(backup.DepthDrilled) }); i < 0 {
		t.Errorf("the drill is not kept beside the backup: %+v", c.listBackups())
	}
	for what, damage := range damages() {
		bad := "2026-01-01T00:00:00Z-00000" + fmt.Sprint(len(what)%10)
		c.copyBackup(name, bad, damage)
		if r := c.backups("verify", bad); r.code != cli.ExitUnsafe {
			t.Errorf("%s: verify says %s", what, r)
		}
	}
	w.check()
}

// damages are what may have happened to a backup's file.
func damages() map[string]func(file string, data []byte) []byte {
	of := func(damage func([]byte) []byte) func(string, []byte) []byte {
		return func(file string, data []byte) []byte {
			if file == backupFile {
				return damage(bytes.Clone(data))
			}
			return data
		}
	}
	return map[string]func(string, []byte) []byte{
		"a flipped byte": of(func(data []byte) []byte {
			data[len(data)/2] ^= 1
			return data
		}),
		"truncated": of(func(data []byte) []byte { return data[:len(data)*2/3] }),
	}
}

// keepsTheFormat looks at a backup's files as another program reads them.
func (c *testCluster) keepsTheFormat(name string) {
	c.t.Helper()
	data, err := os.ReadFile(c.file(name, "_etcd_backup.meta"))
	if err != nil {
		c.t.Fatal(err)
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
		c.t.Fatalf("the meta %s: %v", data, err)
	}
	at, err := time.Parse(time.RFC3339, name[:len("2006-01-02T15:04:05Z")])
	if err != nil {
		c.t.Fatal(err)
	}
	var read int64
	if _, err := fmt.Sscan(meta.Timestamp, &read); err != nil || max(read-at.Unix(), at.Unix()-read) > 60 {
		c.t.Errorf("the meta of %s says the time %q", name, meta.Timestamp)
	}
	if meta.EtcdVersion != c.options.version || meta.ClusterSpec.EtcdVersion != c.options.version || meta.ClusterSpec.MemberCount == 0 {
		c.t.Errorf("the meta is %s", data)
	}
}

// folder is the control folder of the store.
func (c *testCluster) folder() *control.Folder {
	c.t.Helper()
	return control.New(c.openStore(), c.name)
}

// A backup that is damaged or not there is refused before anything that runs
// is touched, whichever way the command came, and the command says why.
func TestBadBackupsAreRejected(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{})
	w := c.write()
	c.fill("k/", 200)
	name := c.takeBackup()
	members, pids := c.voters(soon, 1, 2, 3), c.pids()
	n := 0
	rejected := func(what string, r result, words string) {
		t.Helper()
		if r.code != cli.ExitUnsafe || !strings.Contains(r.stdout, "rejected: ") || !strings.Contains(r.stdout, words) {
			t.Errorf("%s: %s", what, r)
		}
		n++
	}
	for what, damage := range damages() {
		bad := "2026-01-01T00:00:00Z-00000" + fmt.Sprint(len(what)%10)
		c.copyBackup(name, bad, damage)
		if what == "truncated" { // that shows before the object is read
			if r := c.restore(bad); r.code != cli.ExitUnsafe || !strings.Contains(r.stderr, "nothing was queued") || !strings.Contains(r.stderr, "BAD") {
				t.Errorf("%s: %s", what, r)
			}
		}
		rejected(what, c.restore(bad, "--accept-damage"), "")
	}
	const missing = "2026-01-01T00:00:00Z-009999"
	if r := c.ctl("--backup-store="+c.storeURL(), "restore-backup", missing); r.code != cli.ExitError || !strings.Contains(r.stderr, "list-backups") {
		t.Errorf("the ctl takes a name that does not exist: %s", r)
	}
	if r := c.restore(missing, "--members", "1"); r.code != cli.ExitError || !strings.Contains(r.stderr, "backup list") {
		t.Errorf("etcdadm takes a name that does not exist: %s", r)
	}
	queued, err := c.folder().AddRestore(t.Context(), control.RestoreBackup{Backup: missing}) // as another program may
	if err != nil {
		t.Fatal(err)
	}
	c.ended(queued, "rejected")
	for _, path := range []string{"../other/2026-01-01T00:00:00Z-000001", "a/b", "..", "/etc/passwd"} {
		if r := c.ctl("--backup-store="+c.storeURL(), "restore-backup", path); r.code != cli.ExitUsage {
			t.Errorf("a path as a backup's name: %s", r)
		}
		if r := c.restore(path); r.code != cli.ExitUsage {
			t.Errorf("a path as a backup's name: %s", r)
		}
	}
	c.queueByHand("2026-01-01T00:00:00Z-000000", `{"timestamp":"1","restoreBackup":{"clusterSpec":{"memberCount":3,"etcdVersion":"3.6.16"},"backup":"../../x"}}`)
	c.ended("2026-01-01T00:00:00Z-000000", "rejected")
	c.waitsForARelease(name)
	same(t, members, c.voters(soon, 1, 2, 3))
	if now := c.pids(); !slices.Equal(pids, now) {
		t.Errorf("a backup that cannot be used touched what runs: the etcds had the pids %v and have %v", pids, now)
	}
	if r := c.ctl("--backup-store="+c.storeURL(), "list-commands", "--all"); strings.Count(r.stdout, "rejected at") != n+2 {
		t.Errorf("%s", r)
	}
	w.check()
}

// waitsForARelease restores a backup of a release that nobody has: it may be
// installed, so the command waits, says for what, and can be taken back.
func (c *testCluster) waitsForARelease(of string) {
	c.t.Helper()
	const unknown = "2026-01-01T00:00:00Z-000077"
	c.copyBackup(of, unknown, func(file string, data []byte) []byte {
		if file == backupFile {
			return data
		}
		return bytes.ReplaceAll(data, []byte(c.options.version), []byte("3.99.0"))
	})
	command := c.restoreByCtl(unknown)
	c.blocked(c.agree(), "no etcd that reads data of 3.99.0")
	c.passes(3 * time.Second)
	if r := c.ctl("--backup-store="+c.storeURL(), "delete-command", command); r.code != cli.ExitOK {
		c.t.Errorf("%s", r)
	}
}

// queueByHand writes a command into the store's directory.
func (c *testCluster) queueByHand(name, command string) {
	c.t.Helper()
	dir := filepath.Join(c.store, "control", name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "_command.json"), []byte(command), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// ended waits for the end of a command.
func (c *testCluster) ended(name, how string) control.Ended {
	c.t.Helper()
	var end control.Ended
	folder := c.folder()
	eventually(c.t, restoreWithin, fmt.Sprintf("command %s is %s", name, how), func(ctx context.Context) (err error) {
		end, err = endOf(ctx, folder, name)
		return err
	})
	if end.Result != how || end.Reason == "" {
		c.t.Errorf("command %s ended as %+v, want %s and why", name, end, how)
	}
	return end
}

// pids are the etcds of all hosts, zero where none runs.
func (c *testCluster) pids() []int {
	c.t.Helper()
	var out []int
	for _, h := range c.hosts {
		out = append(out, h.etcdPID())
	}
	return out
}

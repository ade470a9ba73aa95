package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/testetcd"
)

// fill makes a history with everything that a hash has to get right: keys that
// were written once and often, deleted and made again, before and after a
// compaction, and a lease.
func fill(t testing.TB, c *clientv3.Client) (lease clientv3.LeaseID) {
	t.Helper()
	ctx := within(t)
	granted, err := c.Grant(ctx, 600)
	must(t, err)
	put(t, c, "leased", "v", clientv3.WithLease(granted.ID))
	for i := range 40 {
		put(t, c, fmt.Sprintf("k%02d", i%20), fmt.Sprint(i))
	}
	_, err = c.Delete(ctx, "k00", clientv3.WithRange("k05"))
	must(t, err)
	last := put(t, c, "k03", "again")
	_, err = c.Delete(ctx, "k07")
	must(t, err)
	_, err = c.Compact(ctx, last+1, clientv3.WithCompactPhysical()) // the revision of a tombstone
	must(t, err)
	for i := range 10 {
		put(t, c, fmt.Sprintf("k%02d", 10+i%3), "later")
	}
	_, err = c.Delete(ctx, "k11")
	must(t, err)
	put(t, c, "new", "v")
	return granted.ID
}

func keyCount(t testing.TB, c *clientv3.Client) int64 {
	t.Helper()
	r, err := c.Get(within(t), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	must(t, err)
	return r.Count
}

// What Verify computes from the file is what etcd answers.
func TestVerifyAgreesWithEtcd(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		c := testetcd.Start(t, testetcd.Config{Version: version})
		client := c.Client(t)
		file := filepath.Join(t.TempDir(), "snapshot")
		compare := func(step string) Info {
			t.Helper()
			save(t, client, file)
			info, err := Verify(within(t), file)
			must(t, err)
			said, err := client.HashKV(within(t), c.Endpoints()[0], 0)
			must(t, err)
			want := Hash{said.Header.Revision, said.CompactRevision, said.Hash}
			if is := (Hash{info.Revision, info.CompactRevision, info.HashKV}); is != want || !info.HashKVTold {
				t.Errorf("%s: hash %+v, etcd says %+v", step, is, want)
			}
			if n := keyCount(t, client); n != info.Keys {
				t.Errorf("%s: %d keys, etcd counts %d", step, info.Keys, n)
			}
			if info.Size != size(t, file)-32 || len(info.Members) != 1 || info.Members[0].Name != "m0" || info.ConsistentIndex == 0 {
				t.Errorf("%s: %+v", step, info)
			}
			return info
		}
		compare("empty")
		put(t, client, "a", "1")
		put(t, client, "a", "2")
		compare("never compacted")
		fill(t, client)
		if info := compare("filled"); info.Leases != 1 || info.AuthEnabled || info.CompactRevision < 1 {
			t.Errorf("filled: %+v", info)
		}
		_, err := client.Delete(within(t), "", clientv3.WithPrefix())
		must(t, err)
		compare("all deleted")
	})
}

// A restored member serves the keys, leases and users of the snapshot at a
// higher revision, and who watches from an old one learns that he must relist.
func TestRestore(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		c := testetcd.Start(t, testetcd.Config{Version: version})
		client, ctx := c.Client(t), within(t)
		lease := fill(t, client)
		enableAuth(t, client)
		file, dir := filepath.Join(t.TempDir(), "snapshot"), filepath.Join(t.TempDir(), "data")
		root := asRoot(t, c)
		save(t, root, file)
		keys := keyCount(t, root)
		must(t, c.Kill(ctx, 0, syscall.SIGKILL))

		info, err := Verify(ctx, file)
		must(t, err)
		if !info.AuthEnabled || info.Users != 1 || info.Leases != 1 || info.Keys != keys {
			t.Errorf("verified %+v, want auth, a user, a lease and %d keys", info, keys)
		}
		o := newFounder(c.Members[0].PeerURL).options(file, dir, theRelease(t, version))
		o.Verified, o.Revision = info.SHA256, info.Revision+1_000_000_000
		r, err := Restore(ctx, o)
		must(t, err)
		if want := (Restored{Member: o.Member, Cluster: o.Cluster, From: info.Revision, Revision: o.Revision}); r != want {
			t.Errorf("restored %+v, want %+v", r, want)
		}
		if names := left(t, filepath.Dir(dir)); !slices.Equal(names, []string{"data"}) {
			t.Errorf("beside the directory there is %v", names)
		}
		again, err := Restore(ctx, o)
		if r.Again = true; err != nil || again != r {
			t.Errorf("again: %+v %v, want %+v", again, err, r)
		}

		c.Members[0].DataDir = dir
		must(t, c.Restart(ctx, 0))
		// A token names the raft index at which it was given, and etcd makes its
		// bearer wait for that index, which the new log does not reach for long.
		root = asRoot(t, c)
		if n := keyCount(t, root); n != keys {
			t.Errorf("%d keys after the restore, %d before", n, keys)
		}
		if _, err := client.Get(ctx, "new"); !errors.Is(err, rpctypes.ErrUserEmpty) {
			t.Errorf("a read without credentials: %v", err)
		}
		left, err := root.TimeToLive(ctx, lease, clientv3.WithAttachedKeys())
		if err != nil || left.TTL < 500 || len(left.Keys) != 1 {
			t.Errorf("the lease is %+v, %v", left, err)
		}
		if rev := put(t, root, "after", "v"); rev <= o.Revision {
			t.Errorf("the next revision is %d", rev)
		}
		watched := <-root.Watch(ctx, "new", clientv3.WithRev(info.Revision))
		if !errors.Is(watched.Err(), rpctypes.ErrCompacted) {
			t.Errorf("a watch from an old revision: %+v", watched)
		}
		members, err := root.MemberList(ctx)
		must(t, err)
		if len(members.Members) != 1 || members.Members[0].ID != uint64(o.Member) || members.Header.ClusterId != uint64(o.Cluster) {
			t.Errorf("members are %+v", members)
		}
		if _, err := inspect(within(t), dir); !errors.Is(err, ErrRunning) {
			t.Errorf("inspect a running member: %v", err)
		}
	})
}

func asRoot(t testing.TB, c *testetcd.Cluster) *clientv3.Client {
	t.Helper()
	root, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints(), Username: "root", Password: "secret", DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	must(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

func enableAuth(t testing.TB, c *clientv3.Client) {
	t.Helper()
	ctx := within(t)
	_, err := c.UserAdd(ctx, "root", "secret")
	must(t, err)
	_, err = c.UserGrantRole(ctx, "root", "root")
	must(t, err)
	_, err = c.AuthEnable(ctx)
	must(t, err)
}

// snapshotOf makes a snapshot of a filled one-member cluster that has ended.
func snapshotOf(t testing.TB, version string, more ...func(*testetcd.Cluster, *clientv3.Client) *clientv3.Client) string {
	t.Helper()
	c := testetcd.Start(t, testetcd.Config{Version: version})
	client := c.Client(t)
	fill(t, client)
	for _, m := range more {
		client = m(c, client)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	save(t, client, file)
	must(t, c.Close())
	return file
}

// What cannot be trusted is refused by name, and nothing is made of it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	file := snapshotOf(t, testetcd.V37)
	good, err := os.ReadFile(file)
	must(t, err)
	rel := theRelease(t, testetcd.V37)
	without := rel
	without.Etcdutl = ""
	old := release.Release{Version: "3.4.30", Dir: "/opt/etcd-v3.4.30", Etcd: "/opt/etcd-v3.4.30/etcd"}
	type edit = func(*RestoreOptions)
	none := func(*RestoreOptions) {}
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for _, test := range []struct {
		name    string
		content []byte
		edit    edit
		want    error
		says    string
	}{
		{"flipped byte", flipped, none, ErrDamaged, "SHA-256"},
		{"flipped byte in the hash", append(slices.Clone(good[:len(good)-1]), ^good[len(good)-1]), none, ErrDamaged, "SHA-256"},
		{"cut anywhere", good[:len(good)/2+7], none, ErrDamaged, "cut off"},
		{"cut at a sector", good[:len(good)/2/512*512], none, ErrNoHash, "beginning"},
		{"cut where a hash could end", good[:len(good)/2/512*512+32], none, ErrDamaged, "SHA-256"},
		{"without its hash", good[:len(good)-32], none, ErrNoHash, "no SHA-256"},
		{"empty", nil, none, ErrDamaged, "0 bytes"},
		{"verified was another", good, func(o *RestoreOptions) { o.Verified = strings.Repeat("ab", 32) }, ErrDamaged, "was verified"},
		{"no tool", good, func(o *RestoreOptions) { o.Release = without }, nil, "takes etcdutl of etcd 3.7.3"},
		{"no tool of an old release", good, func(o *RestoreOptions) { o.Release = old }, nil, "takes etcdctl of etcd 3.4.30, and /opt/etcd-v3.4.30 has none"},
		{"another member", good, func(o *RestoreOptions) { o.Member++ }, ErrIdentity, "expected was member"},
		{"another cluster", good, func(o *RestoreOptions) { o.Cluster++ }, ErrIdentity, "expected was member"},
		{"something there", good, func(o *RestoreOptions) { must(t, os.Mkdir(o.DataDir, 0o700)) }, ErrExists, "already"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			o := newFounder("http://127.0.0.1:1").options(filepath.Join(dir, "snapshot"), filepath.Join(dir, "data"), rel)
			must(t, os.WriteFile(o.Snapshot, test.content, 0o600))
			test.edit(&o)
			_, err := Restore(within(t), o)
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %v with %q", err, test.want, test.says)
			}
			if _, err := os.Stat(filepath.Join(o.DataDir, "member")); err == nil {
				t.Error("there is a member")
			}
			if _, err := os.Stat(o.DataDir + siteSuffix); err == nil {
				t.Error("the building site was left behind")
			}
		})
	}
}

// A file that passes for a snapshot by its hash and is none is damaged, and no
// page that is not there ends the process.
func TestVerifyNonsense(t *testing.T) {
	t.Parallel()
	file := snapshotOf(t, testetcd.V37)
	good, err := os.ReadFile(file)
	must(t, err)
	pages, flipped := slices.Clone(good[:len(good)-32]), slices.Clone(good[:len(good)-32])
	for i := 2 * 4096; i < len(pages); i += 4096 {
		copy(pages[i+8:], "\xff\xff\xff\xff") // kind and number of entries
	}
	for i := 2 * 4096; i < len(flipped); i += 512 {
		flipped[i+rand.IntN(512)] ^= byte(1 + rand.IntN(255))
	}
	for name, db := range map[string][]byte{
		"zeros": make([]byte, 1<<16), "half": good[:len(good)/2/4096*4096], "pages": pages, "flipped": flipped, "first pages": good[:3*4096],
	} {
		path := filepath.Join(t.TempDir(), "snapshot")
		must(t, os.WriteFile(path, db, 0o600))
		must(t, appendHash(within(t), path))
		info, err := Verify(within(t), path)
		if name == "flipped" && err == nil { // what was hit is read by nobody, or is in values
			continue
		}
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %+v %v", name, info, err)
		}
	}
}

func restoreAsChild(order string) int {
	var o RestoreOptions
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return 2
	}
	if _, err := Restore(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A restore that is killed at any time is begun again and comes to its end;
// what the directory then holds serves.
func TestKilledRestore(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 1<<20)
	file := snapshotOf(t, testetcd.V37, func(_ *testetcd.Cluster, c *clientv3.Client) *clientv3.Client {
		for i := range 60 {
			put(t, c, fmt.Sprintf("big%d", i), big)
		}
		return c
	})
	dir := t.TempDir()
	o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(dir, "data"), theRelease(t, testetcd.V37))
	o.Revision = 5_000_000_000
	began := time.Now()
	_, err := Restore(within(t), o)
	must(t, err)
	took := time.Since(began)
	before := map[bool]int{}
	for n := range 25 {
		o.DataDir = filepath.Join(dir, fmt.Sprintf("data%d", n))
		order, err := json.Marshal(o)
		must(t, err)
		killed := exec.Command(os.Args[0])
		killed.Env = append(os.Environ(), envChild+"="+string(order))
		must(t, killed.Start())
		timer := time.AfterFunc(rand.N(took*5/4), func() { killed.Process.Kill() })
		waited := killed.Wait()
		timer.Stop()
		_, err = os.Stat(o.DataDir)
		before[err == nil]++
		r, err := Restore(within(t), o)
		if err != nil {
			t.Fatalf("after it was killed (%v): %v", waited, err)
		}
		if r.Revision != o.Revision || r.Member != o.Member {
			t.Fatalf("restored %+v", r)
		}
		if _, err := inspect(within(t), o.DataDir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(o.DataDir + siteSuffix); err == nil {
			t.Fatal("the building site was left behind")
		}
		must(t, os.RemoveAll(o.DataDir))
	}
	t.Logf("a whole one takes %v; killed before its end %d times, after it %d times", took, before[false], before[true])
}

// Somebody else's directory at the place of the building site is set aside.
func TestForeignSite(t *testing.T) {
	t.Parallel()
	file, dir := snapshotOf(t, testetcd.V36), t.TempDir()
	o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(dir, "data"), theRelease(t, testetcd.V36))
	precious := filepath.Join(o.DataDir+siteSuffix, "precious")
	must(t, os.MkdirAll(filepath.Dir(precious), 0o700))
	must(t, os.WriteFile(precious, []byte("x"), 0o600))
	_, err := Restore(within(t), o)
	must(t, err)
	if names := left(t, dir); !slices.Equal(names, []string{"data", "data.restoring.set-aside-1"}) {
		t.Errorf("there is %v", names)
	}
}

// Two restores of one directory at the same time: both come back with the one result.
func TestConcurrentRestores(t *testing.T) {
	t.Parallel()
	file, dir := snapshotOf(t, testetcd.V37), t.TempDir()
	o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(dir, "data"), theRelease(t, testetcd.V37))
	results := make(chan error)
	for range 4 {
		go func() {
			_, err := Restore(within(t), o)
			results <- err
		}()
	}
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if names := left(t, dir); !slices.Equal(names, []string{"data"}) {
		t.Errorf("there is %v", names)
	}
}

// A cancelled restore leaves nothing.
func TestCancelledRestore(t *testing.T) {
	t.Parallel()
	file, dir := snapshotOf(t, testetcd.V37), t.TempDir()
	o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(dir, "data"), theRelease(t, testetcd.V37))
	o.Release.Etcdutl = hangs(t)
	ctx, cancel := context.WithTimeout(within(t), 200*time.Millisecond)
	defer cancel()
	if _, err := Restore(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if names := left(t, dir); len(names) != 0 {
		t.Errorf("there is %v", names)
	}
}

func TestBumps(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"3.4.26": false, "3.4.27": true, "3.5.9": false, "3.5.10": true, "3.6.0": true, "3.7.3": true, "3.3.27": false,
	} {
		tool, err := RestoreTool(release.Release{Version: version, Etcdctl: "x", Etcdutl: "x"})
		if err != nil || tool.Bumps() != want {
			t.Errorf("%s: %v %v", version, tool.Bumps(), err)
		}
	}
}

// A tool of an older line leaves none of a newer one's marks in the database, on an excerpt
// or on the whole; one of the same line leaves what is there.
func TestMarksOfANewerLine(t *testing.T) {
	t.Parallel()
	h := &header{storageVersion: "3.6.0", clusterVersion: "3.6.0"}
	for version, want := range map[string]bool{"3.4.25": true, "3.5.35": true, "3.6.0": false, "3.6.16": false, "3.7.3": false} {
		if got := (Tool{Version: cluster.MustVersion(version)}).below(h); got != want {
			t.Errorf("%s is below: %t", version, got)
		}
	}
	if (Tool{Version: cluster.MustVersion("3.4.25")}).below(&header{}) || !(Tool{Version: cluster.MustVersion("3.4.25")}).below(&header{clusterVersion: "3.5.0"}) {
		t.Error("one mark of two, or none")
	}
	file, dir := snapshotOf(t, testetcd.V36), t.TempDir()
	for version, marks := range map[string]bool{testetcd.V34: false, testetcd.V35: false, testetcd.V36: true} {
		o := newFounder("http://127.0.0.1:1").options(file, filepath.Join(dir, version), theRelease(t, version))
		_, err := Restore(within(t), o)
		must(t, err)
		h, err := peek(within(t), databaseOf(o.DataDir))
		must(t, err)
		if has := h.storageVersion != ""; has != marks || !marks && h.clusterVersion != "" {
			t.Errorf("restored by %s: storage %q, cluster %q", version, h.storageVersion, h.clusterVersion)
		}
	}
}

// A cluster that nobody has written to can be backed up and restored as well.
func TestRestoreOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		c := testetcd.Start(t, testetcd.Config{Version: version})
		ctx, dir := within(t), t.TempDir()
		file := filepath.Join(dir, "snapshot")
		save(t, c.Client(t), file)
		for name, target := range map[string]int64{"raised": 1_000_000_001, "as it is": 0} {
			o := newFounder(c.Members[0].PeerURL).options(file, filepath.Join(dir, name), theRelease(t, version))
			o.Revision = target
			if r, err := Restore(ctx, o); err != nil || r.Revision != max(target, 1) || r.From != 1 {
				t.Errorf("%s: %+v %v", name, r, err)
			}
		}
	})
}

// Nobody may have recorded how far clients had come: the snapshot itself tells,
// and is exceeded, whatever the target was.
func TestBumpIsAboveTheSnapshot(t *testing.T) {
	t.Parallel()
	tool := func(v string) Tool { return Tool{Name: "etcdutl", Version: cluster.MustVersion(v)} }
	h := &header{recorded: 5_000, revision: 5_000}
	for _, c := range []struct {
		revision, above, want int64
		tool                  string
	}{
		{0, 0, 0, "3.6.16"}, {7_000, 0, 2_000, "3.6.16"}, {7_000, 1_000, 2_000, "3.6.16"}, {1_000, 0, 0, "3.6.16"},
		{1_000, 1_000, 1_000, "3.6.16"}, {0, 1_000, 1_000, "3.6.16"}, {7_000, 1_000, 0, "3.4.20"},
	} {
		if got := bumpBy(RestoreOptions{Revision: c.revision, Above: c.above}, tool(c.tool), h); got != c.want {
			t.Errorf("to %d and %d above %d, by %s: a bump of %d, want %d", c.revision, c.above, h.revision, c.tool, got, c.want)
		}
	}
}

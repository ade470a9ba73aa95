package snapshot

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/testetcd"
)

// envChild turns the test binary into a program that restores, for tests that
// kill it.
const envChild = "ETCDADM_TEST_RESTORE"

func TestMain(m *testing.M) {
	builtin.RunIfChild()
	if order := os.Getenv(envChild); order != "" {
		os.Exit(restoreAsChild(order))
	}
	testetcd.SideBySide(6)
	goleak.VerifyTestMain(m)
}

// within is a context that ends with the test or after a time that no step
// takes.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func eachVersion(t *testing.T, test func(t *testing.T, version string)) {
	for _, v := range testetcd.Versions() {
		t.Run(v, func(t *testing.T) { test(t, v) })
	}
}

// theRelease is a real one, as the finder would have told it.
func theRelease(t testing.TB, version string) release.Release {
	r := testetcd.Binary(t, version)
	return release.Release{
		Asked: version, Version: version, Dir: r.Dir, Etcd: r.Etcd, Etcdctl: r.Etcdctl, Etcdutl: r.Etcdutl,
	}
}

// save takes a snapshot as every client would.
func save(t testing.TB, c *clientv3.Client, path string) {
	t.Helper()
	stream, err := c.Snapshot(within(t))
	must(t, err)
	defer stream.Close()
	f, err := os.Create(path)
	must(t, err)
	_, err = io.Copy(f, stream)
	must(t, err)
	must(t, f.Close())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, c *clientv3.Client, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	r, err := c.Put(within(t), key, value, opts...)
	must(t, err)
	return r.Header.Revision
}

// founder is what a restore is told of the one voter, and what comes of it.
type founder struct {
	urls   []string
	member cluster.MemberID
	id     cluster.ClusterID
}

const (
	theName  = "host-a"
	theToken = "tok/2"
)

func newFounder(urls ...string) founder {
	f := founder{urls: urls}
	ids, id := etcd.MemberIDs(theToken, []cluster.Member{{Name: theName, PeerURLs: f.urls}})
	f.member, f.id = ids[0], id
	return f
}

func (f founder) options(file, dir string, r release.Release) RestoreOptions {
	return RestoreOptions{
		Snapshot: file, DataDir: dir, Release: r, Name: theName, PeerURLs: f.urls, Token: theToken,
		Member: f.member, Cluster: f.id,
	}
}

// left says what a directory holds, to see that nothing was left behind.
func left(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

func dbOf(dataDir string) string { return filepath.Join(dataDir, "member", "snap", "db") }

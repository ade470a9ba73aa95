package conversion_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/conversion"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
	"etcdadm.io/internal/testetcd"
)

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// theRelease is a real one, as the finder would have told it.
func theRelease(t testing.TB, version string) release.Release {
	r := testetcd.Binary(t, version)
	return release.Release{Asked: version, Version: version, Dir: r.Dir, Etcd: r.Etcd, Etcdctl: r.Etcdctl, Etcdutl: r.Etcdutl}
}

// set writes a key of version 2.
func set(t testing.TB, m *testetcd.Member, key, value string) {
	t.Helper()
	u := url.URL{Scheme: "http", Host: m.Endpoint(), Path: "/v2/keys" + key}
	request, err := http.NewRequestWithContext(within(t), http.MethodPut, u.String(), strings.NewReader(url.Values{"value": {value}}.Encode()))
	must(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	reply, err := http.DefaultClient.Do(request)
	must(t, err)
	defer reply.Body.Close()
	if reply.StatusCode/100 != 2 {
		said, _ := io.ReadAll(reply.Body)
		t.Fatalf("set %s: %s", key, said)
	}
}

func get(t testing.TB, m *testetcd.Member, key string) string {
	t.Helper()
	u := url.URL{Scheme: "http", Host: m.Endpoint(), Path: "/v2/keys" + key, RawQuery: "quorum=true"}
	request, err := http.NewRequestWithContext(within(t), http.MethodGet, u.String(), nil)
	must(t, err)
	reply, err := http.DefaultClient.Do(request)
	must(t, err)
	defer reply.Body.Close()
	var said struct{ Node struct{ Value string } }
	must(t, json.NewDecoder(reply.Body).Decode(&said))
	return said.Node.Value
}

// read reads all keys of version 3, and at which revision.
func read(t testing.TB, c *testetcd.Cluster) (map[string]string, int64) {
	t.Helper()
	reply, err := c.Client(t).Get(within(t), "\x00", clientv3.WithFromKey())
	must(t, err)
	all := map[string]string{}
	for _, kv := range reply.Kvs {
		all[string(kv.Key)] = string(kv.Value)
	}
	return all, reply.Header.Revision
}

// founderOf is a cluster of one whose data directory is empty and that does not
// run, so that one can be put there.
func founderOf(t testing.TB, version string) (*testetcd.Cluster, *testetcd.Member) {
	t.Helper()
	c := testetcd.Start(t, testetcd.Config{Version: version})
	must(t, c.Kill(within(t), 0, syscall.SIGKILL))
	must(t, os.Rename(c.Members[0].DataDir, c.Members[0].DataDir+".before"))
	return c, c.Members[0]
}

// serve restores a snapshot with a release's own tool, and runs it.
func serve(t testing.TB, file, version string) *testetcd.Cluster {
	t.Helper()
	c, m := founderOf(t, version)
	_, err := snapshot.Restore(within(t), snapshot.RestoreOptions{
		Snapshot: file, DataDir: m.DataDir, Release: theRelease(t, version), Name: m.Name, PeerURLs: []string{m.PeerURL}, Token: "new",
	})
	must(t, err)
	must(t, c.Restart(within(t), 0))
	return c
}

func nothingLeft(t testing.TB, dir string, but ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff(but, names); diff != "" {
		t.Errorf("left in the directory: %s", diff)
	}
}

// A cluster of version 2 that was killed has all that it acknowledged in one
// member's data, and a cluster of version 3 begins with it.
func TestFromVersion2(t *testing.T) {
	t.Parallel()
	old := testetcd.Start(t, testetcd.Config{Version: testetcd.V23, Members: 3, Args: []string{"--snapshot-count=50"}})
	want := map[string]string{}
	for i := range 130 {
		key := fmt.Sprintf("/dir-%d/key-%03d", i%3, i)
		want[key] = strings.Repeat("x", i)
		set(t, old.Members[i%3], key, want[key])
	}
	for _, key := range []string{"/_hidden", "/_dir/a", "/_dir/_in/b", "/dir-0/_c/d"} {
		want[key] = "hidden"
		set(t, old.Members[0], key, "hidden")
	}
	best, end := "", snapshot.Position{}
	for i, m := range old.Members {
		must(t, old.Kill(within(t), i, syscall.SIGKILL))
		last, err := new(snapshot.LogEnds).Of(t.Context(), m.DataDir, nil)
		must(t, err)
		if last.Compare(end) > 0 {
			best, end = m.DataDir, last
		}
	}
	for _, version := range []string{testetcd.V32, testetcd.V34, testetcd.V37} {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "snapshot.db")
			o := conversion.Options{
				Source:  conversion.Source{Release: theRelease(t, testetcd.V23), DataDir: best},
				Release: theRelease(t, version), Site: filepath.Join(dir, "site"), File: file, Revision: 5_000_000_000,
			}
			began := time.Now()
			done, err := conversion.Convert(within(t), o)
			must(t, err)
			t.Logf("converted in %v, of which the copy %v", time.Since(began), done.Copy.Took)
			nothingLeft(t, dir, "snapshot.db")
			if int(done.Copy.Keys) != len(want) || len(done.Report.Notes) != 0 || done.Snapshot == nil || done.Snapshot.Revision != o.Revision {
				t.Errorf("%+v", done)
			}
			got, revision := read(t, serve(t, file, version))
			if diff := cmp.Diff(want, got); diff != "" || revision < o.Revision {
				t.Errorf("revision %d\n%s", revision, diff)
			}
			if _, err := conversion.Convert(within(t), o); !errors.Is(err, snapshot.ErrExists) {
				t.Error("it was made twice: ", err)
			}
		})
	}
	if _, err := new(snapshot.LogEnds).Of(t.Context(), best, nil); err != nil {
		t.Error("the source was changed: ", err)
	}
}

// Downwards within version 3: revisions do not go back even where the tool cannot
// raise them, users need no password to be listed, and losses are to be accepted.
func TestDownwards(t *testing.T) {
	t.Parallel()
	old := testetcd.Start(t, testetcd.Config{Version: testetcd.V37})
	client, ctx := old.Client(t), within(t)
	lease, err := client.Grant(ctx, 500)
	must(t, err)
	want := map[string]string{"big": strings.Repeat("b", 1_400_000)}
	for i := range 200 {
		want[fmt.Sprint("key", i)] = fmt.Sprint(i)
	}
	for key, value := range want {
		var options []clientv3.OpOption
		if key == "key7" {
			options = append(options, clientv3.WithLease(lease.ID))
		}
		_, err := client.Put(ctx, key, value, options...)
		must(t, err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "old.db")
	_, err1 := client.UserAdd(ctx, "root", "pw")
	_, err2 := client.RoleAdd(ctx, "root")
	_, err3 := client.UserGrantRole(ctx, "root", "root")
	must(t, errors.Join(err1, err2, err3))
	_, err = client.AuthEnable(ctx)
	must(t, err)
	must(t, save(t, old, file))
	made := []string{"old.db"}
	for _, version := range []string{testetcd.V34, testetcd.V32} {
		t.Run(version, func(t *testing.T) {
			testetcd.Binary(t, version)
			made = append(made, "new-"+version)
			o := conversion.Options{
				Source:  conversion.Source{Release: theRelease(t, testetcd.V37), Snapshot: file},
				Release: theRelease(t, version), Site: filepath.Join(dir, "site"), File: filepath.Join(dir, "new-"+version), Revision: 1_000_000_000,
			}
			_, err := conversion.Convert(within(t), o)
			var loss *conversion.LossError
			if !errors.As(err, &loss) || len(loss.Report.Losses) != 4 {
				t.Fatalf("%v", err)
			}
			o.Accept = loss.Report.Digest()
			done, err := conversion.Convert(within(t), o)
			must(t, err)
			c := serve(t, o.File, version)
			got, revision := read(t, c)
			if diff := cmp.Diff(want, got); diff != "" || revision < o.Revision || done.Copy.Leases != 1 {
				t.Errorf("revision %d, %+v\n%s", revision, done, diff)
			}
			again := c.Client(t)
			ttl, err := again.TimeToLive(within(t), lease.ID)
			if err != nil || ttl.GrantedTTL != 500 {
				t.Errorf("the lease: %+v, %v", ttl, err)
			}
			answer := <-again.Watch(within(t), "key1", clientv3.WithRev(o.Revision-1))
			if !errors.Is(answer.Err(), rpctypes.ErrCompacted) {
				t.Errorf("a watch from before: %+v, %v", answer, answer.Err())
			}
			put, err := again.Put(within(t), "k", "v")
			must(t, err)
			if put.Header.Revision != revision+1 {
				t.Errorf("a write gave revision %d after %d", put.Header.Revision, revision)
			}
			must(t, c.Restart(within(t), 0)) // after the compaction
			if all, now := read(t, c); now != revision+1 || len(all) != len(want)+1 {
				t.Errorf("after a restart: %d keys at %d", len(all), now)
			}
		})
	}
	slices.Sort(made)
	nothingLeft(t, dir, made...)
}

// save takes a snapshot with root's password.
func save(t testing.TB, c *testetcd.Cluster, file string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Username: "root", Password: "pw"})
	must(t, err)
	defer client.Close()
	stream, err := client.Snapshot(within(t))
	must(t, err)
	defer stream.Close()
	f, err := os.Create(file)
	must(t, err)
	_, err = io.Copy(f, stream)
	return errors.Join(err, f.Close())
}

// From version 3 to 2: what is made is the data directory of a founder.
func TestToVersion2(t *testing.T) {
	t.Parallel()
	old := testetcd.Start(t, testetcd.Config{Version: testetcd.V34})
	want := map[string]string{"/a/b": "1", "/c": "ü", "/a/d/e": ""}
	for key, value := range want {
		_, err := old.Client(t).Put(within(t), key, value)
		must(t, err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "old.db")
	must(t, save(t, old, file))
	c, m := founderOf(t, testetcd.V23)
	o := conversion.Options{
		Source:  conversion.Source{Release: theRelease(t, testetcd.V34), Snapshot: file},
		Release: theRelease(t, testetcd.V23), Site: m.DataDir + ".site",
		Founder: conversion.Founder{DataDir: m.DataDir, Name: m.Name, PeerURLs: []string{m.PeerURL}, Token: "new"},
	}
	done, err := conversion.Convert(within(t), o)
	must(t, err)
	if done.Copy.Keys != 3 || done.Snapshot != nil {
		t.Errorf("%+v", done)
	}
	must(t, c.Restart(within(t), 0))
	for key, value := range want {
		if got := get(t, m, key); got != value {
			t.Errorf("%s is %q", key, got)
		}
	}
	set(t, m, "/a/new", "v")
	if _, err := os.Lstat(o.Site); !errors.Is(err, os.ErrNotExist) {
		t.Error("the site is left: ", err)
	}
}

// Of data that no etcd begins with nothing is made, and nothing is left.
func TestBadSourceLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "old.db"), filepath.Join(dir, "empty")
	must(t, os.WriteFile(file, []byte("no database"), 0o600))
	must(t, os.Mkdir(empty, 0o700))
	for name, from := range map[string]conversion.Source{
		"snapshot":  {Release: theRelease(t, testetcd.V34), Snapshot: file},
		"directory": {Release: theRelease(t, testetcd.V23), DataDir: empty},
	} {
		o := conversion.Options{Source: from, Release: theRelease(t, testetcd.V37), Site: filepath.Join(dir, "site"), File: filepath.Join(dir, "new.db")}
		if _, err := conversion.Convert(within(t), o); err == nil {
			t.Errorf("%s: it was converted", name)
		}
		if _, err := conversion.Survey(within(t), o, cluster.MustVersion(testetcd.V37)); err == nil {
			t.Errorf("%s: it was read", name)
		}
		nothingLeft(t, dir, "empty", "old.db")
	}
}

// Within version 2 directories without keys are lost, too. Who has no other way takes
// any list, and is told it.
func TestWithinVersion2(t *testing.T) {
	t.Parallel()
	old := testetcd.Start(t, testetcd.Config{Version: testetcd.V23})
	set(t, old.Members[0], "/a/b", "1")
	u := url.URL{Scheme: "http", Host: old.Members[0].Endpoint(), Path: "/v2/keys/empty", RawQuery: "dir=true"}
	request, err := http.NewRequestWithContext(within(t), http.MethodPut, u.String(), nil)
	must(t, err)
	reply, err := http.DefaultClient.Do(request)
	must(t, err)
	reply.Body.Close()
	if reply.StatusCode != http.StatusCreated {
		t.Fatalf("make a directory: %s", reply.Status)
	}
	// etcd 2 answers before the write is in its log: the next answer says that the one before is.
	set(t, old.Members[0], "/a/b", "1")
	must(t, old.Kill(within(t), 0, syscall.SIGKILL))
	c, m := founderOf(t, testetcd.V23)
	o := conversion.Options{
		Source:  conversion.Source{Release: theRelease(t, testetcd.V23), DataDir: old.Members[0].DataDir},
		Release: theRelease(t, testetcd.V23), Site: m.DataDir + ".site",
		Founder: conversion.Founder{DataDir: m.DataDir, Name: m.Name, PeerURLs: []string{m.PeerURL}, Token: "new"},
	}
	var loss *conversion.LossError
	if _, err := conversion.Convert(within(t), o); !errors.As(err, &loss) {
		t.Fatalf("a directory was lost, and nobody accepted that: %v", err)
	}
	o.AcceptAny = true
	done, err := conversion.Convert(within(t), o)
	must(t, err)
	if diff := cmp.Diff(loss.Report.Digest(), done.Report.Digest()); diff != "" || !done.Report.Loses() || done.Copy.Keys != 1 {
		t.Errorf("%+v: %s", done, diff)
	}
	must(t, c.Restart(within(t), 0))
	if got := get(t, m, "/a/b"); got != "1" {
		t.Errorf("the key is %q", got)
	}
}

package datadir_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/testlater"
	"go.etcd.io/bbolt"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func openDisk(t *testing.T, dir string, held func(string) error) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(dir, held, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func fullState() record.State {
	return record.State{
		Format: record.StateFormat, Cluster: "test", Host: "h1", Disk: "d1", Epoch: 7,
		Promised: cluster.Fence{Number: 9, Host: "leader"}, LowestGeneration: 2,
		Intent: &cluster.Intent{Name: "test", Generation: 2, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 0xfffffffffffffffe},
		Local: cluster.LocalMember{
			State: cluster.MemberStarted, Generation: 2, Nonce: "n", Token: "t", Cluster: 0xc, Member: 0xffffffffffffffff,
			Run: true, Version: v36, URLs: ownURLs, Options: []string{"--quota-backend-bytes=1 <&>"},
		},
		Launch:  &record.Launch{Version: v36, Name: "h1", Token: "t", Nonce: "l", URLs: ownURLs},
		Carried: []cluster.MemberID{4}, PastDisks: []cluster.DiskID{"d0"},
		Peers: []record.Peer{{Host: "h2", Disk: "d2", Address: "h2:1", Epoch: 3}}, Spec: &cluster.Spec{MemberCount: 3},
		Highest: cluster.Progress{Revision: 1, Term: 2, Index: 3},
	}
}

func TestFileDiskKeepsTheState(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir, nil)
	if _, ok, err := d.Load(); ok || err != nil {
		t.Fatalf("an empty directory: %v %v", ok, err)
	}
	want := fullState()
	if err := d.Save(want); err != nil {
		t.Fatal(err)
	}
	got, ok, err := openDisk(t, dir, nil).Load()
	if !ok || err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v %v\n%+v\n%+v", ok, err, got, want)
	}
	info, err := os.Stat(filepath.Join(dir, "etcdadm", "state.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info.Mode(), err)
	}
}

// TestTornState: a state that is not whole, or has one bit wrong, is an error
// and never another state, nor none.
func TestTornState(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir, nil)
	want := fullState()
	if err := d.Save(want); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "etcdadm", "state.json")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		for _, spoil := range []func() []byte{
			func() []byte { return whole[:n] },
			func() []byte { b := append([]byte{}, whole...); b[n] ^= 1; return b },
			func() []byte { b := append([]byte{}, whole...); b[n] = 0; return b },
		} {
			if err := os.WriteFile(path, spoil(), 0o600); err != nil {
				t.Fatal(err)
			}
			got, ok, err := d.Load()
			if err == nil && (!ok || !reflect.DeepEqual(got, want)) {
				t.Fatalf("byte %d: %v %+v", n, ok, got)
			}
			if err != nil && !errors.Is(err, datadir.ErrCorruptState) {
				t.Fatalf("byte %d: %v", n, err)
			}
		}
	}
}

// TestStateOfALaterRelease: what is not known, wherever in the state it is, is not left out of it:
// the state is refused, as one that is whole.
func TestStateOfALaterRelease(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir, nil)
	full := fullState()
	full.Intent.Voters = []cluster.Voter{{Host: "h1", Member: 1}}
	full.Intent.History = []cluster.PastGeneration{{Generation: 1, Voters: [][]cluster.Voter{{{Host: "h2", Member: 2}}}}}
	full.Journal = &record.Entry{Op: cluster.Op{Kind: cluster.OpSetAside}}
	if err := d.Save(full); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "etcdadm", "state.json")
	refused := func(at string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := d.Load()
		if !errors.As(err, new(*cluster.NewerError)) || errors.Is(err, datadir.ErrCorruptState) || !strings.Contains(err.Error(), testlater.Field) {
			t.Errorf("with a field more at %q: %v", at, err)
		}
	}
	for at, state := range testlater.Forms(t, full, "") {
		sum := sha256.Sum256(state) // without insignificant space, as it is
		refused(at, fmt.Appendf(nil, `{"state":%s,"sha256":"%x"}`, state, sum))
	}
	state, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	refused("the file", fmt.Appendf(nil, `{"state":%s,"sha256":"%x","%s":1}`, state, sha256.Sum256(state), testlater.Field))
	full.Format++
	if err := full.Validate(); !errors.As(err, new(*cluster.NewerError)) || !errors.Is(err, record.ErrState) {
		t.Errorf("a later format: %v", err)
	}
}

func TestHostIDIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	id, err := datadir.HostID(dir, host.Mint)
	if err != nil || len(id) != 22 {
		t.Fatalf("%q %v", id, err)
	}
	again, err := datadir.HostID(dir, host.Mint)
	if err != nil || again != id {
		t.Fatalf("%q %v", again, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "myid"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := datadir.HostID(dir, host.Mint); got != "x" || err != nil {
		t.Fatalf("%q %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "myid"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := datadir.HostID(dir, host.Mint); err == nil {
		t.Fatalf("an empty ID is taken as %q", got)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFileDiskData(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir, nil)
	look := func(disk cluster.DiskID, marked, wal bool) {
		t.Helper()
		if m, w, err := d.Data("t1", disk); m != marked || w != wal || err != nil {
			t.Fatalf("marked %v, log %v, %v; want %v, %v", m, w, err, marked, wal)
		}
	}
	look("d1", false, false)
	for range 2 {
		if err := d.CreateData("t1", "d1"); err != nil {
			t.Fatal(err)
		}
		look("d1", true, false)
	}
	look("d2", false, false)
	write(t, filepath.Join(d.DataDir("t1"), "member", "wal", "0.tmp"), "")
	look("d1", true, false)
	write(t, filepath.Join(d.DataDir("t1"), "member", "wal", "0-0.wal"), "log")
	look("d1", true, true)
	if err := d.CreateData("t1", "d2"); err == nil {
		t.Fatal("data of another disk was taken over")
	}
	look("d1", true, true)
	for _, token := range []string{"", ".", "..", "a/b", "../x", ".hidden"} {
		if err := d.CreateData(token, "d1"); err == nil {
			t.Errorf("token %q was accepted", token)
		}
		if _, err := d.SetAside(token, cluster.SetAside{}); err == nil {
			t.Errorf("token %q was accepted", token)
		}
	}
}

func TestFileDiskSetAside(t *testing.T) {
	dir := t.TempDir()
	var held error
	d := openDisk(t, dir, func(string) error { return held })
	if a, err := d.SetAside("t1", cluster.SetAside{Reason: "removed"}); err != nil || a.Dir != "" {
		t.Fatalf("nothing to move: %+v %v", a, err)
	}
	for i, wantName := range []string{"t1-20261120T120000Z-disk-went-back-in-time", "t1-20261120T120000Z-disk-went-back-in-time-2"} {
		if err := d.CreateData("t1", "d1"); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(d.DataDir("t1"), "member", "wal", "0-0.wal"), "precious")
		held = errors.New("held")
		if _, err := d.SetAside("t1", cluster.SetAside{Reason: "x"}); !errors.Is(err, held) {
			t.Fatal(err)
		}
		held = nil
		what := cluster.SetAside{Cluster: 0xc, Generation: 3, Member: 9, Reason: "Disk went back, in time!", Log: cluster.Progress{Term: 4, Index: 50}}
		a, err := d.SetAside("t1", what)
		wantName = strings.Replace(wantName, "back-in", "back--in", 1)
		want := what
		want.Dir, want.Bytes, want.At = filepath.Join(dir, "data-trashcan", wantName), a.Bytes, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		if err != nil || a != want || a.Bytes < 8 {
			t.Fatalf("%+v %v", a, err)
		}
		if b, err := os.ReadFile(filepath.Join(a.Dir, "member", "wal", "0-0.wal")); err != nil || string(b) != "precious" {
			t.Fatalf("%q %v", b, err)
		}
		aside, foreign, err := d.Inventory("")
		if err != nil || len(aside) != i+1 || aside[i] != a || len(foreign) != 0 {
			t.Fatalf("%+v %+v %v", aside, foreign, err)
		}
	}
}

// TestFileDiskFinishesSetAside finds the journal of a set-aside that a crash cut
// off between its steps.
func TestFileDiskFinishesSetAside(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir, nil)
	if err := d.CreateData("t1", "d1"); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "etcdadm", "journal.json"), `{"steps":[{"kind":"mkdir","path":"data-trashcan"},`+
		`{"kind":"write","path":"data-trashcan/x.json","data":"e30="},{"kind":"rename","path":"data-trashcan/x","from":"data/t1"}]}`)
	d = openDisk(t, dir, nil)
	if _, _, err := d.Load(); err != nil {
		t.Fatal(err)
	}
	if m, _, err := d.Data("t1", "d1"); m || err != nil {
		t.Fatal("the directory is still there")
	}
	if a, err := d.SetAside("t1", cluster.SetAside{Reason: "again"}); err != nil || a.Dir != "" {
		t.Fatalf("%+v %v", a, err)
	}
	write(t, filepath.Join(dir, "etcdadm", "journal.json"), "{")
	if _, _, err := openDisk(t, dir, nil).Load(); err == nil {
		t.Fatal("a damaged journal was passed over")
	}
}

func TestFileDiskInventory(t *testing.T) {
	dir := t.TempDir()
	d := openDisk(t, dir, nil)
	for _, token := range []string{"own", "empty"} {
		if err := d.CreateData(token, "d1"); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "data", "own", "member", "wal", "0.wal"), "")
	write(t, filepath.Join(dir, "data", "other", "member", "wal", "0.wal"), "")
	write(t, filepath.Join(dir, "data-trashcan", "theirs", "member", "wal", "0.wal"), "")
	// Beside what an earlier release set aside nothing is written down: the
	// database tells which line wrote it.
	db := filepath.Join(dir, "data-trashcan", "theirs", "member", "snap", "db")
	if err := os.MkdirAll(filepath.Dir(db), 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := bbolt.Open(db, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = b.Update(func(tx *bbolt.Tx) error {
		c, err := tx.CreateBucket([]byte("cluster"))
		if err != nil {
			return err
		}
		return c.Put([]byte("clusterVersion"), []byte("3.5.0"))
	})
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	aside, foreign, err := d.Inventory("own")
	if err != nil || len(aside) != 1 || aside[0].Reason != "unknown" || aside[0].Version != cluster.MustVersion("3.5.0") {
		t.Fatalf("%+v %v", aside, err)
	}
	if len(foreign) != 1 || foreign[0].Dir != filepath.Join(dir, "data", "other") || foreign[0].Reason != record.ForeignData {
		t.Fatalf("%+v", foreign)
	}
	write(t, filepath.Join(dir, "state"), "protobuf")
	if _, foreign, _ = d.Inventory("own"); len(foreign) != 1 || foreign[0].Reason != record.ForeignPredecessor {
		t.Fatalf("%+v", foreign)
	}
}

func TestFileDiskRecords(t *testing.T) {
	d := openDisk(t, t.TempDir(), nil)
	if b, err := d.ReadRecord("process.json"); b != nil || err != nil {
		t.Fatalf("%q %v", b, err)
	}
	if err := d.WriteRecord("process.json", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if b, err := d.ReadRecord("process.json"); string(b) != "x" || err != nil {
		t.Fatalf("%q %v", b, err)
	}
	if err := d.WriteRecord("../x", nil); err == nil {
		t.Fatal("it left the directory")
	}
}

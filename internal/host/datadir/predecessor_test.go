package datadir_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/datadir"
	"google.golang.org/protobuf/encoding/protowire"
)

var errTheirs = errors.New("another program holds it")

// The file that etcd-manager's daemon wrote, whole, torn at every byte, and beside
// other data.
func TestFileDiskPredecessor(t *testing.T) {
	dir := t.TempDir()
	packed := filepath.Join("..", "..", "..", "e2e", "testdata", "etcd-manager-3-nodes-3.6.16.tar.gz")
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", packed, "-C", dir, "data/1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir = filepath.Join(dir, "data", "1")
	id, err := datadir.HostID(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var held error
	d := openDisk(t, dir, func(string) error { return held })
	p, err := d.Predecessor(id, "d1")
	if err != nil || p == nil || p.Refused != "" || p.State == nil || p.State.Version != "3.6.16" || len(p.State.Nodes) != 3 || p.Cluster == 0 || p.Member == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	node, named := p.State.Node(id)
	if !named || node.URLs.Peer[0] != "http://127.0.0.1:2380" || node.URLs.Client[0] != "http://127.0.0.1:4001" || node.URLs.Quarantine[0] != "http://127.0.0.1:8001" {
		t.Errorf("%+v", node)
	}
	if p, _ := d.Predecessor("another", "d1"); p.Refused == "" {
		t.Error("another host's directory is taken")
	}
	held = errTheirs
	if p, _ := d.Predecessor(id, "d1"); !errors.Is(p.Held, errTheirs) {
		t.Errorf("%+v", p)
	}
	held = nil
	whole, err := os.ReadFile(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		write(t, filepath.Join(dir, "state"), string(whole[:n]))
		p, err := d.Predecessor(id, "d1")
		if err != nil || p == nil || p.Refused != "" || p.State != nil || p.Token == "" || p.Member == 0 {
			t.Fatalf("torn at %d: %+v, %v", n, p, err)
		}
	}
	for _, disk := range []cluster.DiskID{"d1", "d1"} { // the second time it is there
		if err := d.TakeOver(p.Token, disk); err != nil {
			t.Fatal(err)
		}
	}
	if marked, wal, err := d.Data(p.Token, "d1"); !marked || !wal || err != nil {
		t.Error(marked, wal, err)
	}
	if p, _ := d.Predecessor(id, "d2"); p.Refused == "" || d.TakeOver(p.Token, "d2") == nil {
		t.Error("what another disk carried is taken")
	}
	write(t, filepath.Join(dir, "data", "other", "member", "wal", "0.wal"), "")
	if p, _ := d.Predecessor(id, "d1"); !strings.Contains(p.Refused, "several") {
		t.Errorf("%+v", p)
	}
	write(t, filepath.Join(dir, "state"), string(whole))
	if p, _ := d.Predecessor(id, "d1"); p.Refused != "" {
		t.Errorf("%+v", p)
	}
	empty := t.TempDir()
	write(t, filepath.Join(empty, "state"), "")
	if p, err := openDisk(t, empty, nil).Predecessor("h", "d"); p != nil || err != nil {
		t.Errorf("a state file alone: %+v, %v", p, err)
	}
}

// A field that is not of its kind, or lengths that lie, end in an error or in
// what could be read, never in a panic.
func FuzzPredecessorState(f *testing.F) {
	f.Add([]byte{})
	f.Add(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), []byte{0x3a, 0x02, 0x0a, 0x7f}))
	dir := f.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "t", "member", "wal"), 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "t", "member", "wal", "0.wal"), nil, 0o600); err != nil {
		f.Fatal(err)
	}
	d, err := datadir.Open(dir, nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		write(t, filepath.Join(dir, "state"), string(data))
		if p, err := d.Predecessor("h", "d"); err != nil || p == nil {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

package datadir_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSweepOfADataDirectory: what was left half written is removed wherever this
// host's own files lie, private keys too, and nowhere among etcd's or a stranger's.
func TestSweepOfADataDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d[a]ta") // no pattern
	d := openDisk(t, dir, nil)
	carried(t, d, "t1")
	var want []string
	for _, name := range []string{
		".myid.1.tmp", "etcdadm/.state.json.2.tmp", "etcdadm/.access.json.3.tmp", "etcdadm/pki/daemon/.me.key.4.tmp",
		"pki/t1/peers/.me.key.5.tmp", "data-trashcan/.t0-removed.json.6.tmp", "data/t1/member/.etcdadm-disk.json.7.tmp",
	} {
		write(t, filepath.Join(dir, name), "half")
		want = append(want, filepath.Join(dir, name))
	}
	kept := []string{
		".notes.1.tmp", "data/t1/member/wal/.0.tmp", "data/t1/member/snap/.db.8.tmp", "data/t1/member/.other.8.tmp",
		"data-trashcan/t0-removed/member/.etcdadm-disk.json.9.tmp", "elsewhere/.state.json.9.tmp",
	}
	for _, name := range kept {
		write(t, filepath.Join(dir, name), "theirs")
	}
	got, err := d.Sweep()
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("swept %v, %v, want %v", got, err, want)
	}
	left := halfWritten(dir)
	for _, name := range kept {
		if strings.HasSuffix(name, ".0.tmp") {
			continue // not even by its form
		}
		if !slices.Contains(left, filepath.Join(dir, name)) {
			t.Errorf("%s is gone", name)
		}
	}
	if again, err := d.Sweep(); err != nil || len(again) > 0 {
		t.Errorf("swept again %v, %v", again, err)
	}
}

package bulk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/durable/crashdisk"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/inventory"
	"etcdadm.io/internal/host/record"
)

// stagedAt is what lies ready below a data directory, and nothing else of [Sources].
type stagedAt struct {
	Sources
	dir string
}

func (s stagedAt) built(token string) string {
	return filepath.Join(s.dir, "etcdadm", "staging", token, "data")
}

func (s stagedAt) DropStaged(token string) error { return os.RemoveAll(filepath.Dir(s.built(token))) }

const (
	itsMember = "t1" // what the host carries
	neverRan  = "t2" // what was made ready, and is not wanted any more
)

// madeReady is a data directory with a member, and with what lies ready beside it.
func madeReady(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	d, err := datadir.OpenOn(durable.OS(), dir, nil, nil)
	if err == nil {
		err = d.CreateData(itsMember, "d1")
	}
	for path, content := range map[string]string{d.DataDir(itsMember): "precious", stagedAt{dir: dir}.built(neverRan): "built"} {
		wal := filepath.Join(path, "member", "wal")
		err = errors.Join(err, os.MkdirAll(wal, 0o700), os.WriteFile(filepath.Join(wal, "0-0.wal"), []byte(content), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// installs is the life of a daemon that puts it in place, and ends before the record of
// that, if not in the midst of it.
func installs(files durable.Disk, dir string) (*datadir.Dir, error) {
	d, err := datadir.OpenOn(files, dir, nil, nil)
	if err != nil {
		return nil, err
	}
	built := stagedAt{dir: dir}.built(neverRan)
	if err := d.MarkData(built, neverRan, "d1"); err != nil {
		return d, err
	}
	return d, d.Install(built, neverRan, "d1")
}

// starts is the beginning of the next one.
func starts(files durable.Disk, dir string) (*datadir.Dir, error) {
	d, err := datadir.OpenOn(files, dir, nil, nil)
	if err == nil {
		_, _, err = d.Load()
	}
	return d, err
}

// drops takes it away, for something else is to be made ready.
func drops(d *datadir.Dir, dir string) (*inventory.Inventory, error) {
	log := slog.New(slog.DiscardHandler)
	keeper := record.NewKeeper("h", d.Save, log)
	s := record.State{Local: cluster.LocalMember{Token: itsMember}}
	keeper.Loaded(s)
	all := inventory.New(inventory.Options{Disk: d, Keeper: keeper})
	g := NewStaging(Options{Disk: d, Sources: stagedAt{dir: dir}, Keeper: keeper, Inventory: all, Log: log})
	return all, g.DropStaged(s, neverRan)
}

// dropped judges what is there once a daemon, the next one if none is given, came
// through with it.
func dropped(d *datadir.Dir, dir string, wasInPlace bool) (err error) {
	if d == nil {
		if d, err = starts(durable.OS(), dir); err != nil {
			return err
		}
	}
	h, err := drops(d, dir)
	var aside, foreign []cluster.SetAside
	if err == nil {
		aside, foreign, err = h.Listed()
	}
	if err != nil {
		return err
	}
	if _, err := starts(durable.OS(), dir); err != nil {
		return fmt.Errorf("no daemon starts here any more: %w", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "data", itsMember, "member", "wal", "0-0.wal")); string(b) != "precious" {
		return fmt.Errorf("the member's own log is %q: %w", b, err)
	}
	for _, path := range []string{filepath.Join(dir, "data", neverRan), filepath.Dir(stagedAt{dir: dir}.built(neverRan))} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is left: %w", path, err)
		}
	}
	if len(foreign) != 0 {
		return fmt.Errorf("nothing accounts for %+v", foreign)
	}
	if !wasInPlace {
		return nil
	}
	if len(aside) != 1 || aside[0].Reason != AsideNeverRan {
		return fmt.Errorf("set aside is %+v", aside)
	}
	all, err := crashdisk.Tree(filepath.Join(dir, "data-trashcan"))
	for path, content := range all {
		if strings.HasSuffix(path, ".wal") && content == "built" {
			return err
		}
	}
	return fmt.Errorf("what was in place is lost: %v %w", all, err)
}

func inPlace(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "data", neverRan, "member", "wal", "0-0.wal"))
	return err == nil && bytes.Equal(b, []byte("built"))
}

// TestNeverRanKilledAnywhere kills a daemon before each system call by which it puts into
// a member's place what was made ready, and the next one, which is to make something else
// ready, before each of those by which it takes that away; and cuts the power there in
// every way. Or the calls fail, and the same daemon goes on. What was in place is set aside
// whole, and all that is there is accounted for.
func TestNeverRanKilledAnywhere(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil { // nothing here needs a real disk
		t.Setenv("TMPDIR", "/dev/shm")
	}
	cut, ends, moved := filepath.Join(t.TempDir(), "cut"), 0, 0
	judge := func(d *datadir.Dir, dir string, wasInPlace bool, words string, args ...any) {
		ends++
		if wasInPlace {
			moved++
		}
		if err := dropped(d, dir, wasInPlace); err != nil {
			t.Errorf("%s: %v", fmt.Sprintf(words, args...), err)
		}
	}
	// first is a life that ends before call n.
	first := func(n int) (*crashdisk.Disk, *datadir.Dir, string) {
		dir := madeReady(t)
		d, err := crashdisk.New(dir, n)
		if err != nil {
			t.Fatal(err)
		}
		f, err := installs(d.Files(), dir)
		if err != nil && !d.Died() {
			t.Fatal(err)
		}
		return d, f, dir
	}
	cuts := func(d *crashdisk.Disk, words string, args ...any) {
		if _, err := d.Cuts(cut, func(what string) {
			judge(nil, cut, inPlace(cut), "%s: power cut: %s", fmt.Sprintf(words, args...), what)
		}); err != nil {
			t.Fatal(err)
		}
	}
	for n, alive := 1, false; !alive && !t.Failed(); n++ {
		d, f, dir := first(n)
		alive = !d.Died()
		cuts(d, "before call %d of %q", n, d.Calls())
		if was := inPlace(dir); f != nil {
			d.Again(0)
			judge(f, dir, was, "from call %d of %q on nothing could be written for a while", n, d.Calls())
		}
		for m, through := 1, false; !through; m++ {
			d, _, dir := first(n)
			was := inPlace(dir)
			d.Again(m)
			if f, err := starts(d.Files(), dir); err == nil {
				_, _ = drops(f, dir)
			}
			through = !d.Died()
			cuts(d, "before call %d, and before call %d of %q of the next life", n, m, d.Calls())
			judge(nil, dir, was, "killed before call %d, and the next one before its call %d of %q", n, m, d.Calls())
		}
	}
	t.Logf("%d ends, in %d of them it was in place", ends, moved)
	if moved < 100 || ends-moved < 100 {
		t.Error("the test does not reach what it is about")
	}
}

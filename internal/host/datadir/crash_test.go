package datadir_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/durable/crashdisk"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
)

// diskOp is what a host does with its files, and what is there before it.
type diskOp struct {
	before func(t *testing.T, d *datadir.Dir, dir string)
	do     func(d *datadir.Dir, dir string) error
	// halves: a crash may leave less than the whole of what is being removed.
	halves bool
}

// stateNumber is a state that can be told from others.
func stateNumber(epoch uint64) record.State {
	s := fullState()
	s.Epoch = epoch
	return s
}

func carried(t *testing.T, d *datadir.Dir, token string) {
	t.Helper()
	if err := d.CreateData(token, "d1"); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.DataDir(token), "member", "wal", "0-0.wal"), "precious")
}

var diskOps = map[string]diskOp{
	"save":   {do: func(d *datadir.Dir, _ string) error { return d.Save(stateNumber(8)) }},
	"record": {do: func(d *datadir.Dir, _ string) error { return d.WriteRecord("process.json", []byte("new")) }},
	"create": {do: func(d *datadir.Dir, _ string) error { return d.CreateData("t2", "d1") }},
	"set aside": {
		do: func(d *datadir.Dir, _ string) error {
			_, err := d.SetAside("t1", cluster.SetAside{Reason: "removed"})
			return err
		},
	},
	"take over": {
		before: func(t *testing.T, d *datadir.Dir, dir string) {
			write(t, filepath.Join(dir, "data", "t2", "member", "wal", "0-0.wal"), "theirs")
		},
		do: func(d *datadir.Dir, _ string) error { return d.TakeOver("t2", "d1") },
	},
	"install": {
		before: func(t *testing.T, d *datadir.Dir, dir string) {
			write(t, filepath.Join(dir, "etcdadm", "staging", "t2", "data", "member", "wal", "0-0.wal"), "built")
		},
		do: func(d *datadir.Dir, dir string) error {
			built := filepath.Join(dir, "etcdadm", "staging", "t2", "data")
			if _, wal, err := d.Data("t2", "d1"); err != nil || !wal {
				if err := d.MarkData(built, "t2", "d1"); err != nil {
					return err
				}
			}
			return d.Install(built, "t2", "d1")
		},
	},
	"prune": {
		halves: true,
		before: func(t *testing.T, d *datadir.Dir, dir string) {
			carried(t, d, "t0")
			write(t, filepath.Join(d.DataDir("t0"), "member", "wal", "0-1.wal"), "old")
			if _, err := d.SetAside("t0", cluster.SetAside{Reason: "removed"}); err != nil {
				t.Fatal(err)
			}
		},
		do: func(d *datadir.Dir, _ string) error {
			remove, err := d.RemoveAside("t0-20261120T120000Z-removed")
			if errors.Is(err, os.ErrNotExist) { // it was taken out before the crash
				return d.FinishRemovals()
			}
			if err != nil {
				return err
			}
			return remove()
		},
	},
}

func noonDisk(files durable.Disk, dir string) (*datadir.Dir, error) {
	return datadir.OpenOn(files, dir, nil, func() time.Time { return noon })
}

// hostFiles is a host's directory before the op.
func hostFiles(t *testing.T, op diskOp) string {
	t.Helper()
	dir := t.TempDir()
	d := openDisk(t, dir, nil)
	if err := d.Save(stateNumber(7)); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteRecord("process.json", []byte("old")); err != nil {
		t.Fatal(err)
	}
	carried(t, d, "t1")
	if op.before != nil {
		op.before(t, d, dir)
	}
	return dir
}

// hostLife does the op on a disk that dies before call n.
func hostLife(t *testing.T, op diskOp, dir string, n int) *crashdisk.Disk {
	t.Helper()
	d, err := crashdisk.New(dir, n)
	if err != nil {
		t.Fatal(err)
	}
	f, err := noonDisk(d.Files(), dir)
	if err == nil {
		err = op.do(f, dir)
	}
	if !d.Died() && err != nil {
		t.Fatalf("call %d: %v, after %q", n, err, d.Calls())
	}
	return d
}

// nextLife opens what a crash left, and does the op again.
func nextLife(op diskOp, dir string, before, after map[string]string) error {
	d, err := noonDisk(durable.OS(), dir)
	if err != nil {
		return err
	}
	s, ok, err := d.Load()
	if err != nil || !ok || !reflect.DeepEqual(s, stateNumber(7)) && !reflect.DeepEqual(s, stateNumber(8)) {
		return fmt.Errorf("the state is neither the one nor the other: %v %w", ok, err)
	}
	if b, err := d.ReadRecord("process.json"); err != nil || string(b) != "old" && string(b) != "new" {
		return fmt.Errorf("the record is %q: %w", b, err)
	}
	if err := d.FinishRemovals(); err != nil {
		return err
	}
	if _, err := d.Sweep(); err != nil {
		return err
	}
	if left := halfWritten(dir); len(left) > 0 {
		return fmt.Errorf("left half written, and not swept: %q", left)
	}
	now, err := files(dir)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(now, before) && !reflect.DeepEqual(now, after) && !op.halves {
		for path, content := range before { // an op that has two parts may have done one
			if !has(now, content) {
				return fmt.Errorf("%s is lost: %v", path, now)
			}
		}
	}
	if op.halves { // what is still in sight is whole
		aside, _, err := d.Inventory("t1")
		if err != nil {
			return err
		}
		for _, a := range aside {
			if n := len(under(now, "data-trashcan/"+filepath.Base(a.Dir)+"/")); n != 5 { // member, its mark, wal and two logs
				return fmt.Errorf("half a directory is in sight: %d of it", n)
			}
		}
	}
	if err := op.do(d, dir); err != nil {
		return fmt.Errorf("done again: %w", err)
	}
	if now, err = files(dir); err == nil && !reflect.DeepEqual(now, after) {
		err = fmt.Errorf("done again, there is %v, want %v", now, after)
	}
	return err
}

func has(all map[string]string, content string) bool {
	for _, c := range all {
		if c == content {
			return true
		}
	}
	return content == ""
}

func under(all map[string]string, prefix string) []string {
	var out []string
	for p := range all {
		if strings.HasPrefix(p, prefix) {
			out = append(out, p)
		}
	}
	return out
}

// notedDir is the place of a data directory, in a note.
var notedDir = regexp.MustCompile(`/[^"]*/data-trashcan`)

// halfWritten are the new files that a crash left.
func halfWritten(dir string) []string {
	var left []string
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		if durable.Leftover(filepath.Base(path)) != "" {
			left = append(left, path)
		}
		return nil
	})
	return left
}

// files are the paths of a host with what is in them; the journal is how it works, not what it holds.
func files(dir string) (map[string]string, error) {
	all, err := crashdisk.Tree(dir)
	maps.DeleteFunc(all, func(p, _ string) bool { return p == "etcdadm/journal.json" || p == "etcdadm/pruning" })
	for p, c := range all { // where it lay when it was set aside is written into the note
		all[p] = notedDir.ReplaceAllString(c, "")
	}
	return all, err
}

// TestLoadedStateIsDurable: what a host reads at its start it tells others, as a
// promise that it keeps. A process that was killed while it wrote may have left it
// such that a power cut takes it back.
func TestLoadedStateIsDurable(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil { // nothing here needs a real disk
		t.Setenv("TMPDIR", "/dev/shm")
	}
	op, cut, read := diskOps["save"], filepath.Join(t.TempDir(), "cut"), 0
	for n, died := 1, true; died; n++ {
		dir := t.TempDir() // without a journal, which syncs the same directory at its start
		if err := openDisk(t, dir, nil).Save(stateNumber(7)); err != nil {
			t.Fatal(err)
		}
		d := hostLife(t, op, dir, n)
		died = d.Died()
		d.Again(0)
		again, err := noonDisk(d.Files(), dir)
		if err != nil {
			t.Fatal(err)
		}
		told, ok, err := again.Load()
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if told.Epoch == 8 {
			read++
		}
		if _, err := d.Cuts(cut, func(what string) {
			after, err := noonDisk(durable.OS(), cut)
			if err != nil {
				t.Fatal(err)
			}
			if kept, ok, err := after.Load(); err != nil || !ok || kept.Epoch < told.Epoch {
				t.Errorf("killed before call %d, epoch %d was read, and after a power cut it is %d: %s: %v", n, told.Epoch, kept.Epoch, what, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if read < 2 { // after the rename, and at the end
		t.Errorf("the new state was read %d times: the test does not reach what it is about", read)
	}
}

// TestHostKilledAnywhere kills a host before each system call of its ops that
// changes a file, and cuts the power there in every way.
func TestHostKilledAnywhere(t *testing.T) {
	for name, op := range diskOps {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat("/dev/shm"); err == nil { // nothing here needs a real disk
				t.Setenv("TMPDIR", "/dev/shm")
			}
			base := t.TempDir()
			whole := hostFiles(t, op)
			before, err := files(whole)
			if err != nil {
				t.Fatal(err)
			}
			hostLife(t, op, whole, 0)
			after, err := files(whole)
			if err != nil {
				t.Fatal(err)
			}
			cuts, n := 0, 1
			for ; ; n++ {
				dir := hostFiles(t, op)
				d := hostLife(t, op, dir, n)
				cut := filepath.Join(base, "cut")
				made, err := d.Cuts(cut, func(what string) {
					if err := nextLife(op, cut, before, after); err != nil {
						t.Errorf("power cut before call %d of %q: %s: %v", n, d.Calls(), what, err)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				cuts += made
				if err := nextLife(op, dir, before, after); err != nil {
					t.Errorf("killed before call %d of %q: %v", n, d.Calls(), err)
				}
				if !d.Died() || t.Failed() {
					break
				}
			}
			t.Logf("%d calls, %d power cuts", n-1, cuts)
			if n < 5 || cuts < n {
				t.Errorf("only %d calls and %d cuts", n-1, cuts)
			}
		})
	}
}

// TestTakenAwayUnderBothNames: what is to be removed is out of its place for good before
// anything of it is. A rename has two directories, and file systems without a journal
// keep the changes of both apart: with one of them synced, a power cut may bring back
// the old name, over what is half removed by then.
func TestTakenAwayUnderBothNames(t *testing.T) {
	op := diskOps["prune"]
	dir := hostFiles(t, op)
	d, err := crashdisk.New(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	f, err := noonDisk(d.Files(), dir)
	if err != nil {
		t.Fatal(err)
	}
	const name = "t0-20261120T120000Z-removed"
	if _, err := f.RemoveAside(name); err != nil {
		t.Fatal(err)
	}
	was, is := "data-trashcan", "etcdadm/pruning"
	calls := d.Calls()
	moved := slices.Index(calls, fmt.Sprintf("rename %s %s", filepath.Join(was, name), filepath.Join(is, name)))
	if moved < 0 {
		t.Fatalf("it was not moved: %q", calls)
	}
	for _, synced := range []string{was, is} {
		if !slices.Contains(calls[moved:], "sync directory "+synced) {
			t.Errorf("%s was not synced after the rename: %q", synced, calls)
		}
	}
}

// FuzzState: whatever lies where the state is, it is an error or a state that reads the same again.
func FuzzState(f *testing.F) {
	dir := f.TempDir()
	d, err := noonDisk(durable.OS(), dir)
	if err == nil {
		err = d.Save(fullState())
	}
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(dir, "etcdadm", "state.json")
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for _, seed := range []string{``, `{}`, `null`, `{"state":{},"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}`, `{"state":null,"sha256":""}`, "\x00\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, ok, err := d.Load()
		if err != nil {
			if !errors.Is(err, datadir.ErrCorruptState) && !errors.As(err, new(*cluster.NewerError)) {
				t.Fatalf("%v", err)
			}
			return
		}
		_ = s.Validate()
		if err := d.Save(s); err != nil {
			t.Fatal(err)
		}
		again, _, err := d.Load()
		if !ok || err != nil || !reflect.DeepEqual(s, again) {
			t.Fatalf("%v %v: it reads otherwise the second time", ok, err)
		}
	})
}

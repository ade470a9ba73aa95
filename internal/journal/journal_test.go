package journal_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/journal"
)

// steps move "old" away under a new name with a note beside it.
var steps = []journal.Step{
	{Kind: journal.Mkdir, Path: "aside"},
	{Kind: journal.Write, Path: "aside/x.json", Data: []byte(`{"what":"old"}`)},
	{Kind: journal.Rename, Path: "aside/x", From: "old"},
}

func root(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"state", "old"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "old", "data"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree is every path below dir with its content, but the journal itself.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		if strings.HasPrefix(rel, "state") {
			return nil
		}
		out[rel] = ""
		if !e.IsDir() {
			b, err := os.ReadFile(p)
			out[rel] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var want = map[string]string{".": "", "aside": "", "aside/x.json": `{"what":"old"}`, "aside/x": "", "aside/x/data": "precious"}

func open(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(durable.OS(), dir, "state/journal.json")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestRun(t *testing.T) {
	dir := root(t)
	if err := open(t, dir).Run(steps); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v", got)
	}
	open(t, dir) // a finished list is not run again
	if got := tree(t, dir); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v", got)
	}
}

// TestCrashAfterEachStep finds the list as a crash leaves it: durable, with the
// first k steps taken, and whatever a half-taken step leaves.
func TestCrashAfterEachStep(t *testing.T) {
	for k := 0; k <= len(steps); k++ {
		list := pending(t)
		dir := root(t)
		if err := open(t, dir).Run(steps[:k]); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "state/journal.json"), list)
		open(t, dir)
		if got := tree(t, dir); !reflect.DeepEqual(got, want) {
			t.Fatalf("after %d steps: %v", k, got)
		}
	}
}

// pending is the journal's file right after the list was written down. A step
// that cannot be taken for now keeps it there.
func pending(t *testing.T) []byte {
	t.Helper()
	dir := root(t)
	j := open(t, dir)
	blocked := append([]journal.Step{}, steps...)
	// The rename is refused once there is something at its target, which the
	// step before it makes here.
	blocked = append([]journal.Step{blocked[0], {Kind: journal.Mkdir, Path: "aside/x"}}, blocked[1:]...)
	if err := j.Run(blocked); !errors.Is(err, journal.ErrConflict) {
		t.Fatalf("run: %v", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "state/journal.json"))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.Replace(string(b), `{"kind":"mkdir","path":"aside/x"},`, "", 1))
}

func put(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTornJournal: a journal that is not whole moves nothing and is an error.
func TestTornJournal(t *testing.T) {
	list := pending(t)
	for n := range list {
		dir := root(t)
		before := tree(t, dir)
		put(t, filepath.Join(dir, "state/journal.json"), list[:n])
		_, err := journal.Open(durable.OS(), dir, "state/journal.json")
		if n == len(list)-1 { // only the line break is missing
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !errors.Is(err, journal.ErrCorrupt) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if got := tree(t, dir); !reflect.DeepEqual(got, before) {
			t.Fatalf("%d bytes: %v", n, got)
		}
	}
}

func TestRefusesBeforeItBegins(t *testing.T) {
	for name, s := range map[string][]journal.Step{
		"unknown kind":         {{Kind: "delete", Path: "old"}},
		"path outside":         {{Kind: journal.Mkdir, Path: "../x"}},
		"absolute path":        {{Kind: journal.Write, Path: "/tmp/x"}},
		"from outside":         {{Kind: journal.Rename, Path: "x", From: "../old"}},
		"file in the way":      {{Kind: journal.Mkdir, Path: "ok"}, {Kind: journal.Mkdir, Path: "old/data"}},
		"other content":        {{Kind: journal.Write, Path: "old/data", Data: []byte("x")}},
		"target is there":      {{Kind: journal.Rename, Path: "state", From: "old"}},
		"nothing to be moved":  {{Kind: journal.Rename, Path: "x", From: "nothing"}},
		"made after moved":     {{Kind: journal.Rename, Path: "new", From: "old"}, {Kind: journal.Mkdir, Path: "old"}},
		"outside, in disguise": {{Kind: journal.Mkdir, Path: "old/../../x"}},
		"below a file":         {{Kind: journal.Write, Path: "old/data/x"}},
	} {
		dir := root(t)
		before := tree(t, dir)
		j := open(t, dir)
		if err := j.Run(s); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := tree(t, dir); !reflect.DeepEqual(got, before) {
			t.Errorf("%s: %v", name, got)
		}
		if err := j.Run(steps); err != nil { // and it is not stuck
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A list that cannot be finished blocks the next one, and is finished as soon
// as it can be.
func TestUnfinishedListComesFirst(t *testing.T) {
	dir := root(t)
	j := open(t, dir)
	put(t, filepath.Join(dir, "state/journal.json"), pending(t))
	if err := os.MkdirAll(filepath.Join(dir, "aside/x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if j, err := journal.Open(durable.OS(), dir, "state/journal.json"); !errors.Is(err, journal.ErrConflict) || j != nil {
		t.Fatalf("opened: %v %v", j, err)
	}
	more := []journal.Step{{Kind: journal.Mkdir, Path: "more"}}
	if err := j.Run(more); !errors.Is(err, journal.ErrConflict) {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "more")); err == nil {
		t.Fatal("the next list was begun")
	}
	if err := os.Rename(filepath.Join(dir, "aside/x"), filepath.Join(dir, "state/x")); err != nil {
		t.Fatal(err)
	}
	if err := j.Run(more); err != nil {
		t.Fatal(err)
	}
	got := tree(t, dir)
	if got["aside/x/data"] != "precious" {
		t.Fatalf("%v", got)
	}
	if _, ok := got["more"]; !ok {
		t.Fatalf("%v", got)
	}
}

// TestUnreadableListIsNoEmptyOne: nothing is run beside a list of which nobody knows
// what it says, also where it became so after the journal was opened. One that cannot
// be read for now is not said to be corrupt: whoever is told that gives it up.
func TestUnreadableListIsNoEmptyOne(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(t *testing.T, path string)
		corrupt bool
	}{
		"torn": {func(t *testing.T, path string) { put(t, path, []byte(`{"steps":`)) }, true},
		"not to be read": {func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		dir := root(t)
		before := tree(t, dir)
		j := open(t, dir)
		c.spoil(t, filepath.Join(dir, "state/journal.json"))
		if err := j.Run(steps); err == nil || errors.Is(err, journal.ErrCorrupt) != c.corrupt {
			t.Errorf("%s: run: %v", name, err)
		}
		if _, err := journal.Open(durable.OS(), dir, "state/journal.json"); err == nil || errors.Is(err, journal.ErrCorrupt) != c.corrupt {
			t.Errorf("%s: open: %v", name, err)
		}
		if got := tree(t, dir); !reflect.DeepEqual(got, before) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// fails is a disk of which one call fails, and the others do not.
type fails struct {
	durable.Files
	at, calls int
}

var errFull = errors.New("there is no room")

func (f *fails) call() error {
	if f.calls++; f.calls == f.at {
		return errFull
	}
	return nil
}

func (f *fails) Temp(dir, pattern string) (durable.File, error) {
	if err := f.call(); err != nil {
		return nil, err
	}
	return f.Files.Temp(dir, pattern)
}

func (f *fails) Mkdir(path string, mode fs.FileMode) error {
	return orElse(f.call(), func() error { return f.Files.Mkdir(path, mode) })
}

func (f *fails) Rename(from, to string) error {
	return orElse(f.call(), func() error { return f.Files.Rename(from, to) })
}

func (f *fails) SyncDir(dir string) error {
	return orElse(f.call(), func() error { return f.Files.SyncDir(dir) })
}

func orElse(err error, do func() error) error {
	if err != nil {
		return err
	}
	return do()
}

// TestEveryFailedCallIsTold: a call that fails ends the run and says why, what was not
// written down is not begun, and the next Open finishes what was.
func TestEveryFailedCallIsTold(t *testing.T) {
	for n := 1; ; n++ {
		dir := root(t)
		before := tree(t, dir)
		disk := &fails{Files: durable.OS().Files, at: n}
		j, err := journal.Open(durable.On(disk), dir, "state/journal.json")
		if err != nil {
			t.Fatal(err)
		}
		err = j.Run(steps)
		if disk.calls < n {
			if err != nil || n < 10 {
				t.Fatalf("%d calls: %v", disk.calls, err)
			}
			return
		}
		if !errors.Is(err, errFull) {
			t.Errorf("call %d fails: %v", n, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "state/journal.json")); err != nil && !reflect.DeepEqual(tree(t, dir), before) {
			t.Errorf("call %d fails: begun without a list: %v", n, tree(t, dir))
		}
		if err := open(t, dir).Run(steps); err != nil {
			t.Errorf("call %d fails: run again: %v", n, err)
		}
		if got := tree(t, dir); !reflect.DeepEqual(got, want) {
			t.Errorf("call %d fails: %v", n, got)
		}
	}
}

// TestModes: what is made is its owner's alone where the step does not say otherwise.
func TestModes(t *testing.T) {
	dir := root(t)
	said := []journal.Step{
		{Kind: journal.Mkdir, Path: "open", Mode: 0o755}, {Kind: journal.Write, Path: "open/note", Mode: 0o640},
	}
	if err := open(t, dir).Run(append(said, steps...)); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]fs.FileMode{"aside": 0o700, "aside/x.json": 0o600, "open": 0o755, "open/note": 0o640} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
}

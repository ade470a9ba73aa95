package journal_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/durable/crashdisk"
	"etcdadm.io/internal/journal"
)

// life runs the steps on a disk that dies before call n, and reports whether it came so far.
func life(t *testing.T, dir string, n int) (*crashdisk.Disk, bool) {
	t.Helper()
	d, err := crashdisk.New(dir, n)
	if err != nil {
		t.Fatal(err)
	}
	live(t, d, dir, n)
	return d, d.Died()
}

func live(t *testing.T, d *crashdisk.Disk, dir string, n int) {
	t.Helper()
	j, err := journal.Open(d.Files(), dir, "state/journal.json")
	if err == nil {
		err = j.Run(steps)
	}
	if err != nil && !errors.Is(err, crashdisk.ErrDied) {
		t.Fatalf("call %d: %v, after %q", n, err, d.Calls())
	}
}

// afterwards opens what a crash left: it is as before or as after the steps, and the steps can be run from there.
func afterwards(dir string) error {
	before := map[string]string{".": "", "old": "", "old/data": "precious"}
	j, err := journal.Open(durable.OS(), dir, "state/journal.json")
	if err != nil {
		return err
	}
	got, err := shown(dir)
	if err != nil {
		return err
	}
	switch {
	case reflect.DeepEqual(got, want):
		return nil
	case !reflect.DeepEqual(got, before):
		return fmt.Errorf("neither before nor after: %v", got)
	}
	if err := j.Run(steps); err != nil {
		return err
	}
	if got, err = shown(dir); err == nil && !reflect.DeepEqual(got, want) {
		err = fmt.Errorf("run again: %v", got)
	}
	return err
}

func shown(dir string) (map[string]string, error) {
	all, err := crashdisk.Tree(dir)
	maps.DeleteFunc(all, func(p, _ string) bool { return p == "state" || filepath.Dir(p) == "state" })
	all["."] = ""
	return all, err
}

// TestKilledAnywhere kills the process before each system call that changes a
// file, and cuts the power there in every way: what was not synced is lost, torn
// or there. The second life is killed before each of its calls as well.
func TestKilledAnywhere(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil { // nothing here needs a real disk
		t.Setenv("TMPDIR", "/dev/shm")
	}
	base := t.TempDir()
	n, cuts, seconds := 1, 0, 0
	for ; ; n++ {
		dir := root(t)
		d, died := life(t, dir, n)
		made, err := d.Cuts(filepath.Join(base, "cut"), func(what string) {
			if err := afterwards(filepath.Join(base, "cut")); err != nil {
				t.Errorf("power cut before call %d of %q: %s: %v", n, d.Calls(), what, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		cuts += made
		for m := 1; died; m++ {
			again := root(t)
			life(t, again, n)
			second, diedAgain := life(t, again, m)
			if err := afterwards(again); err != nil {
				t.Errorf("killed before call %d, and then before call %d of %q: %v", n, m, second.Calls(), err)
			}
			if seconds++; !diedAgain {
				break
			}
		}
		if err := afterwards(dir); err != nil {
			t.Errorf("killed before call %d of %q: %v", n, d.Calls(), err)
		}
		if !died || t.Failed() {
			break
		}
	}
	t.Logf("%d calls, %d power cuts, %d second crashes", n-1, cuts, seconds)
	if n < 20 || cuts < 8*n || seconds < 10*n {
		t.Errorf("only %d calls, %d cuts, %d second crashes: the test does not reach what it is about", n-1, cuts, seconds)
	}
}

// TestPowerFailsInTheSecondLife kills the process before each call, which leaves
// on a running machine what is not durable yet, and cuts the power before each call
// of the next life: that one finds steps taken, and has to make them durable before
// it goes on.
func TestPowerFailsInTheSecondLife(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil { // nothing here needs a real disk
		t.Setenv("TMPDIR", "/dev/shm")
	}
	cut := filepath.Join(t.TempDir(), "cut")
	total := 0
	for n, died := 1, true; died && !t.Failed(); n++ {
		first, dies := life(t, root(t), n)
		if died = dies; died && !changesNames(first.Calls()[n-1]) {
			continue // of a new file that has no name yet nothing is read
		}
		for m, diedAgain := 1, died; diedAgain && !t.Failed(); m++ {
			dir := root(t)
			d, _ := life(t, dir, n)
			d.Again(m)
			live(t, d, dir, m)
			diedAgain = d.Died()
			made, err := d.Cuts(cut, func(what string) {
				if err := afterwards(cut); err != nil {
					t.Errorf("killed before call %d, and the power cut before call %d of %q: %s: %v", n, m, d.Calls(), what, err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			total += made
		}
	}
	t.Logf("%d power cuts", total)
	if total < 1000 {
		t.Errorf("only %d power cuts: the test does not reach what it is about", total)
	}
}

// changesNames: or makes one durable.
func changesNames(call string) bool {
	does, _, _ := strings.Cut(call, " ")
	return does == "rename" || does == "mkdir" || strings.HasPrefix(call, "sync directory")
}

// TestStepsAreSynced: both directories of a rename are synced before the next step
// begins. One of them is enough for the file systems that crashdisk speaks of, which
// make a rename one change; POSIX promises that of none.
func TestStepsAreSynced(t *testing.T) {
	d, died := life(t, root(t), 0)
	if died {
		t.Fatalf("it died of %q", d.Calls())
	}
	calls := d.Calls()
	at := slices.Index(calls, "rename old aside/x")
	if at < 0 {
		t.Fatalf("nothing is renamed in %q", calls)
	}
	next := at + 1 + slices.IndexFunc(calls[at+1:], func(c string) bool { return !strings.HasPrefix(c, "sync ") })
	for _, want := range []string{"sync directory .", "sync directory aside"} {
		if !slices.Contains(calls[at+1:next], want) {
			t.Errorf("no %q between %q", want, calls[at:next+1])
		}
	}
}

// FuzzList: whatever lies where the list is, opening it changes nothing outside the root, and says no or finishes.
func FuzzList(f *testing.F) {
	for _, seed := range []string{
		``, `{`, `{"steps":[]}`, `{"steps":null}`, `{"steps":[{"kind":"mkdir","path":"aside"},{"kind":"rename","path":"aside/x","from":"old"}]}`,
		`{"steps":[{"kind":"mkdir","path":"../out"}]}`, `{"steps":[{"kind":"rename","path":"a","from":"/etc"}]}`, `{"steps":[{"kind":"write","path":"a","data":"e30=","mode":2541}]}`,
		`{"steps":[{"kind":"write","path":"."}]}`, `{"steps":[{"kind":"","path":"x"}]}`, `{"steps":[{"kind":"rename","path":"old/old","from":"old"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, list []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "root")
		for _, d := range []string{"state", "old"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		put(t, filepath.Join(dir, "old", "data"), []byte("precious"))
		put(t, filepath.Join(dir, "state", "journal.json"), list)
		j, err := journal.Open(durable.OS(), dir, "state/journal.json")
		if (err == nil) != (j != nil) {
			t.Fatalf("%v %v", j, err)
		}
		if entries, err := os.ReadDir(outer); err != nil || len(entries) != 1 {
			t.Fatalf("it left its root: %v %v", entries, err)
		}
		all, err := crashdisk.Tree(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, content := range all {
			if content == "precious" {
				return
			}
		}
		t.Fatalf("the data is gone: %v", all)
	})
}

package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"etcdadm.io/internal/builtin"
)

func TestMain(m *testing.M) {
	builtin.RunIfChild()
	os.Exit(m.Run())
}

// program writes a program that runs a line of shell.
func program(t *testing.T, path, line string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// etcd writes a stand-in that answers as a version, and its companions.
func etcd(t *testing.T, dir, version string, companions ...string) {
	t.Helper()
	program(t, filepath.Join(dir, "etcd"), fmt.Sprintf(
		`echo "WARNING: proto: etcd Version: 0.0.0" >&2; echo "etcd Version: %s"; echo "Git SHA: x"`, version))
	for _, name := range companions {
		program(t, filepath.Join(dir, name), "exit 1")
	}
}

// machine is a Finder on a machine with nothing on it.
func machine(t *testing.T) (*Finder, string) {
	t.Helper()
	root := t.TempDir()
	return &Finder{Roots: []string{root}, Dirs: []string{}}, root
}

func find(t *testing.T, f *Finder, version string) Release {
	t.Helper()
	r, err := f.Find(t.Context(), version)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var platform = goruntime.GOOS + "-" + goruntime.GOARCH

// Every layout is found, and when all are there, in the documented order.
func TestPlacesInOrder(t *testing.T) {
	f, root := machine(t)
	second := t.TempDir()
	named := t.TempDir()
	f.Roots = append(f.Roots, second)
	f.Dirs = []string{named}
	const v = "3.6.16"
	order := []string{
		named + "/etcd-v" + v + "-" + platform,
		named + "/etcd-v" + v,
		named + "/etcd-v" + v + "/usr/local/bin",
		named + "/v" + v,
		named + "/" + v,
		root + "/opt/etcd-v" + v + "-" + platform,
		root + "/opt/etcd-v" + v,
		root + "/opt/etcd-v" + v + "/usr/local/bin",
		second + "/opt/etcd-v" + v,
		root + "/var/cache/etcdadm/etcd/v" + v,
		second + "/var/cache/etcdadm/etcd/etcd-v" + v + "-" + platform,
	}
	f.Builtin = &Builtin{Version: v, Path: "/proc/self/exe", Args: []string{"etcd"}}
	want := Release{Asked: v, Version: v, Etcd: "/proc/self/exe", Args: []string{"etcd"}, Builtin: true}
	if diff := cmp.Diff(want, find(t, f, v)); diff != "" {
		t.Errorf("nothing but the built-in one: %s", diff)
	}
	for i := len(order) - 1; i >= 0; i-- {
		etcd(t, order[i], v, "etcdctl", "etcdutl")
		want := Release{
			Asked: v, Version: v, Dir: order[i], Etcd: order[i] + "/etcd",
			Etcdctl: order[i] + "/etcdctl", Etcdutl: order[i] + "/etcdutl",
		}
		if diff := cmp.Diff(want, find(t, f, "v"+v)); diff != "" {
			t.Errorf("place %d: %s", i, diff)
		}
	}
}

func TestDirectoryHoldsNewerPatch(t *testing.T) {
	f, root := machine(t)
	dir := root + "/opt/etcd-v3.5.9"
	etcd(t, dir+"/usr/local/bin", "3.5.35", "etcdctl")
	r := find(t, f, "3.5.9")
	if r.Asked != "3.5.9" || r.Version != "3.5.35" || r.Etcdctl == "" || r.Etcdutl != "" {
		t.Errorf("found %+v", r)
	}
}

func TestWrongBinariesArePassedOver(t *testing.T) {
	f, root := machine(t)
	f.Dirs = []string{root + "/a"}
	etcd(t, root+"/a/v3.5.9", "3.5.8")                                  // an older patch
	etcd(t, root+"/a/3.5.9", "3.6.9")                                   // another minor
	program(t, root+"/opt/etcd-v3.5.9-"+platform+"/etcd", "echo hello") // no etcd
	program(t, root+"/opt/etcd-v3.5.9/etcd", "exit 1")                  // broken
	program(t, root+"/opt/etcd-v3.5.9/usr/local/bin/etcd", "")          // no program
	if err := os.Chmod(root+"/opt/etcd-v3.5.9/usr/local/bin/etcd", 0o644); err != nil {
		t.Fatal(err)
	}
	etcd(t, root+"/opt/etcd-v3.4.25", "3.4.25")
	f.Builtin = &Builtin{Version: "3.7.3", Path: "/x"}

	_, err := f.Find(t.Context(), "3.5.9")
	var missing *NotFoundError
	if !errors.As(err, &missing) || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("find: %v", err)
	}
	if len(missing.Passed) != 5 {
		t.Errorf("passed over: %v", missing.Passed)
	}
	for _, part := range []string{
		"find etcd 3.5.9: it is not on this machine; here are 3.4.25, 3.7.3",
		root + "/a/v3.5.9/etcd will not do: it is etcd 3.5.8",
		root + "/a/3.5.9/etcd will not do: it is etcd 3.6.9",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if want := "etcdadm download 3.5.9 fetches it; or unpack the release into " + root + "/a/etcd-v3.5.9-" + platform +
		" and name " + root + "/a with --release-dir or in ETCDADM_RELEASES"; missing.Hint() != want {
		t.Errorf("hint is %q, want %q", missing.Hint(), want)
	}
	etcd(t, root+"/var/cache/etcdadm/etcd/v3.5.9", "3.5.9")
	if r := find(t, f, "3.5.9"); r.Version != "3.5.9" {
		t.Errorf("found %+v", r)
	}
}

func TestList(t *testing.T) {
	f, root := machine(t)
	f.Dirs = []string{root + "/named", root + "/absent"}
	etcd(t, root+"/named/v3.10.1", "3.10.1")
	etcd(t, root+"/named/etcd-v3.6.0-rc.1-"+platform, "3.6.0-rc.1")
	etcd(t, root+"/named/other", "1.2.3")
	etcd(t, root+"/opt/etcd-v3.6.0", "3.6.2")
	etcd(t, root+"/opt/etcd-v3.10.1", "3.10.1")
	etcd(t, root+"/opt/etcd-v3.5.1", "2.3.8")
	if err := os.MkdirAll(root+"/opt/etcd-v3.9.9", 0o755); err != nil { // of which nothing is left
		t.Fatal(err)
	}
	f.Builtin = &Builtin{Version: "3.7.3", Path: "/x"}
	list, passed, err := f.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range list {
		got = append(got, r.Asked+" is "+r.Version)
	}
	want := []string{"3.6.0-rc.1 is 3.6.0-rc.1", "3.6.0 is 3.6.2", "3.7.3 is 3.7.3", "3.10.1 is 3.10.1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(passed) != 1 || !strings.Contains(passed[0].Path, "3.5.1") {
		t.Errorf("passed over: %v", passed)
	}
	var missing *NotFoundError
	if _, err := f.Find(t.Context(), "3.8.1"); !errors.As(err, &missing) || slices.Contains(missing.Have, "3.9.9") || !slices.Contains(missing.Have, "3.10.1") {
		t.Errorf("it is said that there are %v", missing)
	}
}

func TestNotAVersion(t *testing.T) {
	f, _ := machine(t)
	for _, v := range []string{"", "3.6", "latest", "../../etc", "3.6.1/..", "vv3.6.1", "3.6.1-"} {
		if _, err := f.Find(t.Context(), v); !errors.Is(err, ErrVersion) {
			t.Errorf("find %q: %v", v, err)
		}
	}
}

// A binary is asked again only when its file has changed.
func TestAnswersAreKept(t *testing.T) {
	f, root := machine(t)
	dir, count := root+"/opt/etcd-v3.6.1", root+"/count"
	answer := func(version string) {
		program(t, dir+"/etcd", "echo x >>"+count+"; echo etcd Version: "+version)
	}
	asked := func() int {
		data, _ := os.ReadFile(count)
		return len(data) / 2
	}
	answer("3.6.1")
	if err := os.Symlink(dir, root+"/opt/etcd-v3.6.0"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		find(t, f, "3.6.1")
		find(t, f, "3.6.0")
	}
	if n := asked(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	answer("3.6.12")
	if r := find(t, f, "3.6.1"); r.Version != "3.6.12" || asked() != 2 {
		t.Errorf("after a change: %+v, asked %d times", r, asked())
	}
	answer("3.6.13") // of the same size
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(dir+"/etcd", later, later); err != nil {
		t.Fatal(err)
	}
	if r := find(t, f, "3.6.1"); r.Version != "3.6.13" {
		t.Errorf("after a change of time: %+v", r)
	}
}

func TestSilentBinaryDoesNotHoldUsUp(t *testing.T) {
	f, root := machine(t)
	program(t, root+"/opt/etcd-v3.6.1/etcd", "exec sleep 1000")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := f.Find(ctx, "3.6.1")
	var silent *NotFoundError
	if !errors.As(err, &silent) || errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("find: %v, want that it is not known whether it is there", err)
	}
	for _, words := range []string{"does not answer", root + "/opt/etcd-v3.6.1/etcd will not do: ", "no answer in "} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the error does not say %q: %v", words, err)
		}
	}
}

// A program that does not answer hides no other one: neither of its version, in a later
// place, nor of another. It has its time once.
func TestSilentBinaryHidesNoOther(t *testing.T) {
	const all = 6 * time.Second // of which a silent one has half
	f, root := machine(t)
	f.Dirs = []string{root + "/named"}
	program(t, root+"/opt/etcd-v3.5.1/etcd", "exec sleep 1000")
	program(t, root+"/named/v3.6.1/etcd", "exec sleep 1000")
	etcd(t, root+"/opt/etcd-v3.6.1", "3.6.1")
	etcd(t, root+"/opt/etcd-v3.6.2", "3.6.2")
	within := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}

	if r, err := f.Find(within(all), "3.6.1"); err != nil || r.Dir != root+"/opt/etcd-v3.6.1" {
		t.Fatalf("found %+v, %v", r, err)
	}
	list, passed, err := f.List(within(all))
	if err != nil || len(list) != 2 || list[0].Asked != "3.6.1" || list[1].Asked != "3.6.2" {
		t.Fatalf("list: %+v, %v", list, err)
	}
	if len(passed) != 1 || passed[0].Path != root+"/opt/etcd-v3.5.1/etcd" || !errors.Is(passed[0].Reason, context.DeadlineExceeded) {
		t.Errorf("passed over: %v", passed)
	}

	began := time.Now()
	if list, passed, err = f.List(within(all)); err != nil || len(list) != 2 || len(passed) != 1 {
		t.Errorf("list: %+v, %v, %v", list, passed, err)
	}
	if took := time.Since(began); took > all/3 {
		t.Errorf("the silent programs were asked again: it took %s", took)
	}

	// What was not asked is not said to be absent, and what is known is found.
	etcd(t, root+"/opt/etcd-v3.7.1", "3.7.1")
	list, passed, err = f.List(within(-time.Second))
	if err != nil || len(list) != 2 || len(passed) != 2 || !passed[1].Silent() || passed[1].Version != "3.7.1" {
		t.Errorf("list after the deadline: %+v, %v, %v", list, passed, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := f.List(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("list of a caller that gave up: %v", err)
	}
}

// A silent program that is given much more time than it had is asked again.
func TestSilentBinaryIsGivenMoreTime(t *testing.T) {
	f, root := machine(t)
	program(t, root+"/opt/etcd-v3.6.1/etcd", `sleep 1; echo "etcd Version: 3.6.1"`)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := f.Find(ctx, "3.6.1"); err == nil {
		t.Fatal("it answered in no time")
	}
	find(t, f, "3.6.1")
}

// The environment's ETCD_ variables are for members, and would break the question.
func TestRealEtcdAnswers(t *testing.T) {
	t.Setenv("ETCD_SNAPSHOT_COUNT", "not a number")
	f, _ := machine(t)
	f.Dirs = []string{t.TempDir()}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(f.Dirs[0], "v"+builtin.Version)
	program(t, filepath.Join(dir, "etcd"), `exec "`+exe+`" etcd "$@"`)
	if r := find(t, f, builtin.Version); r.Version != builtin.Version || r.Builtin {
		t.Errorf("found %+v", r)
	}
}

func TestNamedDirectoriesBecomeAbsolute(t *testing.T) {
	f, root := machine(t)
	t.Chdir(root)
	etcd(t, root+"/mine/v3.6.1", "3.6.1")
	f.Dirs = []string{"mine"}
	if r := find(t, f, "3.6.1"); r.Etcd != root+"/mine/v3.6.1/etcd" {
		t.Errorf("found %+v", r)
	}
}

func TestDirs(t *testing.T) {
	got := Dirs("/a::/b", []string{"/c", "/a", ""})
	if diff := cmp.Diff([]string{"/a", "/b", "/c"}, got); diff != "" {
		t.Error(diff)
	}
	if got := Dirs("", nil); !cmp.Equal(got, []string(nil), cmpopts.EquateEmpty()) {
		t.Errorf("of nothing: %q", got)
	}
}

func TestStands(t *testing.T) {
	for _, c := range []struct {
		name, actual string
		want         bool
	}{
		{"3.6.1", "3.6.1", true},
		{"3.6.1", "3.6.2", true},
		{"3.6.9", "3.6.10", true},
		{"3.6.2", "3.6.1", false},
		{"3.6.1", "3.7.1", false},
		{"2.3.8", "3.3.8", false},
		{"2.3.8", "3.3.9", false},
		{"3.6.1", "3.7.2", false},
		{"3.6.0", "3.6.0-rc.1", false},
		{"3.6.0-rc.1", "3.6.0", false}, // another thing was asked for
	} {
		if got := stands(c.name, c.actual); got != c.want {
			t.Errorf("under the name %s lies %s: %v", c.name, c.actual, got)
		}
	}
}

// Who has no roots named looks below the system's, which tests move away from what is
// installed where they run.
func TestSystemRootIsMoved(t *testing.T) {
	was := SystemRoot
	t.Cleanup(func() { SystemRoot = was })
	installed := t.TempDir()
	etcd(t, installed+"/opt/etcd-v3.5.9", "3.5.9")
	for root, there := range map[string]bool{installed: true, t.TempDir(): false} {
		SystemRoot = root
		if _, err := new(Finder).Find(t.Context(), "3.5.9"); (err == nil) != there {
			t.Errorf("below %s: %v, want it found: %v", root, err, there)
		}
	}
}

package builtin

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	RunIfChild()
	os.Exit(m.Run())
}

func TestIsEtcd(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"etcd"}, false}, // a name alone never decides
		{[]string{"etcdadm"}, false},
		{[]string{"etcdadm", "init", "etcd"}, false},
		{[]string{"etcdadm", "etcd"}, true},
		{[]string{"/usr/bin/etcd-manager", "etcd", "--data-dir=/x"}, true},
	} {
		if got := IsEtcd(c.args); got != c.want {
			t.Errorf("IsEtcd(%q) = %v, want %v", c.args, got, c.want)
		}
	}
}

// The version is what go.mod pins: an upgrade of one module alone would make
// the binary lie about what it runs.
func TestVersionIsGoMods(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/etcdutl/v3"} {
		if line := module + " v" + Version; !slices.ContainsFunc(
			strings.Split(string(mod), "\n"),
			func(l string) bool { return strings.TrimPrefix(strings.TrimSpace(l), "require ") == line },
		) {
			t.Errorf("go.mod has no line %q, though the linked-in etcd says it is %s", line, Version)
		}
	}
}

// The re-executed program answers as etcd, under etcd's name, even when its
// own file is gone by then.
func TestReExecutesAsEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	path, args := Command()
	out, err := exec.CommandContext(ctx, path, append(args, "--version")...).Output()
	if err != nil {
		t.Fatalf("run the built-in etcd: %v", err)
	}
	if want := "etcd Version: " + Version + "\n"; !strings.HasPrefix(string(out), want) {
		t.Errorf("the built-in etcd says %q, want it to begin with %q", out, want)
	}
}

// So does the tool that restores snapshots, and it knows the flags that a
// restore uses.
func TestReExecutesAsEtcdutl(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	path, args := UtlCommand()
	out, err := exec.CommandContext(ctx, path, append(args, "version")...).Output()
	if err != nil || !strings.HasPrefix(string(out), "etcdutl version: "+Version+"\n") {
		t.Errorf("the built-in etcdutl says %q, %v", out, err)
	}
	out, err = exec.CommandContext(ctx, path, append(args, "snapshot", "restore", "--help")...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--bump-revision") || !strings.Contains(string(out), "--mark-compacted") {
		t.Errorf("its help says %q, %v", out, err)
	}
}

package cli

import (
	"errors"
	"strings"
	"testing"

	"etcdadm.io/cluster"
)

// TestUndoFromTheFurthest: an undo that would drop what another host set aside of
// the same cluster is told and refused, with the line that drops nothing.
func TestUndoFromTheFurthest(t *testing.T) {
	aside := func(dir string, id cluster.ClusterID, term, index uint64) cluster.SetAside {
		return cluster.SetAside{Dir: "etcdadm/set-aside/" + dir, Cluster: id, Log: cluster.Progress{Term: term, Index: index}}
	}
	ends := []cluster.LogEnd{
		{Host: "a", SetAside: []cluster.SetAside{aside("a1", 1, 2, 100), aside("a2", 2, 9, 900)}},
		{Host: "b", SetAside: []cluster.SetAside{aside("b1", 1, 2, 120)}},
		{Host: "c", SetAside: []cluster.SetAside{aside("c1", 1, 1, 500), aside("c2", 1, 0, 0)}},
	}
	for _, c := range []struct {
		host cluster.HostID
		dir  string
		said string
		to   string // the line of the refusal; empty: it is not refused
	}{
		{"a", "a1", "goes further: its log ends at term 2, index 120", "--from b --dir b1 --yes"},
		{"c", "c1", "goes further", "--from b --dir b1 --yes"},
		{"b", "b1", "ends at term 2, index 120; no reachable host", ""},
		{"a", "a2", "no reachable host", ""},
		{"c", "c2", "is unknown", ""},
		{"d", "x", "is unknown", ""},
	} {
		u := findUndo(ends, []cluster.HostID{"e"}, c.host, c.dir)
		var said strings.Builder
		u.tell(&said)
		if !strings.Contains(said.String(), c.said) || !strings.Contains(said.String(), "unreachable: e") {
			t.Errorf("%s %s: %s", c.host, c.dir, said.String())
		}
		err := u.refuse()
		if (err != nil) != (c.to != "") {
			t.Errorf("%s %s: refused %v", c.host, c.dir, err)
		} else if f, ok := err.(*Failure); ok && (!strings.Contains(f.Advice, c.to) || f.Code != ExitUnsafe) { //nolint:errorlint // it is not wrapped
			t.Errorf("%s %s: %+v", c.host, c.dir, f)
		}
	}
	if s := findUndo(ends, nil, "a", "a1").seen(nil, true); s.Log.Index != 100 || s.Furthest.Index != 120 || !s.AcceptOlder {
		t.Errorf("the command carries %+v", s)
	}
	if s := findUndo(ends, nil, "c", "c2").seen(nil, false); *s != (cluster.Seen{}) {
		t.Errorf("of what nobody could tell the command carries %+v", s)
	}
	if findUndo(nil, nil, "a", "a1").refuse() != nil {
		t.Error("without any daemon it is refused")
	}
}

// What is asked of restore is one thing: a backup, or what a host set aside.
func TestRestoreWords(t *testing.T) {
	store := "--store=file://" + t.TempDir()
	for line, mistaken := range map[string]bool{
		"": true, "--undo": true, "--undo --from a": true, "--undo --dir old": true, "x --undo --from a --dir old": true,
		"x": false, "--undo --from a --dir old": false,
	} {
		s := etcdadm(t, append([]string{"restore", store, "--dry-run"}, strings.Fields(line)...)...)
		if said := strings.Contains(s.errs, "name a backup, or what to go back to"); said != mistaken || mistaken && s.code != ExitUsage {
			t.Errorf("%q: exit %d, %s", line, s.code, s.errs)
		}
	}
}

// A path is taken for what was set aside only where it is one; its last part is
// never taken for it.
func TestAsideName(t *testing.T) {
	known := []cluster.SetAside{{Dir: "/var/lib/etcd/data-trashcan/old"}, {Dir: "/var/lib/etcd/data-trashcan/passwd"}}
	for words, want := range map[string]string{
		"old": "old", "/var/lib/etcd/data-trashcan/old": "old", "/var/lib/etcd/data-trashcan/old/": "old", "unseen": "unseen",
		"/etc/passwd": "", "/x/y/old": "", "data-trashcan/old": "", "../old": "", "/var/lib/etcd/data-trashcan/new": "",
		"/var/lib/etcd/data-trashcan/old/..": "", "..": "", ".": "", "/": "", "a\\b": "", "a\nb": "",
	} {
		got, err := (&reach{}).asideName(words, known, true)
		if (err == nil) != (want != "") || got != want {
			t.Errorf("%q: %q, %v, want %q", words, got, err, want)
		}
		var failed *Failure
		if err != nil && (!errors.As(err, &failed) || failed.Code != ExitUsage || !strings.Contains(failed.Advice, "host prune") || !strings.Contains(err.Error(), "was set aside")) {
			t.Errorf("%q: %+v", words, err)
		}
	}
	// With the store alone no host can be asked.
	for words, want := range map[string]string{
		"old": "old", "/var/lib/etcd/data-trashcan/old": "old", "/var/lib/etcd/data-trashcan/old/": "old",
		"/etc/passwd": "", "/x/y/old": "", "data-trashcan/old": "", "/var/lib/etcd/data-trashcan": "", "/var/lib/etcd/data-trashcan/old/..": "",
	} {
		if got, err := (&reach{}).asideName(words, nil, false); (err == nil) != (want != "") || got != want {
			t.Errorf("out of sight, %q: %q, %v, want %q", words, got, err, want)
		}
	}
}

// Whoever restores to etcd 2 reads that indexes go back, and nobody else.
func TestWarnIndexes(t *testing.T) {
	v2, v3 := cluster.MustVersion("2.3.8"), cluster.MustVersion("3.6.16")
	for _, c := range []struct {
		wrote cluster.Version
		to    string
		want  bool
	}{
		{v2, "", true}, {v2, "2.3.8", true}, {v2, "3.2.24", false}, {v3, "", false}, {v3, "3.6.16", false}, {cluster.Version{}, "", false}, {cluster.Version{}, "2.3.8", true},
	} {
		var said strings.Builder
		warnIndexes(&said, c.wrote, c.to)
		if got := strings.Contains(said.String(), "indexes start over"); got != c.want {
			t.Errorf("of %s to %q: %q", c.wrote, c.to, said.String())
		}
	}
}

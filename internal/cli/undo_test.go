package cli

import (
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
)

// TestUndoFromTheFurthest: an undo that would drop what another host set aside of
// the same cluster is told and refused, with the line that drops nothing.
func TestUndoFromTheFurthest(t *testing.T) {
	aside := func(dir string, id cluster.ClusterID, term, index uint64) cluster.SetAside {
		return cluster.SetAside{Dir: "etcdadm/set-aside/" + dir, Cluster: id, Log: cluster.Progress{Term: term, Index: index}}
	}
	ends := []console.LogEnd{
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
		{"c", "etcdadm/set-aside/c1", "goes further", "--from b --dir b1 --yes"},
		{"b", "b1", "ends at term 2, index 120; no host", ""},
		{"a", "a2", "no host in sight", ""},
		{"c", "c2", "nobody could tell", ""},
		{"d", "x", "nobody could tell", ""},
	} {
		u := findUndo(ends, []cluster.HostID{"e"}, c.host, c.dir)
		var said strings.Builder
		u.tell(&said)
		if !strings.Contains(said.String(), c.said) || !strings.Contains(said.String(), "not heard: e") {
			t.Errorf("%s %s: %s", c.host, c.dir, said.String())
		}
		err := u.refuse()
		if (err != nil) != (c.to != "") {
			t.Errorf("%s %s: refused %v", c.host, c.dir, err)
		} else if f, ok := err.(*Failure); ok && (!strings.Contains(f.Advice, c.to) || f.Code != ExitUnsafe) { //nolint:errorlint // it is not wrapped
			t.Errorf("%s %s: %+v", c.host, c.dir, f)
		}
	}
	if findUndo(nil, nil, "a", "a1").refuse() != nil {
		t.Error("without any daemon it is refused")
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
		if got := strings.Contains(said.String(), "go back"); got != c.want {
			t.Errorf("of %s to %q: %q", c.wrote, c.to, said.String())
		}
	}
}

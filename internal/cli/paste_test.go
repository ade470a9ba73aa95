package cli

import (
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/plan"
)

// A command that is printed reaches the same daemon when it is pasted.
func TestPrintedCommandsCanBePasted(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "/from/env")
	for _, c := range []struct {
		r            reach
		command, out string
	}{
		{reach{dataDir: "/data/a b"}, "etcdadm member replace b", "etcdadm member replace b --data-dir '/data/a b'"},
		{reach{dataDir: "/from/env"}, "etcdadm member replace b", "etcdadm member replace b"}, // the shell has it
		{reach{endpoints: []string{"a:1", "b:1"}, clusterName: "test", credentials: "/me"}, "etcdadm upgrade --resume", "etcdadm upgrade --resume --endpoint a:1,b:1 --cluster-name test --credentials /me"},
		{reach{dataDir: "/data"}, "etcdadm seed file:///s --nodes 5", "etcdadm seed file:///s --nodes 5"}, // it asks no daemon
		{reach{dataDir: "/data"}, "make room on it", "make room on it"},
		{reach{dataDir: "/data"}, "etcdadm host prune --data-dir /other", "etcdadm host prune --data-dir /other"},
	} {
		if c.r.dataDir == "" {
			c.r.dataDir = "/from/env"
		}
		if got := c.r.again(c.command); got != c.out {
			t.Errorf("%q, want %q", got, c.out)
		}
	}
}

func TestStatusPrintsCommandsThatReachItsDaemon(t *testing.T) {
	a := &answering{}
	at := a.serve(t, "test", "a")
	a.report = console.Report{Cluster: "test", Host: "a", Leader: "a", Leading: true, Observation: &cluster.Observation{Cluster: "test"},
		Decision: &plan.Decision{Rule: "x", Reason: "x", Blockers: []plan.Blocker{{Code: "x", Sentence: "y", Command: "etcdadm member replace b"}}}}
	want := "etcdadm member replace b --endpoint " + at + " --cluster-name test"
	if code, out, errs := runEtcdadm("status", "--endpoint="+at, "--cluster-name=test"); code != ExitOK || !strings.Contains(out, want) {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	if _, out, _ := runEtcdadm("status", "-o", "json", "--endpoint="+at, "--cluster-name=test"); strings.Contains(out, want) {
		t.Error("programs get the command as the daemon says it")
	}
}

package cli

import (
	"errors"
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
		{reach{dataDir: "/data"}, "etcdadm backup create", "etcdadm backup create --data-dir /data"},
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
		Decision: &plan.Decision{Rule: "x", Reason: plan.Say("x"), Blockers: []plan.Blocker{{Code: "x", Sentence: plan.Say("y"), Command: "etcdadm member replace b"}}},
		Aside:    []plan.Aside{{SetAside: cluster.SetAside{Dir: "/data/data-trashcan/old"}, Host: "a", ByHand: "it is of another generation", Undo: "etcdadm restore --undo --from a --dir old", Command: "etcdadm host prune a --dir old"}}}
	want := "etcdadm member replace b --endpoint " + at + " --cluster-name test"
	code, out, errs := runEtcdadm("status", "--endpoint="+at, "--cluster-name=test")
	for _, want := range []string{want, "--from a --dir old --endpoint " + at, "prune a --dir old --endpoint " + at} {
		if code != ExitNoQuorum || !strings.Contains(out, want) {
			t.Errorf("%d, without %q\n%s\n%s", code, want, out, errs)
		}
	}
	if _, out, _ := runEtcdadm("status", "-o", "json", "--endpoint="+at, "--cluster-name=test"); strings.Contains(out, "--endpoint") {
		t.Error("programs get the command as the daemon says it")
	}
}

// So do those of a recovery, of a prune and of an undo that is refused.
func TestWaysBackReachTheSameDaemon(t *testing.T) {
	by := reach{endpoints: []string{"a:1"}, clusterName: "test"}
	const flags = " --endpoint a:1 --cluster-name test"
	for want, s := range map[string]survivors{
		"etcdadm recover --from a --yes" + flags + "\n":           {by: by, Recovery: plan.Recovery{Command: "etcdadm recover --from a --yes"}},
		"etcdadm recover --from a --yes" + flags + " --lost HOST": {by: by, Recovery: plan.Recovery{Command: "etcdadm recover --from a --yes", Voters: []cluster.Voter{{Host: "b"}}, Unseen: []cluster.HostID{"b"}}},
	} {
		var out strings.Builder
		if s.printWay(&out); !strings.Contains(out.String(), want) {
			t.Errorf("without %q: %s", want, out.String())
		}
	}
	old := cluster.SetAside{Dir: "/data/data-trashcan/old"}
	var out strings.Builder
	by.printAsidePrice(&out, prunedAside{Pruned: console.Pruned{Host: "a", Aside: []cluster.SetAside{old}}})
	if !strings.Contains(out.String(), "--undo --from a --dir old"+flags+"\n") {
		t.Error(out.String())
	}
	if !strings.Contains(out.String(), "etcdadm backup verify NAME"+flags+"\n") {
		t.Error(out.String())
	}
	for _, s := range []survivors{{by: by}, {by: by, Recovery: plan.Recovery{Unseen: []cluster.HostID{"b"}}}} { // no data of a member is in sight
		out.Reset()
		if s.printPrice(&out); !strings.Contains(out.String(), "  etcdadm backup list"+flags+"\n  etcdadm restore NAME"+flags+"\n") {
			t.Error(out.String())
		}
	}
	end := func(host cluster.HostID, index uint64) cluster.LogEnd {
		return cluster.LogEnd{Host: host, State: cluster.MemberStarted, HasData: true, Log: &cluster.Progress{Term: 2, Index: index}}
	}
	further := survivors{by: by, Recovery: plan.Recovery{Hosts: []cluster.LogEnd{end("a", 5), end("b", 7)}}}
	if got := further.against("a", nil).Why; !strings.HasSuffix(got, "etcdadm recover --from b"+flags) {
		t.Error(got)
	}
	_, err := by.asideName("/x/old", nil, false)
	if f, ok := errors.AsType[*Failure](err); !ok || !strings.HasPrefix(f.Advice, "etcdadm host prune HOST"+flags) {
		t.Errorf("%+v", err)
	}
	if f, ok := errors.AsType[*Failure](undoing{by: by, at: "a", further: old}.refuse()); !ok || !strings.Contains(f.Advice, "--dir old --yes"+flags+"; add --accept-older") {
		t.Errorf("%+v", f)
	}
}

package show

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/plan"
)

// told is a blocker as the daemons tell it.
func told(code, command, template string, facts ...any) control.BlockerStatus {
	s := plan.Say(template, facts...)
	return control.BlockerStatus{Code: code, Subject: s.Subject(), Facts: s.RawFacts(), Sentence: s.String(), Command: command}
}

// What the daemons say of flags and commands of a host is said in Kubernetes by what is there, and of bare hosts as it is.
func TestWordsOfTheFace(t *testing.T) {
	const edit = "kubectl --namespace='team a' edit etcdclusters.etcdadm.io main"
	for _, c := range []struct {
		b             control.BlockerStatus
		want, command string
	}{
		{told("settings-differ", "start the daemons with the same --backup-interval, one host at a time", "{flag} differs between hosts ({values}); the daemon that leads, or takes the backup, uses its own value", "--backup-interval", "1m on main-1; 2m on main-2"),
			"--backup-interval differs between pods (1m on main-1; 2m on main-2)", "kubectl --namespace='team a' get pods --selector etcdadm.io/cluster=main"},
		{told("no-host", "", "voter {voter} is dead ({why}), and no host is free to take its place{because}; start another daemon, or bring the host back{or}", "main-1", "it is silent", "", ""),
			"voter main-1 is dead (it is silent), and no host is free to take its place. The operator makes another host", ""},
		{told("no-host", "", "{voters} of {wanted} voters present, and no host is free{because}: start a daemon on another host", 3, 5, " (main-4 is silent)"),
			"3 of 5 voters are there, and no host is free (main-4 is silent). The operator makes", ""},
		{told("no-host", "", "{voter} is to make way, since the spec names other hosts, and none of them is free{because}: start a daemon on one of them", "main-1", ""),
			"voter main-1 is to make way, and no host is free", ""},
		{told("options-left-out", "run etcdadm config unset OPTION, or upgrade to an etcd version that has it", "{sentence}", "host main-1 runs etcd 3.5.1 without some options of the spec: x"),
			"host main-1 runs etcd 3.5.1 without some options of the spec: x. Take them out of spec.options", edit},
		{told("options-refused", "etcdadm config unset OPTION", "{refused}; no other member gets them. Read etcd.log there. Unset what it refuses", "the member of host main-1 did not start with them"),
			"the member of host main-1 did not start with them; no other member gets them. Take what it refuses out of spec.options", edit},
		{told("store-silent", "", "{unread}: {detail}{unstored}", "the backup store cannot be read", "403", ""),
			"the daemons cannot read the cluster's record, the ConfigMaps main-control and main-status (403)", "kubectl --namespace='team a' get configmaps main-control main-status"},
		{told("store-silent", "", "waiting for the backup store, to look at backup {backup}", "b"), "waiting for the backup store, to look at backup b", ""},
		{told("no-release", "etcdadm download 3.7.3", "host {host} has no etcd {release}, which the cluster runs; {elsewise}", "main-1", "3.7.3", "download it"),
			"the pod of main-1 has no etcd 3.7.3, which the cluster runs. Put an image that has it into spec.releases", edit},
		{told("no-quorum", "", "quorum lost; unless it comes back, the cluster recovers from the furthest survivor in {left} (--auto-recover-after), which may lose writes", 90*time.Second),
			"recovers from the furthest survivor in 1m30s (spec.recovery)", ""},
		{told("no-quorum", "", "1 of 3 voters up{says}", plan.Say("{missing}. A recovery without them is offered once the loss has lasted {after} (--dead-after)", "; missing: main-2", 5*time.Minute)),
			"quorum lost; missing: main-2. They may serve without this side", ""},
		{told("member-down", "", "2 of 3 voters are up"), "2 of 3 voters are up", ""},
	} {
		s := seen(3, time.Hour)
		s.Told.Blockers = []control.BlockerStatus{c.b}
		_, out := status(t, s)
		if len(out.Blockers) != 1 || !strings.Contains(out.Blockers[0].Sentence, c.want) || out.Blockers[0].Command != c.command {
			t.Errorf("%s: %+v", c.b.Sentence, out.Blockers)
		}
		for _, flag := range []string{"--dead-after", "--auto-recover-after", "etcdadm config", "start a daemon", "start another daemon"} {
			if b := out.Blockers[0]; strings.Contains(b.Sentence+b.Command, flag) {
				t.Errorf("it says %s: %+v", flag, b)
			}
		}
		s.Cluster.Spec.Hosts = &v1alpha1.HostStore{Store: "s3://b"}
		if _, out := status(t, s); out.Blockers[0].Sentence != c.b.Sentence || out.Blockers[0].Command != c.b.Command {
			t.Errorf("on bare hosts: %+v", out.Blockers)
		}
	}
}

// While pods are replaced they differ, and the operator's own pause is what it does; a person's is told.
func TestRollsAreNoBlockers(t *testing.T) {
	differ := told("settings-differ", "", "{flag} differs between hosts ({values})", "--x", "y")
	paused := func(host string) control.BlockerStatus {
		return told("host-paused", "etcdadm host resume "+host, "host {host} is to be paused ({reason}), and has to stay yet: {why}", cluster.HostID(host), "another pod is wanted", "a voter is down")
	}
	s := seen(3, time.Hour)
	s.Told.Pauses = []control.PauseStatus{{Host: "main-1", By: decide.Asker}, {Host: "main-2", By: "kernel"}}
	s.Told.Blockers = []control.BlockerStatus{differ, paused("main-1"), paused("main-2")}
	shows := func(want ...string) {
		t.Helper()
		_, out := status(t, s)
		var got []string
		for _, b := range out.Blockers {
			got = append(got, b.Code)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("it shows %v, want %v", got, want)
		}
	}
	shows("settings-differ", "host-paused")
	s.World.Hosts[0].OldSet = true
	shows("host-paused")
	s.World.Hosts[0].OldSet, s.World.Hosts[0].Runs = false, s.World.Now
	shows("host-paused")
	if b := Told(s.Cluster, s.Told); len(b) != 2 || !json.Valid(b[1].Facts) || b[1].Subject != "main-2" {
		t.Errorf("%+v", b)
	}
}

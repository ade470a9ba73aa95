package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/plan"
)

// A pause is asked about where one more failure would stop the cluster, after the leading
// daemon has said what would be left; what cannot be is refused before anybody is asked.
func TestPauseIsAskedAboutWhereItIsTight(t *testing.T) {
	l := &leading{}
	at := serveDaemon(t, "test", "a", l)
	l.report = console.Report{Cluster: "test", Host: "a", Leader: "a", Leading: true, Observation: &cluster.Observation{Cluster: "test"}, Contacts: []cluster.Contact{{Host: "a", Endpoint: at}}}
	left := func(up, after, of int) plan.Decision {
		return plan.Decision{Rule: "pause", Reason: plan.Say("pause host b"), Action: &plan.Action{Kind: plan.ActPause, Pauses: &plan.PauseChange{}, Projection: &cluster.Projection{Voters: of, Up: up, VotersAfter: of, UpAfter: after}}}
	}
	refused := plan.Decision{Rule: "pause", Reason: plan.Say("host b is not paused"), Refused: true, Blockers: []plan.Blocker{{Code: "host-paused", Sentence: plan.Say("host b is not paused")}}}
	const line = "host pause b --for 30m --reason kernel"
	for _, c := range []struct {
		line     string
		decision plan.Decision
		code     int
		asked    []string
		question bool
	}{
		{line, left(3, 2, 3), ExitUnsafe, []string{"pause b dry"}, true},
		{line + " --yes", left(3, 2, 3), ExitOK, []string{"pause b"}, false},
		{line + " --force", left(3, 1, 3), ExitUnsafe, []string{"pause b dry"}, true},
		{line, left(5, 4, 5), ExitOK, []string{"pause b dry", "pause b"}, false},
		{line, left(2, 2, 3), ExitOK, []string{"pause b dry", "pause b"}, false}, // it is down already, or a spare
		{line, refused, ExitUnsafe, []string{"pause b dry"}, false},
		{line + " --yes", refused, ExitUnsafe, []string{"pause b"}, false},
		{line + " --dry-run", left(3, 2, 3), ExitOK, []string{"pause b dry"}, false},
		{"host resume b", plan.Decision{Rule: "resume", Reason: plan.Say("host b is not paused any more"), Done: true}, ExitOK, []string{"resume b"}, false},
		{"host resume b --dry-run", left(3, 3, 3), ExitOK, []string{"resume b dry"}, false},
	} {
		l.decision = c.decision
		code, out, errs := runEtcdadm(append(strings.Fields(c.line), "--endpoint="+at, "--cluster-name=test")...)
		if asked := l.heard(); code != c.code || !slices.Equal(asked, c.asked) || strings.Contains(errs, "[y/N]") != c.question || !strings.Contains(out+errs, c.decision.Reason.String()) {
			t.Errorf("%s: exit code %d and %q, want %d and %q, asked %t\n%s%s", c.line, code, asked, c.code, c.asked, c.question, out, errs)
		}
	}
	for line, want := range map[string]string{
		"host pause b --reason kernel":                                           "--for",
		"host pause b --for 0 --reason kernel":                                   "--for",
		"host pause b --for 1d1m --reason kernel":                                "longer than a pause may be",
		"host pause b --for 30m":                                                 "--reason",
		"host pause b --for 30m --reason= ":                                      "--reason",
		"host pause --for 30m --reason kernel":                                   "",
		"host resume":                                                            "",
		"host pause b --for soon --reason kernel":                                "--for",
		"host resume b --timeout=0s":                                             "--timeout",
		"host pause b --for=1h --reason=" + strings.Repeat("x", longestReason+1): "too long",
	} {
		code, _, errs := runEtcdadm(append(strings.Fields(line), "--endpoint="+at, "--cluster-name=test")...)
		if code != ExitUsage || !strings.Contains(errs, want) || len(l.heard()) > 0 {
			t.Errorf("%s: exit code %d: %s", line, code, errs)
		}
	}
	l.decision = left(5, 4, 5)
	if code, _, errs := runEtcdadm("host", "pause", "b", "--for=1d", "--reason", " new disk ", "--endpoint="+at, "--cluster-name=test", "--yes"); code != ExitOK {
		t.Fatal(errs)
	}
	p := l.wishes[0].Goal.Pause
	if p == nil || p.For != 24*time.Hour || p.Reason != "new disk" || !strings.Contains(p.By, "@") || p.Force {
		t.Errorf("%+v", p)
	}
}

// Status and member list tell who is paused, for how long from when they were answered.
func TestPausesAreTold(t *testing.T) {
	looked := time.Date(2026, 11, 21, 13, 41, 56, 0, time.UTC)
	o := &cluster.Observation{At: looked, Cluster: "etcd", Paused: []cluster.Pause{
		{Host: "b", From: looked, Until: looked.Add(23*time.Minute + 4*time.Second), Reason: "new kernel", By: "root@shell"},
		{Host: "c", From: looked, Until: looked.Add(20 * time.Hour), Reason: "moved"},
		{Host: "d", From: looked.Add(-time.Hour), Until: looked.Add(-time.Minute), Reason: "was"},
		{Host: "e", From: looked, Until: looked.Add(2 * time.Second), Reason: "over since"},
	}}
	var out bytes.Buffer
	printReport(&out, console.Report{Cluster: "etcd", At: looked.Add(4 * time.Second), Observation: o})
	want := "host b is paused until 14:05 UTC (in 23m): new kernel, by root@shell\nhost c is paused until 2026-11-22 09:41 UTC (in 20h0m): moved\n"
	if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "host d") || strings.Contains(got, "host e") {
		t.Errorf("%q is not in, or more is in:\n%s", want, got)
	}
	for _, s := range []string{"may be taken down", "is to be paused"} {
		if strings.Contains(out.String(), s) {
			t.Errorf("nobody waits for a word, and it says %q:\n%s", s, out.String())
		}
	}
	members := listed(cluster.Roster{Seats: []cluster.Seat{{HostID: "a"}, {HostID: "b"}}}, o.Pauses()...)
	if members[0].Paused != nil || members[1].Paused == nil || members[1].Paused.Reason != "new kernel" {
		t.Errorf("%+v", members)
	}
	out.Reset()
	printPauses(&out, &cluster.Observation{At: looked, PausesUnread: "no answer"}, looked)
	if !strings.Contains(out.String(), "is not known: no answer") {
		t.Error(out.String())
	}
}

// Whether a host may go is the host's own word, beside voters that are up.
func TestWhetherAHostMayGo(t *testing.T) {
	p := cluster.Pause{ID: "p1", Host: "b", For: time.Hour, Reason: "kernel"}
	see := func(change func(*cluster.Observation)) *cluster.Observation {
		o := &cluster.Observation{At: time.Now(), Fence: cluster.Fence{Number: 1, Host: "a"}, Paused: []cluster.Pause{p}}
		view := &cluster.MemberView{Cluster: 7, Linearizable: true}
		for i, id := range []cluster.HostID{"a", "b", "c"} {
			m := cluster.MemberID(i + 1)
			view.Members = append(view.Members, cluster.Member{ID: m, Name: string(id)})
			h := cluster.HostReport{UnderFence: true}
			h.Host, h.Promised, h.View = id, o.Fence, view
			h.Local = cluster.LocalMember{State: cluster.MemberStarted, Cluster: 7, Member: m, HasData: true}
			h.Process = cluster.Process{State: cluster.ProcessRunning, PID: 1}
			h.Status = &cluster.MemberStatus{Member: m, Cluster: 7, Leader: 1, Healthy: true}
			o.Hosts = append(o.Hosts, h)
		}
		if change != nil {
			change(o)
		}
		return o
	}
	grant := func(o *cluster.Observation) { o.Hosts[1].Paused = []cluster.Pause{p} }
	for name, c := range map[string]struct {
		change func(*cluster.Observation)
		goes   bool
		why    string
		off    bool
	}{
		"asked":                {nil, false, "under way", false},
		"granted":              {grant, true, "", false},
		"by another pause":     {func(o *cluster.Observation) { o.Hosts[1].Paused = []cluster.Pause{{ID: "p2"}} }, false, "under way", false},
		"beside one that fell": {func(o *cluster.Observation) { grant(o); o.Hosts[2].Status.Healthy = false }, false, "voter c is not up", false},
		"it does not answer":   {func(o *cluster.Observation) { o.Hosts = append(o.Hosts[:1:1], o.Hosts[2]) }, false, "", true},
		"it carries no member": {func(o *cluster.Observation) {
			o.Hosts[0].View.Members = o.Hosts[0].View.Members[:1]
			o.Hosts[1].Local = cluster.LocalMember{}
		}, true, "", false},
	} {
		o := see(c.change)
		if goes, why, off := mayGo(o, p); goes != c.goes || off != c.off || !strings.Contains(why, c.why) || c.why == "" && why != "" {
			t.Errorf("%s: %t %q %t", name, goes, why, off)
		}
	}
}

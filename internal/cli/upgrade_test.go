package cli

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/path"
)

// What is asked of upgrade has to be one thing, and a way that is not there is
// no wish.
func TestUpgradeWords(t *testing.T) {
	for _, args := range [][]string{
		{"upgrade"}, {"upgrade", "3.7.3", "--resume"}, {"upgrade", "--resume", "--rollback"}, {"upgrade", "--rollback", "--pause-before-last"},
		{"upgrade", "three"}, {"upgrade", "3.8"}, {"upgrade", "3"}, {"upgrade", "3.7", "--resume"}, {"upgrade", "3.7.3", "3.6.16"}, {"upgrade", "--resume", "--dry-run"},
	} {
		if s := etcdadm(t, args...); s.code != ExitUsage || !strings.Contains(s.errs, "hint") {
			t.Errorf("%v: exit %d, %s", args, s.code, s.errs)
		}
	}
	for _, args := range [][]string{{"--resume"}, {"--rollback"}, {"--rollback", "--dry-run"}, {"3.7.3", "--pause-before-last"}, {"3.7.3", "--accept-loss=x"}} {
		if s := etcdadm(t, append([]string{"upgrade", "--store", "file://" + t.TempDir(), "--endpoint=127.0.0.1:1"}, args...)...); s.code == ExitOK || strings.Contains(s.errs, "say one thing") {
			t.Errorf("%v: exit %d, %s", args, s.code, s.errs)
		}
	}
}

// A line is its newest patch, and people are told which that is.
func TestUpgradeToALine(t *testing.T) {
	a := &answering{report: healthyReport()}
	for i := range a.report.Observation.Hosts {
		a.report.Observation.Hosts[i].Releases = []cluster.Version{cluster.MustVersion("3.6.15"), cluster.MustVersion("3.6.16")}
	}
	a.report.Observation.Hosts[1].Releases = append(a.report.Observation.Hosts[1].Releases, cluster.MustVersion("3.6.99"))
	s := etcdadm(t, "upgrade", "3.6", "--dry-run", "--endpoint="+a.serve(t, "test", "a"), "--cluster-name=test")
	for _, want := range []string{"3.6 means etcd 3.6.99", "every host has is 3.6.16"} {
		if !strings.Contains(s.errs, want) {
			t.Errorf("without %q: %d %s%s", want, s.code, s.out, s.errs)
		}
	}
	if s.code != ExitUnsafe || !strings.Contains(s.out, "3.6.99") {
		t.Errorf("%d %s%s", s.code, s.out, s.errs)
	}
}

func TestRollbackTo(t *testing.T) {
	o := &cluster.Observation{}
	if _, err := rollbackTo(o); err == nil {
		t.Error("a cluster that nobody sees has a way back")
	}
}

// A second word for the same version: what the leader says before it has read it is
// about the first.
func TestUpgradeHeard(t *testing.T) {
	to := cluster.MustVersion("3.2.24")
	now := time.Now()
	first, second := cluster.Consent(to, now), cluster.Consent(to, now.Add(time.Second))
	spec := &cluster.Spec{EtcdVersion: to, AcceptOutage: first}
	if u := (&upgrade{word: second, outage: true}); u.heard(spec, to) {
		t.Error("the word before was taken for this one")
	}
	if u := (&upgrade{word: first, outage: true}); !u.heard(spec, to) {
		t.Error("the word was not heard")
	}
	if u := new(upgrade); !u.heard(spec, to) || u.heard(nil, to) || u.heard(spec, cluster.MustVersion("3.3.27")) {
		t.Error("without a word the version tells")
	}
}

// Key by key nobody knows how long it takes before it was tried out.
func TestUnreadyTellsTheOutage(t *testing.T) {
	p := path.Path{Hops: []path.Hop{{Kind: path.Logical, Why: "why"}}}
	if said := unready(p, false); !strings.Contains(said, "as long as every key is copied") || strings.Contains(said, "0s") {
		t.Error(said)
	}
	p.Hops[0].Kind, p.Hops[0].Outage = path.Physical, 7*time.Second
	if said := unready(p, false); !strings.Contains(said, "about 7s") {
		t.Error(said)
	}
}

// Before the leading daemon has told what the members run nobody says that they do not
// run what is asked for: mostly they do, where the change was made before.
func TestUpgradeOfAFinishedClusterIsNotDoubted(t *testing.T) {
	var said strings.Builder
	u := &upgrade{queue: queue{wait: 10 * time.Millisecond}}
	u.queue.reach = reach{endpoints: []string{"127.0.0.1:1"}, clusterName: "test", output: "table"}
	err := u.follow(t.Context(), cluster.Version{Major: 3, Minor: 7, Patch: 3}, &said)
	if err == nil || strings.Contains(said.String()+err.Error(), "not every member runs") || !strings.Contains(said.String(), "has not told yet whether every member runs etcd 3.7.3") {
		t.Errorf("%q, %v", said.String(), err)
	}
}

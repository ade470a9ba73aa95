package manager

import (
	"reflect"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

// Whom a host trusts is told as soon as it changes, also where no decision changes with it; what its member was started with is
// told while that runs.
func TestToldTrusts(t *testing.T) {
	authorities := func(leaf string, trusts ...string) *cluster.HostAuthorities {
		return &cluster.HostAuthorities{All: []cluster.HostAuthority{
			{Name: "etcd-manager-ca", Trusts: []string{"m"}, Leaves: []string{"m"}},
			{Name: "etcd-peers-ca", Trusts: trusts, Leaves: []string{leaf}},
		}}
	}
	h, silent := cluster.HostReport{}, cluster.HostReport{}
	h.Host, h.Authorities, h.Process = "a", authorities("old", "old"), cluster.Process{State: cluster.ProcessRunning, Trusts: []string{"old"}}
	told := toldTrusts{}
	news := func() bool { return told.news(&cluster.Observation{Hosts: []cluster.HostReport{h, silent}}) }
	if !news() || news() {
		t.Error("the first word is news once")
	}
	want := &control.TrustStatus{Daemon: []string{"m", "old"}, Member: []string{"old"}, Signed: []string{"m", "old"}}
	if got := trustOf(&h); !reflect.DeepEqual(got, want) {
		t.Errorf("told is %+v", got)
	}
	for what, change := range map[string]func(){
		"the daemon trusts another one": func() { h.Authorities = authorities("old", "new", "old") },
		"the member was restarted":      func() { h.Process.Trusts = []string{"new", "old"} },
	} {
		if change(); !news() || news() {
			t.Errorf("%s: that is news once", what)
		}
	}
	if h.Authorities = authorities("new", "new", "old"); !news() || news() {
		t.Error("another one signed: that is news once")
	}
	if h.Process.State = cluster.ProcessStopped; !news() || trustOf(&h).Member != nil {
		t.Error("a member that does not run was started with nothing")
	}
	if got := trustOf(&silent); got != nil {
		t.Errorf("a host that does not tell trusts %+v", got)
	}
}

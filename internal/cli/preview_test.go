package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
)

// What a restore gives up is told as it is at that moment: the revision that is read
// through raft, not the one of the leader's last look; and the backups that are newer.
func TestRestorePreview(t *testing.T) {
	_, url := aStore(t)
	all := []listedBackup{}
	if err := json.Unmarshal([]byte(etcdadm(t, "backup", "list", "--store", url, "-o", "json").must(t)), &all); err != nil || len(all) < 2 {
		t.Fatalf("%d backups, %v", len(all), err)
	}
	newest, oldest := all[0], all[len(all)-1]
	in := &cluster.Intent{Generation: 1, Cluster: 7, State: cluster.IntentFounded}
	a, b := &answering{served: console.Served{Host: "a", Cluster: 7, Revision: 5000}}, &answering{served: console.Served{Host: "b", Cluster: 7, Revision: 5004}}
	other := &answering{served: console.Served{Host: "x", Cluster: 8, Revision: 9000}}
	at := a.serve(t, "test", "a")
	a.report = console.Report{Cluster: "test", Host: "a", Leader: "a", Leading: true, Observation: &cluster.Observation{At: time.Now(), Store: cluster.StoreView{Intent: in}}, Contacts: []cluster.Contact{
		{Host: "a", Endpoint: at}, {Host: "b", Endpoint: b.serve(t, "test", "b")}, {Host: "x", Endpoint: other.serve(t, "test", "x")}, {Host: "c", Endpoint: "127.0.0.1:1"},
	}}
	preview := func(words ...string) string {
		s := etcdadm(t, append(append([]string{"restore"}, words...), "--store", url, "--endpoint="+at, "--cluster-name=test")...)
		if s.code != ExitUnsafe || !strings.Contains(s.errs, "nothing was queued") {
			t.Errorf("%q: %+v", words, s)
		}
		return s.errs
	}
	said := preview(oldest.Name)
	for _, want := range []string{
		"REVISION", "KEYS", oldest.Name, newest.Name, fmt.Sprintf("NEWER BACKUPS: %d", len(all)-1), "revision 5004, read through raft just now on host b",
		"if kube-apiserver runs on this cluster", "--encryption-provider-config",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in:\n%s", want, said)
		}
	}
	if said = preview(newest.Name); !strings.Contains(said, "no backup is newer") || strings.Contains(said, oldest.Name) {
		t.Errorf("of the newest it says:\n%s", said)
	}
	a.served.Revision, b.served.Revision = 5010, 0 // at that moment
	if said = preview("--undo", "--from", "c", "--dir", "was"); !strings.Contains(said, "revision 5010, read through raft just now on host a") || strings.Contains(said, "wipe") {
		t.Errorf("of an undo it says:\n%s", said)
	}
	var out strings.Builder
	givenUp{what: "x", revision: 4711}.print(&out, a.report.Observation, console.Served{Host: "a", Revision: 4811})
	givenUp{what: "x", revision: 4711, atLeast: true}.print(&out, a.report.Observation, console.Served{Host: "a", Revision: 4811})
	if said := out.String(); !strings.Contains(said, "is 100 after the backup's\n") || !strings.Contains(said, "is 100 after the backup's at most\n") {
		t.Errorf("it says:\n%s", said)
	}
}

// A restore of a cluster that serves is warned of: by its voters, as the leading daemon saw them.
func TestRestoreOfAClusterThatServes(t *testing.T) {
	for want, change := range map[string]func(*cluster.Observation){
		"THE CLUSTER IS HEALTHY: 3 of 3 voters are up.":     func(*cluster.Observation) {},
		"THE CLUSTER HAS ITS QUORUM: 2 of 3 voters are up.": func(o *cluster.Observation) { sick(o, 1) },
		"": func(o *cluster.Observation) { sick(o, 1, 2) },
	} {
		o := healthyReport().Observation
		change(o)
		if said := serves(o); !strings.HasPrefix(said, want) || (want == "") != (said == "") {
			t.Errorf("%q, want %q", said, want)
		}
	}
	if said := serves(nil); said != "" {
		t.Errorf("of a cluster that was not asked: %q", said)
	}
}

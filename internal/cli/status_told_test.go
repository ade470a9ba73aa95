package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/tables"
)

// With a store that is named no daemon is asked; one in the environment changes nothing.
func TestStatusOfAStore(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "")
	dir := t.TempDir()
	store, err := file.Open(t.Context(), dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url := "file://" + dir
	if code, _, errs := runEtcdadm("status", "--store="+url); code != ExitNoCluster || !strings.Contains(errs, "no daemon has written a status into this store") {
		t.Errorf("of nothing: %d %s", code, errs)
	}
	s := control.Status{Cluster: "etcd", Leader: "b", At: time.Now(), Spec: &cluster.Spec{MemberCount: 1}, Members: []control.MemberStatus{{Host: "a", Member: 1, Up: true}}}
	write := func() {
		t.Helper()
		if err := control.New(store, "").WriteStatus(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	write()
	code, out, errs := runEtcdadm("status", "--control-store="+url)
	if code != ExitOK || !strings.Contains(out, "cluster etcd, its daemons led by host b") || errs != "" {
		t.Errorf("%d %s%s", code, out, errs)
	}
	var read toldJSON
	code, out, _ = runEtcdadm("status", "--store="+url, "-o", "json")
	if err := json.Unmarshal([]byte(out), &read); err != nil || code != ExitOK || !read.Healthy || read.Health != console.Well || read.Told.Leader != "b" {
		t.Errorf("%d %v %s", code, err, out)
	}
	s.Members[0].Up, s.Reason, s.Rule = false, "quorum lost", "no-quorum"
	write()
	if code, out, _ := runEtcdadm("plan", "--store="+url); code != ExitOK || out != "quorum lost  (rule no-quorum)\n" {
		t.Errorf("plan: %d %s", code, out)
	}
	if code, _, _ := runEtcdadm("status", "--store="+url); code != ExitNoQuorum {
		t.Errorf("without a quorum it ends with %d", code)
	}
	t.Setenv("ETCDADM_STORE", url)
	if code, out, _ := runEtcdadm("status", "--endpoint=127.0.0.1:1", "--cluster-name=test"); code != ExitNoCluster || out != "" {
		t.Errorf("a daemon was named, and it ends with %d %s", code, out)
	}
	if code, _, errs := runEtcdadm("status", "--store="+url, "--watch"); code != ExitUsage {
		t.Errorf("--watch: %d %s", code, errs)
	}
}

// The codes of status are those of the table.
func TestCodesOfStatus(t *testing.T) {
	for health, want := range map[console.Health]int{console.Well: ExitOK, console.Degraded: ExitDegraded, console.NoQuorum: ExitNoQuorum, console.Unknown: ExitNotLeader} {
		if tables.ExitCodes[health] != want {
			t.Errorf("%s: %d, want %d", health, tables.ExitCodes[health], want)
		}
	}
}

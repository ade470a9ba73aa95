package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/setup"
)

// What the daemon of a data directory tells of its host is on one screen.
func TestInfoOfADaemon(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "")
	a := &answering{report: healthyReport()}
	a.report.Build = "9.9.9"
	a.report.Certificates = []console.Certificate{{Name: "later", NotAfter: time.Now().Add(90 * 24 * time.Hour)}, {Name: "ended", NotAfter: time.Now().Add(-time.Hour)}}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etcdadm"), 0o700); err != nil {
		t.Fatal(err)
	}
	access := console.Access{Cluster: "test", Endpoints: []string{a.serve(t, "test", "a")}, Etcd: console.EtcdAccess{Endpoints: []string{"https://a:2379"}}}
	if err := access.Write(filepath.Join(dir, "etcdadm")); err != nil {
		t.Fatal(err)
	}
	root := "--root=" + t.TempDir()
	code, out, errs := runEtcdadm("info", "--data-dir", dir, root)
	for _, want := range []string{"test", "answers, release 9.9.9, leads the daemons", "healthy, member 1, voter, etcd 3.6.16", "https://a:2379", dir, "1 set aside", "HAS ENDED", "in 89 days"} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q: %d %s%s", want, code, out, errs)
		}
	}
	if strings.Index(out, "certificate ended") > strings.Index(out, "certificate later") {
		t.Errorf("the first to end is not the first: %s", out)
	}
	var i setup.Info
	code, out, errs = runEtcdadm("info", "--data-dir", dir, root, "-o", "json")
	if err := json.Unmarshal([]byte(out), &i); code != ExitOK || err != nil || i.Host != "a" || !i.Agent.Answers || i.Etcd.Role != "voter" || len(i.Certificates) != 2 {
		t.Errorf("%d %v %s%s", code, err, out, errs)
	}
	if code, _, errs := runEtcdadm("info", root); code != ExitNoCluster || !strings.Contains(errs, "etcdadm init") {
		t.Errorf("of no host: %d %s", code, errs)
	}
}

package adoption_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/control"
)

// Flags are read as etcd reads them, and no secret is shown.
func TestParseFlags(t *testing.T) {
	got := fmt.Sprint(adoption.ParseFlags(
		[]string{"etcd", "--name", "a", "-snapshot-count=5", "--client-cert-auth", "--listen-metrics-urls=http://127.0.0.1:2381", "--snapshot-count=7",
			"--discovery-password=hunter2", "--discovery-user", "-hunter2", "--discovery=https://d.example/hunter2", "--discovery-srv=s.example",
			"--distributed-tracing-address=user:hunter2@host:1", "--cors=a b", "--auth-token=jwt,priv-key=/k"},
		[]string{"PATH=/bin", "ETCD_SNAPSHOT_COUNT=9", "ETCD_HEARTBEAT_INTERVAL=200", "ETCD_ROOT_PASSWORD=hunter2", "ETCD_VERSION=v3.5.0", "ETCD_DEBUG=",
			"ETCD_DISCOVERY_USER=hunter3", "ETCD_DISCOVERY_TOKEN=hunter2", "ETCD_ROOT_PASS=hunter2", "ETCD_S3_ACCESS_KEY=hunter2", "ETCD_HOOK=https://h/hunter2", "ETCD_auth_token=hunter2"}))
	if want := "[--auth-token=jwt,priv-key=/k --client-cert-auth --cors='a b' --discovery=… (not shown) --discovery-password=… (not shown) --discovery-srv=s.example " +
		"ETCD_DISCOVERY_TOKEN=… (not shown) --discovery-user=… (not shown) --distributed-tracing-address=… (not shown) ETCD_HEARTBEAT_INTERVAL=200 ETCD_HOOK=… (not shown) " +
		"--listen-metrics-urls=http://127.0.0.1:2381 --name=a ETCD_ROOT_PASS=… (not shown) ETCD_S3_ACCESS_KEY=… (not shown) --snapshot-count=7]"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if adoption.ParseFlags([]string{"etcd"}, nil) == nil {
		t.Error("an etcd without flags is taken for one that nobody could look at")
	}
}

// keepsNoSecret adopts an etcd whose settings have secrets in them: none is in what is
// printed, nor in a file.
func keepsNoSecret(t *testing.T, r adoption.Request, folder *control.Folder) {
	t.Helper()
	r.Flags = adoption.ParseFlags([]string{
		"etcd", "--discovery-password=hunter2", "--discovery-user", "hunter2", "--listen-metrics-urls=http://u:hunter2@127.0.0.1:2381",
		"--distributed-tracing-address=u:hunter2@host:1", "--listen-client-urls=https://u:hunter2@host:1", "--cors=a b", "--snapshot-count=5000",
	}, []string{"ETCD_ROOT_PASS=hunter2", "ETCD_CLUSTER_TOKEN=hunter2", "ETCD_S3_ACCESS_KEY=hunter2"})
	p, err := adoption.Look(t.Context(), r, folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{
		"--discovery-password=… (not shown); our daemon has no such setting", "ETCD_ROOT_PASS=… (not shown); our daemon has no such setting",
		"--listen-metrics-urls=… (not shown); to keep it, start our daemon", "--cors='a b'; ", "etcdadm config set cors='a b'",
		"etcdadm config set distributed-tracing-address=VALUE", "--snapshot-count=5000; ", "etcdadm config set snapshot-count=5000",
	} {
		if !has(p.Kept.LeftOut, words) {
			t.Errorf("there is no %q in\n%s", words, strings.Join(p.Kept.LeftOut, "\n"))
		}
	}
	if said := fmt.Sprintf("%+v %+v %+v %+v", p.Facts, p.Steps, p.Missing, p.Kept); strings.Contains(said, "hunter2") {
		t.Errorf("it says %s", said)
	}
	if err := p.Prepare(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	kept := false
	err = filepath.WalkDir(r.DataDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		kept = kept || strings.Contains(string(content), "snapshot-count=5000")
		if strings.Contains(string(content), "hunter2") {
			t.Errorf("%s holds %s", path, content)
		}
		return err
	})
	if err != nil || !kept {
		t.Errorf("its settings are kept: %t, %v", kept, err)
	}
}

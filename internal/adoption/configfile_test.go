package adoption_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/testetcd"
)

// The file's settings are read as those of flags: sections, lists, durations in
// nanoseconds, and no secret is shown.
func TestParseConfigFile(t *testing.T) {
	got, err := adoption.ParseConfigFile("/etc/etcd.yml", []byte(`
name: a
wal-dir:
Quota-Backend-Bytes: 6442450944
max-request-bytes: 2097152
auto-compaction-retention: "8"
grpc-keepalive-interval: 7200000000000
experimental-snapshot-catch-up-entries: 500
cipher-suites: [TLS_A, TLS_B]
log-outputs: [stderr]
strict-reconfig-check: false
feature-gates: InitialCorruptCheck=true
discovery: https://d.example/hunter2
of-another-program: hunter2
client-transport-security: {cert-file: /c, client-cert-auth: true, allowed-hostname: [h]}
peer-transport-security:
  key-file: /k
  allowed-cn: [k, m]
  skip-client-san-verification: true
socket-options: {reuse-port: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := "auto-compaction-retention=8 cert-file=/c cipher-suites=TLS_A,TLS_B client-cert-allowed-hostname=h client-cert-auth=true --config-file=/etc/etcd.yml " +
		"discovery=… (not shown) experimental-snapshot-catchup-entries=500 feature-gates=InitialCorruptCheck=true grpc-keepalive-interval=2h0m0s " +
		"log-outputs=stderr max-request-bytes=2097152 name=a of-another-program=… (not shown) peer-cert-allowed-cn=k,m peer-key-file=/k " +
		"peer-skip-client-san-verification=true quota-backend-bytes=6442450944 socket-reuse-port=true strict-reconfig-check=false"
	var said []string
	for _, f := range got {
		said = append(said, strings.TrimPrefix(f.String(), "/etc/etcd.yml "))
	}
	if strings.Join(said, " ") != want {
		t.Errorf("got %s\nwant %s", said, want)
	}
	for _, bad := range []string{"a: [", "- a\n- b\n"} {
		if got, err := adoption.ParseConfigFile("f", []byte(bad)); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

// A running etcd with a file ignores its flags and variables, so none of them is a setting
// that could be kept.
func TestRunningEtcdWithAConfigFile(t *testing.T) {
	r := testetcd.Binary(t, testetcd.V36)
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "etcd.yml")
	url := func() string { return fmt.Sprintf("http://127.0.0.1:%d", testetcd.FreePort(t)) }
	peer, client := url(), url()
	text := fmt.Sprintf("name: a\ndata-dir: %s\nlisten-peer-urls: %s\ninitial-advertise-peer-urls: %s\nlisten-client-urls: %s\nadvertise-client-urls: %s\n"+
		"initial-cluster: a=%s\nmax-request-bytes: 2097152\nquota-backend-bytes: 6442450944\n", data, peer, peer, client, client, peer)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]func(*exec.Cmd){
		"flag, by a path of its own": func(c *exec.Cmd) { c.Args = append(c.Args, "--config-file=etcd.yml", "--max-wals=7"); c.Dir = dir },
		"variable":                   func(c *exec.Cmd) { c.Env = append(c.Env, "ETCD_CONFIG_FILE="+file) },
	} {
		cmd := exec.Command(r.Etcd)
		cmd.Env = []string{"ETCD_QUOTA_BACKEND_BYTES=3221225472", "ETCD_SNAPSHOT_COUNT=5"}
		start(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		end := func() { _ = cmd.Process.Kill(); <-ended }
		t.Cleanup(end)
		var held error
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if held = runtime.CheckUnlocked(data); held != nil && strings.Contains(fmt.Sprint(held), "process") {
				break
			}
		}
		flags, err := adoption.FlagsOf(held)
		said := fmt.Sprint(flags)
		if err != nil || !strings.Contains(said, "max-request-bytes=2097152") || !strings.Contains(said, "quota-backend-bytes=6442450944") ||
			strings.Contains(said, "ETCD_") || strings.Contains(said, "max-wals") {
			t.Errorf("%s: %s, %v (held: %v)", name, said, err, held)
		}
		if err := os.Rename(file, file+".away"); err != nil {
			t.Fatal(err)
		}
		if flags, err := adoption.FlagsOf(held); err == nil || flags != nil || !strings.Contains(err.Error(), "etcd.yml alone") {
			t.Errorf("%s: without the file %v, %v", name, flags, err)
		}
		if err := os.Rename(file+".away", file); err != nil {
			t.Fatal(err)
		}
		end()
	}
}

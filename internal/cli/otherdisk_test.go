package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/runtime"
)

// On an image of another machine, whose daemon was never started here, the other machine is
// not asked: what lies on the disk is said. A daemon that runs on it is asked wherever it is.
func TestStatusOnAnImage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	state := filepath.Join(dir, "etcdadm")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lives := func(endpoint string) {
		t.Helper()
		access, err := json.Marshal(console.Access{Cluster: "theirs", Endpoints: []string{endpoint}})
		if err != nil {
			t.Fatal(err)
		}
		write("etcdadm/access.json", string(access))
	}
	write("myid", "their-host\n")
	status := func(words ...string) (string, time.Duration) {
		t.Helper()
		var out, errs bytes.Buffer
		self := func() (string, []string) { return "/proc/self/exe", nil }
		began := time.Now()
		if code := Main(append([]string{"status", "--data-dir", dir}, words...), Program("3.7.3", self, self), &out, &errs); code != ExitNoCluster {
			t.Errorf("exit code %d", code)
		}
		return out.String() + errs.String(), time.Since(began)
	}
	lives("192.0.2.7:8000") // TEST-NET-1: nobody's
	said, took := status()
	for _, w := range []string{"their-host", `"theirs"`, "192.0.2.7", "nobody was asked", "mv " + dir + " " + dir + ".aside", "etcdadm status --endpoint 192.0.2.7:8000 --cluster-name theirs"} {
		if !strings.Contains(said, w) {
			t.Errorf("%q is not in:\n%s", w, said)
		}
	}
	if took > askTimeout/2 {
		t.Errorf("it took %s: somebody was asked", took)
	}

	if mv, start := strings.Index(said, "mv "), strings.Index(said, "start its daemon"); mv < start {
		t.Errorf("what is safe comes first:\n%s", said)
	}

	// A floating address or one behind a NAT: a daemon of that cluster was started here.
	if err := console.KeepRefusal(dir, console.Refusal{At: time.Now(), Cluster: "theirs", Why: "the certificate has ended", Hint: "renew it"}); err != nil {
		t.Fatal(err)
	}
	if said, _ := status(); !strings.Contains(said, "the certificate has ended") || !strings.Contains(said, "renew it") || strings.Contains(said, "mv ") {
		t.Errorf("why its daemon does not run is not said:\n%s", said)
	}
	if said, _ := status("--cluster-name", "ours"); !strings.Contains(said, "nobody was asked") {
		t.Errorf("another cluster was named:\n%s", said)
	}
	if err := console.DropRefusal(dir); err != nil {
		t.Fatal(err)
	}

	lock, err := runtime.LockStateDir(state)
	if err != nil {
		t.Fatal(err)
	}
	if said, _ := status(); strings.Contains(said, "nobody was asked") {
		t.Errorf("the daemon that runs here was not asked:\n%s", said)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	lives("127.0.0.1:1")
	if said, _ := status(); strings.Contains(said, "nobody was asked") {
		t.Errorf("this machine's own daemon was not asked:\n%s", said)
	}
	if said, _ := status("--cluster-name", "ours"); !strings.Contains(said, "nobody was asked") || !strings.Contains(said, `"theirs"`) {
		t.Errorf("another cluster was named:\n%s", said)
	}
}

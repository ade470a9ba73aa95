package cli

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/daemon"
)

// On an image of another cluster's machine nobody of that cluster is asked anything: the
// daemon of this host said why it does not start, and so does status.
func TestStatusOfARefusedStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(filepath.Join(dir, "etcdadm"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var asked atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			c.Close()
		}
	}()
	access, _ := json.Marshal(console.Access{Cluster: "theirs", Endpoints: []string{l.Addr().String()}})
	if err := os.WriteFile(filepath.Join(dir, "etcdadm", "access.json"), access, 0o600); err != nil {
		t.Fatal(err)
	}
	status := func() string {
		t.Helper()
		var out, errs bytes.Buffer
		self := func() (string, []string) { return "/proc/self/exe", nil }
		if code := Main([]string{"status", "--data-dir", dir}, Program("3.7.3", self, self), &out, &errs); code != ExitNoCluster {
			t.Errorf("exit code %d", code)
		}
		return out.String() + errs.String()
	}
	keep := func(name string) {
		t.Helper()
		refused := console.Refusal{At: time.Now(), Cluster: name, Why: "the data directory belongs to another", Hint: "give it an empty one"}
		if err := console.KeepRefusal(dir, refused); err != nil {
			t.Fatal(err)
		}
	}
	keep("ours")
	if said := status(); asked.Load() != 0 || !strings.Contains(said, "the data directory belongs to another") || !strings.Contains(said, "give it an empty one") {
		t.Errorf("%d asked; it is said:\n%s", asked.Load(), said)
	}
	keep("theirs")
	if said := status(); asked.Load() == 0 || !strings.Contains(said, "the data directory belongs to another") {
		t.Errorf("the others of one cluster are asked; %d were, and it is said:\n%s", asked.Load(), said)
	}
	if err := console.DropRefusal(dir); err != nil {
		t.Fatal(err)
	}
	if said := status(); strings.Contains(said, "belongs to another") {
		t.Errorf("a start since then is forgotten:\n%s", said)
	}
}

// A flag that is refused is kept, too; not for a data directory that nobody named.
func TestRefusedFlagIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var out, errs bytes.Buffer
	if code := ManagerMain([]string{"--data-dir=" + dir, "--cluster-name=c", "--backup-store=file:///s", "--on-sigterm=go"}, daemon.Program{}, &out, &errs); code != ExitUsage {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	if r := console.ReadRefusal(dir); r == nil || r.Cluster != "c" || !strings.Contains(r.Why, "--on-sigterm=go") || r.Hint == "" {
		t.Errorf("kept is %+v", r)
	}
}

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/cluster"
)

// specStore is a store with a spec and the settings beside it.
func specStore(t *testing.T, version, settings string) (url, file string) {
	t.Helper()
	dir := t.TempDir()
	control := filepath.Join(dir, "control")
	if err := os.MkdirAll(control, 0o700); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(control, "etcd-cluster-spec-etcdadm.json")
	for path, text := range map[string]string{
		filepath.Join(control, "etcd-cluster-spec"): `{"memberCount":3,"etcdVersion":"` + version + `"}`, file: settings,
	} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir, file
}

func TestConfigWords(t *testing.T) {
	for _, args := range [][]string{
		{"config", "set"}, {"config", "unset"}, {"config", "set", "quota-backend-bytes"}, {"config", "set", "=1"},
		{"config", "unset", "quota-backend-bytes=1"}, {"config", "set", "snapshot-count=1", "snapshot-count=2"}, {"config", "list", "x"},
		{"config", "set", "snapshot-count=1"}, {"config", "set", "snapshot-count=1", "--store", "file:///x", "--wait", "1s"},
	} {
		if s := etcdadm(t, args...); s.code != ExitUsage || !strings.Contains(s.errs, "hint") {
			t.Errorf("%v: exit %d, %s", args, s.code, s.errs)
		}
	}
	if s := etcdadm(t, "config", "list"); s.code != ExitOK || !strings.Contains(s.out, "quota-backend-bytes") || strings.Contains(s.out, "force-new-cluster") {
		t.Errorf("list: exit %d, %s %s", s.code, s.out, s.errs)
	}
}

// Options are set and unset in the store, everything else is left alone, and what
// is refused is refused in a sentence that says what may be meant.
func TestConfigInTheStore(t *testing.T) {
	url, file := specStore(t, "3.6.16", `{"deadAfter":"5m","color":{"of":"later"},"options":{"experimental-compaction-batch-limit":"500"}}`)
	run := func(want int, part string, args ...string) {
		t.Helper()
		s := etcdadm(t, append(append([]string{"config"}, args...), "--store", url)...)
		if s.code != want || !strings.Contains(s.out+s.errs, part) {
			t.Errorf("%v: exit %d, want %d and %q\n%s%s", args, s.code, want, part, s.out, s.errs)
		}
	}
	content := func() string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := content()
	run(ExitOK, "quota-backend-bytes: 8GiB (was etcd's default)\n  while members differ: the smallest quota", "set", "quota-backend-bytes=8GiB", "--dry-run")
	run(ExitUnsafe, "is snapshot-count meant?", "set", "snapshot-coumt=5")
	run(ExitUnsafe, "ETCD_LEASE_SPEED", "set", "lease-speed=5")
	run(ExitUnsafe, "it drops acknowledged writes", "set", "force-new-cluster=true")
	run(ExitUnsafe, "it takes a size", "set", "quota-backend-bytes=8GiB", "max-request-bytes=much")
	run(ExitUnsafe, "etcd 3.6.16 has no feature gate FastLeaseKeepAlive", "set", "feature-gates=FastLeaseKeepAlive=true")
	run(ExitUnsafe, "five times the heartbeat", "set", "heartbeat-interval=300")
	if content() != before {
		t.Fatalf("it was written: %s", content())
	}
	run(ExitOK, "compaction-batch-limit: 1000", "set", "experimental-compaction-batch-limit=1000")
	if got := content(); strings.Contains(got, "experimental") || !strings.Contains(got, `"compaction-batch-limit": "1000"`) {
		t.Errorf("written: %s", got)
	}
}

// A change leaves what it does not know alone.
func TestConfigKeepsTheRest(t *testing.T) {
	url, file := specStore(t, "3.7.3", `{"color":{"of":"later"},"deadAfter":"5m","options":{"snapshot-count":"500","no-such-flag":"x"}}`)
	for _, args := range [][]string{
		{"set", "quota-backend-bytes=8GiB", "election-timeout=5000"}, {"set", "heartbeat-interval=600"}, {"unset", "snapshot-count", "nothing"},
	} {
		if s := etcdadm(t, append(append([]string{"config"}, args...), "--store", url)...); s.code != ExitOK {
			t.Fatalf("%v: exit %d, %s", args, s.code, s.errs)
		}
	}
	s := etcdadm(t, "config", "get", "--store", url)
	if want := "election-timeout=5000\nheartbeat-interval=600\nno-such-flag=x\nquota-backend-bytes=8GiB\n"; s.out != want {
		t.Errorf("%s, want %s", s.out, want)
	}
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), `"of": "later"`) || !strings.Contains(string(data), `"deadAfter": "5m"`) {
		t.Errorf("%s, %v", data, err)
	}
	// One of a pair that has to fit cannot be taken away alone.
	if s := etcdadm(t, "config", "unset", "election-timeout", "--store", url); s.code != ExitUnsafe || !strings.Contains(s.errs, "five times") {
		t.Errorf("exit %d, %s", s.code, s.errs)
	}
	if s := etcdadm(t, "config", "get", "snapshot-count", "--store", url); s.code != ExitError || !strings.Contains(s.errs, "default") {
		t.Errorf("exit %d, %s", s.code, s.errs)
	}
	if s := etcdadm(t, "config", "get", "quota-backend-bytes", "--store", url); s.out != "quota-backend-bytes=8GiB\n" {
		t.Errorf("%s %s", s.out, s.errs)
	}
}

func TestOptionPlan(t *testing.T) {
	o := &cluster.Observation{}
	p := planOptions(map[string]string{"a": "1"}, map[string]string{"feature-gates": "LeaseCheckpoint=true"}, o)
	if len(p.Changes) != 2 || p.Changes[1].Mixed == "" || p.Unseen {
		t.Errorf("%+v", p)
	}
}

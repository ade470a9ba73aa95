package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"etcdadm.io/cluster"
)

func TestMistakesOfUsage(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"frobnicate", ExitUsage, "unknown command"},
		{"member frobnicate", ExitUsage, "unknown command"},
		{"member add", ExitUsage, "etcdadm member add HOST"},
		{"member remove a b", ExitUsage, "etcdadm member remove HOST|MEMBER"},
		{"seed", ExitUsage, "etcdadm seed STORE"},
		{"status word", ExitUsage, "unknown command"},
		{"status", ExitUsage, "--data-dir"},
		{"status -o xml --data-dir /nowhere", ExitUsage, "is unknown"},
		{"status --data-dir /nowhere", ExitNoCluster, "hint:"},
		{"plan --from /nowhere/at/all", ExitUsage, "etcdadm status -o json"},
		{"playground --members 4", ExitUsage, "is even"},
		{"auto", ExitUsage, "name the STORE first"},
		{"auto --cluster-name=c file:///s", ExitUsage, "name the STORE first"},
		{"auto --help", ExitOK, "-cluster-name"},
		{"auto file:///s --help", ExitOK, "-cluster-name"},
		{"member", ExitOK, "Available Commands"},
	} {
		var out, errs bytes.Buffer
		self := func() (string, []string) { return "/proc/self/exe", nil }
		code := Main(strings.Fields(c.args), Program("3.7.3", self, self), &out, &errs)
		said := out.String() + errs.String()
		if code != c.code || !strings.Contains(said, c.want) || code != ExitOK && !strings.Contains(said, "hint:") {
			t.Errorf("%s: %d %q, want %d with %q and a hint", c.args, code, said, c.code, c.want)
		}
	}
}

// What programs read of the members is short, and words of the field.
func TestListedMembers(t *testing.T) {
	o := &cluster.Observation{Cluster: "c"}
	roster, _ := o.Roster()
	if data, err := json.Marshal(listed(roster)); err != nil || string(data) != "[]" {
		t.Fatalf("no members: %s, %v", data, err)
	}
	roster.Seats = []cluster.Seat{{HostID: "a", Up: true, RaftLeader: true}}
	data, err := json.Marshal(listed(roster))
	if err != nil || strings.Contains(string(data), `"Host`) || !strings.Contains(string(data), `"host":"a","leader":true,"up":true`) {
		t.Fatalf("%s, %v", data, err)
	}
}

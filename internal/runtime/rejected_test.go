package runtime

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Whose certificates a member rejects, in the words of etcd 3.3 to 3.6, until they are said
// no more. Who knocks with a bad one, and a peer that is off, is nobody's rejection.
func TestFollowerRejects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.log")
	f := Follow(path)
	const authority, name = "x509: certificate signed by unknown authority", "x509: certificate is valid for 127.0.0.9, not 127.0.0.1"
	lines := `{"level":"warn","msg":"rejected connection on peer endpoint","remote-addr":"127.0.0.1:4711","error":"remote error: tls: bad certificate"}
{"level":"warn","msg":"rejected connection","remote-addr":"127.0.0.1:4711","ip-addresses":["127.0.0.9"],"error":"` + name + `"}
{"level":"warn","msg":"prober detected unhealthy status","remote-peer-id":"a1","rtt":"0s","error":"dial tcp 127.0.0.1:2380: connect: connection refused"}
{"level":"warn","msg":"prober detected unhealthy status","round-tripper-name":"ROUND_TRIPPER_SNAPSHOT","remote-peer-id":"b2","rtt":"0s","error":"tls: failed to verify certificate: ` + authority + `"}
{"level":"warn","msg":"failed to get version","remote-member-id":"c3","error":"Get \"https://127.0.0.1:43383/version\": tls: failed to verify certificate: ` + name + `"}
2026-01-02 15:04:05.123456 W | rafthttp: health check for peer d4 could not connect: ` + authority + ` (prober "ROUND_TRIPPER_RAFT_MESSAGE")
`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	f.Next(now)
	want := []Rejected{{"b2", true, authority, now}, {"c3", false, name, now}, {"d4", true, authority, now}}
	if diff := cmp.Diff(want, f.Rejects(now)); diff != "" {
		t.Error(diff)
	}
	if got := f.Rejects(now.Add(RejectedLasts)); len(got) != 0 {
		t.Errorf("said no more, and still %+v", got)
	}
}

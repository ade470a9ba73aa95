package daemon

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// etcd ends when a flag and its variable are both there, which is why none is passed
// beside a flag (internal/host/etcdargs holds that against each release).
func TestEtcdEndsAtAShadowedVariable(t *testing.T) {
	// At an address of nobody (RFC 5737) it ends either way, and says of what.
	r := testetcd.Binary(t, testetcd.V36)
	cmd := exec.CommandContext(t.Context(), r.Etcd, "--snapshot-count=6", "--data-dir="+t.TempDir(),
		"--listen-peer-urls=http://203.0.113.1:2380", "--initial-advertise-peer-urls=http://203.0.113.1:2380", "--initial-cluster=default=http://203.0.113.1:2380")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "ETCD_SNAPSHOT_COUNT=5"}
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "conflicting environment variable") {
		t.Errorf("etcd takes both: %v: %.600s", err, out)
	}
}

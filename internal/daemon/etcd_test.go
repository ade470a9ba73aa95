package daemon

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// etcd ends when a flag and its variable are both there, so the variable goes.
func TestUnshadowed(t *testing.T) {
	environ := []string{"ETCD_SNAPSHOT_COUNT=5", "ETCD_MAX_WALS=3", "ETCD_SNAPSHOT=x"}
	if got := unshadowed(environ, []string{"--snapshot-count=6"}); !slices.Equal(got, environ[1:]) || len(environ) != 3 {
		t.Errorf("%q of %q", got, environ)
	}
	// At an address of nobody (RFC 5737) it ends either way, and says of what.
	r := testetcd.Binary(t, testetcd.V36)
	cmd := exec.CommandContext(t.Context(), r.Etcd, "--snapshot-count=6", "--data-dir="+t.TempDir(),
		"--listen-peer-urls=http://203.0.113.1:2380", "--initial-advertise-peer-urls=http://203.0.113.1:2380", "--initial-cluster=default=http://203.0.113.1:2380")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), environ[0]}
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "conflicting environment variable") {
		t.Errorf("etcd takes both: %v: %.600s", err, out)
	}
}

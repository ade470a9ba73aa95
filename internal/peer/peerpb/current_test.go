package peerpb

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The committed code is what the pinned generator makes of peer.proto.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the generator")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	download := exec.CommandContext(ctx, "go", "mod", "download")
	download.Dir = "gen"
	if out, err := download.CombinedOutput(); err != nil && os.Getenv("ETCDADM_TEST_OFFLINE") == "1" {
		t.Skipf("SKIPPED, the generator's modules are missing: %v\n%s", err, out)
	}
	if out, err := exec.CommandContext(ctx, "go", "run", "-C", "gen", ".", "-check").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

package rig

import (
	"os"
	"os/exec"
	"path/filepath"
)

// UnpackPredecessor puts the predecessor's store into this cluster's place.
func (c *Cluster) UnpackPredecessor() {
	c.T.Helper()
	if err := os.MkdirAll(c.Store, 0o700); err != nil {
		c.T.Fatal(err)
	}
	packed := filepath.Join("..", "..", "internal", "backupstore", "testdata", "etcd-manager-store-3.5.35.tar.gz")
	if out, err := exec.CommandContext(c.T.Context(), "tar", "-xzf", packed, "-C", c.Store, "--strip-components=1").CombinedOutput(); err != nil {
		c.T.Fatalf("unpack %s: %v: %s", packed, err, out)
	}
}

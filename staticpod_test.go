package etcdadm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program sets a machine up as a static pod by saying so, and not where a unit runs the agent.
func TestStaticPod(t *testing.T) {
	m := Machine{Program: "/usr/bin/etcdadm", Root: t.TempDir(), StaticPod: new(StaticPod)}
	c := NewCluster{Address: "127.0.0.1", Host: "a"}
	_, _, err := Init(t.Context(), m, c) // this machine has no kubelet, and the directory is missing
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "kubelet") && !strings.Contains(err.Error(), "manifests") {
		t.Errorf("%v", err)
	}
	if err := os.MkdirAll(filepath.Dir(m.Settings()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Settings(), []byte("ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=s3://b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Init(t.Context(), m, c); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "etcdadm.service") {
		t.Errorf("beside a unit: %v", err)
	}
}

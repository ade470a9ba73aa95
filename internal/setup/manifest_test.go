package setup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The manifest lists what was made here, once, and nothing that was there before.
func TestManifest(t *testing.T) {
	m, _ := fresh(t)
	if _, err := ReadManifest(m.Paths); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v", err)
	}
	copied := filepath.Join(m.Paths.PKI(), AuthorityFiles()[0])
	foreign := m.Paths.Etcdctl()
	for _, path := range []string{copied, foreign} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("somebody's"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.noteAuthorities(); err != nil {
		t.Fatal(err)
	}
	s := m.hostSettings("192.0.2.1", "a", "")
	s.setFlag("cluster-name", "etcd")
	s.setFlag("backup-store", "s3://bucket/folder")
	var first []Made
	for range 2 { // as after an interruption
		if err := run(context.Background(), m.agentSteps(s, nil)); err != nil {
			t.Fatal(err)
		}
		got, err := ReadManifest(m.Paths)
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !slices.Equal(first, got.Made) {
			t.Errorf("%v, and again %v", first, got.Made)
		}
		first = got.Made
	}
	for _, want := range []Made{
		{KindAuthority, filepath.Join(m.Paths.PKI(), AuthorityFiles()[1])}, {KindData, m.Paths.Data()}, {KindUnit, m.Paths.Unit()}, {KindSettings, m.Paths.Settings()},
	} {
		if !slices.Contains(first, want) {
			t.Errorf("%v is not listed", want)
		}
	}
	for _, not := range []Made{{KindAuthority, copied}, {KindEtcdctl, foreign}, {KindDirectory, filepath.Dir(foreign)}, {KindDirectory, m.Paths.PKI()}} {
		if slices.Contains(first, not) {
			t.Errorf("%v was there before", not)
		}
	}
	if err := os.WriteFile(m.Paths.Manifest(), []byte(`{"format":2}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadManifest(m.Paths); !errors.Is(err, ErrNewer) {
		t.Errorf("%v", err)
	}
}

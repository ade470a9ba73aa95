package setup

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/snapshot"
	"etcdadm.io/internal/testetcd"
)

// A copied database comes into the store as a snapshot with its SHA-256, where a person
// asks for it without one.
func TestFirstDataOfACopiedDatabase(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Members: 1})
	client := c.Client(t)
	if _, err := client.Put(t.Context(), "a", "1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(t.Context(), 0, 15); err != nil {
		t.Fatal(err)
	}
	o := Init{Cluster: "c", Version: cluster.MustVersion(testetcd.V36), FromBackup: filepath.Join(c.Members[0].DataDir, "member", "snap", "db")}
	m := &Machine{}
	check := m.checkSource(t.Context(), o, Settings{})
	if !strings.Contains(check.Remedy, "--without-hash checks all of its pages") {
		t.Errorf("without the flag it says %+v", check)
	}
	o.WithoutHash = true
	if check = m.checkSource(t.Context(), o, Settings{}); !strings.Contains(check.Found, "every page was checked") {
		t.Errorf("with the flag it says %+v", check)
	}
	store := memory.New()
	name, err := m.takeIn(t.Context(), o, store)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := backup.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := backupstore.New(store).Open(t.Context(), parsed, backupstore.Identities{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stored := filepath.Join(t.TempDir(), "stored")
	f, err := os.Create(stored)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, s)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err := snapshot.Verify(t.Context(), stored); err != nil || info.Keys != 1 {
		t.Errorf("the store has %+v, %v", info, err)
	}
}

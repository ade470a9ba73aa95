package machines

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/moving"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/teststore"
)

// Two machines without a store have their record moved to a bucket. What commands read of a machine names it from then on, and a machine
// that joins is given it with its credentials.
func TestJoinAfterTheRecordMoved(t *testing.T) {
	t.Parallel()
	all, _ := newMachines(t, 3)
	server := teststore.Start(t, teststore.Versitygw)
	store := rig.ObjectStore(t, server, teststore.Versitygw, "")
	first := all[0].begin(t, "")
	if _, err := all[1].tryJoin(t, first, first.Token); err != nil {
		t.Fatal(err)
	}
	all[1].voters(t, 2)
	cmd := exec.CommandContext(t.Context(), filepath.Join(rig.Programs, "etcdadm"), "store", "set", store, "--yes", "--data-dir", all[0].Paths.Data())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	settings, err := setup.ReadSettings(all[0].Paths)
	if err != nil || settings.Store() != store || settings["S3_SECRET_ACCESS_KEY"] != teststore.SecretKey {
		t.Fatalf("%v: the settings name %s", err, settings.Store())
	}
	if raw := read(t, all[0].Paths.Settings()); strings.Contains(raw, teststore.SecretKey) {
		t.Error("a person's file was changed")
	}
	made, err := setup.MakeToken(t.Context(), settings, setup.NewToken{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all[2].tryJoin(t, first, made.Token.Reveal()); err != nil {
		t.Fatal(err)
	}
	all[2].voters(t, 3)
	if joined, err := setup.ReadSettings(all[2].Paths); err != nil || joined.Store() != store || joined["S3_SECRET_ACCESS_KEY"] != teststore.SecretKey {
		t.Errorf("%v: the settings of who joined name %s", err, joined.Store())
	}
	if n, err := moving.ReadNotes(all[2].Paths.Data()); err != nil || n.Offer != nil || n.Place != nil || n.Named == nil || n.Named.Name == "" {
		t.Errorf("who joined is to know the name of the store, and no more: %+v %v", n, err)
	}
}

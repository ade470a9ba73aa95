package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/teststore"
)

// Where a daemon tells the URL of an object store, and the store then does not let the
// shell in, it is said that the daemon has settings which the shell lacks.
func TestStoreOfADaemonIsReachedWithItsSettings(t *testing.T) {
	broken := errors.New("no credentials")
	for told, want := range map[string]bool{"": false, "file:///backups": false, "s3://bucket/etcd": true} {
		err := (&backups{told: told}).elsewhere(broken)
		var f *Failure
		if !errors.Is(err, broken) || (errors.As(err, &f) && strings.Contains(f.Hint(), "--env-file")) != want {
			t.Errorf("%q: %v", told, err)
		}
	}
	if err := (&backups{told: "s3://bucket"}).elsewhere(nil); err != nil {
		t.Error(err)
	}
}

// Two stores have variables of the same names: those of the one that is copied from are in files, and nothing of the
// environment is used for it.
func TestBackupCopyFromAStoreWithVariablesOfItsOwn(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	_, near := aStore(t)
	server := teststore.Start(t, teststore.Versitygw)
	far, to := "s3://"+teststore.Bucket+"/far", filepath.Join(dir, "to")
	for name, value := range map[string]string{"S3_ENDPOINT": server.URL, "S3_ACCESS_KEY_ID": teststore.AccessKey, "S3_SECRET_ACCESS_KEY": teststore.SecretKey, "S3_REGION": teststore.Region} {
		t.Setenv(name, value)
		if err := os.WriteFile(filepath.Join(files, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(files, "..data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runEtcdadm("backup", "copy", fixtureBackup, far, "--store", near); code != ExitOK {
		t.Fatalf("%d %s", code, errs)
	}
	t.Setenv("S3_SECRET_ACCESS_KEY", "of-another-store")
	from := []string{"backup", "copy", fixtureBackup, "file://" + to, "--create-store", "--store", far}
	if code, _, errs := runEtcdadm(from...); code != ExitError || !strings.Contains(errs, "403") {
		t.Errorf("by the environment: %d %s", code, errs)
	}
	for range 2 { // it may be said again
		if code, out, errs := runEtcdadm(append(from, "--store-variables", files, "--keep-for", "1d")...); code != ExitOK || !strings.Contains(out, "copied "+fixtureBackup) {
			t.Fatalf("%d %s%s", code, out, errs)
		}
	}
	data, err := os.ReadFile(filepath.Join(to, fixtureBackup, backup.FileManifest))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := backup.ParseManifest(data); err != nil || time.Until(m.KeepUntil) < 23*time.Hour {
		t.Errorf("it is kept until %s, %v", m.KeepUntil, err)
	}
	if err := os.WriteFile(filepath.Join(files, "S3_SECRET_ACCESS_KEY"), []byte("wrong-secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runEtcdadm(append(from, "--store-variables", files)...); code != ExitError || !strings.Contains(errs, "403") || strings.Contains(errs, "wrong-secret") {
		t.Errorf("with a wrong key: %d %s", code, errs)
	}
	if code, _, errs := runEtcdadm("backup", "copy", fixtureBackup, "file://"+to, "--store-variables", filepath.Join(files, "none"), "--store", far); code != ExitUsage || !strings.Contains(errs, "--store-variables") {
		t.Errorf("without the directory: %d %s", code, errs)
	}
}

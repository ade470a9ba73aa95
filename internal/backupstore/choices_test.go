package backupstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"etcdadm.io/backup"
)

func TestChoices(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Choices{Compression: "zstd", Recipients: []string{key.Recipient().String()}}.Packing()
	if err != nil || p.Compression != backup.Zstd || len(p.Recipients.keys) != 1 {
		t.Fatalf("%+v %v", p, err)
	}
	if p, err = (Choices{}).Packing(); err != nil || p.Compression != backup.Gzip || len(p.Recipients.keys) != 0 {
		t.Fatalf("%+v %v", p, err)
	}
	for _, bad := range []Choices{{Compression: "lz4"}, {Recipients: []string{key.String()}}, {Recipients: []string{""}}} {
		if _, err := bad.Packing(); err == nil || strings.Contains(err.Error(), key.String()) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestPolicyOfTheEnvironment(t *testing.T) {
	env := map[string]string{EnvHourly: "2d", EnvDaily: "1y"}
	p, err := Choices{KeepLast: 5}.Policy(func(n string) string { return env[n] })
	want := backup.Policy{All: time.Hour, Hourly: 48 * time.Hour, Daily: 365 * 24 * time.Hour, Last: 5}
	if err != nil || p != want {
		t.Fatalf("%+v %v", p, err)
	}
	if _, err := (Choices{}).Policy(func(string) string { return "soon" }); err == nil || !strings.Contains(err.Error(), EnvHourly) {
		t.Fatal(err)
	}
	if _, err := (Choices{KeepLast: -1}).Policy(func(string) string { return "" }); err == nil {
		t.Fatal("a negative number")
	}
}

func TestDecrypts(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	c := Choices{}
	if ok, err := c.Decrypts(); ok || err != nil {
		t.Fatal(ok, err)
	}
	c.IdentityFile = filepath.Join(t.TempDir(), "key.txt")
	if ok, err := c.Decrypts(); ok || err != nil {
		t.Fatal("a file that is not there yet: ", ok, err)
	}
	if err := os.WriteFile(c.IdentityFile, []byte("rubbish "+key.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := c.Decrypts(); ok || err == nil || strings.Contains(err.Error(), key.String()) {
		t.Fatal(ok, err)
	}
	if err := os.WriteFile(c.IdentityFile, []byte("# mine\n"+key.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := c.Decrypts(); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

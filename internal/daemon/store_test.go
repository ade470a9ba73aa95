package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/control"
)

func TestMissingStoreIsMadeOnceAndNeverAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	d := &daemon{cfg: Config{ClusterName: "c", BackupStore: file.URL(dir)}, log: slog.New(slog.DiscardHandler)}
	if err := d.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatal("the store of a first start was not made:", err)
	}

	if err := os.Rename(dir, dir+"-unmounted"); err != nil {
		t.Fatal(err)
	}
	d.experienced = true
	if err := d.openStore(t.Context()); err != nil {
		t.Fatal("a store that is away keeps the daemon down:", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("an empty store was made in the place of one that is away")
	}
	if _, err := d.store.Get(t.Context(), "control/x", blob.GetOptions{}); err == nil || errors.Is(err, blob.ErrNotFound) {
		t.Fatalf("a store that is away says %v; an object that is not found would be a lie", err)
	}
	if err := os.Rename(dir+"-unmounted", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Get(t.Context(), "control/x", blob.GetOptions{}); !errors.Is(err, blob.ErrNotFound) {
		t.Fatalf("the store that came back says %v", err)
	}
}

func TestUnusableStoreKeepsAFirstStartDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := &daemon{cfg: Config{ClusterName: "c", BackupStore: file.URL(path)}, log: slog.New(slog.DiscardHandler)}
	err := d.openStore(context.Background())
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || hinted.Hint() == "" {
		t.Fatalf("%v, want an error with a hint", err)
	}
}

// What people are shown of a store's URL holds no credential.
func TestShownURL(t *testing.T) {
	for raw, want := range map[string]string{
		"file:///var/backups/etcd":                       "file:///var/backups/etcd",
		"s3://bucket/prefix?region=eu-1":                 "s3://bucket/prefix?region=eu-1",
		"s3://me:hunter2@bucket/p?access_key=a&region=x": "s3://bucket/p?region=x",
		"azblob://c/p?sig=abc&SessionToken=d":            "azblob://c/p",
		":":                                              "",
		"s3:://me:hunter2@bucket/p":                      "s3:…",
		"s3:/me:hunter2@bucket/p":                        "s3:…",
		"me:hunter2@bucket/p":                            "me:…",
		"s3://bucket/p#key=hunter2":                      "s3://bucket/p",
		"file:///var/a@b":                                "file:///var/a@b",
	} {
		if got := ShownURL(raw); got != want {
			t.Errorf("%s is shown as %s, not %s", raw, got, want)
		}
	}
}

// A store of another cluster is refused without the advice to run as that cluster's: a disk
// that was copied with a host would.
func TestStoreOfAnotherClusterIsRefusedSafely(t *testing.T) {
	dir := t.TempDir()
	store, err := file.Open(t.Context(), dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in := cluster.Intent{Name: "theirs", Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded}
	if _, err := control.New(store, "theirs").CreateIntent(t.Context(), &in); err != nil {
		t.Fatal(err)
	}
	d := &daemon{cfg: Config{ClusterName: "ours", BackupStore: file.URL(dir), DataDir: "/var/lib/etcd"}, log: slog.New(slog.DiscardHandler)}
	refused := map[string]error{"the daemon": d.openStore(t.Context())}
	p := &coprocess{o: Coprocess{ClusterName: "ours", BackupStore: file.URL(dir), ClientURLs: []string{"http://127.0.0.1:1"}}, log: d.log}
	refused["the coprocess"] = p.open(t.Context())
	for who, err := range refused {
		var hinted interface{ Hint() string }
		if !errors.As(err, &hinted) || !strings.Contains(err.Error(), "theirs") || strings.Contains(hinted.Hint(), "correct --cluster-name") || !strings.Contains(hinted.Hint(), "nly ") {
			t.Errorf("%s: %v", who, err)
			continue
		}
		if want := "mv /var/lib/etcd /var/lib/etcd.aside"; who == "the daemon" && !strings.Contains(hinted.Hint(), want) {
			t.Errorf("%q is not in %q", want, hinted.Hint())
		}
	}
}

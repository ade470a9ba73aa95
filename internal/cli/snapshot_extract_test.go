package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/testetcd"
)

// A snapshot of a member that was killed has all that it acknowledged; of one that runs none is made.
func TestSnapshotExtract(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	client := c.Client(t)
	for n := range 20 {
		if _, err := client.Put(t.Context(), fmt.Sprintf("key-%d", n), "x"); err != nil {
			t.Fatal(err)
		}
	}
	m := c.Members[0]
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot.db")
	args := []string{"snapshot", "extract", m.DataDir, file, "--release-dir", cache, "-o", "json"}
	if code, out, errs := runEtcdadm(args...); code != ExitUnsafe || !strings.Contains(errs, "snapshot save") {
		t.Errorf("of a member that runs: %d %s %s", code, out, errs)
	}
	if err := c.Kill(t.Context(), 0, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runEtcdadm(args...)
	var done extractedFile
	if err := json.Unmarshal([]byte(out), &done); err != nil || code != ExitOK || done.Info.Keys != 20 || done.Survivor.Last.Index == 0 {
		t.Fatalf("%d %v: %s%s", code, err, out, errs)
	}
	if code, _, errs := runEtcdadm("snapshot", "status", file); code != ExitOK {
		t.Error(errs)
	}
	if code, _, errs := runEtcdadm("snapshot", "extract", t.TempDir(), file); code != ExitUsage || !strings.Contains(errs, "has no member's data") {
		t.Errorf("of nothing: %d %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(m.DataDir, "member")); err != nil {
		t.Error(err)
	}
}

// The furthest of stopped members becomes a backup in a store, of which nothing is missing that a client was told; the same again
// is the same, and members of two clusters, one that runs and another backup's name are refused.
func TestBackupExtract(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Members: 3})
	put := func(key string) {
		t.Helper()
		for ends := time.Now().Add(time.Minute); ; { // another one is elected where the leader was killed
			_, err := c.Client(t).Put(t.Context(), key, "x")
			if err == nil {
				return
			}
			if time.Now().After(ends) {
				t.Fatal(err)
			}
		}
	}
	put("a")
	if err := c.Kill(t.Context(), 0, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	put("b")
	cache, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, url := aStore(t)
	const name = "2026-11-20T03:00:00Z-000007"
	args := []string{"backup", "extract", c.Members[0].DataDir, c.Members[1].DataDir, "--store", url, "--release-dir", cache, "--keep-for", "1d"}
	if code, out, errs := runEtcdadm(append(args, "--name", name)...); code != ExitUnsafe || !strings.Contains(errs, "stop that etcd first") {
		t.Errorf("of a member that runs: %d %s %s", code, out, errs)
	}
	for i := range 2 {
		if err := c.Kill(t.Context(), i+1, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	one := append([]string{"backup", "extract", c.Members[1].DataDir, c.Members[1].DataDir}, args[4:]...)
	if code, _, errs := runEtcdadm(one...); code != ExitUnsafe || !strings.Contains(errs, "the data of 1 of 3 voters is named, and what was acknowledged is known to be in that of 2") {
		t.Errorf("of one twice: %d %s", code, errs)
	}
	if code, _, errs := runEtcdadm(append(one, "--accept-fewer")...); code != ExitOK {
		t.Errorf("of one twice, accepted: %d %s", code, errs)
	}
	for range 2 {
		if code, out, errs := runEtcdadm(append(args, "--name", name)...); code != ExitOK || !strings.Contains(out, "made backup "+name) || !strings.Contains(out, c.Members[1].DataDir) {
			t.Fatalf("%d %s %s", code, out, errs)
		}
	}
	file := filepath.Join(t.TempDir(), "snapshot.db")
	if code, _, errs := runEtcdadm("backup", "download", name, file, "--store", url); code != ExitOK {
		t.Fatal(errs)
	}
	if code, out, errs := runEtcdadm("snapshot", "status", file, "-o", "json"); code != ExitOK || !strings.Contains(out, `"keys": 2`) {
		t.Errorf("%d %s %s", code, out, errs)
	}
	data, err := os.ReadFile(filepath.Join(dir, name, backup.FileManifest))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := backup.ParseManifest(data); err != nil || m.Reason != backup.ReasonExtracted || time.Until(m.KeepUntil) < 23*time.Hour {
		t.Errorf("%+v, %v", m, err)
	}
	other := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	if err := other.Kill(t.Context(), 0, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runEtcdadm(append(args, other.Members[0].DataDir)...); code != ExitUnsafe || !strings.Contains(errs, "name the directories of one cluster") {
		t.Errorf("of two clusters: %d %s", code, errs)
	}
	if code, _, errs := runEtcdadm("backup", "extract", other.Members[0].DataDir, "--store", url, "--release-dir", cache, "--name", name); code != ExitError || !strings.Contains(errs, "is of something else") {
		t.Errorf("over another backup: %d %s", code, errs)
	}
}

// Volumes of charts and of other operators have a member's data one or two levels below their root. Of two nobody knows which is meant,
// and what cannot be looked into may have another one.
func TestMemberDataBelow(t *testing.T) {
	for _, c := range []struct {
		name string
		has  []string
		want string // below the directory
		says string
	}{
		{name: "a chart's volume", has: []string{"data/member/wal", "lost+found"}, want: "data"},
		{name: "another operator's", has: []string{"main-0/member/wal"}, want: "main-0"},
		{name: "two levels", has: []string{"etcd/data/member/snap", "etcd/other"}, want: "etcd/data"},
		{name: "three", has: []string{"a/b/c/member"}, says: "has no member's data"},
		{name: "two members", has: []string{"main-0/member", "main-1/member"}, says: "several members"},
		{name: "what was set aside", has: []string{"data-trashcan/x-20261120T120000Z-removed/member"}, says: "has no member's data"},
		{name: "nothing", says: "has no member's data"},
	} {
		dir := t.TempDir()
		for _, below := range c.has {
			if err := os.MkdirAll(filepath.Join(dir, below), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := memberData(dir)
		if c.says == "" && (err != nil || got != filepath.Join(dir, c.want)) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
	if _, _, err := memberData(filepath.Join(t.TempDir(), "missing")); err == nil || !strings.Contains(err.Error(), "has no member's data") {
		t.Errorf("a directory that is missing: %v", err)
	}
	linked := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(linked, "old", "member"), 0o755), os.Symlink(t.TempDir(), filepath.Join(linked, "current"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := memberData(linked); err == nil || !strings.Contains(err.Error(), "current is a link") {
		t.Errorf("what a link leads to may be meant: %v", err)
	}
	loop := t.TempDir()
	if err := os.Symlink("member", filepath.Join(loop, "member")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := memberData(filepath.Dir(loop)); err == nil || strings.Contains(err.Error(), "has no member's data") {
		t.Errorf("what cannot be looked at: %v", err)
	}
}

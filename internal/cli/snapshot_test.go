package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/release"
	"etcdadm.io/internal/snapshot"
	"etcdadm.io/internal/testetcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Where the release that wrote a snapshot will not do, it is said why: it is there.
func TestRestoreSaysWhyAReleaseWillNotDo(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"3.5.30", "3.6.16"} {
		if err := os.MkdirAll(filepath.Join(root, "opt", "etcd-v"+version), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "opt", "etcd-v"+version, "etcd"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	finder := &release.Finder{Dirs: []string{}, Caches: []string{}, Roots: []string{root}}
	_, err := (&fileRestore{}).tool(t.Context(), finder, snapshot.Info{StorageVersion: "3.6.0"})
	if err == nil || !strings.Contains(err.Error(), "etcd-v3.6.16/etcd will not do: ") || strings.Contains(err.Error(), "3.5.30") {
		t.Errorf("it is said: %v", err)
	}
}

// A restore whose time is up says that it was, and how long it had.
func TestRestoreSaysThatItsTimeIsUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot.db")
	if err := os.WriteFile(file, make([]byte, 1<<20+32), 0o600); err != nil { // as long as pages with a hash are
		t.Fatal(err)
	}
	o := fileRestore{dir: filepath.Join(t.TempDir(), "out"), name: "a", peers: []string{"http://192.0.2.1:2380"}}
	_, err := o.runWithin(t.Context(), time.Nanosecond, file, &release.Finder{})
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the restore was not over in 1ns: ") {
		t.Errorf("it is said: %v", err)
	}
	var f *Failure
	if !errors.As(err, &f) || !strings.Contains(f.Hint(), "check that the disk answers") {
		t.Errorf("without a hint: %v", err)
	}
	called, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.runWithin(called, time.Hour, file, &release.Finder{}); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "not over") {
		t.Errorf("one that was called off: %v", err)
	}
}

// said is what a command printed, and how it ended.
type said struct {
	code      int
	out, errs string
}

func etcdadm(t *testing.T, args ...string) said {
	t.Helper()
	var out, errs bytes.Buffer
	self := func() (string, []string) { return "/nowhere", nil }
	code := Main(args, Program("0.0.0", self, self), &out, &errs)
	return said{code, out.String(), errs.String()}
}

func (s said) must(t *testing.T) string {
	t.Helper()
	if s.code != ExitOK {
		t.Fatalf("exit code %d: %s%s", s.code, s.out, s.errs)
	}
	return s.out
}

// releaseDirs is where the real releases lie that tests use.
func releaseDirs(t *testing.T, version string) string {
	t.Helper()
	testetcd.Binary(t, version)
	dir, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := c.Put(within(t), key, value); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotInAFile(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "")
	dirs := releaseDirs(t, testetcd.V36)
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Members: 3, TLS: true})
	client := c.Client(t)
	put(t, client, "/registry/a", "1")
	put(t, client, "/registry/a/b", "2")
	put(t, client, "../up\x00", "\xff")
	put(t, client, "other", "3")
	file := filepath.Join(t.TempDir(), "s.db")
	var urls []string
	for _, m := range c.Members {
		urls = append(urls, m.ClientURL)
	}
	reach := []string{"--etcd-endpoints", strings.Join(urls, ","), "--cacert", c.Certs().CA, "--cert", c.Certs().Cert, "--key", c.Certs().Key}
	save := append([]string{"snapshot", "save", file, "-o", "json"}, reach...)

	var saved savedSnapshot
	decode(t, etcdadm(t, save...).must(t), &saved)
	if saved.Revision != 5 || saved.Keys != 4 || saved.Stale || saved.Version.String() != testetcd.V36 || saved.SHA256 == "" {
		t.Fatalf("%+v", saved)
	}
	if again := etcdadm(t, save...); again.code != ExitUsage || !strings.Contains(again.errs, "exists already") {
		t.Fatalf("a file that is there: %+v", again)
	}
	if words := etcdadm(t, "snapshot", "status", file).must(t); !strings.Contains(words, "keys      4") || !strings.Contains(words, "verified") || !strings.Contains(words, "3.6.0") {
		t.Fatal(words)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if words, sum := etcdadm(t, "snapshot", "status", file).must(t), fmt.Sprintf("%x", sha256.Sum256(whole)); !strings.Contains(words, "sha256    "+sum) || saved.FileSHA256 != sum {
		t.Errorf("sha256sum says %s, and it says %s:\n%s", sum, saved.FileSHA256, words)
	}
	t.Run("dump", func(t *testing.T) { dumps(t, file) })
	t.Run("restore", func(t *testing.T) { restores(t, file, dirs) })
	t.Run("copied", func(t *testing.T) { takesACopiedDatabase(t, whole[:len(whole)-sha256.Size], dirs) })
	t.Run("damaged", func(t *testing.T) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// Within a key: what lies at a fixed place differs with the number of pages.
		data[bytes.LastIndex(data, []byte("/registry/a/b"))+len("/registry/a/")] ^= 1
		bad := filepath.Join(t.TempDir(), "bad.db")
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "data")
		if s := etcdadm(t, "snapshot", "dump", bad, "--unchecked", "--keys-only"); !strings.Contains(s.out, "/registry") {
			t.Errorf("what can be read of it: %+v", s)
		}
		for _, args := range [][]string{{"status", bad}, {"dump", bad}, {"restore", bad, "--data-dir-out", out, "--name", "a", "--peer-url", "http://127.0.0.1:1", "--release-dir", dirs}} {
			if s := etcdadm(t, append([]string{"snapshot"}, args...)...); s.code != ExitUnsafe || s.out != "" || !strings.Contains(s.errs, "hint:") {
				t.Errorf("%v: %+v", args, s)
			}
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("a directory was made of a damaged snapshot")
		}
	})
	t.Run("without a quorum", func(t *testing.T) {
		for _, i := range []int{0, 1} {
			if err := c.Kill(within(t), i, 9); err != nil {
				t.Fatal(err)
			}
		}
		stale := append([]string{"snapshot", "save", filepath.Join(t.TempDir(), "s.db")}, reach...)
		if s := etcdadm(t, stale...).must(t); !strings.Contains(s, "no quorum") {
			t.Fatal(s)
		}
	})
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

func dumps(t *testing.T, file string) {
	lines := strings.Split(strings.TrimSpace(etcdadm(t, "snapshot", "dump", file, "--prefix", "/registry").must(t)), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `{"key":"/registry/a","value":"1","createRevision":2,`) {
		t.Fatalf("%q", lines)
	}
	out := filepath.Join(t.TempDir(), "all.tar.gz")
	var stdout, stderr bytes.Buffer
	if code := DumpMain(t.Context(), []string{"--out=" + out, file}, &stdout, &stderr); code != ExitOK {
		t.Fatal(code, stderr.String())
	}
	got := map[string]string{}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		value, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = string(value)
	}
	for name, value := range map[string]string{"_/registry/a@2": "1", "_/registry/a/b@3": "2", "%2E%2E/up%00@4": "\xff", "other@5": "3"} {
		if got[name] != value {
			t.Errorf("%s holds %q, want %q; there are %q", name, got[name], value, got)
		}
	}
	if code := DumpMain(t.Context(), []string{"--out=" + out, file}, &stdout, &stderr); code != ExitUsage {
		t.Errorf("a file that is there: %d %s", code, stderr.String())
	}
}

// A backup's own file is told to be packed, whether its end is looked at or not.
func TestDumpOfAPackedSnapshot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "etcd.backup.gz")
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(bytes.Repeat([]byte("snapshot"), 1<<10)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"--unchecked"}} {
		s := etcdadm(t, append([]string{"snapshot", "dump", file}, more...)...)
		if s.code != ExitError || !strings.Contains(s.errs, "it is packed in gzip") || !strings.Contains(s.errs, "hint: unpack it first") {
			t.Errorf("%q: %+v", more, s)
		}
	}
}

func restores(t *testing.T, file, dirs string) {
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"snapshot", "restore", file, "--data-dir-out", dir, "--name", "a", "--peer-url", "http://127.0.0.1:1", "--release-dir", dirs, "-o", "json", "--token", "t"}
	for _, version := range []string{"3.5.35", "3.4.25"} {
		s := etcdadm(t, append(args, "--etcd-version", version)...)
		if _, err := os.Stat(dir); err == nil || s.code != ExitUnsafe || !strings.Contains(s.errs, "cannot restore data of etcd 3.6.0 with etcd "+version) || !strings.Contains(s.errs, "hint: name a release of etcd 3.6") {
			t.Errorf("with %s: %+v, %v", version, s, err)
		}
	}
	var planned, done restoredFile
	decode(t, etcdadm(t, append(args, "--dry-run")...).must(t), &planned)
	if _, err := os.Stat(dir); err == nil || !planned.DryRun || planned.Revision != 1_000_000_005 {
		t.Fatalf("%+v %v", planned, err)
	}
	decode(t, etcdadm(t, args...).must(t), &done)
	if done.From != 5 || done.Revision != 1_000_000_005 || done.Member == 0 || !strings.HasPrefix(done.Tool, "3.6.") {
		t.Fatalf("%+v", done)
	}
	if _, err := os.Stat(filepath.Join(dir, "member", "wal")); err != nil {
		t.Fatal(err)
	}
	args[len(args)-1] = "another"
	if s := etcdadm(t, args...); s.code != ExitUsage {
		t.Fatalf("over another one: %+v", s)
	}
	if s := etcdadm(t, "snapshot", "restore", file); s.code != ExitUsage || !strings.Contains(s.errs, "--data-dir-out") {
		t.Fatalf("%+v", s)
	}
}

// A copied database has no SHA-256: it is taken on a person's word, once all of its pages and records were checked.
func takesACopiedDatabase(t *testing.T, database []byte, dirs string) {
	dir := t.TempDir()
	copied, out := filepath.Join(dir, "db"), filepath.Join(dir, "data")
	if err := os.WriteFile(copied, database, 0o600); err != nil {
		t.Fatal(err)
	}
	restore := []string{"snapshot", "restore", copied, "--data-dir-out", out, "--name", "a", "--peer-url", "http://127.0.0.1:1", "--release-dir", dirs}
	for _, args := range [][]string{{"snapshot", "status", copied}, restore} {
		if s := etcdadm(t, args...); s.code != ExitUnsafe || !strings.Contains(s.errs, "--without-hash checks all of its pages") {
			t.Errorf("%v: %+v", args, s)
		}
	}
	if words := etcdadm(t, "snapshot", "status", copied, "--without-hash").must(t); !strings.Contains(words, "every page and every record was read; it has no SHA-256") || !strings.Contains(words, "keys      4") {
		t.Error(words)
	}
	var done restoredFile
	decode(t, etcdadm(t, append(restore, "--without-hash", "-o", "json")...).must(t), &done)
	if done.From != 5 || done.Revision != 1_000_000_005 {
		t.Errorf("%+v", done)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("beside the copy and the directory lies more: %v, %v", left, err)
	}
	for i := 4096; i < len(database); i += 4096 { // pages that make no sense any more
		database[i] ^= 0xff
	}
	bad := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(bad, database, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := etcdadm(t, "snapshot", "status", bad, "--without-hash"); s.code != ExitUnsafe || s.out != "" {
		t.Errorf("a damaged copy: %+v", s)
	}
}

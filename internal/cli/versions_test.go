package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/release"
)

// releaseArchive puts an archive with a stand-in for etcd, and SHA256SUMS, into
// a directory, as it lies behind the project's own URL.
func releaseArchive(t *testing.T, dir, version string) {
	t.Helper()
	top := fmt.Sprintf("etcd-v%s-%s-%s", version, runtime.GOOS, runtime.GOARCH)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range []string{"etcd", "etcdctl"} {
		text := "#!/bin/sh\necho etcd Version: " + version + "\n"
		if err := w.WriteHeader(&tar.Header{Name: top + "/" + name, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(dir, "v"+version)
	sums := func(b []byte) string { return fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(b), top) }
	if err := errors.Join(w.Close(), z.Close(), os.MkdirAll(own, 0o755),
		os.WriteFile(filepath.Join(own, top+".tar.gz"), out.Bytes(), 0o644),
		os.WriteFile(filepath.Join(own, release.SumsName), []byte(sums(out.Bytes())), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// runEtcdadm runs a command line and returns its exit code and what it printed.
func runEtcdadm(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	self := func() (string, []string) { return "/proc/self/exe", nil }
	code = Main(args, Program("3.7.3", self, self), &o, &e)
	return code, o.String(), e.String()
}

func TestDownloadCommand(t *testing.T) {
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	releaseArchive(t, dir, "3.6.16")
	releaseArchive(t, dir, "3.5.35")
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()

	for _, c := range []struct {
		args string
		code int
		want string // in what is printed
	}{
		{"3.6.16 --dry-run --release-url " + server.URL, ExitOK, "would fetch etcd 3.6.16 from " + server.URL + "/v3.6.16/etcd-v3.6.16-"},
		{"v3.6.16 --release-url " + server.URL, ExitOK, "etcd 3.6.16 is in " + cache},
		{"3.6.16 --release-url http://127.0.0.1:1", ExitOK, "already"},
		{"3.5 3.5.35 --from " + dir, ExitOK, "etcd 3.5.35 is in " + cache},
		{"3.4.45 --from " + dir, ExitError, "there is no such file"},
		{"3.6.14 --release-url " + server.URL, ExitError, "there is no such file"},
		{"3.6.14 --release-url http://192.0.2.1", ExitUnsafe, "does not come over TLS"},
		{"3.5.1", ExitUnsafe, "can lose data"},
		{"4.0.0", ExitUnsafe, "no release line that is known"},
		{"latest", ExitUsage, "three numbers"},
		{"", ExitUsage, "download VERSION"},
		{"3.6.16 3.5.35 --sha256 00", ExitUsage, "one archive"},
		{"3.6.16 --from x --release-url y", ExitUsage, "the place of every URL"},
		{"3.6.14 --sha256 00", ExitError, "no SHA-256"},
	} {
		code, out, errs := runEtcdadm(append([]string{"download", "--cache-dir", cache}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) || code != ExitOK && !strings.Contains(errs, "hint:") {
			t.Errorf("download %s: %d %s%s, want %d with %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	var done []release.Fetched
	_, out, _ := runEtcdadm("download", "3.6", "--cache-dir", cache, "-o", "json")
	if err := json.Unmarshal([]byte(out), &done); err != nil || len(done) != 1 || done[0].Version != "3.6.16" || !done[0].Already {
		t.Errorf("%s, %v", out, err)
	}
}

// A mirror that lies about an archive is told apart by sums from elsewhere.
func TestForgedDownload(t *testing.T) {
	good, forged, cache := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "cache")
	releaseArchive(t, good, "3.6.16")
	releaseArchive(t, forged, "3.6.16")
	name := filepath.Join("v3.6.16", fmt.Sprintf("etcd-v3.6.16-%s-%s.tar.gz", runtime.GOOS, runtime.GOARCH))
	if err := os.WriteFile(filepath.Join(forged, name), []byte("forged"), 0o644); err != nil {
		t.Fatal(err)
	}
	mirror, origin := httptest.NewServer(http.FileServer(http.Dir(forged))), httptest.NewServer(http.FileServer(http.Dir(good)))
	defer mirror.Close()
	defer origin.Close()
	code, _, errs := runEtcdadm("download", "3.6.16", "--cache-dir", cache, "--release-url", mirror.URL, "--sums-url", origin.URL)
	if code != ExitUnsafe || !strings.Contains(errs, "not to be trusted") || !strings.Contains(errs, "hint:") {
		t.Errorf("%d %s", code, errs)
	}
	if found, _ := filepath.Glob(filepath.Join(cache, "etcd*")); len(found) != 0 {
		t.Errorf("in the cache: %q", found)
	}
}

func TestVersionsCommand(t *testing.T) {
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	releaseArchive(t, dir, "3.6.13")
	if code, _, errs := runEtcdadm("download", "3.6.13", "--from", dir, "--cache-dir", cache); code != ExitOK {
		t.Fatal(errs)
	}
	t.Setenv(release.Env, "")
	code, out, errs := runEtcdadm("versions", "--cache-dir", cache, "--all", "-o", "json")
	var list listedVersions
	if err := json.Unmarshal([]byte(out), &list); code != ExitOK || err != nil {
		t.Fatalf("%d %s%s, %v", code, out, errs, err)
	}
	byVersion := map[string]listedVersion{}
	for _, v := range list.Versions {
		byVersion[v.Version] = v
	}
	if v := byVersion["3.6.13"]; !strings.HasPrefix(v.Dir, cache) || v.Name != "" || v.Refused != "" || len(v.Warnings) != 1 {
		t.Errorf("%+v", v)
	}
	if v := byVersion["3.7.3"]; !v.Builtin || v.Missing || len(v.Warnings) != 0 {
		t.Errorf("%+v", v)
	}
	if v := byVersion["3.5.35"]; !v.Missing && v.Dir == "" {
		t.Errorf("%+v", v)
	}
	_, out, _ = runEtcdadm("versions", "--cache-dir", cache)
	if !strings.Contains(out, "built in") || !strings.Contains(out, "closed in 3.6.14") || strings.Contains(out, "not here") {
		t.Error(out)
	}
}

// Whoever waits for a download hears why a request is made again, and how often.
func TestDownloadSaysThatItTriesAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	d := release.Downloader{Cache: t.TempDir(), URL: server.URL, Pause: time.Millisecond}
	var said strings.Builder
	_, err := downloadOne(t.Context(), &d, cluster.MustVersion("3.6.16"), false, &said)
	if err == nil || !strings.Contains(err.Error(), "tried 5 times") {
		t.Errorf("%v", err)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != 4 || lines[0] != "etcd 3.6.16: the server answered 503 Service Unavailable; it is asked again in 1ms, 2 of 5 times" {
		t.Errorf("said:\n%s", said.String())
	}
}

// A machine with much to do takes its time for "etcd --version", and the release is there
// all the same.
func TestReleaseThatTellsItsVersionSlowlyIsFound(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "etcd-v3.6.99-linux-"+runtime.GOARCH)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "etcd"), []byte("#!/bin/sh\nsleep 6\necho etcd Version: 3.6.99\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out := etcdadm(t, "versions", "--release-dir", filepath.Dir(dir)).must(t); !strings.Contains(out, "3.6.99") || strings.Contains(out, "no answer") {
		t.Error(out)
	}
}

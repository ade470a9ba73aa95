package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runCtl(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = CtlMain(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestCtlConfiguresAndGets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	url := "--backup-store=file://" + dir
	if code, _, errs := runCtl(t, "-member-count=1", url, "-etcd-version=3.6.16", "configure-cluster"); code != ExitOK {
		t.Fatal(code, errs)
	}
	data, err := os.ReadFile(filepath.Join(dir, "control", "etcd-cluster-spec"))
	if err != nil || !strings.Contains(string(data), `"memberCount"`) {
		t.Fatalf("%s %v", data, err)
	}
	// Flags after the command, as before it.
	if code, _, errs := runCtl(t, "configure-cluster", "--member-count", "3", "--etcd-version", "3.6.16", url); code != ExitOK {
		t.Fatal(code, errs)
	}
	for _, args := range [][]string{{url}, {url, "get"}, {"get", url}} {
		code, out, errs := runCtl(t, args...)
		if want := "Backup Store: file://" + dir + "\nmember_count:3 etcd_version:\"3.6.16\"\n"; code != ExitOK || out != want {
			t.Fatalf("%v: %d %q %q, want %q", args, code, out, errs, want)
		}
	}
}

func TestCtlRefuses(t *testing.T) {
	dir := t.TempDir()
	url := "--backup-store=file://" + dir
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no store":        {[]string{"get"}, ExitUsage, "--backup-store is required"},
		"missing store":   {[]string{"--backup-store=file:///nowhere/at/all", "get"}, ExitError, "does not exist"},
		"unknown scheme":  {[]string{"--backup-store=ftp://x", "get"}, ExitError, "ftp"},
		"unknown command": {[]string{url, "frobnicate"}, ExitUsage, "unknown command"},
		"even":            {[]string{url, "-member-count=4", "-etcd-version=3.6.16", "configure-cluster"}, ExitUsage, "is even"},
		"zero":            {[]string{url, "-etcd-version=3.6.16", "configure-cluster"}, ExitUsage, "missing or zero"},
		"negative":        {[]string{url, "-member-count=-3", "-etcd-version=3.6.16", "configure-cluster"}, ExitUsage, "negative"},
		"absurd":          {[]string{url, "-member-count=101", "-etcd-version=3.6.16", "configure-cluster"}, ExitUsage, "beyond the largest"},
		"no version":      {[]string{url, "-member-count=3", "configure-cluster"}, ExitUsage, "--etcd-version is required"},
		"bad version":     {[]string{url, "-member-count=3", "-etcd-version=latest", "configure-cluster"}, ExitUsage, "three numbers"},
		"unknown line":    {[]string{url, "-member-count=3", "-etcd-version=9.9.9", "configure-cluster"}, ExitUsage, "no release line"},
		"lossy version":   {[]string{url, "-member-count=3", "-etcd-version=3.5.1", "configure-cluster"}, ExitUsage, "lose data"},
		"nothing there":   {[]string{url, "get"}, ExitNoCluster, "no spec"},
		"no such command": {[]string{url, "delete-command", "x"}, ExitError, "no such command"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errs := runCtl(t, c.args...)
			if code != c.code || !strings.Contains(errs, c.want) {
				t.Fatalf("%d %q, want %d with %q", code, errs, c.code, c.want)
			}
		})
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Fatalf("refused commands left %v, %v", entries, err)
	}
}

func TestSeed(t *testing.T) {
	store := "file://" + filepath.Join(t.TempDir(), "s")
	run := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		self := func() (string, []string) { return "/proc/self/exe", nil }
		code := Main(append([]string{"seed", store}, args...), Program("3.7.3", self, self), &out, &errs)
		return code, out.String() + errs.String()
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--version", "3.6.16", "--nodes", "3", "--dry-run"}, ExitError, "does not exist"},
		{[]string{"--version", "3.6.16", "--nodes", "4"}, ExitUsage, "is even"},
		{[]string{"--version", "new", "--nodes", "3"}, ExitUsage, "three numbers"},
		{[]string{"--version", "3.6.16", "--nodes", "3", "--dry-run"}, ExitError, "does not exist"}, // refusals made nothing
		{[]string{"version=3.6.16", "nodes=3"}, ExitError, "--create-store"},                        // it may be a share that is not mounted
		{[]string{"version=3.6.16", "nodes=3", "--dry-run"}, ExitError, "does not exist"},
		{[]string{"version=3.6.16", "nodes=3", "--create-store"}, ExitOK, "3 members, etcd 3.6.16"},
		{[]string{"--nodes", "5"}, ExitOK, "5 members, etcd 3.6.16"},
		{[]string{"--member-count", "4"}, ExitUsage, "is even"},
		{[]string{"nodes=many"}, ExitUsage, "is no number"},
		{[]string{"what=ever"}, ExitUsage, "do not know"},
		{[]string{"--nodes", "7", "--dry-run"}, ExitOK, "would save: 7 members"},
		{[]string{"--unknown"}, ExitUsage, "unknown flag"},
		{[]string{"--nodes", "7", "--dry-run", "-o", "json"}, ExitOK, `"memberCount": 7`},
		{[]string{"--nodes", "7", "-o", "xml"}, ExitUsage, "is unknown"},
	} {
		if code, out := run(c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: %d %q, want %d with %q", c.args, code, out, c.code, c.want)
		}
	}
}

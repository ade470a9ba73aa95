package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/version"
)

// Every program tells its release, and does nothing else then.
func TestEveryProgramTellsItsVersion(t *testing.T) {
	self := func() (string, []string) { return "/proc/self/exe", nil }
	program := Program("3.7.3", self, self)
	for name, c := range map[string]struct {
		run  func(stdout, stderr io.Writer) int
		etcd bool
	}{
		"etcdadm version":    {func(o, e io.Writer) int { return Main([]string{"version"}, program, o, e) }, true},
		"etcdadm --version":  {func(o, e io.Writer) int { return Main([]string{"--version"}, program, o, e) }, true},
		"etcd-manager":       {func(o, e io.Writer) int { return ManagerMain([]string{"--v=6", "--version"}, program, o, e) }, true},
		"etcd-manager-ctl":   {func(o, e io.Writer) int { return CtlMain(t.Context(), []string{"-version"}, o, e) }, false},
		"etcd-backup":        {func(o, e io.Writer) int { return BackupMain(t.Context(), []string{"--version"}, o, e) }, false},
		"etcd-backup-ctl":    {func(o, e io.Writer) int { return BackupCtlMain(t.Context(), []string{"--version"}, program, o, e) }, true},
		"etcd-dump":          {func(o, e io.Writer) int { return DumpMain(t.Context(), []string{"--version"}, o, e) }, false},
		"etcdadm version -o": {func(o, e io.Writer) int { return Main([]string{"version", "-o", "yaml"}, program, o, e) }, true},
	} {
		var out, errs bytes.Buffer
		if code := c.run(&out, &errs); code != ExitOK || errs.Len() > 0 || !strings.Contains(out.String(), version.Release) || strings.Contains(out.String(), "3.7.3") != c.etcd {
			t.Errorf("%s: %d, %q, %q", name, code, &out, &errs)
		}
	}
}

func TestVersionForPrograms(t *testing.T) {
	var out bytes.Buffer
	self := func() (string, []string) { return "/proc/self/exe", nil }
	if code := Main([]string{"version", "-o", "json"}, Program("3.7.3", self, self), &out, io.Discard); code != ExitOK {
		t.Fatal(code)
	}
	var v version.Info
	if err := json.Unmarshal(out.Bytes(), &v); err != nil || v.Release != version.Release || v.Go == "" || v.Platform == "" || !slices.Equal(v.Etcd, []string{"3.7.3"}) {
		t.Fatalf("%s, %v", &out, err)
	}
	if v := versionOf(daemon.Program{}); v.Etcd != nil {
		t.Errorf("a program without etcd carries %v", v.Etcd)
	}
}

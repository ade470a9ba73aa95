package cli

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A store that can only be read, such as a copy that is mounted so, is read by whatever
// only reads; what writes says at once that it cannot.
func TestStoreMountedReadOnly(t *testing.T) {
	dir := t.TempDir()
	url := "--backup-store=file://" + dir
	if code, _, errs := runCtl(t, "--member-count=3", url, "--etcd-version=3.6.16", "configure-cluster"); code != ExitOK {
		t.Fatal(code, errs)
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, command := range readsOnly {
		if code, out, errs := runCtl(t, url, command); code != ExitOK {
			t.Errorf("%s: %d %q %q", command, code, out, errs)
		}
	}
	for _, line := range [][]string{{"configure-cluster", "--member-count=1"}, {"create-backup"}, {"delete-command", "x"}} {
		if code, _, errs := runCtl(t, append(line, url)...); code != ExitError || !strings.Contains(errs, "read-only file system") || !strings.Contains(errs, "hint:") {
			t.Errorf("%s: %d %q", line, code, errs)
		}
	}
	if code, out, errs := runEtcdadm("backup", "list", "--store=file://"+dir); code != ExitOK {
		t.Errorf("backup list: %d %q %q", code, out, errs)
	}
	var s survivors
	if err := (&queue{store: "file://" + dir}).record(t.Context(), nil, &s); err != nil {
		t.Errorf("the record for a recovery: %v", err)
	}
}

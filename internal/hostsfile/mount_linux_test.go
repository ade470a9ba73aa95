package hostsfile

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The same on a real bind mount, as a container has it.
func TestSetOnABindMount(t *testing.T) {
	path := hosts(t, "# top\n", 0o644)
	source := hosts(t, "# top\n", 0o644)
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	set(t, File{Path: path, Cluster: "a"}, true, entry("10.0.0.1", "x.internal"))
	if got := content(t, source); got != "# top\n"+blockA {
		t.Errorf("what is mounted is %q", got)
	}
}

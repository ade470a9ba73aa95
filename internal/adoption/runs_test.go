package adoption

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The manifests are what the kubelet takes for one: a regular file, by a link too, and not
// beyond its size. What else lies there holds nobody up.
func TestManifestIsARegularFile(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "pod")
	pipe := filepath.Join(dir, "a-pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	pod := "command:\n- etcd\n- --data-dir=/var/lib/etcd\n"
	for path, content := range map[string]string{
		filepath.Join(dir, "b-large"): pod + strings.Repeat("#", maxManifest),
		elsewhere:                     pod,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "c-link.yaml")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		path string
		err  error
	}
	told := make(chan answer, 1)
	go func() {
		path, err := ManifestOf(dir, "/var/lib/etcd")
		told <- answer{path, err}
	}()
	select {
	case a := <-told:
		if a.path != link || a.err != nil {
			t.Errorf("found %q: %v", a.path, a.err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the pipe holds it up")
		if f, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil { // lets it go on
			f.Close()
		}
		<-told
	}
}

// A static pod names its data in flow style, in a shell's line, or as its volume.
func TestManifestNamesItsData(t *testing.T) {
	const dir = "/var/lib/etcd"
	for content, want := range map[string]bool{
		"command: [etcd, --data-dir=/var/lib/etcd]":                              true,
		"command: [etcd, --data-dir, /var/lib/etcd/]":                            true,
		`command: ["/bin/sh","-c","exec etcd --data-dir=/var/lib/etcd"]`:         true,
		`command: ["/bin/sh","-c","exec etcd --data-dir=/var/lib/etcd; exit 1"]`: true,
		`command: ["/bin/sh","-c","(etcd --data-dir=/var/lib/etcd) | tee x"]`:    true,
		"volumes: [{name: etcd, hostPath: {path: /var/lib/etcd}}]":               true,
		"volumes:\n- name: etcd\n  hostPath:\n    path: /var/lib/etcd\n":         true,
		`{"command":["etcd","--data-dir=/var/lib/etcd/member"]}`:                 true,
		"command: [etcd, --data-dir=/var/lib/etcd-events]":                       false,
		"command: [etcd, --data-dir=/var/lib/etcd.old]":                          false,
		"command: [etcd, --data-dir=/var/lib/etcd/other]":                        false,
		"command: [etcd, --data-dir=/mnt/var/lib/etcd]":                          false,
		"command: [kine, --data-dir=/var/lib/kine]":                              false,
	} {
		at := t.TempDir()
		path := filepath.Join(at, "pod.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, of := range []string{dir, dir + "/"} {
			got, err := ManifestOf(at, of)
			if err != nil || (got == path) != want {
				t.Errorf("%s: %q, %v, want it found: %t", content, got, err, want)
			}
		}
	}
}

package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
)

// Each flag of etcdadm of kubernetes-sigs is taken by init and join with a value, or refused with what is used in its place.
func TestFlagsOfTheFormerEtcdadm(t *testing.T) {
	for _, of := range []string{"init", "join"} {
		c, _, err := tree(daemon.Program{}).Find([]string{of})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"name", "version", "release-url", "certs-dir", "bind-address", "server-cert-extra-sans", "install-dir", "snapshot", "skip-hash-check", "download-connect-timeout", "disk-priorities", "data-dir", "retry", "init-system", "image-repository", "kubelet-pod-manifest-path"} {
			if f := c.Flags().Lookup(name); f == nil && (name != "snapshot" || of == "init") && (name != "retry" || of == "join") {
				t.Errorf("etcdadm %s has no --%s", of, name)
			}
		}
	}
	for name, r := range formerRefused {
		if r.why == "" || r.instead == "" {
			t.Errorf("--%s is refused without a word", name)
		}
	}
	join := []string{"join", "192.0.2.1:8000", "--token", "x", "--ca-hash", "y"}
	for _, one := range []struct {
		line []string
		says string
	}{
		{[]string{"init", "--install-dir", "/opt/bin"}, "etcdadm download VERSION"},
		{[]string{"init", "--install-dir=/opt/bin"}, "etcdadm download VERSION"},
		{[]string{"init", "--snapshot", "/none", "--skip-hash-check"}, "etcdadm snapshot save"},
		{[]string{"init", "--server-cert-extra-sans", "etcd.example"}, "the members' own addresses"},
		{[]string{"init", "--bind-address", "nowhere"}, "is no IP address"},
		{[]string{"init", "--disk-priorities", "Exec=rm"}, "Exec is no priority"},
		{[]string{"init", "--disk-priorities", "Nice=%h"}, "cannot be in a unit"},
		{[]string{"init", "--certs-dir", "/none"}, "--certs-dir has no authority of yours"},
		{[]string{"init", "--cacert", "x"}, "add --adopt"},
		{[]string{"init", "phase", "install"}, "etcdadm download VERSION"},
		{[]string{"init", "phase"}, "the phases were certificates, configure"},
		{[]string{"join", "phase", "membership"}, "etcdadm member add HOST"},
		{[]string{"init", "--init-system", "openrc"}, "systemd or kubelet"},
		{[]string{"init", "--init-system", "systemd", "--static-pod"}, "were both given"},
		{[]string{"init", "--image-repository", "r"}, "add --static-pod"},
		{[]string{"init", "--init-system=kubelet", "--adopt"}, "take it over without --static-pod"},
		{[]string{"init", "--init-system=kubelet", "--disk-priorities", "Nice=-10"}, "system-node-critical"},
		{[]string{"init", "--kubelet-pod-manifest-path", "/m"}, "add --static-pod or --adopt"},
		{append(slices.Clone(join), "--retry=false"), "--wait bounds how long join waits"},
		{append(slices.Clone(join), "--skip-hash-check"), "every one is checked"},
	} {
		code, _, errs := runEtcdadm(append(one.line, "--root", t.TempDir())...)
		if slices.Contains(one.line, "phase") {
			code, _, errs = runEtcdadm(one.line...)
		}
		if code != ExitUsage || !strings.Contains(errs, one.says) {
			t.Errorf("%s: exit code %d, %s", strings.Join(one.line, " "), code, errs)
		}
	}
}

// What was a flag there does what ours does.
func TestMeaningOfTheFormerFlags(t *testing.T) {
	root := t.TempDir()
	code, out, errs := runEtcdadm("init", "--root", root, "--dry-run", "--name", "a", "--version", "3.6.16", "--bind-address", "127.0.0.1",
		"--data-dir", filepath.Join(root, "elsewhere"), "--disk-priorities", "Nice=-10,IOSchedulingClass=best-effort", "--members", "1")
	if !strings.Contains(out, "one member of etcd 3.6.16") || !strings.Contains(out, "10-priorities.conf") || !strings.Contains(out, "make the data directory "+filepath.Join(root, "elsewhere")) || !strings.Contains(out, "127.0.0.1 is this machine's") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := runEtcdadm("download", "--version", "3.6.16", "--dry-run"); code != ExitOK || !strings.Contains(out, "3.6.16") {
		t.Errorf("download: exit code %d\n%s%s", code, out, errs)
	}
	o := former{bind: "192.0.2.7"}
	if more, address := o.bound(""); address != "192.0.2.7" || more["ETCDADM_ETCD_ADDRESS"] != "192.0.2.7" {
		t.Errorf("%v, %s", more, address)
	}
	if more, address := o.bound("a.example"); address != "a.example" || more["ETCDADM_ETCD_ADDRESS"] != "192.0.2.7" {
		t.Errorf("%v, %s", more, address)
	}
}

// The image of a static pod is named by its repository, or in full.
func TestImageRepository(t *testing.T) {
	for _, one := range []struct{ repository, image, want string }{
		{"registry.example/etcd", "", "registry.example/etcd/etcdadm:1.2.3"},
		{"registry.example/", "", "registry.example/etcdadm:1.2.3"},
		{"", "other/etcdadm:9", "other/etcdadm:9"},
	} {
		u := &setUp{program: daemon.Program{Build: "1.2.3"}, how: setup.Pod{Image: one.image}}
		o := former{initSystem: "kubelet", repository: one.repository}
		if err := o.kubelet(u); err != nil || !u.pod || u.how.Image != one.want {
			t.Errorf("%+v: %v, %q", one, err, u.how.Image)
		}
	}
}

// A person's own authority is what init begins with, and what a join knows the cluster by.
func TestOwnAuthority(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if _, err := ownAuthority(from); err == nil {
		t.Error("an empty directory is taken")
	}
	if _, err := pki.Create(from, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, ext := range []string{".crt", ".key"} {
		if err := os.Rename(filepath.Join(from, pki.ManagerCA+ext), filepath.Join(from, "ca"+ext)); err != nil {
			t.Fatal(err)
		}
	}
	copies, err := ownAuthority(from)
	if err == nil {
		err = copies(to)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range setup.AuthorityFiles() {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
	if hash, err := hashOf(from); err != nil || !strings.HasPrefix(hash, "sha256:") {
		t.Errorf("%s, %v", hash, err)
	}
}

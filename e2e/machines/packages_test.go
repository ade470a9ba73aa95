package machines

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testenv"
)

// releaseWithin bounds the making of a release for one architecture, on a busy machine.
const releaseWithin = 15 * time.Minute

// formats are how packages are installed, over an older one too, and removed. rpm is Debian's, whose database knows
// nothing of this machine.
var formats = []struct {
	name                   string
	install, remove, purge []string
}{
	{"deb", []string{"dpkg", "-i"}, []string{"dpkg", "-r", "etcdadm"}, []string{"dpkg", "-P", "etcdadm"}},
	{"rpm", []string{"rpm", "--force-debian", "--nodeps", "--nosignature", "-U"}, []string{"rpm", "--force-debian", "--nodeps", "-e", "etcdadm"}, nil},
}

// packages makes a release and gives its packages of etcdadm, by their format.
func packages(t *testing.T, version string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), releaseWithin)
	defer cancel()
	out := filepath.Join(t.TempDir(), "release")
	cmd := exec.CommandContext(ctx, "go", "-C", "../../tools/release", "run", ".", "-o", out, "-version", version, "-arch", runtime.GOARCH)
	cmd.Env = testenv.Outside()
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make release %s: %v\n%s", version, err, said)
	}
	all := make(map[string]string)
	for _, f := range formats {
		found, err := filepath.Glob(filepath.Join(out, "etcdadm?[0-9]*."+f.name))
		if err != nil || len(found) != 1 {
			t.Fatalf("%q, %v", found, err)
		}
		all[f.name] = found[0]
	}
	return all
}

// A machine has etcdadm by its package: installed, set up, upgraded, removed, installed again. Nothing is started by
// the package, etcd runs through the upgrade, and the data through all of it.
func TestPackages(t *testing.T) {
	rig.TakesLong(t, "two minutes")
	if why := missingForMachines(); why != "" {
		t.Skip("no machines can be booted: " + why)
	}
	made := make(map[string]map[string]string)
	for _, version := range []string{"0.1.0", "0.2.0"} {
		made[version] = packages(t, version)
	}
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			if _, err := exec.LookPath(f.install[0]); err != nil {
				t.Skipf("%s is not on this machine (Debian: %[1]s)", f.install[0])
			}
			life(t, f.install, f.remove, f.purge, map[string]string{"0.1.0": made["0.1.0"][f.name], "0.2.0": made["0.2.0"][f.name]})
		})
	}
}

// life is that of a machine, by the commands of a package manager and with a package of two releases.
func life(t *testing.T, installer, remover, purger []string, made map[string]string) {
	b := boot(t, 1)[0]
	if err := os.Remove(filepath.Join(b.root, "usr/local/bin/etcdadm")); err != nil { // the package's is to be found
		t.Fatal(err)
	}
	install := func(version string) string {
		t.Helper()
		name := filepath.Base(made[version])
		data, err := os.ReadFile(made[version])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.root, "var/tmp", name), data, 0o644); err != nil {
			t.Fatal(err)
		}
		said := b.must(append(slices.Clone(installer), "/var/tmp/"+name)...)
		t.Logf("\n%s", said)
		return said
	}
	state := func(what string) string {
		_, out, _ := b.command("systemctl", what, "etcdadm")
		return strings.TrimSpace(out)
	}
	serves := func() bool {
		_, out, _ := b.command("etcdadm", "status")
		return strings.Contains(out, "1 of 3 voters")
	}

	install("0.1.0")
	if active, enabled := state("is-active"), state("is-enabled"); active != "inactive" || enabled != "disabled" {
		t.Errorf("after the installation the agent is %s and %s", active, enabled)
	}
	b.must("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/etcdadm.service")
	b.must("etcdadm", "init", "--host-id", "m1")
	b.until("the voter is up", serves)
	member := func() string { // its ID, which comes with its data
		return regexp.MustCompile(`(?m)^m1 +([0-9a-f]+) `).FindString(b.must("etcdadm", "member", "list"))
	}
	had := member()

	agent, etcd := b.agent(), b.etcd()
	if agent == 0 || etcd == "" || had == "" {
		t.Fatalf("agent %d, etcd %q, member %q", agent, etcd, had)
	}
	if said := install("0.2.0"); !strings.Contains(said, "the agent is replaced, etcd runs on") {
		t.Error("the upgrade does not say what it did")
	}
	b.until("another agent runs", func() bool { now := b.agent(); return now != 0 && now != agent && serves() })
	if now := b.etcd(); now != etcd {
		t.Errorf("etcd was %s and is %s", etcd, now)
	}
	if program := strings.TrimSpace(b.must("readlink", fmt.Sprintf("/proc/%d/exe", b.agent()))); program != "/usr/bin/etcdadm" {
		t.Errorf("the agent runs %s", program)
	}

	said := b.must(remover...)
	t.Logf("\n%s", said)
	for _, kept := range []string{"/etc/etcdadm", "/var/lib/etcdadm", "/etc/systemd/system/etcdadm.service"} {
		if !strings.Contains(said, "kept "+kept+"\n") {
			t.Errorf("the removal does not say that it kept %s", kept)
		}
		b.must("test", "-e", kept)
	}
	if agent, etcd := b.agent(), b.etcd(); agent != 0 || etcd != "" {
		t.Errorf("after the removal: agent %d, etcd %q", agent, etcd)
	}
	b.powerCycle() // which does not try to start what is gone
	if active, enabled := state("is-active"), state("is-enabled"); active != "inactive" || enabled != "disabled" {
		t.Errorf("after the removal the agent is %s and %s", active, enabled)
	}

	if said := install("0.2.0"); !strings.Contains(said, "systemctl enable --now etcdadm") {
		t.Error("the installation does not say how the agent is started")
	}
	if active := state("is-active"); active != "inactive" {
		t.Errorf("after it was installed again the agent is %s", active)
	}
	b.must("systemctl", "enable", "--now", "etcdadm")
	b.until("the voter is up again", serves)
	if now := member(); now != had {
		t.Errorf("the member was %q and is %q", had, now)
	}
	if purger == nil {
		return
	}
	b.must(purger...)
	b.must("test", "-d", "/var/lib/etcdadm/etcdadm")
}

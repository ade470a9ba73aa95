package machines

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/internal/cli"
)

// cutShort kills a command that sets a machine up, ever later.
func cutShort(b *booted, line []string) {
	for _, after := range []string{"0.02", "0.05", "0.1", "0.2", "0.4", "0.8"} {
		b.command(append([]string{"timeout", "-s", "KILL", after}, line...)...)
	}
}

// Three fresh machines become a cluster by init and join, each command interrupted first. An agent that is killed or
// replaced leaves its etcd running; systemctl stop ends both.
func TestMachines(t *testing.T) {
	all := boot(t, 3)
	for _, b := range all {
		t.Cleanup(func() {
			if t.Failed() {
				_, log, _ := b.command("journalctl", "-u", "etcdadm", "--no-pager", "-n", "80", "-o", "cat")
				t.Logf("journal of %s:\n%s", b.name, log)
			}
		})
	}
	// A first word of what is missing, before anything is done.
	if code, _, errs := all[1].command("etcdadm", "token", "list"); code != 10 || !strings.Contains(errs, "no host of a cluster") {
		t.Errorf("token list on a fresh machine: exit code %d, %s", code, errs)
	}
	first := []string{"etcdadm", "init", "--host-id", "m1"}
	cutShort(all[0], first)
	out := all[0].must(first...)
	t.Logf("\n%s", out)
	line := regexp.MustCompile(`(?m)^  (etcdadm join .*)$`).FindStringSubmatch(out)
	if line == nil {
		t.Fatalf("no command to join is printed:\n%s", out)
	}
	// A token for two hosts is enough for two, however often each of them is interrupted.
	two := all[0].must("etcdadm", "token", "create", "--uses", "2", "--ttl", "10m")
	join := strings.Fields(regexp.MustCompile(`(?m)^  (etcdadm join .*)$`).FindStringSubmatch(two)[1])
	for i, b := range all[1:] {
		line := append(slices.Clone(join), "--host-id", fmt.Sprintf("m%d", i+2))
		cutShort(b, line)
		t.Logf("\n%s", b.must(line...))
	}
	for _, b := range all {
		b.until("3 of 3 voters are up", func() bool {
			code, out, _ := b.command("etcdadm", "status")
			return code == cli.ExitOK && strings.Contains(out, "3 of 3 voters are up")
		})
	}
	t.Logf("\n%s\n%s", all[2].must("etcdadm", "status"), all[0].must("etcdadm", "token", "list"))
	if again := all[1].must(append(strings.Fields(line[1]), "--host-id", "m2")...); !strings.Contains(again, "is a host of cluster etcd already") {
		t.Errorf("join again: %s", again)
	}

	b := all[1]
	b.must("systemd-analyze", "verify", "--man=no", "/etc/systemd/system/etcdadm.service")
	serves := func() bool {
		_, out, _ := b.command("etcdadm", "status")
		return strings.Contains(out, "3 of 3 voters are up")
	}

	t.Run("kubeadm's external etcd", func(t *testing.T) {
		b.must("etcdadm", "certs", "issue", "--for", "kube-apiserver")
		b.must("etcdadm", "certs", "issue", "--for", "healthcheck")
		_, printed, notes := b.command("etcdadm", "kubeadm", "print")
		if strings.Count(printed, ":2379\n") != 3 || !strings.Contains(printed, "keyFile: /etc/kubernetes/pki/apiserver-etcd-client.key") || notes != "" {
			t.Errorf("%s%s", printed, notes)
		}
		if mode := strings.Fields(b.must("stat", "-c", "%a %U", "/etc/kubernetes/pki/etcd/healthcheck-client.key")); !slices.Equal(mode, []string{"600", "root"}) {
			t.Errorf("the key's mode and owner: %q", mode)
		}
		b.must("etcdadm", "certs", "renew", "--all")
		t.Logf("\n%s", b.must("etcdadm", "certs", "list"))
		b.until("3 of 3 voters are up with new certificates", serves)
	})

	t.Run("the agent is killed", func(t *testing.T) {
		agent, etcd := b.agent(), b.etcd()
		if agent == 0 || etcd == "" {
			t.Fatalf("agent %d, etcd %q", agent, etcd)
		}
		b.must("kill", "-9", fmt.Sprint(agent))
		b.until("another agent runs", func() bool { now := b.agent(); return now != 0 && now != agent && serves() })
		if now := b.etcd(); now != etcd {
			t.Errorf("etcd was %s and is %s", etcd, now)
		}
		if log := b.must("journalctl", "-u", "etcdadm", "--no-pager", "-o", "cat"); !strings.Contains(log, "adopted the running etcd") {
			t.Error("nothing says that it was adopted")
		}
	})

	t.Run("the program is replaced", func(t *testing.T) {
		agent, etcd := b.agent(), b.etcd()
		b.install("/usr/local/bin/etcdadm", []byte("another release"))
		b.must("systemctl", "reload", "etcdadm")
		b.until("another agent runs", func() bool { now := b.agent(); return now != 0 && now != agent && serves() })
		if now := b.etcd(); now != etcd {
			t.Errorf("etcd was %s and is %s", etcd, now)
		}
		runs, err := os.Stat(filepath.Join(b.root, "usr/local/bin/etcdadm"))
		if err != nil {
			t.Fatal(err)
		}
		if size := strings.TrimSpace(b.must("stat", "-L", "-c", "%s", fmt.Sprintf("/proc/%d/exe", b.agent()))); size != fmt.Sprint(runs.Size()) {
			t.Errorf("the agent's program has %s bytes, and the new one %d", size, runs.Size())
		}
	})

	t.Run("a stop ends both", func(t *testing.T) {
		b.must("systemctl", "stop", "etcdadm")
		if agent, etcd := b.agent(), b.etcd(); agent != 0 || etcd != "" {
			t.Errorf("agent %d, etcd %q", agent, etcd)
		}
		b.must("systemctl", "start", "etcdadm")
		b.until("its voter is up again", serves)
	})

	t.Run("the power is cut", func(t *testing.T) {
		b.powerCycle()
		b.until("its voter is up again", serves)
		if boot := b.etcd(); boot == "" {
			t.Error("no etcd runs")
		}
	})

	t.Run("a setting that is refused", func(t *testing.T) {
		etcd, path := b.etcd(), filepath.Join(b.root, "etc/etcdadm/agent.env")
		settings := read(t, path)
		if err := os.WriteFile(path, []byte(settings+"ETCDADM_GRPC_PORT=many\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.must("systemctl", "reload", "etcdadm")
		b.until("it is told", func() bool {
			code, _, errs := b.command("etcdadm", "status")
			return code == 10 && strings.Contains(errs, "$ETCDADM_GRPC_PORT")
		})
		if now := b.etcd(); now != etcd {
			t.Errorf("etcd was %s and is %s", etcd, now)
		}
		if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		b.until("it is mended", serves)
	})

	t.Run("drop-ins are respected", func(t *testing.T) {
		dir := filepath.Join(b.root, "etc/systemd/system/etcdadm.service.d")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "own.conf"), []byte("[Service]\nCPUWeight=77\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		b.must(append(strings.Fields(line[1]), "--host-id", "m2")...) // which has systemd read it
		if got := strings.TrimSpace(b.must("systemctl", "show", "-p", "CPUWeight", "--value", "etcdadm")); got != "77" {
			t.Errorf("CPUWeight is %s", got)
		}
	})
}

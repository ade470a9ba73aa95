package machines

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
)

// tree are the files of etcdadm on a machine, without what was set aside.
func (b *booted) tree() string {
	_, out, _ := b.command("sh", "-c", "ls -d /etc/etcdadm/* /etc/etcd /etc/systemd/system/etcdadm* /etc/systemd/system/*/etcdadm* /var/lib/etcdadm 2>/dev/null | grep -v /etc/etcdadm/reset-2")
	return strings.TrimSpace(out)
}

// Machines are reset by their commands, interrupted ever later by SIGINT and SIGKILL, and set up again.
func TestResetOfMachines(t *testing.T) {
	if !*rig.Long {
		t.Skip("TestResetOfTheLastHost is enough for every day: -e2e.long")
	}
	all := boot(t, 3)
	for _, b := range all {
		t.Cleanup(func() {
			if t.Failed() {
				_, log, _ := b.command("journalctl", "-u", "etcdadm", "--no-pager", "-n", "80", "-o", "cat")
				t.Logf("journal of %s:\n%s", b.name, log)
			}
		})
	}
	if out := all[0].must("etcdadm", "reset"); !strings.Contains(out, "nothing to reset") {
		t.Errorf("on a fresh machine: %s", out)
	}
	initAgain := func(b *booted, id string) (join []string) {
		t.Helper()
		out := b.must("etcdadm", "init", "--host-id", id)
		return strings.Fields(regexp.MustCompile(`(?m)^  (etcdadm join .*)$`).FindStringSubmatch(out)[1])
	}
	join := initAgain(all[0], "m1")
	for i, b := range all[1:] {
		b.must(append(slices.Clone(join), "--host-id", fmt.Sprintf("m%d", i+2))...)
	}
	says := func(b *booted, what string) {
		t.Helper()
		b.until(what, func() bool {
			_, out, _ := b.command("etcdadm", "status")
			return strings.Contains(out, what)
		})
	}
	says(all[0], "3 of 3 voters are up")

	// A follower, cut short first.
	b := all[2]
	t.Logf("\n%s", b.must("etcdadm", "reset", "--dry-run"))
	if out := b.must("etcdadm", "reset", "--dry-run", "-o", "json"); !strings.Contains(out, `"kind": "data"`) {
		t.Errorf("%s", out)
	}
	for _, signal := range []string{"INT", "KILL"} {
		for _, after := range []string{"0.05", "0.2", "0.5", "1", "1.5"} {
			code, out, errs := b.command("timeout", "-s", signal, after, "etcdadm", "reset", "--yes")
			t.Logf("%s after %s: exit code %d, %s%s", signal, after, code, out, errs)
		}
	}
	code, out, errs := b.command("etcdadm", "reset", "--yes")
	t.Logf("%d\n%s%s", code, errs, out)
	if code != 0 || b.tree() != "" || b.etcd() != "" || b.agent() != 0 {
		t.Errorf("exit code %d; left are %q, etcd %q, agent %d", code, b.tree(), b.etcd(), b.agent())
	}
	says(all[0], "2 of 2 voters are up, and the spec asks for 3")
	if _, out, _ := all[0].command("etcdadm", "status"); strings.Contains(out, "m3") || strings.Contains(out, "hold") {
		t.Errorf("status afterwards:\n%s", out)
	}
	b.must(append(slices.Clone(join), "--host-id", "m3")...)
	says(b, "3 of 3 voters are up")

	// Raft's leader.
	lead := all[0]
	_, status, _ := lead.command("etcdadm", "member", "list", "-o", "json")
	if m := regexp.MustCompile(`(?s)"host": "m(\d)",[^}]*?"leader": true`).FindStringSubmatch(status); m != nil {
		lead = all[m[1][0]-'1']
	}
	code, out, errs = lead.command("etcdadm", "reset", "--yes", "-o", "json")
	t.Logf("%d\n%s%s", code, errs, out)
	if code != 0 || lead.tree() != "" {
		t.Errorf("exit code %d; left are %q", code, lead.tree())
	}
	var rest []*booted
	for _, b := range all {
		if b != lead {
			rest = append(rest, b)
		}
	}
	says(rest[0], "2 of 2 voters are up, and the spec asks for 3")

	// Of two, one is away: refused, and by force.
	rest[1].must("systemctl", "stop", "etcdadm")
	code, out, errs = rest[0].command("etcdadm", "reset", "--yes")
	t.Logf("%d\n%s%s", code, errs, out)
	if code != 12 && code != 10 || rest[0].etcd() == "" {
		t.Errorf("exit code %d", code)
	}
	// Its own agent is away, too, and the etcd that was left is ended.
	rest[0].must("systemctl", "kill", "-s", "KILL", "--kill-whom=main", "etcdadm")
	rest[0].must("systemctl", "stop", "etcdadm")
	code, out, errs = rest[0].command("etcdadm", "reset", "--yes")
	t.Logf("%d\n%s%s", code, errs, out)
	if code != 10 {
		t.Errorf("exit code %d", code)
	}
	rest[0].must("systemctl", "disable", "etcdadm") // as where an earlier run was killed when the unit was away
	rest[0].must("mv", "/etc/systemd/system/etcdadm.service", "/root")
	code, out, errs = rest[0].command("etcdadm", "reset", "--yes", "--force", "--purge")
	t.Logf("%d\n%s%s", code, errs, out)
	if code != 0 || rest[0].tree() != "" || rest[0].etcd() != "" || !strings.Contains(out, "etcdadm host forget") {
		t.Errorf("exit code %d; left are %q, etcd %q", code, rest[0].tree(), rest[0].etcd())
	}
	if entries, err := os.ReadDir(filepath.Join(rest[0].root, "var/lib")); err == nil {
		for _, e := range entries {
			if strings.Contains(e.Name(), "etcdadm") && !strings.Contains(e.Name(), "reset-") {
				t.Errorf("%s is left", e.Name())
			}
		}
	}
	// A new cluster over what was left.
	join = initAgain(rest[0], "n1")
	lead.must(append(join, "--host-id", "n2")...)
	says(lead, "2 of 2 voters are up, and the spec asks for 3")

	// Which is destroyed.
	last, other := rest[0], lead
	if code, _, errs := last.command("etcdadm", "destroy", "--yes-destroy", "other"); code != 12 || !strings.Contains(errs, "nothing was changed") {
		t.Errorf("another name: exit code %d, %s", code, errs)
	}
	last.command("timeout", "-s", "KILL", "2", "etcdadm", "destroy", "--yes-destroy", "etcd")
	code, out, errs = last.command("etcdadm", "destroy", "--yes-destroy", "etcd")
	t.Logf("%d\n%s%s", code, errs, out)
	backup := regexp.MustCompile(`the last backup is \S+, in (\S+)`).FindStringSubmatch(out)
	if code != 0 || last.tree() != "" || last.etcd() != "" || other.etcd() != "" || backup == nil {
		t.Fatalf("exit code %d; left are %q, etcd %q and %q", code, last.tree(), last.etcd(), other.etcd())
	}
	last.must("test", "-s", backup[1]+"/etcd.backup.gz")
	code, out, errs = other.command("etcdadm", "reset", "--force", "--yes")
	t.Logf("%d\n%s%s", code, errs, out)
	if code != 0 || other.tree() != "" || other.agent() != 0 {
		t.Errorf("exit code %d; left are %q", code, other.tree())
	}
}

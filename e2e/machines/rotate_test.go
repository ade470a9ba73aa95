package machines

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// On machines with systemd and without a store the authorities are rotated while etcdctl writes, with a connection of
// its own each time and the files that certs issue made. A machine that joins in the middle follows.
func TestRotateOnMachines(t *testing.T) {
	if !*rig.Long {
		t.Skip("takes a minute, and e2e/tls rotates with daemons each time: -e2e.long")
	}
	all := boot(t, 4)
	join := regexp.MustCompile(`(?m)^  (etcdadm join .*)$`)
	all[0].must("etcdadm", "init", "--host-id", "m1")
	joins := func(b *booted, id string) {
		line := strings.Fields(join.FindStringSubmatch(all[0].must("etcdadm", "token", "create"))[1])
		b.must(append(line, "--host-id", id)...)
	}
	joins(all[1], "m2")
	joins(all[2], "m3")
	serves := func() bool {
		_, out, _ := all[0].command("etcdadm", "status")
		return strings.Contains(out, "3 of 3 voters are up")
	}
	all[0].until("3 of 3 voters are up", serves)
	all[0].must("etcdadm", "certs", "issue", "--for", "etcdctl")
	all[0].must("etcdadm", "certs", "issue", "--for", "kube-apiserver")

	const etcdctl = "/usr/local/bin/etcdctl"
	all[0].put(testetcd.Binary(t, testetcd.V37).Etcdctl, etcdctl, nil)
	endpoints := "https://" + all[0].address + ":2379,https://" + all[1].address + ":2379,https://" + all[2].address + ":2379"
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	calls, failed := 0, []string{}
	writing.Go(func() {
		for ctx.Err() == nil {
			put := func() (int, string, string) {
				return all[0].command(etcdctl, "--endpoints="+endpoints, "--cacert=/etc/etcd/pki/ca.crt", "--cert=/etc/etcd/pki/etcdctl-etcd-client.crt",
					"--key=/etc/etcd/pki/etcdctl-etcd-client.key", "--command-timeout=20s", "put", "x", "1")
			}
			code, out, errs := put()
			// etcd drops what reaches it in the milliseconds in which a leader hands over, as at each planned restart, and
			// etcdctl does not send it again.
			for range 3 {
				if code != 0 && strings.Contains(errs, "raft proposal dropped") {
					code, out, errs = put()
				}
			}
			if calls++; code != 0 {
				failed = append(failed, out+errs)
			}
		}
	})
	t.Cleanup(func() { cancel(); writing.Wait() })

	if code, _, errs := all[1].command("etcdadm", "certs", "rotate-ca"); code != cli.ExitUnsafe || !strings.Contains(errs, "New authorities are made") {
		t.Errorf("without a yes: exit code %d\n%s", code, errs)
	}
	t.Logf("\n%s", all[1].must("etcdadm", "certs", "rotate-ca", "--yes"))
	_, said, _ := all[0].command("etcdadm", "status")
	if !strings.Contains(said, "etcdadm certs rotate-ca --sign") {
		t.Errorf("status does not name the next step:\n%s", said)
	}
	joins(all[3], "m4")
	t.Logf("\n%s", all[0].must("etcdadm", "certs", "renew"))
	t.Logf("\n%s", all[1].must("etcdadm", "certs", "rotate-ca", "--sign", "--yes"))
	if _, _, errs := all[0].command("etcdadm", "certs", "rotate-ca", "--finish"); !strings.Contains(errs, "/etc/etcd/pki/etcdctl-etcd-client.crt is not of the authority that stays") {
		t.Errorf("nothing names a client's certificate of the old authority:\n%s", errs)
	}
	t.Logf("\n%s", all[0].must("etcdadm", "certs", "renew"))
	t.Logf("\n%s", all[2].must("etcdadm", "certs", "rotate-ca", "--finish", "--yes"))
	cancel()
	writing.Wait()
	t.Logf("%d calls of etcdctl", calls)
	if calls < 20 || len(failed) > 0 {
		t.Errorf("%d of %d calls of etcdctl failed: %q", len(failed), calls, failed)
	}
	for _, b := range all {
		b.until("3 of 3 voters are up", func() bool {
			_, out, _ := b.command("etcdadm", "status")
			return strings.Contains(out, "3 of 3 voters are up")
		})
		if out := b.must("etcdadm", "certs", "list"); strings.Contains(out, "untrusted") {
			t.Errorf("%s:\n%s", b.name, out)
		}
	}
	// What the rotation left on a host goes with the host.
	all[3].must("etcdadm", "reset", "--yes")
	if left, _ := filepath.Glob(filepath.Join(all[3].root, "etc/etcdadm/pki/*")); len(left) > 0 {
		t.Errorf("reset leaves %q", left)
	}
}

package machines

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// refusedSoon is a command that has to be refused within seconds, with these words, and with a way out.
func (b *booted) refusedSoon(within time.Duration, words string, line ...string) {
	b.t.Helper()
	began := time.Now()
	code, out, errs := b.command(line...)
	took := time.Since(began)
	b.t.Logf("%s: exit code %d after %s\n%s%s", strings.Join(line[:2], " "), code, took.Round(10*time.Millisecond), out, errs)
	if code == cli.ExitOK || !strings.Contains(errs, words) || took > within {
		b.t.Errorf("%s: it is to be refused within %s with %q", strings.Join(line, " "), within, words)
	}
	if !strings.Contains(errs, "hint: ") {
		b.t.Errorf("%s: no way out is told", strings.Join(line, " "))
	}
}

// lineOf is a command to join by a fresh token.
func (b *booted) lineOf() []string {
	b.t.Helper()
	return joins(b.t, b.must("etcdadm", "token", "create", "--ttl", "20m"))
}

// What people do in the wrong order: each says so within seconds and leaves the cluster as it was.
func TestWrongOrders(t *testing.T) {
	all := boot(t, 3)
	for _, b := range all {
		b.release(testetcd.V36)
	}
	// init on two hosts at once makes two clusters; neither takes the other's host.
	var both sync.WaitGroup
	for i, b := range all[:2] {
		both.Go(func() {
			code, _, errs := b.command("etcdadm", "init", "--host-id", []string{"m1", "m2"}[i], "--etcd-version", testetcd.V36)
			if code != cli.ExitOK {
				t.Errorf("init on host %d: exit code %d\n%s", i+1, code, errs)
			}
		})
	}
	both.Wait()
	one, two := all[0].lineOf(), all[1].lineOf()
	all[1].refusedSoon(3*time.Second, "this machine is a host of cluster etcd, whose authority has the hash", one...)
	all[0].refusedSoon(3*time.Second, "this machine is a host of cluster etcd with another store than was named", "etcdadm", "init", "--store", "file:///mnt/etcd-store/x", "--create-store")

	// Another cluster's token, another cluster's authority.
	at := func(name string, line []string) int { return slices.Index(line, name) + 1 }
	mixed := slices.Clone(one)
	mixed[at("--token", mixed)] = two[at("--token", two)]
	all[2].refusedSoon(6*time.Second, "is not known to the cluster", mixed...)
	mixed[at("--ca-hash", mixed)] = two[at("--ca-hash", two)]
	all[2].refusedSoon(6*time.Second, "the other side holds no authority of that hash", mixed...)

	// The last member is not taken away unasked; the way that is told works.
	all[1].refusedSoon(6*time.Second, "", "etcdadm", "reset", "--yes")
	all[1].must("etcdadm", "reset", "--force", "--yes")
	all[1].must(append(one, "--host-id", "m2")...)

	// init over data: a machine whose settings are gone, and not its data.
	b := all[2]
	b.must("etcdadm", "init", "--host-id", "other")
	b.must("systemctl", "disable", "--now", "etcdadm")
	b.must("mv", "/etc/etcdadm", "/root/etcdadm.lost")
	b.refusedSoon(6*time.Second, "holds the record of a cluster with other authorities", "etcdadm", "init")
	b.refusedSoon(6*time.Second, "holds the record of a cluster with other authorities", append(one, "--host-id", "m3")...)
	b.refusedSoon(6*time.Second, "not confirmed", append(one, "--host-id", "m3", "--set-aside")...)

	// A host joins while an upgrade runs, by two commands at once: both come to the same end.
	upgraded := make(chan string, 1)
	go func() {
		code, out, errs := all[0].command("etcdadm", "upgrade", builtin.Version)
		upgraded <- fmt.Sprintf("exit code %d\n%s%s", code, out, errs)
	}()
	for range 2 {
		both.Go(func() {
			if code, out, errs := b.command(append(one, "--host-id", "m3", "--set-aside", "--yes")...); code != cli.ExitOK {
				t.Logf("join: exit code %d\n%s%s", code, out, errs)
			}
		})
	}
	both.Wait()
	b.must(append(one, "--host-id", "m3")...)
	t.Logf("upgrade: %s", <-upgraded)
	b.until("3 of 3 voters are up", func() bool {
		code, out, _ := b.command("etcdadm", "status")
		return code == cli.ExitOK && strings.Contains(out, "3 of 3 voters are up")
	})
	b.until("all run the new release", func() bool {
		_, out, _ := b.command("etcdadm", "member", "list")
		return strings.Count(out, " "+builtin.Version+" ") == 3
	})
	if kept := b.must("sh", "-c", "ls -d /var/lib/etcdadm.reset-*"); len(strings.Fields(kept)) != 1 {
		t.Errorf("set aside: %s", kept)
	}

	// The host whose member leads raft is reset: leadership moves, and the others serve on.
	out := all[0].must("etcdadm", "member", "list")
	t.Logf("\n%s", out)
	for i, b := range all {
		if regexp.MustCompile(`(?m)^.*\bm` + string(rune('1'+i)) + `\b.*leader.*$`).MatchString(out) {
			b.must("etcdadm", "reset", "--yes")
			all[(i+1)%3].until("2 voters are up", func() bool {
				_, out, _ := all[(i+1)%3].command("etcdadm", "status")
				return strings.Contains(out, "2 of 2 voters are up")
			})
			return
		}
	}
	t.Error("nobody leads raft")
}

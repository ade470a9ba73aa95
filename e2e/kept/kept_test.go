package kept

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// Three hosts without a store: they form a cluster from the record that the first one made, and keep it together. The first one
// is lost for good, and everything goes on: writes, a backup, another spec, a host in its place.
func TestFirstHostIsLost(t *testing.T) {
	c := rig.NewCluster(t, rig.Options{Hosts: 4, TLS: true, Kept: true, Flags: []string{"--dead-after=8s"}})
	c.Host(1).FoundRecord(3)
	for n := 2; n <= 4; n++ {
		c.Host(n).Named()
	}
	c.Start(1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	c.KeptBy(rig.Soon, 1, 2, 3)

	client := c.NewClient(2, 3, 4)
	defer client.Close()
	w := c.Write()
	w.WaitFor(20)

	if r := c.Etcdadm("backup", "create", "--data-dir", c.Host(2).Dir, "--wait", "60s"); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Host(1).Crash()
	c.Host(1).Wipe(false)
	w.WaitFor(20)
	c.Start(4)
	c.Voters(2*time.Minute, 2, 3, 4)
	c.KeptBy(time.Minute, 2, 3, 4)
	if r := c.Etcdadm("backup", "list", "--store", c.Host(3).StoreURL()); r.Code != cli.ExitOK || strings.Count(r.Stdout, "Z-") < 1 {
		t.Errorf("%s", r)
	}
	// Another spec, through a host that was not there at first.
	if r := c.Etcdadm("seed", c.Host(4).StoreURL(), "--member-count", "1", "--yes"); r.Code != cli.ExitOK {
		t.Errorf("%s", r)
	}
	rig.Eventually(t, rig.Soon, "one member", func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err == nil && len(list.Members) != 1 {
			err = fmt.Errorf("%d members", len(list.Members))
		}
		return err
	})
	w.End()
}

// Two of three hosts are gone: the record is made again on the third one, which goes on from its data. The others come back at the
// same moment with their old disks. They could serve as the cluster before, and join the one that went on.
func TestMajorityIsLost(t *testing.T) {
	rig.TakesLong(t, "most of a minute")
	c := rig.NewCluster(t, rig.Options{Hosts: 3, TLS: true, Kept: true, Flags: []string{"--dead-after=8s"}})
	c.Host(1).FoundRecord(3)
	for n := 2; n <= 3; n++ {
		c.Host(n).Named()
	}
	c.Start(1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	c.KeptBy(rig.Soon, 1, 2, 3)
	c.Fill("before/", 50)
	if r := c.Etcdadm("backup", "create", "--data-dir", c.Host(2).Dir, "--wait", "60s"); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	c.Host(1).Crash()
	c.Host(2).Crash()
	c.Host(3).Crash() // the power failed for all, and it alone comes back
	c.Start(3)

	survivor := c.Host(3)
	one := []string{"--from", "host-3", "--lost", "host-1"}
	two := append(one, "--lost", "host-2")
	rig.Eventually(t, rig.Soon, "a recovery that names one of two is refused", func(context.Context) error {
		r := c.Recovers(survivor, append(one, "--yes")...)
		if r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "name it with --lost") {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	if r := c.Etcdadm("backup", "list", "--store", survivor.StoreURL()); r.Code != cli.ExitOK || strings.Count(r.Stdout, "Z-") < 1 {
		t.Errorf("%s", r)
	}
	if r := c.Recovers(survivor, append(two, "--dry-run")...); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "would make it again") {
		t.Errorf("%s", r)
	}
	if r := c.Recovers(survivor, append(two, "--yes")...); r.Code != cli.ExitOK || !strings.Contains(r.Stderr, "was made again") {
		t.Fatalf("%s", r)
	}
	rig.Eventually(t, 2*time.Minute, "host 3 goes on as generation 2", func(context.Context) error {
		if r := c.Etcdadm("status", "--data-dir", survivor.Dir, "-o", "json"); !regexp.MustCompile(`"generation": ?2\b`).MatchString(r.Stdout) {
			return fmt.Errorf("exit code %d: %s", r.Code, r.Stderr)
		}
		return nil
	})
	c.Start(1, 2)
	c.Voters(2*time.Minute, 1, 2, 3)
	c.KeptBy(time.Minute, 1, 2, 3)
	for _, n := range []int{1, 2} {
		if log, err := os.ReadFile(c.Host(n).Log); err != nil || !strings.Contains(string(log), "this host went over to the record") {
			t.Errorf("host %d did not go over (%v)", n, err)
		}
	}
	if n := c.CountKeys("before/"); n != 50 {
		t.Errorf("%d keys of 50", n)
	}
}

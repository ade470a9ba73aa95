package members

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// On 3.6 and later the two that join a restored founder are learners at the same
// time, and become voters both, also when one of them dies meanwhile and comes
// back, or comes back with an empty disk.
func TestTwoLearners(t *testing.T) {
	rig.LongOnly(t)
	for _, wiped := range []bool{false, true} {
		t.Run(fmt.Sprintf("wiped %t", wiped), func(t *testing.T) {
			t.Parallel()
			c := rig.Formed(t, 3, rig.Options{})
			c.FillLarge("large/", 150) // so that it takes some time to catch up
			w := c.Write()
			w.Check()
			name := c.TakeBackup()
			l, leader := c.CountLearners(), c.Agree()
			command := c.RestoreByCtl(name)
			l.Two(c, leader)
			dies := c.ALearner() // of two voters none can be spared
			dies.Crash()
			if wiped {
				dies.Wipe(true)
			}
			if dies != leader {
				leader.Signal(syscall.SIGCONT)
			}
			c.Ended(command, "done")
			c.Passes(2 * time.Second)
			dies.Start()
			c.Generation(2, 1, 2, 3)
			l.End()
			if n := l.Most.Load(); n != 2 {
				t.Errorf("%d learners were listed at a time, want 2", n)
			}
			w.Compare(c.Etcd())
			c.Write().Check()
		})
	}
}

// Where a member of 3.5 is among them, which takes one learner only, there is
// never a second one: in a restore, and in a cluster that is half way to 3.6.
func TestOneLearnerBeside35(t *testing.T) {
	rig.LongOnly(t)
	c := rig.Formed(t, 3, rig.Options{Hosts: 5, Version: testetcd.V35})
	c.Start(4, 5)
	c.FillLarge("large/", 100)
	w := c.Write()
	w.Check()
	name := c.TakeBackup()
	l := c.CountLearners()
	if r := c.Restore(name); r.Code != cli.ExitOK {
		t.Fatal(r)
	}
	c.Members(2*time.Minute, 3)
	w.Compare(c.Etcd())
	if n := l.Most.Load(); n > 1 {
		t.Errorf("%d learners were listed at a time with 3.5", n)
	}
	r := c.Upgrade(c.Host(1), testetcd.V36, "--pause-before-last", "--wait=3m")
	if r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "the last one stays on "+testetcd.V35) {
		t.Fatal(r)
	}
	c.Options.Version = testetcd.V36
	if r := c.Ctl("-member-count=5", "--backup-store="+c.StoreURL(), "configure-cluster"); r.Code != cli.ExitOK {
		t.Fatal(r)
	}
	on := c.Members(2*time.Minute, 5)
	if _, left := c.Split(testetcd.V36, on...); len(left) == 0 {
		t.Error("no member of 3.5 was left while the cluster grew")
	}
	l.End()
	if n := l.Most.Load(); n != 1 {
		t.Errorf("%d learners were listed at a time beside a member of 3.5, want 1", n)
	}
	if r := c.Upgrade(c.Host(1), "--resume", "--wait=3m"); r.Code != cli.ExitOK {
		t.Fatal(r)
	}
	c.Runs(rig.Soon, on...)
	w.Compare(c.Etcd())
	c.Write().Check()
}

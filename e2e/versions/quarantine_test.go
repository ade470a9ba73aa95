package versions

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// only forms a cluster whose hosts have these releases and no others, and runs the
// first of them.
func only(t *testing.T, members int, o rig.Options, releases ...string) *rig.Cluster {
	t.Helper()
	o.Hosts, o.Version = members, releases[0]
	c := rig.NewCluster(t, o)
	var hosts []int
	for n := range members {
		c.Host(n + 1).Releases(releases...)
		hosts = append(hosts, n+1)
	}
	c.Configure(members)
	c.Start(hosts...)
	c.Voters(rig.Soon, hosts...)
	return c
}

// From 3.4 to 3.6 where 3.5 is not installed, and back: all members are stopped and a
// new generation is made from what they have. Nothing that was acknowledged is
// lost, no revision goes back, leases live on and watches go on or are told to list
// again.
func TestOverALine(t *testing.T) {
	rig.TakesLong(t, "46 s")
	t.Parallel()
	c := only(t, 3, rig.Options{}, testetcd.V34, testetcd.V36)
	w := c.Write()
	h := &rig.Revisions{T: t, Seen: map[int64]string{}}
	m := &rig.Mirror{Prefix: "m/", History: h}
	c.During(func(ctx context.Context, client *clientv3.Client) {
		m.Client = client
		m.Run(ctx)
	})
	stopWriting := c.During(rig.Rewrites(h, "m/"))
	kept, _ := c.KeepAlive("/kept", 60)
	if r := c.Upgrade(c.Host(1), testetcd.V36); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "--accept-outage") {
		t.Errorf("%s", r)
	}
	if r := c.Upgrade(c.Host(1), testetcd.V36, "--accept-outage", "--wait=3m"); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "every member runs etcd "+testetcd.V36) {
		t.Fatalf("%s", r)
	}
	c.Options.Version = testetcd.V36
	c.Runs(rig.Soon, 1, 2, 3)
	c.Generation(2, 1, 2, 3)
	t.Logf("%s up: no write was acknowledged for %s", testetcd.V34, w.Outage())
	kept.More(t, 1)
	c.Passes(time.Second)
	stopWriting()
	m.Holds(c)
	w.Check()
	w.NeverBack()

	down := c.Write()
	c.To(testetcd.V34, 1, 2, 3) // as the predecessor's users ask for it
	c.Generation(3, 1, 2, 3)
	t.Logf("%s down: no write was acknowledged for %s", testetcd.V36, down.Outage())
	kept.More(t, 1)
	down.Check()
	down.NeverBack()
	w.Compare(c.Etcd())
}

// Down over two lines at once, from the newest, with TLS; and one member.
func TestDownOverALine(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	for _, members := range []int{3, 1} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			if members == 1 && !*rig.Long {
				t.Skip("only with -e2e.long")
			}
			c := only(t, members, rig.Options{TLS: true}, testetcd.V37, testetcd.V35)
			w := c.Write()
			var hosts []int
			for n := range members {
				hosts = append(hosts, n+1)
			}
			c.To(testetcd.V35, hosts...)
			t.Logf("no write was acknowledged for %s", w.Outage())
			w.Check()
			w.NeverBack()
		})
	}
}

// The leading daemon is killed at each step of the way: whoever leads next goes on
// with it, or takes it back.
func TestLeaderKilledOverALine(t *testing.T) {
	rig.LongOnly(t)
	for _, step := range []string{"test on host", "stop all members", "prepares", "record generation 2", "record that", "set its data aside", "begin generation 2", "record that it exists"} {
		t.Run(strings.ReplaceAll(step, " ", "-"), func(t *testing.T) {
			c := only(t, 3, rig.Options{}, testetcd.V34, testetcd.V36)
			w := c.Write()
			killed := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), rig.Soon)
			defer cancel()
			go func() { killed <- c.KillWhen(ctx, step) }()
			c.Asks(testetcd.V36, 3)
			if err := <-killed; err != nil {
				t.Skipf("the step was not seen: %v", err)
			}
			c.Passes(time.Second)
			for n := range 3 {
				if !c.Host(n + 1).Running() {
					c.Host(n + 1).Start()
				}
			}
			c.Runs(2*time.Minute, 1, 2, 3)
			c.Generation(2, 1, 2, 3)
			t.Logf("no write was acknowledged for %s", w.Outage())
			w.Check()
			w.NeverBack()
		})
	}
}

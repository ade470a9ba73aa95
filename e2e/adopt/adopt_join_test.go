package adopt

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testetcd"
)

// A cluster whose members are elsewhere goes over to our hosts: they join, and its
// members are removed, while a client writes that follows the member list.
func TestAdoptByJoining(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name    string
		options rig.Options
		members int // of theirs, and then of ours
		auth    bool
	}{
		{"one", rig.Options{Hosts: 2}, 1, false},
		{"password", rig.Options{Hosts: 2}, 1, true},
		{"tls", rig.Options{Hosts: 6, TLS: true}, 3, false},
		{"passwords", rig.Options{Hosts: 6}, 3, true},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if v.members > 1 || v.name != "one" {
				rig.TakesLong(t, "40 s")
			}
			c := rig.NewCluster(t, v.options)
			c.OneAuthority()
			x := c.FormByHand(upTo(v.members)...)
			id, _ := x.MemberIDs()
			if v.auth {
				c.AuthByHand()
			}
			w := c.WriteFollowing()
			if r := c.Join(v.members + 1); r.Code != 0 || !strings.Contains(r.Stdout, "To be done:") || rig.Exists(c.Host(v.members+1).Dir) || rig.Exists(c.Store) {
				t.Errorf("the dry run: %s", r)
			}
			var ours []int
			for n := v.members + 1; n <= 2*v.members; n++ {
				c.JoinWith(n)
				w.WaitFor(10)
				ours = append(ours, n)
			}
			c.Generation(1, ours...)
			c.OnlyOurs(id, ours...)
			w.Check()
			w.NeverBack()
			c.Host(ours[0]).Crash() // from here on it is one like any other
			c.Host(ours[0]).Start()
			c.Host(ours[0]).Serves(rig.Soon)
			c.Voters(rig.Soon, ours...)
			if r := c.Join(ours[0]); r.Code != 0 || !strings.Contains(r.Stdout, "ours already") {
				t.Errorf("once more: %s", r)
			}
		})
	}
}

// Members without TLS go over to hosts that have it: ours join without it, too, while a client writes that knows none either; theirs
// go while one writes that has a certificate; and then the daemons turn it on, as nobody else is left. The only daemon that leads is
// killed meanwhile.
func TestAdoptByJoiningWithoutTLS(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		name    string
		members int
		auth    bool
		version string
	}{
		{"one", 1, false, testetcd.V36}, {"password", 1, true, testetcd.V37}, {"three", 3, false, testetcd.V35}, {"passwords", 3, true, testetcd.V36},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if v.name != "one" {
				rig.TakesLong(t, "1 minute")
			}
			c := rig.NewCluster(t, rig.Options{Hosts: 2 * v.members, TLS: true, Version: v.version})
			theirs := upTo(v.members)
			for _, n := range theirs {
				c.Host(n).Plain = true
			}
			x := c.FormByHand(theirs...)
			id, _ := x.MemberIDs()
			if v.auth {
				c.AuthByHand()
			}
			before := c.WriteUnder("before/", theirs...)
			var ours []int
			for n := v.members + 1; n <= 2*v.members; n++ {
				ours = append(ours, n)
			}
			if r := c.Join(ours[0]); r.Code != 0 || !strings.Contains(r.Stdout, "this host joins at http://") || !strings.Contains(r.Stdout, "turn TLS on between the members") {
				t.Errorf("the dry run: %s", r)
			}
			for _, n := range ours {
				c.JoinWith(n, "--keep")
				before.WaitFor(10)
			}
			before.Check()
			after := c.WriteUnder("after/", ours...)
			c.KilledAfter(500*time.Millisecond, ours[0])
			if r := c.Join(ours[0], "--yes", "--wait=90s"); r.Code != 0 || !strings.Contains(r.Stdout, "Done") {
				t.Fatalf("%s", r)
			}
			leads := c.Leader(rig.Soon, c.Host(ours[0]))
			leads.Kill() // its etcd goes on
			leads.Start()
			client := c.NewClient(ours...)
			defer client.Close()
			rig.Eventually(t, 3*rig.Soon, "TLS between the members", func(ctx context.Context) error {
				list, err := client.MemberList(ctx)
				if err != nil || len(list.Members) != len(ours) {
					return fmt.Errorf("%v, %w", list, err)
				}
				for _, m := range list.Members {
					if m.IsLearner || !strings.HasPrefix(m.PeerURLs[0], "https://") || !strings.HasPrefix(m.ClientURLs[0], "https://") {
						return fmt.Errorf("%s", m)
					}
				}
				return nil
			})
			c.Generation(1, ours...)
			c.OnlyOurs(id, ours...)
			after.WaitFor(10)
			after.Check()
			after.NeverBack()
			before.Compare(client)
			if r := c.Join(ours[0]); r.Code != 0 || !strings.Contains(r.Stdout, "ours already") {
				t.Errorf("once more: %s", r)
			}
		})
	}
}

func upTo(n int) (hosts []int) {
	for i := range n {
		hosts = append(hosts, i+1)
	}
	return hosts
}

// Daemons are there before, the command is killed again and again, a member dies
// before the removals, the leading daemon while they are under way, and two people
// run the command.
func TestAdoptByJoiningDisturbed(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("takes most of a minute: -e2e.long")
	}
	c := rig.NewCluster(t, rig.Options{Hosts: 6, Version: testetcd.V35})
	x := c.FormByHand(1, 2, 3)
	id, _ := x.MemberIDs()
	w := c.WriteFollowing()
	for n := 4; n <= 6; n++ {
		if n > 4 {
			c.Start(n) // the marker keeps it from founding anything
		}
		for try := range 8 {
			c.KilledAfter(time.Duration(150+100*try)*time.Millisecond, n, "--keep")
		}
		if n == 4 {
			c.Start(n)
		}
		if r := c.Join(n, "--yes", "--keep", "--wait=90s"); r.Code != 0 || !strings.Contains(r.Stdout, "Done") {
			t.Fatalf("%s", r)
		}
		w.WaitFor(10)
	}
	if r := c.Join(4, "--keep"); !strings.Contains(r.Stdout, "cluster "+fmt.Sprintf("%x", id)+" of 6 members") {
		t.Errorf("before the removals: %s", r)
	}
	c.Blocked(c.Host(4), "is being taken over", "etcdadm adopt --join")
	x.Kill(2)
	leads := c.Leader(rig.Soon, c.Host(4))
	leads.Kill() // its etcd goes on
	both := make(chan rig.Result, 2)
	for _, n := range []int{5, 6} {
		go func() { both <- c.Join(n, "--yes", "--wait=90s") }()
	}
	c.KilledAfter(500*time.Millisecond, 4)
	rig.Eventually(t, rig.Soon, "our members only", func(ctx context.Context) error {
		list, err := c.Etcd().MemberList(ctx)
		if err == nil && len(list.Members) != 3 {
			err = fmt.Errorf("%d members", len(list.Members))
		}
		return err
	})
	leads.Start()
	for range 2 {
		if r := <-both; r.Code != 0 || !strings.Contains(r.Stdout, "Done") && !strings.Contains(r.Stdout, "ours already") {
			t.Errorf("%s", r)
		}
	}
	c.Generation(1, 4, 5, 6)
	c.OnlyOurs(id, 4, 5, 6)
	w.Check()
	w.NeverBack()
}

// What cannot work is refused in words, before anything is changed.
func TestAdoptByJoiningRefused(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 2, TLS: true})
	c.OneAuthority()
	x := c.FormByHand(1)
	_, before := x.MemberIDs()
	other := filepath.Join(c.Dir, "other-pki")
	if _, err := pki.Create(other, time.Now()); err != nil {
		t.Fatal(err)
	}
	refused := func(words string, more ...string) {
		t.Helper()
		r := c.Join(2, append(more, "--yes")...)
		if r.Code == 0 || !strings.Contains(r.Stderr, words) || rig.Exists(filepath.Join(c.Host(2).Dir, "etcdadm")) {
			t.Errorf("want a refusal with %q: %s", words, r)
		}
	}
	refused("as this host's member would", "--pki-dir="+other)
	refused("authority for peers is needed", "--pki-dir="+filepath.Join(c.Dir, "none"))
	refused("give this host's daemon the authority", "--peer-urls=http://"+c.Block.At(2, rig.PortPeer), "--client-urls=http://"+c.Block.At(2, rig.PortClient))
	refused("no etcd "+testetcd.V36, "--release-dir="+t.TempDir())
	refused("in place", "--peer-urls="+x.URL(1, rig.PortPeer))
	learner, err := c.Etcd().MemberAddAsLearner(t.Context(), []string{"https://" + c.Block.At(2, rig.PortPeer+7)})
	if err != nil {
		t.Fatal(err)
	}
	refused("is a learner")
	if _, err := c.Etcd().MemberRemove(t.Context(), learner.Member.ID); err != nil {
		t.Fatal(err)
	}
	if _, after := x.MemberIDs(); !maps.Equal(before, after) || rig.Exists(filepath.Join(c.Store, "control")) {
		t.Errorf("members %x became %x, or the store was written", before, after)
	}
}

package disks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// smallQuota has every member hold its database to so many MiB.
func smallQuota(mib int) []string {
	return []string{fmt.Sprintf("ETCD_QUOTA_BACKEND_BYTES=%d", mib<<20)}
}

// A database that is driven beyond a small quota, by a writer that goes on and on
// over the same keys, serves again without a person, as often as that happens, and
// nothing that was acknowledged is missing.
func TestNoSpaceCured(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	for _, version := range []string{testetcd.V35, testetcd.V36, testetcd.V37} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := rig.Formed(t, 3, rig.Options{Version: version, Env: smallQuota(24)})
			w := c.Write()
			began := time.Now()
			acked, refused, stop := c.Pour("over/", 100, 8<<10)
			for round := range 2 {
				was := refused.Load()
				rig.Eventually(t, rig.Soon, "the database full", func(context.Context) error {
					if refused.Load() == was {
						return fmt.Errorf("%d writes acknowledged, none refused", acked.Load())
					}
					return nil
				})
				full, at := time.Now(), acked.Load()
				rig.Eventually(t, rig.Soon, "writes acknowledged again", func(context.Context) error {
					if n := acked.Load(); n < at+100 {
						return fmt.Errorf("%d more, %d refused", n-at, refused.Load())
					}
					return nil
				})
				t.Logf("round %d: full after %s, writes again %s later", round+1, full.Sub(began).Round(10*time.Millisecond), time.Since(full).Round(10*time.Millisecond))
				began = time.Now()
			}
			stop()
			c.Unalarmed(rig.Soon)
			c.Voters(rig.Soon, 1, 2, 3)
			w.Check()
			w.NeverBack()
			t.Logf("%d defragmentations", c.Count("msg=defragmented"))
		})
	}
}

// The same while the last voter is kept on its old version on the way down, and
// another option of etcd is followed then, too.
func TestNoSpaceCuredOnTheWayDown(t *testing.T) {
	rig.LongOnly(t)
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V37, Env: smallQuota(24)})
	w := c.Write()
	h := c.Host(1)
	kept := func() {
		t.Helper()
		c.Blocked(h, "the last one stays on "+testetcd.V37, "etcdadm upgrade --resume")
		if moved, left := c.Split(testetcd.V36, 1, 2, 3); len(moved) != 2 || len(left) != 1 {
			t.Errorf("%d members run %s, and %d the old version", len(moved), testetcd.V36, len(left))
		}
	}
	if r := c.Upgrade(h, testetcd.V36, "--pause-before-last", "--wait=3m"); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "the last one stays on "+testetcd.V37) {
		t.Fatalf("%s", r)
	}
	kept()
	acked, refused, stop := c.Pour("over/", 100, 8<<10)
	rig.Eventually(t, rig.Soon, "the database full", func(context.Context) error {
		if refused.Load() == 0 {
			return fmt.Errorf("%d writes acknowledged, none refused", acked.Load())
		}
		return nil
	})
	at := acked.Load()
	rig.Eventually(t, rig.Soon, "writes acknowledged again", func(context.Context) error {
		if n := acked.Load(); n < at+100 {
			return fmt.Errorf("%d more, %d refused", n-at, refused.Load())
		}
		return nil
	})
	stop()
	c.Unalarmed(rig.Soon)
	kept()
	if r := c.Config(h, "set", "snapshot-count=12345"); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	for n := 1; n <= 3; n++ {
		rig.Eventually(t, 2*rig.Soon, fmt.Sprintf("host %d has the other option", n), func(context.Context) error {
			args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.Host(n).EtcdPID())) // gone while it is restarted
			if err == nil && !strings.Contains(string(args), "--snapshot-count=12345") {
				err = fmt.Errorf("it runs with %q", args)
			}
			return err
		})
	}
	c.Voters(rig.Soon, 1, 2, 3)
	kept()
	if r := c.Upgrade(h, "--resume", "--wait=3m"); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "every member runs etcd "+testetcd.V36) {
		t.Fatalf("%s", r)
	}
	c.Options.Version = testetcd.V36
	c.Runs(rig.Soon, 1, 2, 3)
	w.Check()
	w.NeverBack()
}

// The same with one and with two voters, of which the third host never comes; and a
// person's commands about it.
func TestNoSpaceFewVoters(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := rig.NewCluster(t, rig.Options{Hosts: n, Version: testetcd.V36, Env: smallQuota(16)})
			want := n
			if n == 2 {
				want = 3
			}
			c.Configure(want)
			hosts := rig.Numbers(n)
			c.Start(hosts...)
			c.Voters(2*rig.Soon, hosts...)
			w := c.Write()
			acked, refused, stop := c.Pour("over/", 100, 8<<10)
			rig.Eventually(t, rig.Soon, "the database full", func(context.Context) error {
				if refused.Load() == 0 {
					return fmt.Errorf("%d writes acknowledged, none refused", acked.Load())
				}
				return nil
			})
			full, at := time.Now(), acked.Load()
			h := c.Agree()
			list := c.Etcdadm("alarm", "list", "--data-dir", h.Dir)
			rig.Eventually(t, rig.Soon, "writes acknowledged again", func(context.Context) error {
				if n := acked.Load(); n < at+100 {
					return fmt.Errorf("%d more, %d refused", n-at, refused.Load())
				}
				return nil
			})
			t.Logf("%d voters: writes again %s after it was full; alarms meanwhile: %s", n, time.Since(full).Round(10*time.Millisecond), strings.TrimSpace(list.Stdout))
			stop()
			c.Unalarmed(rig.Soon)
			w.Check()
			if r := c.Etcdadm("defrag", "--data-dir", h.Dir, "--dry-run"); r.Code != 0 || !strings.Contains(r.Stdout, "as asked") && !strings.Contains(r.Stdout, "is not defragmented now: ") {
				t.Error(r)
			}
			was := c.Count("msg=defragmented")
			if r := c.Etcdadm("defrag", "--data-dir", h.Dir, "--yes", "--wait=1m"); r.Code != 0 || !strings.Contains(r.Stdout, "\ndefragmented ") || !strings.Contains(r.Stderr, "waiting: ") {
				t.Error(r)
			}
			if got := c.Count("msg=defragmented") - was; got != n {
				t.Errorf("%d defragmentations of %d members", got, n)
			}
			for _, words := range [][]string{{"alarm", "list"}, {"alarm", "disarm"}} {
				if r := c.Etcdadm(append(words, "--data-dir", h.Dir)...); r.Code != 0 || !strings.Contains(r.Stdout, "alarm is raised") {
					t.Error(r)
				}
			}
		})
	}
}

// What keys alone fill cannot be cured: it is said with the line that helps, nothing
// is tried again and again, and once there is more room the members serve again.
func TestNoSpaceOfKeys(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V36, Env: smallQuota(16)})
	_, refused, stop := c.Pour("keys/", 0, 8<<10)
	rig.Eventually(t, rig.Soon, "the database full", func(context.Context) error {
		if refused.Load() == 0 {
			return errors.New("no write was refused")
		}
		return nil
	})
	h := c.Agree()
	// Clients try on: a defragmentation may make room for a few keys more.
	c.Blocked(h, "raise the quota or delete keys", "etcdadm config set quota-backend-bytes=")
	stop()
	compactions, defragmentations := c.Count(`op="compact`), c.Count("msg=defragmented")
	c.Passes(20 * time.Second)
	if a, b := c.Count(`op="compact`), c.Count("msg=defragmented"); a != compactions || b != defragmentations {
		t.Errorf("it was tried again: %d compactions after %d, %d defragmentations after %d", a, compactions, b, defragmentations)
	}
	if r := c.Config(h, "set", "quota-backend-bytes=64MiB", "--wait", "2m"); r.Code != 0 {
		t.Fatalf("%s\n%s", r, c.Logs())
	}
	c.Unalarmed(rig.Soon)
	c.Put("after")
}

// Members whose databases are mostly free are defragmented one after the other,
// while clients write.
func TestFragmentationCured(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Version: testetcd.V37, Flags: []string{"--hashkv-interval=0"}})
	acked, _, stop := c.Pour("old/", 0, 64<<10)
	rig.Eventually(t, rig.Soon, "64 MiB written", func(context.Context) error {
		if n := acked.Load(); n < 1100 {
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
	stop()
	w := c.Write()
	ctx, cancel := context.WithTimeout(context.Background(), rig.Soon)
	defer cancel()
	gone, err := c.Etcd().Delete(ctx, "old/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Etcd().Compact(ctx, gone.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, 2*rig.Soon, "small files on all hosts", func(ctx context.Context) error {
		for _, h := range c.Hosts {
			st, err := c.Status(ctx, h.N)
			if err != nil {
				return err
			}
			if st.DbSize > 32<<20 {
				return fmt.Errorf("host %d: %d bytes, %d in use", h.N, st.DbSize, st.DbSizeInUse)
			}
		}
		return nil
	})
	rig.Eventually(t, rig.Soon, "three defragmentations told", func(context.Context) error {
		if n := c.Count("msg=defragmented"); n < 3 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	if n := c.Count("msg=defragmented"); n != 3 {
		t.Errorf("%d defragmentations of 3 members", n)
	}
	w.Check()
	t.Logf("the longest time without a write: %s", w.Longest.Round(time.Millisecond))
}

// Bytes of one member's database change on its disk, of which etcd notices nothing
// by itself: the member is found and replaced while clients write, by the hashes
// alone, or by etcd's own check, which stops all writes until then.
func TestCorruptMemberReplaced(t *testing.T) {
	for _, x := range []struct {
		name, version string
		flags         []string
		check         bool
	}{
		{"by hash, 3.5", testetcd.V35, []string{"--hashkv-interval=5s"}, false},
		{"by hash, 3.7", testetcd.V37, []string{"--hashkv-interval=5s"}, false},
		{"by etcd's alarm, 3.6", testetcd.V36, []string{"--hashkv-interval=0"}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			if !x.check {
				rig.TakesLong(t, "a minute")
			}
			t.Parallel()
			c := rig.Formed(t, 3, rig.Options{Version: x.version, Flags: x.flags})
			const right, wrong = "a value that is to stay as it is", "a value that is not what it was!"
			ctx, cancel := context.WithTimeout(context.Background(), 4*rig.Soon)
			defer cancel()
			if _, err := c.Etcd().Put(ctx, "kept", right); err != nil {
				t.Fatal(err)
			}
			if x.check {
				if r := c.Config(c.Host(1), "set", "corrupt-check-time=2s", "--wait", "2m"); r.Code != 0 {
					t.Fatal(r)
				}
			}
			w := c.Write()
			leads := c.RaftLeader(1, 2, 3)
			bad := c.Host(leads.N%3 + 1) // a follower
			bad.Interrupt()
			bad.Exit(rig.Soon)
			st, err := c.Etcd().MemberList(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var was uint64
			for _, m := range st.Members {
				if strings.Contains(strings.Join(m.PeerURLs, ","), c.Block.At(bad.Place, rig.PortPeer)) {
					was = m.ID
				}
			}
			bad.Rot(right, wrong)
			bad.Start()
			bad.Serves(rig.Soon)
			if got, err := c.NewClient(bad.N).Get(ctx, "kept", clientv3.WithSerializable()); err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != wrong {
				t.Fatalf("the damaged member serves %v, %v", got, err)
			}
			began := time.Now()
			rig.Eventually(t, 3*rig.Soon, "the damaged member replaced", func(ctx context.Context) error {
				list, err := c.Etcd().MemberList(ctx)
				if err != nil {
					return err
				}
				voters := 0
				for _, m := range list.Members {
					if m.ID == was {
						return errors.New("it is listed")
					}
					if !m.IsLearner {
						voters++
					}
				}
				if voters != 3 {
					return fmt.Errorf("%d voters", voters)
				}
				return nil
			})
			t.Logf("replaced within %s", time.Since(began).Round(100*time.Millisecond))
			c.Voters(rig.Soon, 1, 2, 3)
			c.Unalarmed(rig.Soon)
			for _, h := range c.Hosts {
				got, err := c.NewClient(h.N).Get(ctx, "kept", clientv3.WithSerializable())
				if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != right {
					t.Errorf("host %d serves %v, %v", h.N, got, err)
				}
			}
			set := slices.DeleteFunc(c.AsideOn(bad), func(name string) bool { return strings.HasSuffix(name, ".json") }) // what is known of it
			if len(set) != 1 {
				t.Errorf("set aside on host %d: %q", bad.N, set)
			}
			w.Check()
		})
	}
}

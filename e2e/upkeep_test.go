package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/testetcd"
)

// smallQuota has every member hold its database to so many MiB.
func smallQuota(mib int) []string {
	return []string{fmt.Sprintf("ETCD_QUOTA_BACKEND_BYTES=%d", mib<<20)}
}

// pour writes values of a size as fast as it can, over and over the same so many
// keys (0: each a new one), and counts what was acknowledged and what was refused
// for want of room.
func (c *testCluster) pour(prefix string, keys int64, size int) (acked, refused *atomic.Int64, stop func()) {
	acked, refused = new(atomic.Int64), new(atomic.Int64)
	var next atomic.Int64
	value := strings.Repeat("x", size)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 4 {
		client := c.newClient()
		all.Go(func() {
			defer client.Close()
			for ctx.Err() == nil {
				n := next.Add(1)
				if keys > 0 {
					n %= keys
				}
				call, end := context.WithTimeout(ctx, 3*time.Second)
				_, err := client.Put(call, fmt.Sprintf("%s%08d", prefix, n), value)
				end()
				switch {
				case err == nil:
					acked.Add(1)
				case errors.Is(err, rpctypes.ErrNoSpace):
					refused.Add(1)
					select {
					case <-ctx.Done():
					case <-time.After(20 * time.Millisecond):
					}
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	c.t.Cleanup(stop)
	return acked, refused, stop
}

func (c *testCluster) alarms(ctx context.Context) (string, error) {
	r, err := c.etcd().AlarmList(ctx)
	if err != nil {
		return "", err
	}
	var out []string
	for _, a := range r.Alarms {
		out = append(out, fmt.Sprintf("%s %x", a.Alarm, a.MemberID))
	}
	return strings.Join(out, ", "), nil
}

// unalarmed waits until there is no alarm.
func (c *testCluster) unalarmed(within time.Duration) {
	c.t.Helper()
	eventually(c.t, within, "no alarm", func(ctx context.Context) error {
		now, err := c.alarms(ctx)
		if err == nil && now != "" {
			err = errors.New(now)
		}
		return err
	})
}

// count is how often the daemons have said some words.
func (c *testCluster) count(words string) (n int) {
	c.t.Helper()
	for _, h := range c.hosts {
		data, err := os.ReadFile(h.log)
		if err != nil {
			c.t.Fatal(err)
		}
		n += bytes.Count(data, []byte(words))
	}
	return n
}

// A database that is driven beyond a small quota, by a writer that goes on and on
// over the same keys, serves again without a person, as often as that happens, and
// nothing that was acknowledged is missing.
func TestNoSpaceCured(t *testing.T) {
	for _, version := range []string{testetcd.V35, testetcd.V36, testetcd.V37} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := formed(t, 3, options{version: version, env: smallQuota(24)})
			w := c.write()
			began := time.Now()
			acked, refused, stop := c.pour("over/", 100, 8<<10)
			for round := range 2 {
				was := refused.Load()
				eventually(t, soon, "the database full", func(context.Context) error {
					if refused.Load() == was {
						return fmt.Errorf("%d writes acknowledged, none refused", acked.Load())
					}
					return nil
				})
				full, at := time.Now(), acked.Load()
				eventually(t, soon, "writes acknowledged again", func(context.Context) error {
					if n := acked.Load(); n < at+100 {
						return fmt.Errorf("%d more, %d refused", n-at, refused.Load())
					}
					return nil
				})
				t.Logf("round %d: full after %s, writes again %s later", round+1, full.Sub(began).Round(10*time.Millisecond), time.Since(full).Round(10*time.Millisecond))
				began = time.Now()
			}
			stop()
			c.unalarmed(soon)
			c.voters(soon, 1, 2, 3)
			w.check()
			w.neverBack()
			t.Logf("%d defragmentations", c.count("msg=defragmented"))
		})
	}
}

// The same while the last voter is kept on its old version on the way down, and
// another option of etcd is followed then, too.
func TestNoSpaceCuredOnTheWayDown(t *testing.T) {
	longOnly(t)
	c := formed(t, 3, options{version: testetcd.V37, env: smallQuota(24)})
	w := c.write()
	h := c.host(1)
	kept := func() {
		t.Helper()
		c.blocked(h, "the last one is kept on "+testetcd.V37, "etcdadm upgrade --resume")
		if moved, left := c.split(testetcd.V36, 1, 2, 3); len(moved) != 2 || len(left) != 1 {
			t.Errorf("%d members run %s, and %d the old version", len(moved), testetcd.V36, len(left))
		}
	}
	if r := c.upgrade(h, testetcd.V36, "--pause-before-last", "--wait=3m"); r.code != cli.ExitOK || !strings.Contains(r.stdout, "the last one is kept on "+testetcd.V37) {
		t.Fatalf("%s", r)
	}
	kept()
	acked, refused, stop := c.pour("over/", 100, 8<<10)
	eventually(t, soon, "the database full", func(context.Context) error {
		if refused.Load() == 0 {
			return fmt.Errorf("%d writes acknowledged, none refused", acked.Load())
		}
		return nil
	})
	at := acked.Load()
	eventually(t, soon, "writes acknowledged again", func(context.Context) error {
		if n := acked.Load(); n < at+100 {
			return fmt.Errorf("%d more, %d refused", n-at, refused.Load())
		}
		return nil
	})
	stop()
	c.unalarmed(soon)
	kept()
	if r := c.config(h, "set", "snapshot-count=12345"); r.code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	for n := 1; n <= 3; n++ {
		eventually(t, 2*soon, fmt.Sprintf("host %d has the other option", n), func(context.Context) error {
			args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.host(n).etcdPID())) // gone while it is restarted
			if err == nil && !strings.Contains(string(args), "--snapshot-count=12345") {
				err = fmt.Errorf("it runs with %q", args)
			}
			return err
		})
	}
	c.voters(soon, 1, 2, 3)
	kept()
	if r := c.upgrade(h, "--resume", "--wait=3m"); r.code != cli.ExitOK || !strings.Contains(r.stdout, "every member runs etcd "+testetcd.V36) {
		t.Fatalf("%s", r)
	}
	c.options.version = testetcd.V36
	c.runs(soon, 1, 2, 3)
	w.check()
	w.neverBack()
}

// The same with one and with two voters, of which the third host never comes; and a
// person's commands about it.
func TestNoSpaceFewVoters(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{hosts: n, version: testetcd.V36, env: smallQuota(16)})
			want := n
			if n == 2 {
				want = 3
			}
			c.configure(want)
			hosts := numbers(n)
			c.start(hosts...)
			c.voters(2*soon, hosts...)
			w := c.write()
			acked, refused, stop := c.pour("over/", 100, 8<<10)
			eventually(t, soon, "the database full", func(context.Context) error {
				if refused.Load() == 0 {
					return fmt.Errorf("%d writes acknowledged, none refused", acked.Load())
				}
				return nil
			})
			full, at := time.Now(), acked.Load()
			h := c.agree()
			list := c.etcdadm("alarm", "list", "--data-dir", h.dir)
			eventually(t, soon, "writes acknowledged again", func(context.Context) error {
				if n := acked.Load(); n < at+100 {
					return fmt.Errorf("%d more, %d refused", n-at, refused.Load())
				}
				return nil
			})
			t.Logf("%d voters: writes again %s after it was full; alarms meanwhile: %s", n, time.Since(full).Round(10*time.Millisecond), strings.TrimSpace(list.stdout))
			stop()
			c.unalarmed(soon)
			w.check()
			if r := c.etcdadm("defrag", "--data-dir", h.dir, "--dry-run"); r.code != 0 || !strings.Contains(r.stdout, "as asked") && !strings.Contains(r.stdout, "is not defragmented now: ") {
				t.Error(r)
			}
			was := c.count("msg=defragmented")
			if r := c.etcdadm("defrag", "--data-dir", h.dir, "--yes", "--wait=1m"); r.code != 0 || !strings.Contains(r.stdout, "\ndefragmented ") || !strings.Contains(r.stderr, "waiting: ") {
				t.Error(r)
			}
			if got := c.count("msg=defragmented") - was; got != n {
				t.Errorf("%d defragmentations of %d members", got, n)
			}
			for _, words := range [][]string{{"alarm", "list"}, {"alarm", "disarm"}} {
				if r := c.etcdadm(append(words, "--data-dir", h.dir)...); r.code != 0 || !strings.Contains(r.stdout, "alarm is raised") {
					t.Error(r)
				}
			}
		})
	}
}

// What keys alone fill cannot be cured: it is said with the line that helps, nothing
// is tried again and again, and once there is more room the members serve again.
func TestNoSpaceOfKeys(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{version: testetcd.V36, env: smallQuota(16)})
	_, refused, stop := c.pour("keys/", 0, 8<<10)
	eventually(t, soon, "the database full", func(context.Context) error {
		if refused.Load() == 0 {
			return errors.New("no write was refused")
		}
		return nil
	})
	h := c.agree()
	// Clients try on: a defragmentation may make room for a few keys more.
	c.blocked(h, "only a higher quota or fewer keys help", "etcdadm config set quota-backend-bytes=")
	stop()
	compactions, defragmentations := c.count(`op="compact`), c.count("msg=defragmented")
	c.passes(20 * time.Second)
	if a, b := c.count(`op="compact`), c.count("msg=defragmented"); a != compactions || b != defragmentations {
		t.Errorf("it was tried again: %d compactions after %d, %d defragmentations after %d", a, compactions, b, defragmentations)
	}
	if r := c.config(h, "set", "quota-backend-bytes=64MiB", "--wait", "2m"); r.code != 0 {
		t.Fatalf("%s\n%s", r, c.logs())
	}
	c.unalarmed(soon)
	c.put("after")
}

// Members whose databases are mostly free are defragmented one after the other,
// while clients write.
func TestFragmentationCured(t *testing.T) {
	t.Parallel()
	c := formed(t, 3, options{version: testetcd.V37, flags: []string{"--hashkv-interval=0"}})
	acked, _, stop := c.pour("old/", 0, 64<<10)
	eventually(t, soon, "64 MiB written", func(context.Context) error {
		if n := acked.Load(); n < 1100 {
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
	stop()
	w := c.write()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	gone, err := c.etcd().Delete(ctx, "old/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.etcd().Compact(ctx, gone.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*soon, "small files on all hosts", func(ctx context.Context) error {
		for _, h := range c.hosts {
			st, err := c.status(ctx, h.n)
			if err != nil {
				return err
			}
			if st.DbSize > 32<<20 {
				return fmt.Errorf("host %d: %d bytes, %d in use", h.n, st.DbSize, st.DbSizeInUse)
			}
		}
		return nil
	})
	eventually(t, soon, "three defragmentations told", func(context.Context) error {
		if n := c.count("msg=defragmented"); n < 3 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	if n := c.count("msg=defragmented"); n != 3 {
		t.Errorf("%d defragmentations of 3 members", n)
	}
	w.check()
	t.Logf("the longest time without a write: %s", w.longest.Round(time.Millisecond))
}

// rot changes every place of a value in the database of a host whose etcd does not run.
func (h *host) rot(value, into string) {
	h.c.t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, "data", "*", "member", "snap", "db"))
	if err != nil || len(files) != 1 {
		h.c.t.Fatalf("databases of host %d: %q, %v", h.n, files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		h.c.t.Fatal(err)
	}
	if bytes.Count(data, []byte(value)) == 0 {
		h.c.t.Fatalf("%q is not in %s", value, files[0])
	}
	if err := os.WriteFile(files[0], bytes.ReplaceAll(data, []byte(value), []byte(into)), 0o600); err != nil {
		h.c.t.Fatal(err)
	}
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
			t.Parallel()
			c := formed(t, 3, options{version: x.version, flags: x.flags})
			const right, wrong = "a value that is to stay as it is", "a value that is not what it was!"
			ctx, cancel := context.WithTimeout(context.Background(), 4*soon)
			defer cancel()
			if _, err := c.etcd().Put(ctx, "kept", right); err != nil {
				t.Fatal(err)
			}
			if x.check {
				if r := c.config(c.host(1), "set", "corrupt-check-time=2s", "--wait", "2m"); r.code != 0 {
					t.Fatal(r)
				}
			}
			w := c.write()
			leads := c.raftLeader(1, 2, 3)
			bad := c.host(leads.n%3 + 1) // a follower
			bad.interrupt()
			bad.exit(soon)
			st, err := c.etcd().MemberList(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var was uint64
			for _, m := range st.Members {
				if strings.Contains(strings.Join(m.PeerURLs, ","), c.block.at(bad.place, portPeer)) {
					was = m.ID
				}
			}
			bad.rot(right, wrong)
			bad.start()
			bad.serves(soon)
			if got, err := c.newClient(bad.n).Get(ctx, "kept", clientv3.WithSerializable()); err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != wrong {
				t.Fatalf("the damaged member serves %v, %v", got, err)
			}
			began := time.Now()
			eventually(t, 3*soon, "the damaged member replaced", func(ctx context.Context) error {
				list, err := c.etcd().MemberList(ctx)
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
			c.voters(soon, 1, 2, 3)
			c.unalarmed(soon)
			for _, h := range c.hosts {
				got, err := c.newClient(h.n).Get(ctx, "kept", clientv3.WithSerializable())
				if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != right {
					t.Errorf("host %d serves %v, %v", h.n, got, err)
				}
			}
			set := slices.DeleteFunc(c.asideOn(bad), func(name string) bool { return strings.HasSuffix(name, ".json") }) // what is known of it
			if len(set) != 1 {
				t.Errorf("set aside on host %d: %q", bad.n, set)
			}
			w.check()
		})
	}
}

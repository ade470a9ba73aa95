package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/testetcd"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestJoinerThatTakesAnotherIDIsStopped: etcd took its ID from an old list. The
// member is never recorded as started, its process does not stay, and its data
// is set aside once the quorum removed it.
func TestJoinerThatTakesAnotherIDIsStopped(t *testing.T) {
	for _, slow := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			m := newMachine(t)
			d := m.boot()
			defer func() { d.end() }()
			m.joined()
			d.must(1, prepareOp)
			m.slowLog, m.takes = slow, 3
			d.do(1, joinOp(9), cluster.Guard{})
			if slow {
				time.Sleep(time.Second)
				m.writeLog()
			}
			time.Sleep(100 * time.Millisecond)
			if runs, _ := m.process(); runs {
				t.Fatal("it still runs")
			}
			l := m.state().Local
			if l.State != cluster.MemberRemoved || l.Run || l.Member != 9 || l.Took != 3 {
				t.Fatalf("recorded as %+v", l)
			}
			st := d.look(1)
			if p := problemOf(st, "other-member-id"); p == nil || p.Unfit {
				t.Fatalf("problems %+v", st.Problems)
			}
			if _, starts := m.process(); len(starts) != 1 {
				t.Fatalf("%d starts", len(starts))
			}
			// The next daemon leaves it, too.
			d.end()
			d = m.boot()
			time.Sleep(time.Minute)
			if runs, starts := m.process(); runs || len(starts) != 1 {
				t.Fatal("a later daemon started it")
			}
			d.must(1, cluster.Op{Kind: cluster.OpSetAside, Host: "h1", Member: 9, Cluster: 0xc, Generation: 1, Reason: "removed"})
			if st := d.look(1); !st.Free() || problemOf(st, "other-member-id") != nil || len(m.disk.moved) != 1 {
				t.Fatalf("after it was set aside: %+v", st)
			}
		})
	}
}

// TestOtherMembersLogIsNotStarted: somebody put another member's files there.
func TestOtherMembersLogIsNotStarted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		m.die()
		m.mu.Lock()
		for _, x := range m.disk.data {
			x.owner = 77
		}
		m.mu.Unlock()
		_, before := m.process()
		d = m.boot()
		defer d.end()
		time.Sleep(time.Minute)
		if runs, starts := m.process(); runs || len(starts) != len(before) {
			t.Fatal("it was started")
		}
		st := d.look(1)
		if problemOf(st, "other-member-id") == nil || st.Local.State != cluster.MemberStarted || len(m.disk.moved) != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

func problemOf(st *cluster.HostState, code string) *cluster.Problem {
	for i := range st.Problems {
		if st.Problems[i].Code == code {
			return &st.Problems[i]
		}
	}
	return nil
}

// TestOldListGivesAJoinerAnotherID shows the danger on real etcd, and that the
// head of the log tells it: a voter that was down while a member was removed
// and another one added at its address answers alone, and the joiner takes the
// former member's ID on an empty disk.
func TestOldListGivesAJoinerAnotherID(t *testing.T) {
	for _, version := range testetcd.Versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			for attempt := 1; !joinsByAnOldList(t, version); attempt++ {
				if attempt == 3 {
					t.Fatal("etcd never came so far that a member joined by an old list")
				}
			}
		})
	}
}

// joinsByAnOldList reports false when etcd did not come so far in time: what it
// counts as connected, and when a removed member ends, is not in our hands.
func joinsByAnOldList(t *testing.T, version string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	disk, err := datadir.Open(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := testetcd.Start(t, testetcd.Config{Version: version, Members: 5})
	defer c.Close()
	client := c.Client(t, 1)
	list, err := client.MemberList(ctx)
	if err != nil {
		return again(t, "list the members", err)
	}
	old := c.Members[4]
	var former uint64
	for _, m := range list.Members {
		if m.Name == old.Name {
			former = m.ID
		}
	}
	// etcd refuses to be joined by way of a member that does not know the
	// cluster's version, which it does once it has applied it.
	settle(ctx, t, c)
	if err := c.Kill(ctx, 0, syscall.SIGTERM); err != nil {
		return again(t, "stop member 0", err)
	}
	// etcd refuses a removal while it counts less than a quorum as connected for
	// long enough.
	_, err = change(ctx, client, func(ctx context.Context) error {
		_, err := client.MemberRemove(ctx, former)
		return err
	}, func(members []*etcdserverpb.Member) bool {
		return !slices.ContainsFunc(members, func(m *etcdserverpb.Member) bool { return m.ID == former })
	})
	if err != nil {
		return again(t, "remove the member", err)
	}
	select { // a removed member ends by itself
	case <-old.Ended():
	case <-ctx.Done():
		return again(t, "wait for the removed member's end", ctx.Err())
	}
	members, err := change(ctx, client, func(ctx context.Context) error {
		_, err := client.MemberAddAsLearner(ctx, []string{old.PeerURL})
		return err
	}, func(members []*etcdserverpb.Member) bool { return at(members, old.PeerURL) != 0 })
	if err != nil {
		return again(t, "add the joiner", err)
	}
	joiner := at(members, old.PeerURL)
	for _, i := range []int{1, 2, 3} {
		if err := c.Kill(ctx, i, syscall.SIGKILL); err != nil {
			return again(t, "kill a member", err)
		}
	}
	if err := c.Launch(ctx, 0); err != nil {
		return again(t, "start member 0", err)
	}
	if err := disk.CreateData("joiner", "disk"); err != nil {
		t.Fatal(err)
	}
	old.DataDir = disk.DataDir("joiner")
	old.Args = append(old.Args, "--initial-cluster-state=existing")
	took, err := awaitOwner(ctx, t, c, disk)
	if err != nil {
		return again(t, "wait for the joiner's log", err)
	}
	if took == cluster.MemberID(joiner) || took != cluster.MemberID(former) {
		t.Fatalf("it took %s; the former member is %x, the new one %x", took, former, joiner)
	}
	return true
}

// change asks for a change of the members until the list has it, and returns that
// list. etcd may refuse or drop a change that is asked for while the leader
// changes, and lets the caller of a dropped one wait as long as the caller cares
// to; and one that it did not answer in time may land all the same: each is asked
// for briefly, and what the list says decides.
func change(ctx context.Context, client *clientv3.Client, ask func(context.Context) error, done func([]*etcdserverpb.Member) bool) ([]*etcdserverpb.Member, error) {
	const each = 3 * time.Second
	for {
		asking, cancel := context.WithTimeout(ctx, each)
		refused := ask(asking)
		cancel()
		reading, cancel := context.WithTimeout(ctx, each)
		list, err := client.MemberList(reading)
		cancel()
		if err == nil && done(list.Members) {
			return list.Members, nil
		}
		if ctx.Err() != nil {
			return nil, errors.Join(refused, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// at is the ID of the member at a peer URL, 0 without one.
func at(members []*etcdserverpb.Member, peerURL string) uint64 {
	for _, m := range members {
		if slices.Contains(m.PeerURLs, peerURL) {
			return m.ID
		}
	}
	return 0
}

func again(t *testing.T, what string, err error) bool {
	t.Helper()
	t.Logf("%s: %v", what, err)
	return false
}

// settle returns once member 0 knows the cluster's version, and keeps it over a
// restart.
func settle(ctx context.Context, t *testing.T, c *testetcd.Cluster) {
	t.Helper()
	for {
		var v struct{ EtcdCluster string }
		r, err := http.Get(c.Members[0].ClientURL + "/version")
		if err == nil {
			err = json.NewDecoder(r.Body).Decode(&v)
			r.Body.Close()
		}
		if err == nil && strings.HasPrefix(v.EtcdCluster, "3.") {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("member 0 does not learn the cluster's version: %q, %v", v.EtcdCluster, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	// A member that has just become the leader may still refuse the first write, or lose
	// it to an election where the machine is busy.
	client := c.Client(t, 0)
	for {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := client.Put(once, "k", "v")
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the cluster takes no write: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// awaitOwner starts the joiner until it finds its peer, and returns whose log
// it wrote.
func awaitOwner(ctx context.Context, t *testing.T, c *testetcd.Cluster, disk *datadir.Dir) (cluster.MemberID, error) {
	t.Helper()
	for ctx.Err() == nil {
		if !c.Members[4].Running() {
			if err := c.Launch(ctx, 4); err != nil {
				return 0, err
			}
		}
		if _, wal, err := disk.Data("joiner", "disk"); err == nil && wal {
			_, took, err := disk.Owner("joiner")
			if err != nil {
				t.Fatal(err)
			}
			return took, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, ctx.Err()
}

// TestStateDirectoryGone: the host says what happened, and not that the disk is full.
func TestStateDirectoryGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		m.mu.Lock()
		m.saveErr = fmt.Errorf("replace state: %w", fs.ErrNotExist)
		m.mu.Unlock()
		st := d.look(2)
		if problemOf(st, "state-vanished") == nil || problemOf(st, "state-not-written") != nil {
			t.Fatalf("problems %+v", st.Problems)
		}
	})
}

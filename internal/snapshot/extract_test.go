package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

// content is everything that can be seen of a directory.
func content(t testing.TB, dir string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		must(t, err)
		seen[path] = fmt.Sprint(info.Mode(), info.ModTime())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			must(t, err)
			seen[path] += fmt.Sprintf("%x", sha256.Sum256(b))
		}
		return nil
	}))
	return seen
}

// extracted makes a snapshot of a stopped member, sees that its directory was
// not touched, and returns what is in the snapshot.
func extracted(t testing.TB, dataDir, version string) (Extracted, map[string]string) {
	t.Helper()
	dir := t.TempDir()
	file, before := filepath.Join(dir, "snapshot"), content(t, dataDir)
	e, err := Extract(within(t), ExtractOptions{DataDir: dataDir, File: file, Release: theRelease(t, version)})
	must(t, err)
	if after := content(t, dataDir); !reflect.DeepEqual(before, after) {
		t.Errorf("the survivor's directory was changed: %v and then %v", before, after)
	}
	if names := left(t, dir); !slices.Equal(names, []string{"snapshot"}) {
		t.Errorf("beside the snapshot there is %v", names)
	}
	if e.Info.ConsistentIndex < e.Survivor.Last.Index {
		t.Errorf("the snapshot ends at %d, the survivor's log at %v", e.Info.ConsistentIndex, e.Survivor.Last)
	}
	return e, keysIn(t, file)
}

// keysIn reads the present keys out of a snapshot without any etcd.
func keysIn(t testing.TB, file string) map[string]string {
	t.Helper()
	db, err := openDatabase(within(t), file, anyBucket)
	must(t, err)
	defer db.Close()
	keys := map[string]string{}
	must(t, db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketKey)).ForEach(func(k, v []byte) error {
			rev, err := parseRevision(k)
			must(t, err)
			rec, err := parseRecord(v)
			must(t, err)
			if rev.tombstone {
				delete(keys, string(rec.key))
			} else {
				keys[string(rec.key)] = fmt.Sprintf("%x", sha256.Sum256(v))
			}
			return nil
		})
	}))
	return keys
}

func leaderOf(t testing.TB, c *testetcd.Cluster) int {
	t.Helper()
	for i, m := range c.Members {
		s, err := c.Client(t, i).Status(within(t), m.Endpoint())
		must(t, err)
		if s.Leader == s.Header.MemberId {
			return i
		}
	}
	t.Fatal("there is no leader")
	return -1
}

// freeze stops a member and returns when each of its threads stands still.
func freeze(t testing.TB, c *testetcd.Cluster, i int) {
	t.Helper()
	must(t, c.Kill(within(t), i, syscall.SIGSTOP))
	for ctx := within(t); ; time.Sleep(time.Millisecond) {
		must(t, ctx.Err())
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.Members[i].PID()))
		must(t, err)
		if !slices.ContainsFunc(threads, func(path string) bool {
			stat, err := os.ReadFile(path)
			_, state, _ := strings.Cut(string(stat), ") ")
			return err == nil && !strings.HasPrefix(state, "T")
		}) {
			return
		}
	}
}

// An entry in the survivor's log that was not known to be committed when
// everything died is in the snapshot, and serves after the restore. Forcing the
// directory, which is what etcd offers, loses it.
func TestUncommittedEntrySurvives(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		ctx := within(t)
		c := testetcd.Start(t, testetcd.Config{Version: version, Members: 3})
		leader := leaderOf(t, c)
		client := c.Client(t, leader)
		lease := fill(t, client)
		followers := []int{(leader + 1) % 3, (leader + 2) % 3}
		for _, i := range followers {
			freeze(t, c, i)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.Put(short, "unacknowledged", "v")
		cancel()
		if err == nil {
			t.Fatal("a write was acknowledged without a quorum")
		}
		for i := range c.Members {
			must(t, c.Kill(ctx, i, syscall.SIGKILL))
		}

		m := c.Members[leader]
		before, err := inspect(within(t), m.DataDir)
		must(t, err)
		if before.Commit >= before.Last.Index || len(before.Members) != 3 || before.Removed || before.Learner {
			t.Fatalf("the survivor is %+v: nothing of its log is uncommitted", before)
		}
		if forced := forcedCopy(t, m); forced["unacknowledged"] != "" {
			t.Error("forcing the directory keeps the entry, so this test shows nothing")
		}
		e, keys := extracted(t, m.DataDir, version)
		if keys["unacknowledged"] == "" || e.Applied == 0 || e.Info.Leases != 1 || !reflect.DeepEqual(e.Survivor, before) {
			t.Errorf("extracted %+v with %d keys", e, len(keys))
		}

		file, dir := filepath.Join(t.TempDir(), "snapshot"), filepath.Join(t.TempDir(), "data")
		eo := ExtractOptions{DataDir: m.DataDir, File: file, Release: theRelease(t, version)}
		_, err = Extract(ctx, eo)
		must(t, err)
		if again, err := Extract(ctx, eo); err != nil || !again.Again || again.Info.ConsistentIndex != e.Info.ConsistentIndex {
			t.Errorf("again: %+v %v", again, err)
		}
		eo.File = snapshotOf(t, version)
		if _, err := Extract(ctx, eo); !errors.Is(err, ErrExists) {
			t.Errorf("over somebody else's snapshot: %v", err)
		}
		o := newFounder(m.PeerURL).options(file, dir, theRelease(t, version))
		o.Revision = e.Info.Revision + 1000
		_, err = Restore(ctx, o)
		must(t, err)
		m.DataDir = dir
		must(t, c.Restart(ctx, leader))
		got, err := client.Get(ctx, "unacknowledged")
		if err != nil || len(got.Kvs) != 1 || got.Header.Revision <= o.Revision-1 {
			t.Errorf("after the restore: %v %v", got, err)
		}
		if l, err := client.TimeToLive(ctx, lease); err != nil || l.TTL < 500 {
			t.Errorf("the lease is %+v, %v", l, err)
		}
		if list, err := client.MemberList(ctx); err != nil || len(list.Members) != 1 {
			t.Errorf("members are %v, %v", list, err)
		}
	})
}

// forcedCopy is what --force-new-cluster makes of a copy of a member's data.
func forcedCopy(t testing.TB, m *testetcd.Member) map[string]string {
	t.Helper()
	s, err := openSite(within(t), filepath.Join(t.TempDir(), "forced"))
	must(t, err)
	defer s.close()
	must(t, os.CopyFS(s.path("data"), os.DirFS(m.DataDir)))
	srv, err := startServer(theRelease(t, m.Release.Version), s, s.path("data"), "--force-new-cluster")
	must(t, err)
	defer srv.kill()
	must(t, srv.until(within(t), "is healthy", srv.healthy))
	must(t, srv.stop(within(t)))
	return keysIn(t, dbOf(s.path("data")))
}

// Every write that was acknowledged before everything was killed is in the
// snapshot of the best survivor, also where raft snapshots were cut and sent.
func TestAcknowledgedWritesSurvive(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		ctx := within(t)
		catchUp := "--snapshot-catchup-entries=5"
		if version == testetcd.V35 {
			catchUp = "--experimental-" + catchUp[2:]
		}
		c := testetcd.Start(t, testetcd.Config{Version: version, Members: 3, Args: []string{"--snapshot-count=40", catchUp}})
		leader := leaderOf(t, c)
		lagging := (leader + 1) % 3
		client := c.Client(t, leader, (leader+2)%3)
		write := func(from, to int) {
			for i := from; i < to; i++ {
				put(t, client, fmt.Sprintf("k%d", i), "v")
			}
		}
		write(0, 50)
		must(t, c.Kill(ctx, lagging, syscall.SIGKILL))
		write(50, 300)
		must(t, c.Restart(ctx, lagging)) // is sent a snapshot
		acknowledged := writeUntilKilled(t, c, client)
		best, last := -1, Position{}
		for i, m := range c.Members {
			s, err := inspect(within(t), m.DataDir)
			must(t, err)
			t.Logf("m%d: last %v, commit %d, database %d, torn %d", i, s.Last, s.Commit, s.ConsistentIndex, s.Torn)
			if best < 0 || s.Last.Compare(last) > 0 {
				best, last = i, s.Last
			}
		}
		for i, m := range c.Members {
			e, keys := extracted(t, m.DataDir, version)
			t.Logf("m%d: %d entries applied, %d keys", i, e.Applied, len(keys))
			if i != best {
				continue
			}
			for n := range 300 {
				acknowledged = append(acknowledged, fmt.Sprintf("k%d", n))
			}
			for _, key := range acknowledged {
				if keys[key] == "" {
					t.Errorf("the acknowledged %s is lost", key)
				}
			}
			t.Logf("of %d acknowledged writes none is lost", len(acknowledged))
		}
	})
}

// writeUntilKilled writes from several clients, kills all members at once, and
// returns the keys whose write was acknowledged.
func writeUntilKilled(t testing.TB, c *testetcd.Cluster, client *clientv3.Client) (acknowledged []string) {
	ctx, cancel := context.WithCancel(within(t))
	var mu sync.Mutex
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for n := 0; ; n++ {
				key := fmt.Sprintf("w%d-%d", w, n)
				if _, err := client.Put(ctx, key, strings.Repeat("v", 500)); err != nil {
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, key)
				mu.Unlock()
			}
		})
	}
	for enough := false; !enough; time.Sleep(time.Millisecond) {
		mu.Lock()
		enough = len(acknowledged) >= 1000
		mu.Unlock()
	}
	for _, m := range c.Members {
		must(t, syscall.Kill(m.PID(), syscall.SIGKILL))
	}
	for _, m := range c.Members {
		<-m.Ended()
	}
	cancel()
	writers.Wait()
	return acknowledged
}

// appendToLog adds entries to a stopped member's log as its etcd would have.
func appendToLog(t testing.TB, dataDir string, entries func(after Position) []*raftpb.Entry) {
	t.Helper()
	s, err := inspect(within(t), dataDir)
	must(t, err)
	dir := filepath.Join(dataDir, "member", "wal")
	snaps, err := wal.ValidSnapshotEntries(nil, dir)
	must(t, err)
	w, err := wal.Open(nil, dir, snaps[len(snaps)-1])
	for n := 0; errors.Is(err, fileutil.ErrLocked) && n < 100; n++ { // by a child of this process that has not reached its exec
		time.Sleep(20 * time.Millisecond)
		w, err = wal.Open(nil, dir, snaps[len(snaps)-1])
	}
	must(t, err)
	_, _, _, err = w.ReadAll()
	must(t, err)
	must(t, w.Save(&raftpb.HardState{}, entries(s.Last)))
	must(t, w.Close())
}

func putEntry(t testing.TB, at Position, key string) *raftpb.Entry {
	t.Helper()
	data, err := proto.Marshal(&etcdserverpb.InternalRaftRequest{
		Header: &etcdserverpb.RequestHeader{ID: at.Index}, Put: &etcdserverpb.PutRequest{Key: []byte(key), Value: []byte("v")},
	})
	must(t, err)
	return &raftpb.Entry{Type: raftpb.EntryNormal.Enum(), Term: &at.Term, Index: &at.Index, Data: data}
}

func confEntry(t testing.TB, at Position, kind raftpb.ConfChangeType, member cluster.MemberID, m *storedMember) *raftpb.Entry {
	t.Helper()
	conf := &raftpb.ConfChange{Type: kind.Enum(), NodeId: new(uint64(member))}
	if m != nil {
		var err error
		conf.Context, err = json.Marshal(struct {
			ID uint64 `json:"id"`
			*storedMember
		}{uint64(member), m})
		must(t, err)
	}
	data, err := proto.Marshal(conf)
	must(t, err)
	return &raftpb.Entry{Type: raftpb.EntryConfChange.Enum(), Term: &at.Term, Index: &at.Index, Data: data}
}

func next(p *Position) Position { p.Index++; return *p }

// Changes of the membership in the uncommitted end of the log do not matter,
// not even the survivor's own removal.
func TestUncommittedMembershipChange(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		ctx := within(t)
		c := testetcd.Start(t, testetcd.Config{Version: version, Members: 3})
		fill(t, c.Client(t))
		for i := range c.Members {
			must(t, c.Kill(ctx, i, syscall.SIGKILL))
		}
		dir := c.Members[1].DataDir
		before, err := inspect(within(t), dir)
		must(t, err)
		const stranger = 0x5eed
		other := before.Members[0].ID
		if other == before.Member {
			other = before.Members[1].ID
		}
		appendToLog(t, dir, func(p Position) []*raftpb.Entry {
			return []*raftpb.Entry{
				confEntry(t, next(&p), raftpb.ConfChangeAddNode, stranger, &storedMember{PeerURLs: []string{"http://127.0.0.1:9"}}),
				confEntry(t, next(&p), raftpb.ConfChangeRemoveNode, other, nil),
			}
		})
		if s, err := inspect(within(t), dir); err != nil || s.Leaving {
			t.Errorf("only another one is removed, and the survivor is %+v, %v", s, err)
		}
		appendToLog(t, dir, func(p Position) []*raftpb.Entry {
			return []*raftpb.Entry{
				confEntry(t, next(&p), raftpb.ConfChangeRemoveNode, before.Member, nil),
				putEntry(t, next(&p), "after all that"),
			}
		})
		s, err := inspect(within(t), dir)
		must(t, err)
		ids := []cluster.MemberID{}
		for _, m := range s.Members {
			ids = append(ids, m.ID)
		}
		if !s.Leaving || s.Removed || len(ids) != 2 || !slices.Contains(ids, stranger) || slices.Contains(ids, other) {
			t.Errorf("the survivor is %+v", s)
		}
		if s.Last.Index != before.Last.Index+4 {
			t.Errorf("last is %v after %v", s.Last, before.Last)
		}
		if _, keys := extracted(t, dir, version); keys["after all that"] == "" {
			t.Error("the entry after the removal is lost")
		}
	})
}

// A learner has the data, too.
func TestLearnerSurvives(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		ctx := within(t)
		c := testetcd.Start(t, testetcd.Config{Version: version})
		fill(t, c.Client(t))
		i, err := c.Join(ctx)
		must(t, err)
		rev := put(t, c.Client(t, 0), "last", "v")
		learner := c.Client(t, i)
		for {
			s, err := learner.Status(ctx, c.Members[i].Endpoint())
			must(t, err)
			if s.Header.Revision >= rev {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		for _, n := range []int{0, i} {
			must(t, c.Kill(ctx, n, syscall.SIGKILL))
		}
		e, keys := extracted(t, c.Members[i].DataDir, version)
		if !e.Survivor.Learner || len(e.Survivor.Members) != 2 || keys["last"] == "" || keys["new"] == "" {
			t.Errorf("extracted %+v with %d keys", e, len(keys))
		}
	})
}

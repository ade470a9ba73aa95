package snapshot

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"etcdadm.io/cluster"
)

// TestFalseRemovals: only what the database itself and raft's configuration in it
// contradict is mended.
func TestFalseRemovals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		members, voters, learners, removed, left []cluster.MemberID
		mended                                   []cluster.MemberID
	}{
		"nothing removed":           {members: ids(1, 2, 3), voters: ids(1, 2, 3)},
		"one that is gone":          {members: ids(1, 2), voters: ids(1, 2), removed: ids(3), left: ids(3)},
		"two that are there":        {members: ids(1, 2, 3), voters: ids(1, 2, 3), removed: ids(2, 3), mended: ids(2, 3)},
		"one gone, a learner there": {members: ids(1, 2), voters: ids(1), learners: ids(2), removed: ids(2, 9), left: ids(9), mended: ids(2)},
		"raft knows nothing of it":  {members: ids(1, 2), voters: ids(1), removed: ids(2), left: ids(2)},
		"the list knows nothing":    {members: ids(1), voters: ids(1, 2), removed: ids(2), left: ids(2)},
		"before 3.5":                {members: ids(1, 2), removed: ids(2), left: ids(2)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := writeMembership(t, dir, test.members, test.removed, test.voters, test.learners)
			sent := filepath.Join(filepath.Dir(path), "0000000000000009.snap.db")
			duplicate(t, path, sent)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // again is nothing
				got, err := MendRemovals(dir)
				if err != nil || !slices.Equal(got, test.mended) {
					t.Fatalf("mended %v, %v; want %v", got, err, test.mended)
				}
				test.mended = nil
			}
			if after, err := os.ReadFile(path); err != nil || slices.Equal(test.left, test.removed) && string(after) != string(before) {
				t.Errorf("the file was written for nothing (%v)", err)
			}
			for _, path := range []string{path, sent} {
				h, err := readMembership(t, path)
				if err != nil || !slices.Equal(h.removed, test.left) || len(h.members) != len(test.members) {
					t.Errorf("left %v of the members %v: %v; want %v", h.removed, h.members, err, test.left)
				}
			}
		})
	}
	if got, err := MendRemovals(t.TempDir()); err != nil || got != nil {
		t.Errorf("without a database: %v, %v", got, err)
	}
	garbage := t.TempDir()
	writeMembership(t, garbage, ids(1), ids(1), ids(1), nil)
	path := filepath.Join(garbage, "member", "snap", "db")
	if err := os.WriteFile(path, []byte("this is no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := MendRemovals(garbage); err == nil || got != nil {
		t.Errorf("garbage: %v, %v", got, err)
	}
}

// TestFalseRemovalsThatStay: who cannot write is told which members it is about.
func TestFalseRemovalsThatStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := writeMembership(t, dir, ids(1, 2), ids(2), ids(1, 2), nil)
	reader, err := openDatabase(within(t), path, anyBucket) // its shared lock lets others read, and nobody write
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if wrong, err := MendRemovals(dir); err == nil || !slices.Equal(wrong, ids(2)) {
		t.Errorf("got %v, %v", wrong, err)
	}
}

func duplicate(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func ids(of ...cluster.MemberID) []cluster.MemberID { return of }

func readMembership(t *testing.T, path string) (h header, err error) {
	db, err := openDatabase(within(t), path, anyBucket)
	if err != nil {
		return h, err
	}
	defer db.Close()
	return h, db.View(func(tx *bbolt.Tx) error { return readMembers(tx, &h) })
}

func writeMembership(t *testing.T, dir string, members, removed, voters, learners []cluster.MemberID) string {
	t.Helper()
	snap := filepath.Join(dir, "member", "snap")
	if err := os.MkdirAll(snap, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(snap, "db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bbolt.Tx) error {
		puts := map[string]map[string]string{bucketMembers: {}, bucketMembersRemoved: {}, bucketMeta: {}}
		for _, id := range members {
			puts[bucketMembers][id.String()] = fmt.Sprintf(`{"id":%d,"peerURLs":["http://127.0.0.1:2380"]}`, uint64(id))
		}
		for _, id := range removed {
			puts[bucketMembersRemoved][id.String()] = "removed"
		}
		if voters != nil {
			conf, err := json.Marshal(map[string]any{"voters": numbers(voters), "learners": numbers(learners), "auto_leave": false})
			if err != nil {
				return err
			}
			puts[bucketMeta][metaConfState] = string(conf)
		}
		for bucket, pairs := range puts {
			b, err := tx.CreateBucket([]byte(bucket))
			if err != nil {
				return err
			}
			for k, v := range pairs {
				if err := b.Put([]byte(k), []byte(v)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func numbers(ids []cluster.MemberID) []uint64 {
	out := make([]uint64, 0, len(ids))
	for _, id := range ids {
		out = append(out, uint64(id))
	}
	return out
}

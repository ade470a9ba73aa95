package snapshot

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/cluster"
)

// FuzzChanges: whatever an entry of a log holds, it is a change of one member, or is
// refused as damaged, and changes nobody else; and it is told from a request of version 2.
func FuzzChanges(f *testing.F) {
	change := func(kind raftpb.ConfChangeType, id uint64, context string) []byte {
		data, err := proto.Marshal(&raftpb.ConfChange{Type: kind.Enum(), NodeId: new(id), Context: []byte(context)})
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	f.Add(change(raftpb.ConfChangeAddNode, 3, `{"id":3,"peerURLs":["http://192.0.2.3:2380"]}`))
	f.Add(change(raftpb.ConfChangeAddLearnerNode, 2, `{"id":2,"peerURLs":null,"isLearner":true}`))
	f.Add(change(raftpb.ConfChangeUpdateNode, 1, `[`))
	f.Add(change(raftpb.ConfChangeRemoveNode, 1, ""))
	f.Add(change(raftpb.ConfChangeType(77), 0, "null"))
	f.Add([]byte("\x12\x04\x08\x01\x12\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = requestOfV2(data)
		var c raftpb.ConfChange
		if proto.Unmarshal(data, &c) != nil {
			return
		}
		before := map[cluster.MemberID]cluster.Member{1: {ID: 1, PeerURLs: []string{"http://192.0.2.1:2380"}}, 2: {ID: 2, Learner: true}}
		members := maps.Clone(before)
		if err := apply(members, &c); err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("%x: %v", data, err)
			}
			return
		}
		changed := cluster.MemberID(c.GetNodeId())
		for _, id := range []cluster.MemberID{1, 2, changed} {
			m, there := members[id]
			if id == changed {
				if removes := c.GetType() == raftpb.ConfChangeRemoveNode; removes == there || there && m.ID != id {
					t.Fatalf("%s made %+v", &c, members)
				}
			} else if !there || m.Learner != before[id].Learner {
				t.Fatalf("%s made %+v", &c, members)
			}
		}
	})
}

// FuzzRestoredMark: a directory is taken for the one that a restore was to make only
// with that restore's own order in it, whatever is in it otherwise.
func FuzzRestoredMark(f *testing.F) {
	order := mark{SHA256: "00", Name: "a", PeerURLs: []string{"http://192.0.2.1:2380"}, Token: "t", Target: 9, Tool: "etcdutl 3.6.16"}
	done := order
	done.Result = Restored{Member: 1, Cluster: 2, From: 5, Revision: 9}
	whole, err := json.Marshal(done)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"sha256":"00"}`))
	f.Add([]byte("null"))
	f.Add(append(whole[:len(whole)-2], `,"member":"0"}}`...))
	dir := f.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "member"), 0o700); err != nil {
		f.Fatal(err)
	}
	o := RestoreOptions{DataDir: dir, Above: 4, Member: 1}
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, "member", restoredMark), content, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := doneBefore(o, order)
		if err != nil {
			if !errors.Is(err, ErrExists) && !errors.Is(err, ErrIdentity) {
				t.Fatalf("%s: %v", content, err)
			}
			return
		}
		var was mark
		if r == nil || json.Unmarshal(content, &was) != nil || !was.sameOrder(order) || r.Member != 1 || !r.Again || r.Revision < r.From+o.Above {
			t.Fatalf("%s is taken for %+v", content, r)
		}
	})
}

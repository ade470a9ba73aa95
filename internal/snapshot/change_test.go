package snapshot

import (
	"encoding/json"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/cluster"
)

// What an entry does to the members is told by its kind: only the removal of the survivor
// itself is emptied, and only an update moves a member that is known.
func TestChangesOfMembers(t *testing.T) {
	t.Parallel()
	context, err := json.Marshal(storedMember{PeerURLs: []string{"http://new:2380"}})
	must(t, err)
	for kind, c := range map[raftpb.ConfChangeType]struct {
		removes, there, learner bool
		url                     string
	}{
		raftpb.ConfChangeRemoveNode:     {removes: true},
		raftpb.ConfChangeUpdateNode:     {there: true, learner: true, url: "http://new:2380"},
		raftpb.ConfChangeAddNode:        {there: true, url: "http://old:2380"}, // a promotion
		raftpb.ConfChangeAddLearnerNode: {there: true, learner: true, url: "http://old:2380"},
	} {
		change := &raftpb.ConfChange{Type: kind.Enum(), NodeId: new(uint64(7)), Context: context}
		data, err := proto.Marshal(change)
		must(t, err)
		if got := removes(&raftpb.Entry{Data: data}, 7); got != c.removes {
			t.Errorf("%s removes: %t", kind, got)
		}
		r := &remains{}
		r.Member = 7
		if got := r.leaves(change); got != c.removes {
			t.Errorf("%s takes the survivor away: %t", kind, got)
		}
		if r.Member = 8; r.leaves(change) || removes(&raftpb.Entry{Data: data}, 8) {
			t.Errorf("%s of another member", kind)
		}
		members := map[cluster.MemberID]cluster.Member{7: {ID: 7, PeerURLs: []string{"http://old:2380"}, Learner: true}}
		must(t, apply(members, change))
		if m, there := members[7]; there != c.there || m.Learner != c.learner || there && !slices.Equal(m.PeerURLs, []string{c.url}) {
			t.Errorf("%s leaves %+v, there %t", kind, m, there)
		}
	}
}

package etcd

import (
	"crypto/sha1" //nolint:gosec // etcd's own choice for identifiers, not for secrecy
	"encoding/binary"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// MemberIDs computes the member IDs and the cluster ID that etcd computes for a
// founding with this token and these founders (name and peer URLs are read).
// The IDs are in the order of the founders. Peer URLs must be spelled as they
// are given to etcd. Source: computeMemberID and RaftCluster.genID in
// server/etcdserver/api/membership, the same from 3.1 to 3.7.
func MemberIDs(token string, founders []cluster.Member) ([]cluster.MemberID, cluster.ClusterID) {
	ids := make([]cluster.MemberID, len(founders))
	for i, f := range founders {
		ids[i] = memberID(f.PeerURLs, token)
	}
	ordered := slices.Clone(ids)
	slices.Sort(ordered)
	b := make([]byte, 0, 8*len(ordered))
	for _, id := range ordered {
		b = binary.BigEndian.AppendUint64(b, uint64(id))
	}
	return ids, cluster.ClusterID(firstEight(b))
}

func memberID(peerURLs []string, salt string) cluster.MemberID {
	urls := slices.Clone(peerURLs)
	slices.Sort(urls)
	return cluster.MemberID(firstEight([]byte(strings.Join(urls, "") + salt)))
}

func firstEight(b []byte) uint64 {
	sum := sha1.Sum(b) //nolint:gosec // see the import
	return binary.BigEndian.Uint64(sum[:8])
}

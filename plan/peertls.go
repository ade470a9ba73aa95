package plan

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// barred reports whether no restart gives a member a raft leader: without the voters with
// which it exchanges no certificates that both accept, it sees less than a quorum. Where it
// was another authority and the files are the same by now, a restart is what helps: etcd
// reads an authority at its start.
func (v *view) barred(id cluster.MemberID) bool {
	var voters []cluster.MemberID
	for _, s := range v.roster.Voters() {
		voters = append(voters, s.ID)
	}
	if !v.seen {
		for _, w := range v.intent.Voters {
			voters = append(voters, w.Member)
		}
	}
	cut := 0
	for _, r := range v.obs.Rejected(id) {
		if slices.Contains(voters, r.Member) && !(r.Authority && v.sameAuthority(id, r.Member)) {
			cut++
		}
	}
	return cut > 0 && len(voters)-cut < cluster.Quorum(len(voters))
}

func (v *view) peerTLS(id cluster.MemberID) (cluster.HostID, *cluster.PeerTLS) {
	for i := range v.obs.Hosts {
		if h := &v.obs.Hosts[i]; h.Local.Member == id && h.PeerTLS != nil {
			return h.Host, h.PeerTLS
		}
	}
	return "", nil
}

func (v *view) sameAuthority(a, b cluster.MemberID) bool {
	_, x := v.peerTLS(a)
	_, y := v.peerTLS(b)
	return x != nil && y != nil && x.Fingerprint == y.Fingerprint
}

// noteRejected says of the member that a host carries, where it and most of the others
// reject each other's certificates, which file is to be mended: the one that rejects one of
// many has done nothing wrong.
func (v *view) noteRejected(h *cluster.HostReport) {
	rejected := v.obs.Rejected(h.Local.Member)
	if h.Local.Member == 0 || h.PeerTLS == nil || len(rejected) == 0 || 2*len(rejected) <= len(v.roster.Seats)-1 {
		return
	}
	r := rejected[0]
	other, theirs := v.peerTLS(r.Member)
	what := fmt.Sprintf("host %s: its etcd and that of %s reject each other's certificates (%s), and no restart helps", h.Host, other, r.Why)
	switch {
	case !r.Authority || theirs == nil:
		v.aside("peers-reject", "", "%s; look at %s there: its names, addresses and dates", what, h.PeerTLS.Cert)
	case theirs.Fingerprint == h.PeerTLS.Fingerprint:
		v.aside("peers-reject", "", "host %s: its etcd and that of %s reject each other's certificates (%s), and the authorities in their files are the same by now: etcd runs with what it was started with; stop the daemon of host %s with its etcd (SIGINT), and start it again", h.Host, other, r.Why, h.Host)
	default:
		v.aside("peers-reject", "", "%s: the authority for peers differs; %s on host %s has SHA-256 %s, and %s on host %s has %s; put the cluster's into the wrong one's place, and restart that daemon with its etcd (SIGINT)",
			what, h.PeerTLS.File, h.Host, h.PeerTLS.Fingerprint, theirs.File, other, theirs.Fingerprint)
	}
}

package daemon

import (
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/runtime"
)

// rejects are the members whose certificates the own one rejects, by its log. The zero value
// has none.
type rejects struct {
	mu  sync.Mutex // guards now
	now []cluster.Rejection
}

func (r *rejects) set(read []runtime.Rejected) {
	var now []cluster.Rejection
	for _, x := range read {
		if id, err := cluster.ParseMemberID(x.Peer); err == nil && id != 0 {
			now = append(now, cluster.Rejection{Member: id, Authority: x.Authority, Why: x.Why})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = now
}

// peerTLS is how the own member and the others take each other's certificates; nil where
// they have none.
func (d *daemon) peerTLS(token string) *cluster.PeerTLS {
	cas := d.certs.authorities()
	if !d.certs.etcdTLS || cas == nil || token == "" {
		return nil
	}
	d.rejects.mu.Lock()
	defer d.rejects.mu.Unlock()
	own := d.certs.pair(leafPeer, token)
	return &cluster.PeerTLS{
		File: cas.Peers.File(), Fingerprint: cas.Peers.Fingerprint(),
		Cert: own.file(own.names.Cert), Rejects: d.rejects.now,
	}
}

package authority

import (
	"errors"

	"etcdadm.io/internal/pki"
)

// ErrNotGiven says that the files of somebody else's cluster have no authority with its key.
var ErrNotGiven = errors.New("has no authority with its key: put it there as ca.crt and ca.key, or that for members and that for clients as etcd-peers-ca.crt, etcd-peers-ca.key, etcd-clients-ca.crt and etcd-clients-ca.key")

// Given are the authorities of somebody else's cluster, for members and for clients, which may be one. The third one, of the daemons,
// is the cluster's own. cert-manager has an authority as tls.crt and tls.key, beside who signed that one as ca.crt.
//
// Errors: ErrNotGiven.
func Given(had Files) (Files, error) {
	out := Files{}
	take := func(name, cert, key string) bool {
		if len(had[cert]) == 0 || len(had[key]) == 0 {
			return false
		}
		out[name+".crt"], out[name+".key"] = had[cert], had[key]
		return true
	}
	for _, name := range []string{pki.PeersCA, pki.ClientsCA} {
		if !take(name, name+".crt", name+".key") && !take(name, "ca.crt", "ca.key") && !take(name, "tls.crt", "tls.key") {
			return nil, ErrNotGiven
		}
	}
	return out, nil
}

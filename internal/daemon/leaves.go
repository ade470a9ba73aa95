package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/pki"
)

// Where this host's certificates lie: it makes them, others sign them for it, or somebody else renews all of them in one
// directory (--leaves-dir), as a volume of a Secret is renewed. Then nothing is issued and no key is written, and what is read is
// what the directory has at that moment: etcd reads its pair there at each handshake.

// givenLook is how often certificates that somebody else renews are looked at: well within the hour in which a
// directory is to be renewed before the old ones end, and soon for who waits for a change of authorities.
const givenLook = 5 * time.Second

// pair is one key pair of this host with the authority that it is of.
type pair struct {
	dir       string
	names     pki.Names
	authority string
}

// The pairs of a host, by the names under which they are told.
const (
	leafDaemon   = "daemon"      // to other daemons
	leafOperator = "operator"    // root's on this host to daemons
	leafEtcdctl  = "etcdctl"     // root's on this host to etcd
	leafPeer     = "etcd-peer"   // the member's to others
	leafServer   = "etcd-server" // the member's to clients
	leafClient   = "etcd-client" // the daemon's to its member
)

// given are the pairs in a directory that somebody else renews: name.crt and name.key, beside the three authorities.
var given = map[string]pair{
	leafDaemon:   {names: pki.Names{CA: pki.ManagerCA + ".crt", Cert: "daemon.crt", Key: "daemon.key"}, authority: pki.ManagerCA},
	leafOperator: {names: pki.Names{CA: pki.ManagerCA + ".crt", Cert: "operator.crt", Key: "operator.key"}, authority: pki.ManagerCA},
	leafPeer:     {names: pki.Names{CA: pki.PeersCA + ".crt", Cert: "peer.crt", Key: "peer.key"}, authority: pki.PeersCA},
	leafServer:   {names: pki.Names{CA: pki.ClientsCA + ".crt", Cert: "server.crt", Key: "server.key"}, authority: pki.ClientsCA},
	leafClient:   {names: pki.Names{CA: pki.ClientsCA + ".crt", Cert: "client.crt", Key: "client.key"}, authority: pki.ClientsCA},
	leafEtcdctl:  {names: pki.Names{CA: pki.ClientsCA + ".crt", Cert: "client.crt", Key: "client.key"}, authority: pki.ClientsCA},
}

// pair is where a pair lies, of the member that is launched with a token.
func (k *certs) pair(name, token string) pair {
	if k.given {
		p := given[name]
		p.dir = k.pkiDir
		return p
	}
	switch name {
	case leafPeer:
		return pair{k.peersDir(token), pki.PeerNames, pki.PeersCA}
	case leafServer:
		return pair{k.clientsDir(token), pki.ServerNames, pki.ClientsCA}
	case leafClient:
		return pair{k.clientsDir(token), pki.ClientNames, pki.ClientsCA}
	case leafEtcdctl:
		return pair{k.stateDir(name), pki.ClientNames, pki.ClientsCA}
	}
	return pair{k.stateDir(name), pki.PeerNames, pki.ManagerCA}
}

func (p pair) file(name string) string { return filepath.Join(p.dir, name) }

// take reads the pairs that somebody else renews. One that cannot be used is told, and the one before goes on; an error
// says that there is none before. The caller holds writing.
func (k *certs) take() error {
	var lacking error
	wanted := []string{leafPeer, leafServer, leafClient}
	if !k.etcdTLS {
		wanted = nil
	}
	if k.daemons != nil {
		wanted = append(wanted, leafDaemon, leafOperator)
	}
	for _, name := range wanted {
		p := k.pair(name, "")
		is, err := pki.LoadKeypair(p.dir, p.names)
		if err == nil {
			err = k.isOurs(name, is)
		}
		k.mu.Lock()
		had := k.leaves[name] != nil
		k.overdue[name] = err
		k.mu.Unlock()
		if err != nil {
			k.failed("a certificate cannot be used", err, "certificate", name)
			if !had {
				lacking = errors.Join(lacking, err)
			}
			continue
		}
		if name == leafDaemon {
			k.daemons.Swap(is, k.authorities().Manager)
		}
		k.keeps(name, is)
	}
	return lacking
}

// isOurs refuses a certificate of another host or cluster, or of an authority that is not trusted here. One that has
// ended is no error: it is told by its end, and others say why they do not take it.
func (k *certs) isOurs(name string, is *pki.Keypair) error {
	p := k.pair(name, "")
	wrong := func(format string, args ...any) error {
		return &Error{Problem: p.file(p.names.Cert) + " " + fmt.Sprintf(format, args...), Advice: "have whoever renews that directory put host " + string(k.host) + "'s own there"}
	}
	if a := k.authorities().Of(p.authority); !a.Signed(is.Leaf()) {
		return wrong("is not of the %s that lies beside it", p.authority)
	}
	want := pki.Identity{Cluster: k.cluster, Role: pki.RoleHost, ID: string(k.host)}
	switch name {
	case leafDaemon:
		if id, err := pki.IdentityOf(is.Leaf()); err != nil || id != want {
			return wrong("is not for %s", want)
		}
	case leafOperator:
		if id, err := pki.IdentityOf(is.Leaf()); err != nil || id.Cluster != k.cluster {
			return wrong("is not for cluster %s", k.cluster)
		}
	}
	return nil
}

// lookAtGiven takes what was renewed, and has all connections made anew where other authorities are trusted.
func (k *certs) lookAtGiven(ctx context.Context) error {
	before, told := k.fingerprints(), k.told()
	if err := k.reread(); err != nil {
		k.failed("could not read the authorities again; those that are known stay in use", err)
	}
	err := k.renew(ctx)
	if !slices.Equal(before, k.fingerprints()) {
		k.log.Info("other authorities are trusted from now on; etcd reads them when it starts, which the leading daemon sees to")
		k.epoch.Add(1)
		k.follows.redial()
	}
	if !k.told().Equal(told) {
		k.follows.noticed()
	}
	return err
}

func (k *certs) fingerprints() (all []string) {
	for _, a := range k.authorities().All() {
		all = append(all, a.Fingerprint())
	}
	return all
}

// givenProblems tells of certificates that cannot be used, or that nobody has renewed; the caller holds mu.
func (k *certs) givenProblems(now time.Time) (out []cluster.Problem) {
	for _, name := range slices.Sorted(maps.Keys(k.overdue)) {
		if err := k.overdue[name]; err != nil {
			out = append(out, cluster.Problem{
				Code:     "leaves-unusable",
				Sentence: fmt.Sprintf("a certificate in --leaves-dir cannot be used: %v", err),
				Hint:     "have whoever renews the directory put this host's pair there; the daemon looks every few seconds",
			})
			break // the others are of the same directory
		}
	}
	if first, left := k.endsFirst(now); first != "" {
		out = append(out, cluster.Problem{
			Code:     "not-renewed",
			Sentence: fmt.Sprintf("the certificate %s %s, and --leaves-dir has no newer one", first, left),
			Hint:     "look why whoever renews the directory does not",
		})
	}
	return out
}

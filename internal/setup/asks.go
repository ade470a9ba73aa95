package setup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/signing"
)

const (
	// signTimeout bounds the asking of all hosts for one certificate.
	signTimeout = 15 * time.Second
	// signOne bounds each of them.
	signOne = 3 * time.Second
)

// Sign has another host of the cluster sign a certificate of this one, in the name of this host's agent.
func (s Settings) Sign(ctx context.Context, p Paths, kind signing.Kind, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	authority, err := pki.LoadAuthority(s.PKI(p), pki.ManagerCA, time.Now())
	if err != nil {
		return nil, err
	}
	pair, err := pki.LoadKeypair(daemonPair(s.Flag("data-dir")), pki.PeerNames)
	if err != nil {
		return nil, err
	}
	live := pki.NewLive(nil)
	live.Swap(pair, authority)
	pool, err := peer.NewPool(pki.Identity{Cluster: s.Cluster(), Role: pki.RoleHost, ID: string(s.HostID())}, live)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var failed []error
	for _, endpoint := range s.others(ctx) {
		c, err := pool.To(cluster.Contact{Endpoint: endpoint})
		if err == nil {
			one, done := context.WithTimeout(ctx, signOne)
			var reply peer.SignReply
			if reply, err = c.Sign(one, peer.SignRequest{Kind: string(kind), Request: request}); err == nil {
				done()
				return reply.Certificate, nil
			}
			done()
		}
		failed = append(failed, err)
	}
	if len(failed) == 0 {
		return nil, &Error{Problem: "no other host of the cluster is known here", Advice: "start the agent, and run it again"}
	}
	return nil, errors.Join(failed...)
}

// others are the endpoints of other hosts: those that the agent knows, if it answers, and those that this host was set
// up with.
func (s Settings) others(ctx context.Context) []string {
	var out []string
	if access, err := console.ReadAccess(s.Flag("data-dir")); err == nil {
		if c, err := console.Open(access); err == nil {
			asking, done := context.WithTimeout(ctx, signOne)
			if report, err := c.First(asking); err == nil {
				for _, one := range report.Contacts {
					out = append(out, one.Endpoint)
				}
			}
			done()
			c.Close()
		}
	}
	out = append(out, strings.Split(s.Flag("discovery"), ",")...)
	own := s.Endpoint()
	out = slices.DeleteFunc(out, func(e string) bool { return e == own || !strings.Contains(e, ":") || strings.Contains(e, "/") })
	slices.Sort(out)
	return slices.Compact(out)
}

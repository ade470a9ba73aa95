package daemon

import (
	"context"
	"errors"
	"math/rand/v2"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/signing"
)

// askHolders has another host sign: each that is known is asked, in any order, until one does.
func (d *daemon) askHolders(ctx context.Context, kind signing.Kind, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTotal)
	defer cancel()
	var known []cluster.Contact
	for _, c := range d.contacts() {
		if c.Host != d.id {
			known = append(known, c)
		}
	}
	if len(known) == 0 {
		return nil, errNotAsked
	}
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	var failed []error
	for _, c := range known {
		der, err := askHolder(d, ctx, c, kind, request)
		if err == nil {
			return der, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failed...)
}

func askHolder(d *daemon, ctx context.Context, to cluster.Contact, kind signing.Kind, request []byte) ([]byte, error) {
	client, err := d.pool.To(to)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, signOne)
	defer cancel()
	reply, err := client.Sign(ctx, peer.SignRequest{Kind: string(kind), Request: request})
	return reply.Certificate, err
}

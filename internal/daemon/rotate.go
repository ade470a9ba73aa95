package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer"
)

// What following a rotation takes of the rest of the daemon, and what it gives to other hosts.

func rotationOf(d *daemon) rotation {
	kept := d.host.Rotation
	if d.certs.given { // who renews the leaves rotates the authorities
		kept = nil
	}
	return rotation{kept: kept, ask: func(ctx context.Context, first cluster.HostID, r peer.AuthorityRequest, take func([]byte) error) error {
		return askForKey(ctx, d, first, r, take)
	}, redial: func() { d.pool.Renew() }, noticed: d.host.Noticed}
}

// askForKey asks the other hosts one after the other.
func askForKey(ctx context.Context, d *daemon, first cluster.HostID, r peer.AuthorityRequest, take func(key []byte) error) error {
	var err error
	if r.Seal, err = d.certs.authorities().Manager.Seal(r.Statement(d.cfg.ClusterName, string(d.id))); err != nil {
		return fmt.Errorf("only a host that holds the keys now is given the key of the next %s: %w", r.Name, err)
	}
	others := slices.DeleteFunc(d.contacts(), func(c cluster.Contact) bool { return c.Host == d.id })
	slices.SortStableFunc(others, func(a, b cluster.Contact) int {
		return cmp.Compare(rank(a.Host != first), rank(b.Host != first))
	})
	var failed []error
	for _, to := range others {
		c, err := d.pool.To(to)
		if err == nil {
			err = askOne(ctx, c, r, take)
		}
		if err == nil {
			return nil
		}
		failed = append(failed, fmt.Errorf("host %s: %w", to.Host, err))
	}
	return fmt.Errorf("no host gave the key of the next %s: %w", r.Name, errors.Join(failed...))
}

func rank(later bool) int {
	if later {
		return 1
	}
	return 0
}

func askOne(ctx context.Context, c *peer.Client, r peer.AuthorityRequest, take func(key []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, askKey)
	defer cancel()
	reply, err := c.Authority(ctx, r)
	switch {
	case err != nil:
		return err
	case len(reply.Key) == 0:
		return errors.New("it has no such key")
	}
	return take(reply.Key)
}

// Authority gives another host the key of a next authority, of the rotation that this host's record has.
func (h handler) Authority(_ context.Context, from peer.Caller, r peer.AuthorityRequest) (peer.AuthorityReply, error) {
	if cas := h.d.certs.authorities(); cas == nil || !cas.Manager.Sealed(r.Statement(h.d.cfg.ClusterName, from.Identity.ID), r.Seal) {
		return peer.AuthorityReply{}, fmt.Errorf("host %s does not hold the authorities' keys, and is given none of the next ones", from.Identity.ID)
	}
	now := h.d.host.Rotation()
	if now.Over() || now.ID != r.Rotation {
		return peer.AuthorityReply{}, nil
	}
	for _, c := range now.Authorities {
		if c.Name == r.Name {
			change, err := changeOf(now, c)
			if err != nil {
				return peer.AuthorityReply{}, err
			}
			want := change.Next
			if now.Undo { // for a host that joined after the exchange
				want = change.Old
			}
			key, err := change.KeyOf(h.d.cfg.AuthoritiesDir(), want)
			return peer.AuthorityReply{Key: key}, err
		}
	}
	return peer.AuthorityReply{}, nil
}

// hasFollowed refuses to hand on the authorities while this host has not followed a rotation that the record tells of:
// who gets those of before could come when nobody trusts them any more. A host without the keys cannot follow one, so that
// none joins meanwhile.
func (a admitter) hasFollowed(ctx context.Context, leafOnly bool) error {
	d := a.d
	in, _, _, err := d.folder.ReadIntent(ctx)
	if err != nil {
		return tokenRefused(err)
	}
	switch {
	case in == nil || in.Rotation.Over():
		return nil
	case leafOnly:
		return &Error{Problem: "the authorities of the cluster are being rotated, and a host without their keys cannot join meanwhile", Advice: "run the command again once etcdadm certs rotate-ca is done, or with a token that gives the keys"}
	case d.certs.told().Followed(in.Rotation):
		return nil
	}
	return &Error{Problem: fmt.Sprintf("the authorities of the cluster are being rotated, and host %s has not followed yet", d.id), Advice: "run the command again in a minute; etcdadm status shows the rotation"}
}

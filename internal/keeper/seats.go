package keeper

import (
	"context"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/register"
)

// seat mints a seat.
func (k *Keeper) seat(host cluster.HostID, mint func() string) register.Seat {
	k.minted = register.Seat{Host: host, Keeper: mint()}
	return k.minted
}

// Alone tells whether the promises of this host's seat are known without any word on the disk: this process minted the
// seat, or every document that the host has names it as the only keeper, so that no other host could object. Only gives
// the newest document then.
func (k *Keeper) Alone(ctx context.Context) (minted bool, only *register.Document) {
	done, err := k.take(ctx)
	if err != nil {
		return false, nil
	}
	defer done()
	if k.state == nil {
		return false, nil
	}
	if seats := k.state.Keepers(); len(seats) == 1 && seats[0] == k.state.Seat {
		only = k.state.Newest().Doc
	}
	return k.state.Seat == k.minted, only
}

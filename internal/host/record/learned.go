package record

import (
	"context"

	"etcdadm.io/cluster"
)

// What an answer of the member settles is written down when it comes. Where that fails, it
// is done again at the next answer.

// LearnCluster records the cluster ID of a founder, which nobody knows before the first
// one serves.
func (k *Keeper) LearnCluster(m cluster.MemberID, c cluster.ClusterID) {
	k.learn(func(s *State) {
		if s.Local.Member == m && s.Local.Cluster == 0 && s.Local.State != cluster.MemberNone {
			s.Local.Cluster = c
		}
	})
}

// SettleRelease drops the memory of the release before, once the member has answered with
// its new one.
func (k *Keeper) SettleRelease(v cluster.Version) {
	k.learn(func(s *State) {
		if s.Local.Version == v {
			s.Local.Previous = cluster.Version{}
		}
	})
}

// SettleOptions drops the memory of the options before, once the member of a launch has
// answered.
func (k *Keeper) SettleOptions(nonce string) {
	k.learn(func(s *State) {
		if s.Launch != nil && s.Launch.Nonce == nonce {
			s.Before = nil
		}
	})
}

func (k *Keeper) learn(change func(*State)) {
	ctx, cancel := context.WithTimeout(context.Background(), SaveTimeout)
	defer cancel()
	_ = k.Change(ctx, change)
}

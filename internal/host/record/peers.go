package record

import (
	"cmp"
	"slices"

	"etcdadm.io/cluster"
)

// Remember returns peers with p in it. The highest epoch of each disk is kept,
// so that a disk which went back, or was away meanwhile, does not make its
// peers forget.
func Remember(peers []Peer, p Peer) []Peer {
	i, found := slices.BinarySearchFunc(peers, p, func(a, b Peer) int { return cmp.Compare(a.Host, b.Host) })
	if !found {
		return slices.Insert(slices.Clone(peers), i, p)
	}
	was := peers[i]
	p.Epoch, p.Past = max(p.Epoch, was.EpochOf(p.Disk)), was.Past
	if was.Disk != p.Disk {
		past := slices.DeleteFunc(slices.Clone(was.Past), func(d PastDisk) bool { return d.Disk == p.Disk })
		past = slices.Insert(past, 0, PastDisk{Disk: was.Disk, Epoch: was.Epoch})
		p.Past = past[:min(len(past), keptDisks)]
	}
	if was.Disk == p.Disk && was.Epoch == p.Epoch && was.Address == p.Address {
		return peers
	}
	peers = slices.Clone(peers)
	peers[i] = p
	return peers
}

// EpochOf is the highest epoch that is remembered of a disk of the host; 0: none.
func (p Peer) EpochOf(disk cluster.DiskID) uint64 {
	if p.Disk == disk {
		return p.Epoch
	}
	for _, d := range p.Past {
		if d.Disk == disk {
			return d.Epoch
		}
	}
	return 0
}

package record

import (
	"cmp"
	"slices"

	"etcdadm.io/cluster"
)

// Remember returns peers with p in it. The highest beat of each disk is kept,
// so that a disk which went back, or was away meanwhile, does not make its
// peers forget.
func Remember(peers []Peer, p Peer) []Peer {
	i, found := slices.BinarySearchFunc(peers, p, func(a, b Peer) int { return cmp.Compare(a.Host, b.Host) })
	if !found {
		return slices.Insert(slices.Clone(peers), i, p)
	}
	was := peers[i]
	p.Beat, p.Past = max(p.Beat, was.BeatOf(p.Disk)), was.Past
	if was.Disk != p.Disk {
		past := slices.DeleteFunc(slices.Clone(was.Past), func(d PastDisk) bool { return d.Disk == p.Disk })
		past = slices.Insert(past, 0, PastDisk{Disk: was.Disk, Beat: was.Beat})
		p.Past = past[:min(len(past), keptDisks)]
	}
	if was.Disk == p.Disk && was.Beat == p.Beat && was.Address == p.Address {
		return peers
	}
	peers = slices.Clone(peers)
	peers[i] = p
	return peers
}

// BeatOf is the highest beat that is remembered of a disk of the host; 0: none.
func (p Peer) BeatOf(disk cluster.DiskID) uint64 {
	if p.Disk == disk {
		return p.Beat
	}
	for _, d := range p.Past {
		if d.Disk == disk {
			return d.Beat
		}
	}
	return 0
}

package peer

import (
	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
)

// Disks is what this host remembers of other hosts' disks, and hears of its own. Each call between hosts and each
// answer says it, because a host whose disk went back must know that before it answers, or counts an answer (SAFETY.md,
// rule 29). Its methods never wait.
type Disks interface {
	// Remembered is the disk that a host had last, and the highest epoch that is remembered of it; zero: nothing is.
	Remembered(host cluster.HostID, disk cluster.DiskID) (cluster.DiskID, uint64)
	// Heard takes in what another host remembers of this host's disk.
	Heard(from cluster.HostID, disk cluster.DiskID, epoch uint64)
}

// rememberedOf is what is said of a host's disk to that host; nil: nothing.
func rememberedOf(d Disks, host cluster.HostID) *peerpb.Remembered {
	if d == nil || host == "" {
		return nil
	}
	disk, epoch := d.Remembered(host, "")
	if epoch == 0 {
		return nil
	}
	return &peerpb.Remembered{Disk: string(disk), Epoch: epoch}
}

// hearOf takes in what a host says of this host's disk.
func hearOf(d Disks, from pki.Identity, r *peerpb.Remembered) {
	if d != nil && from.Role == pki.RoleHost && r.GetEpoch() > 0 {
		d.Heard(cluster.HostID(from.ID), cluster.DiskID(r.GetDisk()), r.GetEpoch())
	}
}

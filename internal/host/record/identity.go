package record

import "etcdadm.io/cluster"

// Identity is what a host tells of itself in a ping.
type Identity struct {
	Host       cluster.HostID
	Disk       cluster.DiskID // empty: not known yet, or not readable
	Epoch      uint64         // durable
	Generation uint64         // the highest that the host has heard of
	Promised   cluster.Fence
	Changes    uint64 // counts what Changes tells
	Asks       bool   // it has not settled yet whether it goes on with its disk
	Unsure     bool   // its disk is not confirmed, or is behind
	Unfit      string // why this host's daemon must not lead; empty: it may
}

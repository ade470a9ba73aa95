package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// ofVersion2: no tool reads such data, not even to its own release; they go key by key.
func ofVersion2(wrote cluster.Version) bool { return !wrote.IsZero() && !wrote.Has(cluster.V3API) }

// byKeys: the backup is of etcd 2, and a person asks for a release of version 3: no tool
// reads that, so every key is copied.
func byKeys(c *cluster.Command, wrote cluster.Version) bool {
	return c.Kind == cluster.CommandRestore && ofVersion2(wrote) && c.Version.Has(cluster.V3API)
}

// RestoresTo says why a backup cannot be restored to a release; empty: it can.
func RestoresTo(wrote, want cluster.Version) string {
	c := &cluster.Command{Kind: cluster.CommandRestore, Version: want}
	if readsData(want, wrote) || byKeys(c, wrote) {
		return ""
	}
	return cannotRead(wrote, want)
}

func cannotRead(wrote, want cluster.Version) string {
	return fmt.Sprintf("cannot restore data of etcd %s with etcd %s: etcd reads data of its own minor release and of the one before", wrote, want)
}

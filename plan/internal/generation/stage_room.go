package generation

import (
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/step"
)

// spareRoom is what a new member takes beside its database: the first file of
// its log, which etcd makes 64 MB long at once, and as much again. The host asks
// for as much (internal/snapshot).
const spareRoom = 128 << 20

// lacksRoom says that a host has not got the room; empty: it has, or it is not
// known what is needed, and the host itself will see.
func lacksRoom(v *step.View, c *cluster.Command, h *cluster.HostReport, run cluster.Version) string {
	data := dataBytes(c, h)
	if data == 0 || h.FreeSpace == 0 {
		return ""
	}
	times, why := data, ""
	tool := RestoringTool(h, Wrote(v, c, h), run)
	if c.Kind == cluster.CommandChange { // what reads the data is what restores it
		tool = run
	}
	switch {
	case c.Kind == cluster.CommandRestore && ofVersion2(Wrote(v, c, h)):
		times, why = 5*data, ", five times because the backup is unpacked, and carried over key by key"
	case ofVersion2(Wrote(v, c, h)), c.Kind == cluster.CommandChange && !run.ReadsSnapshot(Wrote(v, c, h)):
		times, why = 4*data, ", four times because it is carried over key by key"
	case !onExcerpt(tool):
		times, why = 2*data, fmt.Sprintf(", twice because the tool of etcd %s makes a copy of its own", tool)
	}
	if need := times + spareRoom; need > h.FreeSpace {
		return fmt.Sprintf("has %d MiB free and needs %d MiB: the data of %d MiB%s, and %d MiB for the new member's log", h.FreeSpace>>20, mebibytes(need), mebibytes(data), why, spareRoom>>20)
	}
	return ""
}

// stillLacks says that a host has not got the room that it said it needs; empty: it has
// by now.
func stillLacks(h *cluster.HostReport, need int64) string {
	if need <= h.FreeSpace {
		return ""
	}
	return fmt.Sprintf("has %d MiB free and needs at least %d MiB, as was seen when it began", h.FreeSpace>>20, mebibytes(need))
}

// mebibytes rounds up: what is needed must not look smaller than it is.
func mebibytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

// dataBytes is what staging writes, once: the snapshot that a backup is unpacked
// to, or that is made of data of this host, becomes the new member's database
// itself (docs/adr/013-large-restores.md). Zero: not known.
func dataBytes(c *cluster.Command, h *cluster.HostReport) int64 {
	switch c.Kind {
	case cluster.CommandRestore:
		if c.Found != nil {
			return c.Found.Bytes
		}
	case cluster.CommandUndo: // with its log, which the snapshot is made with
		for _, a := range h.SetAside {
			if a.Name() == c.Dir {
				return a.Bytes
			}
		}
	case cluster.CommandRecover, cluster.CommandChange:
		if h.Status != nil {
			return h.Status.DBSize
		}
	}
	return 0
}

package cluster

import "slices"

// DiskData is what lies on a host's disk, as far as that decides what the disk may be used for.
type DiskData string

const (
	// DataNone: nothing of any member.
	DataNone DiskData = "none"
	// DataMember: the data of the member that the host carries, or of one that it is about to carry.
	DataMember DiskData = "member"
	// DataRemoved: nothing but members that a quorum of their own cluster removed, with all
	// that pruning goes by (SAFETY.md, rule 22).
	DataRemoved DiskData = "removed"
	// DataOther: data that needs a person to be given up, perhaps beside data of removed members.
	DataOther DiskData = "other"
)

// Data is what lies on the host's disk.
func (h *HostState) Data() DiskData {
	lasting := func(a SetAside) bool { return !a.Prunable() }
	switch {
	case h.Carries(), h.Process.State != ProcessStopped:
		return DataMember
	case len(h.Foreign) > 0, h.Predecessor != nil, h.Staged != nil, slices.ContainsFunc(h.SetAside, lasting):
		return DataOther
	case len(h.SetAside) > 0:
		return DataRemoved
	}
	return DataNone
}

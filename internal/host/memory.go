package host

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// Remember takes in what other hosts told in their pings: their beats, to be
// told back to them, and what they remember of this one. It is durable with
// the next beat; a memory is a lower bound.
func (h *Host) Remember(pings []cluster.Ping) {
	h.mu.Lock()
	s := h.state
	behind := cluster.Ping{}
	for _, p := range pings {
		if p.Cluster != s.Cluster || p.Host == "" || p.Host == s.Host {
			continue
		}
		if p.RememberedDisk == s.Disk && s.Disk != "" && p.Remembered > s.Beat {
			behind = p
		}
		if p.Disk != "" {
			h.peers = record.Remember(h.peers, record.Peer{Host: p.Host, Disk: p.Disk, Address: p.Endpoint, Beat: p.Beat})
		}
	}
	known := h.rolledBack
	if behind.Host != "" {
		h.rolledBack = true
	}
	h.mu.Unlock()
	if behind.Host != "" && !known {
		h.note(cluster.Problem{
			Code: "disk-went-back",
			Sentence: fmt.Sprintf("host %s remembers beat %d of this disk, and the disk itself only %d: it went back in time, and its member may have forgotten what it acknowledged",
				behind.Host, behind.Remembered, s.Beat),
			Hint:  "remove the member, reset this host and let it join anew",
			Unfit: true,
		})
	}
}

// Remembered is the beat that this host remembers of a disk of another one, to
// be told to it; of the one that it had last, where disk is empty. Nothing is
// remembered of a disk where the beat is 0.
func (h *Host) Remembered(id cluster.HostID, disk cluster.DiskID) (cluster.DiskID, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.peers {
		switch {
		case p.Host != id:
		case disk == "":
			return p.Disk, p.Beat
		default:
			return disk, p.BeatOf(disk)
		}
	}
	return "", 0
}

// Peers are the hosts that were heard of last, sorted; where to look for them
// when discovery finds nobody.
func (h *Host) Peers() []record.Peer {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Clone(h.peers)
	for i := range out {
		out[i].Past = slices.Clone(out[i].Past)
	}
	return out
}

// RememberSpec keeps the last spec that was seen. It is durable with the next
// beat, and used for repairs only.
func (h *Host) RememberSpec(s cluster.Spec) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.spec == nil || !h.spec.Equal(s) {
		h.spec = record.CopySpec(s)
	}
}

// rememberStanding keeps what the leader told is left of a spec that is refused; nil:
// none is. It is not durable, as a leader tells it with every look.
func (h *Host) rememberStanding(s *cluster.Standing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.standing = s
}

// askedOptions are etcd's options as the last spec that was seen has them, or else the
// settings beside one that is refused; false: nobody told any.
func (h *Host) askedOptions() (map[string]string, bool) {
	spec := h.Spec()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case spec != nil:
		return spec.Options, true
	case h.standing != nil:
		return maps.Clone(h.standing.Options), true
	}
	return nil, false
}

// Spec is the last spec that was seen; nil: none ever.
func (h *Host) Spec() *cluster.Spec {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.spec == nil {
		return nil
	}
	return record.CopySpec(*h.spec)
}

// reached folds how far the own member got into what is remembered.
func (h *Host) reached(st cluster.MemberStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.highest.Revision = max(h.highest.Revision, st.Revision)
	if st.Cluster != 0 && st.Cluster != h.highestOf {
		// Terms and indexes compare only within one cluster ID; after a restore
		// those of the generation before would stand above every later one.
		if h.highestOf != 0 {
			h.highest.Term, h.highest.Index = 0, 0
		}
		h.highestOf = st.Cluster
	}
	if c := cmp.Or(cmp.Compare(st.Term, h.highest.Term), cmp.Compare(st.Index, h.highest.Index)); c > 0 {
		h.highest.Term, h.highest.Index = st.Term, st.Index
	}
}

package sight

import (
	"time"

	"etcdadm.io/cluster"
)

const (
	// FoundingStalled is how long a founding may stay without a quorum before
	// it is superseded by one of hosts that promise that they never started.
	FoundingStalled = 30 * time.Second
)

// Stalled reports whether the founding has had its time.
func (v *Sight) Stalled() bool { return v.FoundingFor() >= FoundingStalled }

// FoundingFor is how long ago the founding was written down. Its time is by the
// clock of whoever wrote it; where that is ahead of this leader's, what the leader
// has watched counts, or a founding would go on for as long as clocks are apart.
func (v *Sight) FoundingFor() time.Duration {
	age := v.Obs.At.Sub(time.Unix(0, v.Intent.Timestamp))
	if f := v.Obs.Memory.Founding; f.Generation == v.Intent.Generation && !f.Seen.IsZero() {
		age = max(age, v.Obs.At.Sub(f.Seen))
	}
	return age
}

// WatchedFor is how long this leader has watched the founding.
func WatchedFor(v *Sight) time.Duration {
	f := v.Obs.Memory.Founding
	if f.Generation != v.Intent.Generation || f.Seen.IsZero() {
		return 0
	}
	return v.Obs.At.Sub(f.Seen)
}

func FounderMembers(in *cluster.Intent) []cluster.Member {
	var out []cluster.Member
	for _, f := range in.Founders {
		out = append(out, cluster.Member{ID: f.Member, Name: string(f.Host), PeerURLs: f.URLs.Peer, ClientURLs: f.URLs.Client})
	}
	return out
}

func FounderVoters(in *cluster.Intent) []cluster.Voter {
	var out []cluster.Voter
	for _, f := range in.Founders {
		out = append(out, cluster.Voter{Host: f.Host, Disk: f.Disk, Member: f.Member, PeerURLs: f.URLs.Peer})
	}
	return out
}

func AsFounders(hosts []*cluster.HostReport) []cluster.Founder {
	var out []cluster.Founder
	for _, h := range hosts {
		out = append(out, cluster.Founder{Host: h.Host, Disk: h.Disk, URLs: h.URLs})
	}
	return out
}

// IsFounder reports whether the generation that is being founded from data begins on the host.
func IsFounder(v *Sight, h *cluster.HostReport) bool {
	in := v.Intent
	return in != nil && in.State == cluster.IntentFounding && in.Source.FromData() && len(in.Founders) == 1 && in.Founders[0].Host == h.Host
}

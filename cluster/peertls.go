package cluster

import "slices"

// rejectedWords say that a member and others reject each other's certificates; empty: no.
func (o *Observation) rejectedWords(id MemberID) string {
	if r := o.Rejected(id); len(r) > 0 {
		return "it and other members reject each other's certificates: " + r[0].Why
	}
	return ""
}

// Rejected are the members that a member cannot speak with, since one of the two rejects
// the other's certificate; each with the words of whichever says so.
func (o *Observation) Rejected(id MemberID) []Rejection {
	var out []Rejection
	add := func(r Rejection) {
		if r.Member != id && !slices.ContainsFunc(out, func(x Rejection) bool { return x.Member == r.Member }) {
			out = append(out, r)
		}
	}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		if h.PeerTLS == nil || h.Local.Member == 0 {
			continue
		}
		for _, r := range h.PeerTLS.Rejects {
			switch id {
			case h.Local.Member:
				add(r)
			case r.Member:
				add(Rejection{Member: h.Local.Member, Authority: r.Authority, Why: r.Why})
			}
		}
	}
	return out
}

package sight

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/words"
)

// PeerAuthority is the argument by which a member knows the certificates of the
// others.
const PeerAuthority = "--peer-trusted-ca-file"

// IsPlain reports whether the member is listed without TLS.
func IsPlain(s cluster.Seat) bool {
	return slices.ContainsFunc(s.PeerURLs, func(u string) bool { return strings.HasPrefix(u, "http://") })
}

// OnlyTLS reports whether two lists of peer URLs differ in nothing but TLS.
func OnlyTLS(a, b []string) bool { return cluster.TurnsTLSOn(a, b) || cluster.TurnsTLSOn(b, a) }

func SameURLs(a, b []string) bool { return slices.Equal(a, b) || slices.Equal(Sorted(a), Sorted(b)) }

// Sorted is not to be changed.
func Sorted(s []string) []string {
	if slices.IsSorted(s) { // nearly always
		return s
	}
	c := slices.Clone(s)
	slices.Sort(c)
	return c
}

// TlsBefore says why a host cannot join for the sake of TLS; empty: it can. A
// member with a certificate reaches those without, and not the other way round.
func TlsBefore(v *Sight, h *cluster.HostReport) string {
	secure := slices.ContainsFunc(h.URLs.Peer, func(u string) bool { return strings.HasPrefix(u, "https://") })
	for _, s := range v.Roster.Voters() {
		switch {
		case !IsPlain(s) && !secure:
			return "is to speak with its peers without TLS, which the cluster has"
		case IsPlain(s) && secure && (s.Host == nil || !cluster.TurnsTLSOn(s.PeerURLs, s.Host.URLs.Peer) || slices.Contains(s.Host.Process.Differs, PeerAuthority)):
			return fmt.Sprintf("is to speak TLS with its peers, and %s has no certificate for that", words.SeatName(s))
		}
	}
	return ""
}

// WithoutTLS reports whether the host's daemon has no certificates for its etcd, and a member is
// listed with TLS. Its own member, which has them, is not restarted without.
func WithoutTLS(v *Sight, h *cluster.HostReport) bool {
	plain := !slices.ContainsFunc(h.URLs.Peer, func(u string) bool { return strings.HasPrefix(u, "https://") })
	return plain && slices.ContainsFunc(v.Roster.Seats, func(s cluster.Seat) bool { return !IsPlain(s) })
}

// Barred reports whether no restart gives a member a raft leader: without the voters with
// which it exchanges no certificates that both accept, it sees less than a quorum. Where it
// was another authority and the files are the same by now, a restart is what helps: etcd
// reads an authority at its start.
func (v *Sight) Barred(id cluster.MemberID) bool {
	var voters []cluster.MemberID
	for _, s := range v.Roster.Voters() {
		voters = append(voters, s.ID)
	}
	if !v.Seen {
		for _, w := range v.Intent.Voters {
			voters = append(voters, w.Member)
		}
	}
	cut := 0
	for _, r := range v.Obs.Rejected(id) {
		if slices.Contains(voters, r.Member) && !(r.Authority && v.sameAuthority(id, r.Member)) {
			cut++
		}
	}
	return cut > 0 && len(voters)-cut < cluster.Quorum(len(voters))
}

func (v *Sight) PeerTLS(id cluster.MemberID) (cluster.HostID, *cluster.PeerTLS) {
	for i := range v.Obs.Hosts {
		if h := &v.Obs.Hosts[i]; h.Local.Member == id && h.PeerTLS != nil {
			return h.Host, h.PeerTLS
		}
	}
	return "", nil
}

// PeerAuthorities says which members do not trust the same authorities for peers, or of which that is not known, and what a person does
// about it; empty: all trust the same. With TLS those would reach nobody, and TLS is not turned off again.
func (v *Sight) PeerAuthorities() (why, advice string) {
	var first *cluster.PeerTLS
	var of cluster.HostID
	for _, s := range v.Roster.Seats {
		host, t := v.PeerTLS(s.ID)
		switch {
		case t == nil || t.Fingerprint == "":
			return fmt.Sprintf("%s does not tell which one it trusts", words.SeatName(s)), "bring its daemon up to date, with certificates for its etcd"
		case first == nil:
			first, of = t, host
		case !sameBundle(t.Fingerprint, first.Fingerprint):
			return fmt.Sprintf("host %s has %s (%s), and host %s has %s (%s)", of, first.File, first.Fingerprint, host, t.File, t.Fingerprint), "give every host the same etcd-peers-ca.crt"
		}
	}
	return "", ""
}

// sameBundle reports whether two files have the same certificates, in whatever order.
func sameBundle(a, b string) bool {
	return a == b || SameURLs(strings.Split(a, "+"), strings.Split(b, "+"))
}

func (v *Sight) sameAuthority(a, b cluster.MemberID) bool {
	_, x := v.PeerTLS(a)
	_, y := v.PeerTLS(b)
	return x != nil && y != nil && x.Fingerprint == y.Fingerprint
}

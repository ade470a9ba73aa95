package runtime

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Rejected is that the member rejects the certificate of another, by its log.
type Rejected struct {
	Peer string // the other's ID
	// Authority: it is because of who signed it.
	Authority bool
	Why       string
	At        time.Time // when that was read last
}

// RejectedLasts is how long a rejection holds after it was read. The prober of etcd 3.2 to
// 3.7 says it every five seconds (probing_status.go, statusErrorInterval).
const RejectedLasts = 20 * time.Second

var (
	// etcd before 3.4: "… W | rafthttp: health check for peer ID could not connect: WHY (prober …)"
	plainProbe = regexp.MustCompile(`health check for peer ([0-9a-f]+) could not connect: (.*?)(?: \(prober .*)?$`)
	// What Go says of the certificate of whom it called. That of who called is
	// answered in words that do not tell who that was.
	rejects = regexp.MustCompile(`\bx509: .*`)
)

// noteRejected keeps what a line says of another member's certificate.
func (f *Follower) noteRejected(line string, now time.Time) {
	peer, why := "", ""
	if strings.HasPrefix(line, "{") {
		fields := structured(line)
		if peer = fields["remote-peer-id"]; peer == "" {
			peer = fields["remote-member-id"]
		}
		why = fields["error"]
	} else if m := plainProbe.FindStringSubmatch(line); m != nil {
		peer, why = m[1], m[2]
	}
	if why = rejects.FindString(why); peer == "" || why == "" {
		return
	}
	if _, known := f.rejected[peer]; !known && len(f.rejected) >= kindsMost {
		clear(f.rejected)
	}
	f.rejected[peer] = Rejected{Peer: peer, Authority: strings.Contains(why, "unknown authority"), Why: tell(why), At: now}
}

// Rejects are the members whose certificates the member rejects, sorted by their IDs.
func (f *Follower) Rejects(now time.Time) []Rejected {
	maps.DeleteFunc(f.rejected, func(_ string, r Rejected) bool { return now.Sub(r.At) >= RejectedLasts })
	return slices.SortedFunc(maps.Values(f.rejected), func(a, b Rejected) int { return strings.Compare(a.Peer, b.Peer) })
}

package plan

import (
	"slices"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// Where no host is free, and a daemon is there that does not talk with the leading one,
// nobody is sent to start another without a word of it.
func TestDaemonsAtOddsAreNamedWhereHostsAreMissing(t *testing.T) {
	o := formedSight(t)
	o.Spec.MemberCount, o.Hosts = 5, o.Hosts[:3]
	o.Incompatible = []cluster.Neighbour{{Host: "host-19", Endpoint: "192.0.2.9:8000", Why: "its certificate is not valid yet"}}
	told := func() string {
		bs := Next(decision.Goal{Kind: decision.Converge}, o).Blockers
		i := slices.IndexFunc(bs, func(b decision.Blocker) bool { return b.Code == "no-host" })
		if i < 0 {
			t.Fatalf("no blocker no-host in %v", bs)
		}
		return bs[i].Sentence.String()
	}
	if is := told(); !strings.Contains(is, "192.0.2.9:8000") || !strings.Contains(is, "host-19") || !strings.Contains(is, "not valid yet") {
		t.Errorf("it says %q", is)
	}
	o.Incompatible[0].Host = o.Hosts[0].Host // it carries a voter, and is no other host
	if is := told(); strings.Contains(is, "192.0.2.9") {
		t.Errorf("of a host with a voter it says %q", is)
	}
}

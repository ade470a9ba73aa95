package plan

import (
	"slices"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// What a host says of itself is told with the host's name, and with it once.
func TestProblemNamesItsHostOnce(t *testing.T) {
	o := formedSight(t)
	h := &o.Hosts[0]
	name := "host " + string(h.Host)
	h.Problems = []cluster.Problem{
		{Code: "disk-full", Sentence: "the disk is full"},
		{Code: "member-not-started", Sentence: name + " cannot start its member"},
		{Code: "host-silent", Sentence: name + "0 has its address"}, // another host
	}
	blockers := Next(decision.Goal{Kind: decision.Converge}, o).Blockers
	for code, want := range map[string]string{
		"disk-full":          name + ": the disk is full",
		"member-not-started": name + " cannot start its member",
		"host-silent":        name + ": " + name + "0 has its address",
	} {
		if !slices.ContainsFunc(blockers, func(b decision.Blocker) bool { return b.Code == code && b.Sentence.String() == want }) {
			t.Errorf("no blocker %s: %q in %+v", code, want, blockers)
		}
	}
}

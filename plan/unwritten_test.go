package plan

import (
	"slices"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
)

// A store that takes no writes is a blocker, with the store's own words, and nothing else
// is decided for it.
func TestStoreThatTakesNoWritesBlocks(t *testing.T) {
	o := formedSight(t)
	without := Next(decision.Goal{Kind: decision.Converge}, o)
	o.Store.Unwritten = "read-only file system"
	with := Next(decision.Goal{Kind: decision.Converge}, o)
	told := func(b decision.Blocker) bool {
		return b.Code == "store-unwritten" && strings.Contains(b.Sentence.String(), "read-only file system")
	}
	if slices.ContainsFunc(without.Blockers, told) || !slices.ContainsFunc(with.Blockers, told) {
		t.Errorf("with a store that takes writes %v, with one that takes none %v", without.Blockers, with.Blockers)
	}
	silent := *o
	silent.Store.Read = false
	if d := Next(decision.Goal{Kind: decision.Converge}, &silent); slices.ContainsFunc(d.Blockers, told) {
		t.Errorf("with one that cannot be read %v", d.Blockers)
	}
	if without.Reason.String() != with.Reason.String() {
		t.Errorf("it decides %q, and else %q", with.Reason, without.Reason)
	}
}

// A store that can be read, and could not be tried out, is not said to be unreadable.
func TestStoreThatCouldNotBeTriedOut(t *testing.T) {
	o := formedSight(t)
	o.Store.Read = false
	o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapStore, Detail: "it can be read, and could not be tried out: no space left on device"})
	told := func(words string) bool {
		return slices.ContainsFunc(Next(decision.Goal{Kind: decision.Converge}, o).Blockers, func(b decision.Blocker) bool {
			return b.Code == "store-silent" && strings.HasPrefix(b.Sentence.String(), "the backup store "+words+": ")
		})
	}
	if !told("cannot be read") {
		t.Error("of one that cannot be read")
	}
	o.Store.Untried = true
	if told("cannot be read") || !told("cannot be relied on") {
		t.Error("of one that can be read")
	}
}

// What keeps a host from carrying a member is told by its code; a problem that does not is
// no reason.
func TestUnfitnessIsToldByItsCode(t *testing.T) {
	h := &cluster.HostReport{}
	h.Problems = []cluster.Problem{{Code: "x", Sentence: "host a is well"}}
	if got := sight.Problem(h); got != "" {
		t.Errorf("a host that is fit: %q", got)
	}
	h.Problems = append(h.Problems, cluster.Problem{Code: "y", Sentence: "host a cannot write its state", Unfit: true})
	if got := sight.Problem(h); got != "reports y" {
		t.Errorf("a host that is not: %q", got)
	}
}

package plan

import (
	"slices"
	"strings"
	"testing"
)

// A store that takes no writes is a blocker, with the store's own words, and nothing else
// is decided for it.
func TestStoreThatTakesNoWritesBlocks(t *testing.T) {
	o := formedSight(t)
	without := Next(Goal{Kind: Converge}, o)
	o.Store.Unwritten = "read-only file system"
	with := Next(Goal{Kind: Converge}, o)
	told := func(b Blocker) bool {
		return b.Code == "store-unwritten" && strings.Contains(b.Sentence, "read-only file system")
	}
	if slices.ContainsFunc(without.Blockers, told) || !slices.ContainsFunc(with.Blockers, told) {
		t.Errorf("with a store that takes writes %v, with one that takes none %v", without.Blockers, with.Blockers)
	}
	silent := *o
	silent.Store.Read = false
	if d := Next(Goal{Kind: Converge}, &silent); slices.ContainsFunc(d.Blockers, told) {
		t.Errorf("with one that cannot be read %v", d.Blockers)
	}
	if without.Reason != with.Reason {
		t.Errorf("it decides %q, and else %q", with.Reason, without.Reason)
	}
}

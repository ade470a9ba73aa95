package history

import (
	"cmp"
	"slices"
)

// checkRevisions: an answer's revision is not below one that anybody knew before the call, and a write's is above all of
// them; no two writes share one. The header of a linearizable read is the revision of the store at the time of the read.
func (c *checker) checkRevisions() {
	var answered []Operation
	at := map[int64]Operation{}
	for _, o := range c.history.Operations {
		if o.Error != "" {
			continue
		}
		answered = append(answered, o)
		if !o.wrote() {
			continue
		}
		if other, taken := at[o.Revision]; taken {
			c.found("a revision twice", o.Call, "%s, and %s", other, o)
		}
		at[o.Revision] = o
	}
	byCall := slices.SortedFunc(slices.Values(answered), func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
	byReturn := slices.SortedFunc(slices.Values(answered), func(a, b Operation) int { return cmp.Compare(a.Return, b.Return) })
	var known Operation // of those that had returned, the one with the highest revision
	for _, o := range byCall {
		for len(byReturn) > 0 && byReturn[0].Return < o.Call {
			if byReturn[0].Revision > known.Revision {
				known = byReturn[0]
			}
			byReturn = byReturn[1:]
		}
		if o.Revision < known.Revision || o.wrote() && o.Revision == known.Revision {
			c.found("a revision goes back", o.Call, "%s, after %s", o, known)
		}
	}
}

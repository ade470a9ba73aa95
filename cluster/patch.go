package cluster

import (
	"slices"
	"strings"
)

// ParseLine reads the name of a release line that is known, such as 3.6; a leading "v" is
// allowed.
func ParseLine(s string) (Line, bool) {
	for _, l := range lines {
		if strings.TrimPrefix(s, "v") == l.String() {
			return l, true
		}
	}
	return Line{}, false
}

// NewestPatch is the newest patch of a line that is known: of those that were out when this
// release was made, those that a host has, and those that a member runs. Common is the
// newest that every host with a member has; zero: there is none.
func (o *Observation) NewestPatch(l Line) (newest, common Version) {
	newest = l.Release(l.Newest)
	var carriers []*HostReport
	if roster, seen := o.Roster(); seen {
		for _, s := range roster.Seats {
			if s.Host != nil {
				carriers = append(carriers, s.Host)
			}
		}
	}
	later := func(a, b Version) bool { return newest.SameMinor(a) && a.Compare(b) > 0 }
	for i := range o.Hosts {
		h := &o.Hosts[i]
		if st := h.Status; st != nil && later(st.Version, newest) {
			newest = st.Version
		}
		for _, v := range h.Releases {
			if later(v, newest) {
				newest = v
			}
			if later(v, common) && len(carriers) > 0 && !slices.ContainsFunc(carriers, func(c *HostReport) bool { return !c.CanRun(v) }) {
				common = v
			}
		}
	}
	return newest, common
}

package cluster

import (
	"testing"
	"time"
)

// Nobody's keys are compared where there is no voter, and one whose hash was never
// counted is compared anew.
func TestCompareNobody(t *testing.T) {
	if c, ok := new(Observation).Compare(Roster{Cluster: 5}); ok {
		t.Errorf("compared: %+v", c)
	}
	ended := time.Unix(1000, 0)
	s := Seat{Member: Member{ID: 1}, Host: &HostReport{}}
	s.Host.Hash = &Hash{Ended: ended}
	for what, c := range map[string]struct {
		members []MemberMemory
		want    bool
	}{
		"nobody was counted":    {nil, true},
		"another one was":       {[]MemberMemory{{Member: 2, Hashed: ended}}, true},
		"an earlier hash of it": {[]MemberMemory{{Member: 1, Hashed: ended.Add(-time.Second)}}, true},
		"this very hash":        {[]MemberMemory{{Member: 1, Hashed: ended}}, false},
	} {
		if got := uncounted(s, c.members); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

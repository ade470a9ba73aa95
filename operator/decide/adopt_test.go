package decide

import (
	"strings"
	"testing"

	"etcdadm.io/cluster"
)

// Nothing is asked of the daemons before the cluster is adopted, and whoever asks is told so.
func TestAsksNothingBeforeAnAdoption(t *testing.T) {
	for what, c := range map[string]struct {
		w    World
		deaf bool
	}{
		"awaited":    {World{Record: Record{There: true, Adopts: true}}, true},
		"not noted":  {World{Record: Record{There: true}, Want: Want{Adopt: &Adopt{}}}, true},
		"under way":  {World{Record: Record{There: true, Adopts: true}, Joining: &Joining{Cluster: 1}, Intent: &cluster.Intent{}, Want: Want{Hibernate: true}}, true},
		"taken over": {World{Record: Record{There: true, Adopts: true}, Joining: &Joining{Cluster: 1}, Intent: &cluster.Intent{Generation: 1, Cluster: 1}}, false},
		"beside it":  {World{Record: Record{There: true, Adopts: true}, Joining: &Joining{Cluster: 1}, Intent: &cluster.Intent{Generation: 1, Cluster: 2}}, true},
		"none":       {World{Record: Record{There: true}}, false},
	} {
		if why := c.w.Deaf(); strings.Contains(why, "before it is adopted") != c.deaf || !c.deaf && why != "" {
			t.Errorf("%s: %q", what, why)
		}
	}
}

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/record"
)

// A host whose daemon sees another store than the leading one is named, once that has
// lasted; and the others go on.
func TestHostThatSeesAnotherStoreIsNamed(t *testing.T) {
	same := func(o *cluster.Observation) cluster.StoreSight {
		return cluster.StoreSight{Marker: o.Store.Marker, Generation: o.Store.Intent.Generation, Nonce: o.Store.Intent.Nonce}
	}
	for _, c := range []struct {
		name   string
		change func(*cluster.Observation, *cluster.StoreSight)
		lasted time.Duration
		want   string
	}{
		{"the same", func(*cluster.Observation, *cluster.StoreSight) {}, time.Hour, ""},
		{"it cannot read it", func(_ *cluster.Observation, s *cluster.StoreSight) { s.Unread = "permission denied" }, record.StoreOddsAfter, "permission denied"},
		{"not for long", func(_ *cluster.Observation, s *cluster.StoreSight) { s.Unread = "permission denied" }, record.StoreOddsAfter - 1, ""},
		{"an empty directory", func(_ *cluster.Observation, s *cluster.StoreSight) { *s = cluster.StoreSight{} }, time.Hour, "no record of this cluster"},
		{"another cluster's", func(_ *cluster.Observation, s *cluster.StoreSight) { s.Foreign = true }, time.Hour, "another cluster"},
		{"an older copy", func(_ *cluster.Observation, s *cluster.StoreSight) { s.Generation-- }, time.Hour, "generation 0"},
		{"another founding", func(_ *cluster.Observation, s *cluster.StoreSight) { s.Nonce = "other" }, time.Hour, "another generation 1"},
		{"the leader does not read it either", func(o *cluster.Observation, s *cluster.StoreSight) {
			s.Unread, o.Store.Read = "no answer", false
		}, time.Hour, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := formedSight(t)
			o.Store.Marker = true
			s := same(o)
			c.change(o, &s)
			id := o.Hosts[1].Host
			o.Sights = []cluster.HostSight{{Host: id, StoreSight: s}}
			o.Memory = cluster.Fold(o.Memory, o)
			for i := range o.Memory.Hosts {
				if h := &o.Memory.Hosts[i]; !h.StoreSince.IsZero() {
					if h.Host != id {
						t.Errorf("it is noted of host %s", h.Host)
					}
					h.StoreSince = o.At.Add(-c.lasted)
				}
			}
			d := Next(decision.Goal{Kind: decision.Converge}, o)
			i := slices.IndexFunc(d.Blockers, func(b decision.Blocker) bool { return b.Code == "store-differs" })
			switch {
			case c.want == "" && i >= 0:
				t.Errorf("it says %q", d.Blockers[i].Sentence)
			case c.want != "" && (i < 0 || !strings.Contains(d.Blockers[i].Sentence.String(), c.want) || !strings.Contains(d.Blockers[i].Sentence.String(), string(id))):
				t.Errorf("it says %v, want %q of host %s", d.Blockers, c.want, id)
			}
		})
	}
}

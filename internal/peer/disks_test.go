package peer

import (
	"context"
	"fmt"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/pki"
)

// remembers is what a host remembers of all others, and what it heard.
type remembers struct {
	epoch uint64
	heard []string
}

func (r *remembers) Remembered(h cluster.HostID, _ cluster.DiskID) (cluster.DiskID, uint64) {
	return cluster.DiskID("disk of " + h), r.epoch
}

func (r *remembers) Heard(from cluster.HostID, disk cluster.DiskID, epoch uint64) {
	r.heard = append(r.heard, fmt.Sprintf("%s: %d of %s", from, epoch, disk))
}

// Each call between hosts and each answer says what its sender remembers of the other one's disk. The host that is
// called hears it before it answers, and the caller before it has the answer. Persons and joiners say nothing.
func TestCallsSayWhatIsRemembered(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		role          pki.Role
		there, here   uint64
		hears, caller string
	}{
		{pki.RoleHost, 7, 9, "[h2: 9 of disk of h1]", "[h1: 7 of disk of h2]"},
		{pki.RoleHost, 0, 0, "[]", "[]"},
		{pki.RoleOperator, 7, 9, "[]", "[]"},
	} {
		there, here := &remembers{epoch: c.there}, &remembers{epoch: c.here}
		r := start(t, "h1", s.host("h1"), "", func(s *Server) { s.opt.Disks = there })
		before := -1
		r.handler.apply = func(context.Context, cluster.ApplyRequest) (cluster.ApplyReply, error) {
			before = len(there.heard)
			return cluster.ApplyReply{}, nil
		}
		p, err := NewPool(as(c.role, "h2"), s.live(as(c.role, "h2"), 0))
		must(t, err)
		p.Disks = here
		to, err := p.To(cluster.Contact{Host: "h1", Endpoint: r.endpoint})
		must(t, err)
		if _, err := to.Keep(t.Context(), KeepRequest{Where: true}); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(there.heard); got != c.hears {
			t.Errorf("%s: it hears %s", c.role, got)
		}
		if got := fmt.Sprint(here.heard); got != c.caller {
			t.Errorf("%s: the caller hears %s", c.role, got)
		}
		if c.role == pki.RoleHost && c.here > 0 {
			if _, err := to.Apply(t.Context(), cluster.ApplyRequest{}); err != nil || before != 2 {
				t.Errorf("it hears that after it began to answer: %d, %v", before, err)
			}
		}
		must(t, p.Close())
		must(t, r.stop())
	}
}

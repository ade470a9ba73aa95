package manager

import (
	"reflect"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

// trustOf is whom a host trusts; nil: it does not tell.
func trustOf(h *cluster.HostReport) *control.TrustStatus {
	if h.Authorities == nil {
		return nil
	}
	out := &control.TrustStatus{Daemon: []string{}}
	for _, a := range h.Authorities.All {
		out.Daemon = append(out.Daemon, a.Trusts...)
		out.Signed = append(out.Signed, a.Leaves...)
	}
	if h.Process.Runs() {
		out.Member = slices.Clone(h.Process.Trusts)
	}
	slices.Sort(out.Daemon)
	slices.Sort(out.Signed)
	out.Daemon, out.Signed = slices.Compact(out.Daemon), slices.Compact(out.Signed)
	return out
}

// toldTrusts are whom the hosts trust, as the leader saw it last.
type toldTrusts map[cluster.HostID]*control.TrustStatus

// news reports whether the status is to be written for the sake of whom a host trusts: who rotates the authorities waits for that,
// and no decision changes with it.
func (t toldTrusts) news(o *cluster.Observation) (changed bool) {
	for i := range o.Hosts {
		h := &o.Hosts[i]
		if now := trustOf(h); !reflect.DeepEqual(now, t[h.Host]) {
			t[h.Host], changed = now, true
		}
	}
	return changed
}

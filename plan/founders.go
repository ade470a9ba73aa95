package plan

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// founders picks the hosts of a founding: all that are wanted, or after some
// patience a majority of them. With a store that cannot write on a condition
// the majority is of the hosts that the spec names.
func (v *view) founders(n int) ([]*cluster.HostReport, *Decision) {
	free, why := v.candidatesBeside(cluster.Roster{}) // members of a founding that is superseded are no reason
	var ready []*cluster.HostReport
	fetch := "" // the command that is missing on a host
	for _, h := range free {
		switch {
		case !h.CanRun(v.spec.EtcdVersion):
			why = append(why, fmt.Sprintf("%s has no etcd %s, only %s", h.Host, v.spec.EtcdVersion, versions(h.Releases)))
			fetch = "etcdadm download " + v.spec.EtcdVersion.String()
		case slices.ContainsFunc(ready, func(o *cluster.HostReport) bool { return sharesURL(o, h) }):
			why = append(why, fmt.Sprintf("%s has a peer URL of another host", h.Host))
		default:
			ready = append(ready, h)
		}
	}
	need := cluster.Quorum(n)
	if !v.obs.Store.Conditional {
		need = max(need, cluster.Quorum(len(v.spec.Hosts)))
	}
	if len(ready) >= max(n, need) {
		return v.untriedFirst(ready)[:n], nil
	}
	if len(ready) < need {
		return nil, wait(false, "waiting-for-hosts", fetch, "%s wanted and %s ready%s; a cluster is founded once %s%s",
			are(n, "member"), are(len(ready), "host"), named(ready), are(need, "host"), because(why))
	}
	left := foundingPatience
	if s := v.obs.Memory.EnoughSince; !s.IsZero() {
		left -= v.obs.At.Sub(s)
	}
	if left > 0 {
		d := wait(false, "waiting-for-hosts", fetch, "%d of %d wanted hosts are ready%s; founding without the others after %s%s", len(ready), n, named(ready), foundingPatience, because(why))
		d.Again = left
		return nil, d
	}
	return ready, nil
}

// untriedFirst puts the hosts of a founding that came to nothing last, so that
// one of them which cannot start, and does not say so, is not chosen again and
// again while others are there.
func (v *view) untriedFirst(hosts []*cluster.HostReport) []*cluster.HostReport {
	if v.intent == nil || v.intent.State != cluster.IntentFounding {
		return hosts
	}
	tried := func(h *cluster.HostReport) int {
		if _, was := v.intent.Founder(h.Host, h.Disk); was {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(hosts, func(a, b *cluster.HostReport) int { return tried(a) - tried(b) })
	return hosts
}

package plan

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// autoRecover queues a recovery by itself, when a person has asked for that in
// advance and the quorum has been gone for so long: from the furthest survivor
// in sight, with the hosts out of sight named as lost. It may lose writes that
// only those had, so it also wants the survivor to have reached everything that
// any host or the store has on record (SAFETY.md, rule 15).
func autoRecover(v *view) *Decision {
	if v.spec == nil || v.spec.AutoRecoverAfter <= 0 || v.intent == nil || v.intent.State != cluster.IntentFounded || v.intent.Generation == 0 ||
		v.nextCommand() != nil || v.queueUnknown() {
		return nil
	}
	gone := v.obs.Memory.QuorumlessSince
	if gone.IsZero() {
		return nil
	}
	away := v.outOfSight()
	if back := v.excused(away); len(back) > 0 {
		v.aside("auto-recovery", "", "the cluster is not recovered by itself while hosts are paused that it would give up, or while nobody knows which are: %s; end the pause (etcdadm host resume HOST), or name those that are gone for good to etcdadm recover", idList(back))
		return nil
	}
	for _, id := range away { // nobody is given up sooner after a pause than without one
		gone = v.obs.Memory.Counts(gone, id)
	}
	if left := v.spec.AutoRecoverAfter - v.obs.At.Sub(gone); left > 0 {
		v.aside("no-quorum", "", "the quorum is gone; if it stays so, the cluster is recovered from the furthest survivor in %s, as --auto-recover-after says, which may lose writes", left.Round(time.Second))
		return nil
	}
	best, wait := v.furthestSurvivor()
	if wait != "" {
		v.aside("auto-recovery", "etcdadm recover", "the cluster is not recovered by itself: %s", wait)
		return nil
	}
	c := cluster.Command{Kind: cluster.CommandRecover, Host: best.Host, Lost: away}
	if there := slices.DeleteFunc(slices.Clone(c.Lost), func(id cluster.HostID) bool { return !v.presence(id).Elsewhere() }); len(there) > 0 {
		v.aside("auto-recovery", "", "the cluster is not recovered by itself: these hosts may not be gone, since their daemons are heard or something answers at their addresses, and this one, which may be what is wrong, does not talk with them: %s; for those that are gone for good, name them to etcdadm recover", idList(there))
		return nil
	}
	missing, working := v.logless(&c, best)
	if len(working) > 0 {
		v.aside("auto-recovery", "", "the cluster is not recovered by itself: the logs of too few voters can be read, and of these the hosts are busy, which ends by itself: %s", idList(working))
		return nil
	}
	// A host that waits for its disk, or is late, is no lost one: its member may go on with
	// the disk, together with another one whose disk was the same.
	busy := slices.DeleteFunc(slices.Clone(missing), func(id cluster.HostID) bool { return !v.presence(id).Occupied() })
	if late := slices.DeleteFunc(slices.Clone(busy), func(id cluster.HostID) bool { return v.presence(id) == cluster.PresenceStarting }); len(late) > 0 {
		v.aside("auto-recovery", "", "the cluster is not recovered by itself: the logs of too few voters can be read, and of these the hosts answer and are busy with what may not end by itself, as a disk that stands still: %s; for those that are gone for good, name them to etcdadm recover", idList(late))
		return nil
	}
	if len(busy) > 0 {
		v.aside("auto-recovery", "", "the cluster is not recovered by itself: the logs of too few voters can be read, and of these the hosts are starting or have begun to look at their disks, which ends soon where the disk answers: %s", idList(busy))
		return nil
	}
	c.Lost = slices.Sorted(slices.Values(union(c.Lost, missing))) // wiped disks too
	return &Decision{
		Reason: fmt.Sprintf("the quorum is gone for %s: recover from host %s, the furthest survivor, as --auto-recover-after says", v.obs.At.Sub(gone).Round(time.Second), best.Host),
		Again:  soon,
		Action: &Action{Kind: ActQueue, Queue: &c, Command: v.generationCommand(&c)},
	}
}

// furthestSurvivor is the host with the furthest log; or why none may be taken.
func (v *view) furthestSurvivor() (*cluster.HostReport, string) {
	var best *cluster.HostReport
	top := cluster.Progress{Term: v.obs.Recorded.Term, Index: v.obs.Recorded.Index}
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if h.Local.Generation != v.intent.Generation || h.Local.Cluster != v.intent.Cluster {
			continue
		}
		if top.Before(h.Highest) {
			top = h.Highest
		}
		if h.Local.State != cluster.MemberStarted || !h.Local.HasData {
			continue
		}
		if h.Log == nil {
			return nil, fmt.Sprintf("the end of the log of host %s was not read yet", h.Host)
		}
		if best == nil || best.Log.Before(*h.Log) {
			best = h
		}
	}
	switch {
	case best == nil:
		return nil, "no host in sight holds its data"
	case best.Log.Before(top):
		return nil, fmt.Sprintf("host %s is the furthest in sight, at term %d and index %d, and term %d and index %d are on record: a host that is out of sight has more",
			best.Host, best.Log.Term, best.Log.Index, top.Term, top.Index)
	}
	return best, ""
}

// outOfSight are the recorded voters' hosts that cannot be asked, sorted.
func (v *view) outOfSight() []cluster.HostID {
	var out []cluster.HostID
	for _, g := range v.open(true) {
		for _, set := range g.Voters {
			for _, w := range set {
				if v.voice(w, set) == nil && !v.presence(w.Host).Occupied() {
					out = append(out, nameOf(w))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

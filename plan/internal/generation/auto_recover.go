package generation

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// AutoRecover queues a recovery by itself, when a person has asked for that in
// advance and the quorum has been gone for so long: from the furthest survivor
// in sight, with the hosts out of sight named as lost. It may lose writes that
// only those had, so it also wants the survivor to have reached everything that
// any host or the store has on record (SAFETY.md, rule 15).
func AutoRecover(v *step.View) *decision.Decision {
	if v.Spec == nil || v.Spec.AutoRecoverAfter <= 0 || v.Intent == nil || v.Intent.State != cluster.IntentFounded || v.Intent.Generation == 0 ||
		v.NextCommand() != nil || v.QueueUnknown() {
		return nil
	}
	gone := v.Obs.Memory.QuorumlessSince
	if gone.IsZero() {
		return nil
	}
	away := OutOfSight(v)
	if back := sight.Excused(v.Sight, away); len(back) > 0 {
		v.Notice("auto-recovery", "", "no automatic recovery: these hosts are paused, or their pauses are unknown: {back}. End the pause (etcdadm host resume HOST), or name the hosts that are gone for good to etcdadm recover", words.IdList(back))
		return nil
	}
	for _, id := range away { // nobody is given up sooner after a pause than without one
		gone = v.Obs.Memory.Counts(gone, id)
	}
	if left := v.Spec.AutoRecoverAfter - v.Obs.At.Sub(gone); left > 0 {
		v.Notice("no-quorum", "", "quorum lost; unless it comes back, the cluster recovers from the furthest survivor in {left} (--auto-recover-after), which may lose writes", left.Round(time.Second))
		return nil
	}
	best, wait := furthestSurvivor(v)
	if wait != "" {
		v.Notice("auto-recovery", "etcdadm recover", "no automatic recovery: {wait}", wait)
		return nil
	}
	c := cluster.Command{Kind: cluster.CommandRecover, Host: best.Host, Lost: away}
	if there := slices.DeleteFunc(slices.Clone(c.Lost), func(id cluster.HostID) bool { return !v.Presence(id).Elsewhere() }); len(there) > 0 {
		v.Notice("auto-recovery", "", "no automatic recovery: these hosts may be alive, since something answers at their addresses and cannot talk with this daemon: {there}. Check certificates and clocks here; name those that are gone for good to etcdadm recover", words.IdList(there))
		return nil
	}
	missing, working := Logless(v, &c, best)
	if len(working) > 0 {
		v.Notice("auto-recovery", "", "no automatic recovery yet: too few logs can be read; these hosts are busy and will answer: {working}", words.IdList(working))
		return nil
	}
	// A host that waits for its disk, or is late, is no lost one: its member may go on with
	// the disk, together with another one whose disk was the same.
	busy := slices.DeleteFunc(slices.Clone(missing), func(id cluster.HostID) bool { return !v.Presence(id).Occupied() })
	if late := slices.DeleteFunc(slices.Clone(busy), func(id cluster.HostID) bool { return v.Presence(id) == cluster.PresenceStarting }); len(late) > 0 {
		v.Notice("auto-recovery", "", "no automatic recovery: too few logs can be read, and these hosts answer but hang, as on a hung disk: {late}. Name those that are gone for good to etcdadm recover", words.IdList(late))
		return nil
	}
	if len(busy) > 0 {
		v.Notice("auto-recovery", "", "no automatic recovery yet: too few logs can be read; these hosts are starting or reading their disks: {busy}", words.IdList(busy))
		return nil
	}
	c.Lost = slices.Sorted(slices.Values(sight.Union(c.Lost, missing))) // wiped disks too
	return v.Unasked(&decision.Decision{
		Reason: words.F("quorum lost for {lasted}: recover from host {host}, the furthest survivor (--auto-recover-after)", v.Obs.At.Sub(gone).Round(time.Second), best.Host),
		Again:  decision.Soon,
		Action: &decision.Action{Kind: decision.ActQueue, Queue: &c, Command: GenerationCommand(v, &c)},
	})
}

// OutOfSight are the recorded voters' hosts that cannot be asked, sorted.
func OutOfSight(v *step.View) []cluster.HostID {
	var out []cluster.HostID
	for _, g := range v.Open(true) {
		for _, set := range g.Voters {
			for _, w := range set {
				if v.Voice(w, set) == nil && !v.Presence(w.Host).Occupied() {
					out = append(out, sight.NameOf(w))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

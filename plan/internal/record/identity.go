package record

import (
	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/pauses"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Identity refuses to decide anything about a store, an intent or hosts that
// are not this cluster's, and mends an intent that the store lost
// (SAFETY.md, rules 11, 18 and 19).
func Identity(v *step.View) *decision.Decision {
	for i := range v.Obs.Hosts {
		notes(v, &v.Obs.Hosts[i])
	}
	settingsDiffer(v)
	unprotected(v)
	leftBehind(v)
	generation.Remembered(v)
	pauses.NotePauses(v)
	pauses.NoteAsked(v)
	for _, g := range v.Obs.Gaps {
		if g.Promised.OutOfReach() {
			v.Notice("fence-out-of-reach", "etcdadm host reset-fence "+string(g.Host), "host {host} accepted fence {fence}, which no leader can reach, so it refuses all of them: its state is damaged; reset its fence", g.Host, g.Promised)
		}
		if g.Kind == cluster.GapSpec && v.Spec != nil {
			v.Notice("spec-refused", "", "the spec in the store is invalid; the last good one stays in force: {detail}", g.Detail)
		}
		if g.Kind == cluster.GapSpec && v.Standing != nil && !v.Unfounded() {
			v.Notice("spec-refused", "", "the spec in the store is invalid, and no earlier one is known: no member is added, removed or upgraded; {standing}: {detail}", sight.StandingWords(v.Sight), g.Detail)
		}
		if g.Kind == cluster.GapStore {
			v.Notice("store-silent", "", "{unread}: {detail}{unstored}", v.UnreadWords(), g.Detail, unstoredWords(v))
		}
	}
	if what := v.Obs.Store.Unwritten; what != "" && v.Obs.Store.Read {
		v.Notice("store-unwritten", "", "the backup store can be read, but the leading daemon's writes fail or are late: {what}", what)
	}
	storeOdds(v)
	if in := v.Intent; in != nil && in.Name != "" && in.Name != v.Obs.Cluster {
		return decision.Wait(false, "other-cluster", "", "the store belongs to cluster \"{cluster}\", and this is cluster \"{cluster2}\"; nothing is written or run", in.Name, v.Obs.Cluster)
	}
	if d := locked(v); d != nil {
		return d
	}
	if v.Unfounded() {
		if d := adopt(v); d != nil {
			return d
		}
	}
	if v.Unfounded() && v.Obs.Store.Read && v.Obs.Store.Marker || v.Intent.Adopted() {
		if stays, why := StaysAdopted(v); stays {
			if v.Obs.Store.Joining && !v.Obs.Store.Read {
				return decision.Wait(false, "store-silent", "", "whether hosts are to join a cluster that runs elsewhere cannot be read from the store; nothing is changed before it can")
			}
			if v.Obs.Store.Joining {
				return decision.Wait(false, "predecessor", "", "etcdadm adopt --join is not finished, and no reachable host has a member of the cluster yet; nothing is changed: run it on each host that is to join{why}", why)
			}
			command := restoreAdopted(v)
			if command != "" {
				why = "; once its daemons are stopped on every host, a cluster can be made from one of its backups"
			}
			return decision.Wait(false, "predecessor", command, "the store was written by kubernetes-sigs/etcd-manager and none of its members was taken over yet; nothing is changed{why}", why)
		}
	}
	if v.Intent != nil && !v.Intent.Adopted() && (v.Intent.Nonce == "" || v.Intent.Token == "") {
		// Written back, it would be taken for a new generation.
		return decision.Wait(false, "no-intent", "", "the record of this cluster's founding that {keeperOfIntent} keeps has no nonce or no token, which no founding leaves out; nothing is changed", keeperOfIntent(v))
	}
	return mendIntent(v)
}

// locked: etcd asks for a credential that the daemons have not. What they see
// is then too little to stop or change anything (SAFETY.md, rule 25).
func locked(v *step.View) *decision.Decision {
	var hosts []*cluster.HostReport
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		foreign := v.Intent != nil && v.Intent.Cluster != 0 && h.Status != nil && h.Status.Cluster != 0 && h.Status.Cluster != v.Intent.Cluster
		if h.Status != nil && h.Status.Auth && !foreign {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	return decision.Wait(false, "auth", "", "etcd's authentication is on, and it takes no credential of the root role from the daemon ({hosts}), which was given none (--etcd-user, --etcd-password-file) or a wrong one; nothing is changed until it has one", words.HostNames(hosts))
}

// twoFoundings blocks everything when what a host keeps or carries, or what the
// store holds, is of another founding under the same name than the newest
// intent: of the same generation with another nonce, or of one that the newest
// intent's history does not have (SAFETY.md, rule 18).
func twoFoundings(v *step.View) *decision.Decision {
	const both = "two clusters were founded under one name; nothing is changed"
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		switch {
		case !v.Intent.Follows(h.Intent):
			if h.Intent.Generation == v.Intent.Generation {
				return decision.Wait(false, "two-foundings", "", "host {host} remembers generation {generation} of this cluster with another nonce than {keeperOfIntent} does: {both}", h.Host, h.Intent.Generation, keeperOfIntent(v), both)
			}
			return decision.Wait(false, "two-foundings", "", "host {host} remembers generation {generation} of this cluster, which is not in the history of generation {generation2} that {keeperOfIntent} has: {both}", h.Host, h.Intent.Generation, v.Intent.Generation, keeperOfIntent(v), both)
		case h.Carries() && !v.Intent.FollowsMember(h.Local):
			return decision.Wait(false, "two-foundings", "", "host {host} carries a member of generation {generation} of cluster {cluster}, which is not in the history of generation {generation2} that {keeperOfIntent} has: {both}", h.Host, h.Local.Generation, h.Local.Cluster, v.Intent.Generation, keeperOfIntent(v), both)
		}
	}
	if in := v.Obs.Store.Intent; !v.Intent.Follows(in) {
		return decision.Wait(false, "two-foundings", "", "the store's record of generation {generation} is of another founding than the one that {keeperOfIntent} remembers: {both}", in.Generation, keeperOfIntent(v), both)
	}
	return nil
}

// mendIntent rewrites a marker that is missing or older than what hosts keep.
func mendIntent(v *step.View) *decision.Decision {
	st := v.Obs.Store
	if d := twoFoundings(v); d != nil {
		return d
	}
	if !st.Read || v.Intent == nil || v.Intent.Order(st.Intent) <= 0 {
		return nil
	}
	change := &decision.IntentChange{Replace: v.Intent}
	if !st.Marker {
		change = &decision.IntentChange{Create: v.Intent}
	}
	reason := words.F("the store's record of this cluster is missing or older than what its hosts keep; write theirs back")
	if !st.Marker && !st.Specified {
		// As an empty directory does where the store's disk is not mounted.
		reason = words.F("the store has neither a spec nor the record of this cluster, which its hosts keep: is it the right store (mount, bucket, prefix)? Write theirs back")
	}
	return &decision.Decision{Reason: reason, Action: &decision.Action{Kind: decision.ActIntent, Intent: change}}
}

func keeperOfIntent(v *step.View) string {
	if v.Obs.Store.Intent != nil && v.Intent.Order(v.Obs.Store.Intent) == 0 {
		return "the store"
	}
	for i := range v.Obs.Hosts {
		if v.Intent.Order(v.Obs.Hosts[i].Intent) == 0 {
			return "host " + string(v.Obs.Hosts[i].Host)
		}
	}
	return "the store"
}

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// maxSkew is the clock skew beyond which a person is told.
const maxSkew = 10 * time.Second

// identity refuses to decide anything about a store, an intent or hosts that
// are not this cluster's, and mends an intent that the store lost
// (SAFETY.md, rules 11, 18 and 19).
func identity(v *view) *Decision {
	for i := range v.obs.Hosts {
		v.notes(&v.obs.Hosts[i])
	}
	v.settingsDiffer()
	v.unprotected()
	v.leftBehind()
	v.remembered()
	v.notePauses()
	for _, g := range v.obs.Gaps {
		if g.Promised.OutOfReach() {
			v.aside("fence-out-of-reach", "etcdadm host reset-fence "+string(g.Host), "host %s promised fence %s, which no leader may bring, so it refuses every one; its state is damaged, and a person has to reset the promise", g.Host, g.Promised)
		}
		if g.Kind == cluster.GapSpec && v.spec != nil {
			v.aside("spec-refused", "", "the spec in the store cannot be followed, and the last good one stays in force: %s", g.Detail)
		}
		if g.Kind == cluster.GapSpec && v.standing != nil && !v.unfounded() {
			v.aside("spec-refused", "", "the spec in the store cannot be followed, and no earlier one is known: no member is added, removed or given another version by it; %s: %s", v.standingWords(), g.Detail)
		}
		if g.Kind == cluster.GapStore {
			v.aside("store-silent", "", "%s: %s%s", v.unreadWords(), g.Detail, v.unstoredWords())
		}
	}
	if what := v.obs.Store.Unwritten; what != "" && v.obs.Store.Read {
		v.aside("store-unwritten", "", "the backup store can be read, and does not take, or not in time, what the leading daemon writes into it: %s", what)
	}
	storeOdds(v)
	if in := v.intent; in != nil && in.Name != "" && in.Name != v.obs.Cluster {
		return wait(false, "other-cluster", "", "the store belongs to cluster %q, and this is cluster %q; nothing is written or run", in.Name, v.obs.Cluster)
	}
	if d := v.locked(); d != nil {
		return d
	}
	if v.unfounded() {
		if d := v.adopt(); d != nil {
			return d
		}
	}
	if v.unfounded() && v.obs.Store.Read && v.obs.Store.Marker || v.intent.Adopted() {
		if stays, why := v.staysAdopted(); stays {
			if v.obs.Store.Joining && v.nextCommand() == nil {
				return wait(false, "predecessor", "", "hosts of ours join a cluster that something else runs (etcdadm adopt --join), and no host in sight has a member of it yet; nothing is changed: run etcdadm adopt --join on the hosts that are to join, or begin again where it was given up")
			}
			command := v.restoreAdopted()
			if command != "" {
				why = "; once its daemons are stopped on every host, a cluster can be made from one of its backups"
			}
			return wait(false, "predecessor", command, "the store was written by kubernetes-sigs/etcd-manager and none of its members was taken over yet; nothing is changed%s", why)
		}
	}
	if v.intent != nil && !v.intent.Adopted() && (v.intent.Nonce == "" || v.intent.Token == "") {
		// Written back, it would be taken for a new generation.
		return wait(false, "no-intent", "", "the record of this cluster's founding that %s keeps has no nonce or no token, which no founding leaves out; nothing is changed", v.keeperOfIntent())
	}
	return v.mendIntent()
}

// unfounded: there is no record of ours of this cluster.
func (v *view) unfounded() bool { return v.intent == nil || v.intent.Adopted() }

// staysAdopted: a marker of the predecessor stays as it is, and why a command
// does not change that. It does where a command asks for a generation over it, no
// host has anything of its cluster or is out of sight, and a majority of the wanted
// hosts says so. The command is the person's word for hosts that nobody can name;
// but the predecessor's own daemons read the same queue, and may be running
// beside a single one of ours.
func (v *view) staysAdopted() (stays bool, why string) {
	c := v.nextCommand()
	if c == nil || v.intent == nil {
		return true, ""
	}
	empty := 0
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if h.Carries() || len(h.Foreign) > 0 || h.Process.State != cluster.ProcessStopped {
			return true, fmt.Sprintf("; command %s is not run, since host %s holds data or runs something", c.Name, h.Host)
		}
		if h.UnderFence {
			empty++
		}
	}
	for _, g := range v.obs.Gaps {
		if g.Host != "" && !slices.Contains(c.Lost, g.Host) {
			return true, fmt.Sprintf("; command %s waits for host %s, which may run a member of the predecessor: bring it back, or queue the command again with --lost %s", c.Name, g.Host, g.Host)
		}
	}
	if v.spec != nil && empty < cluster.Quorum(v.spec.MemberCount) {
		return true, fmt.Sprintf("; command %s waits for daemons on %d empty hosts, a majority of the %d that are wanted, and %s there: the predecessor's may still run on the others", c.Name, cluster.Quorum(v.spec.MemberCount), v.spec.MemberCount, are(empty, "host"))
	}
	return false, ""
}

// restoreAdopted is how a person goes on from the predecessor's newest backup;
// empty while a host in sight holds anything, or a command waits already.
func (v *view) restoreAdopted() string {
	b := v.obs.Backups.Newest
	if len(b) == 0 || v.nextCommand() != nil {
		return ""
	}
	for i := range v.obs.Hosts {
		if h := &v.obs.Hosts[i]; h.Carries() || len(h.Foreign) > 0 || h.Process.State != cluster.ProcessStopped {
			return ""
		}
	}
	return "etcdadm restore " + b[0].Name
}

// notes makes blockers of what hosts report about themselves.
func (v *view) notes(h *cluster.HostReport) {
	for _, p := range h.Problems {
		sentence := p.Sentence
		if name := "host " + string(h.Host); !strings.HasPrefix(sentence, name+" ") {
			sentence = name + ": " + sentence
		}
		v.advise(p.Code, p.Hint, "", "%s", sentence)
	}
	if h.Process.Damaged != "" {
		v.noteDamaged(h)
	}
	v.noteRejected(h)
	if len(h.Process.Differs) > 0 && !cluster.TurnsTLSOn(h.Local.URLs.Peer, h.URLs.Peer) {
		v.aside("settings-not-applied", "etcdadm member restart "+ShellWord(string(h.Host)), "host %s: its etcd runs with other settings than it would be started with now: %s", h.Host, strings.Join(h.Process.Differs, ", "))
	}
	for _, f := range h.Foreign {
		if f.Dir == "" {
			continue // all of it: the host's own state cannot be used, and a problem says so
		}
		if h.Predecessor != nil && v.unfounded() {
			continue // what it waits for is said once
		}
		v.aside("foreign-data", "", "host %s: %s holds data that nothing accounts for (%s); it is left alone", h.Host, f.Dir, f.Reason)
	}
	if in := v.intent; in != nil && in.State == cluster.IntentFounded && in.Cluster != 0 && h.Status != nil && !h.Status.Auth && h.Status.Cluster != in.Cluster && h.Local.Generation >= in.Generation {
		v.aside("foreign-cluster", "", "host %s runs a member of cluster %s, and this cluster is %s; it is left alone", h.Host, h.Status.Cluster, in.Cluster)
	}
	if !h.Clock.IsZero() {
		if skew := h.Clock.Sub(v.obs.At); skew > maxSkew || skew < -maxSkew {
			way := "ahead of"
			if skew < 0 {
				skew, way = -skew, "behind"
			}
			v.aside("clock-skew", "", "the clock of host %s is %s %s that of %s; leases, certificates and backup times rely on clocks", h.Host, skew.Round(time.Second), way, v.obs.Leader)
		}
	}
}

// locked: etcd asks for a credential that the daemons have not. What they see
// is then too little to stop or change anything (SAFETY.md, rule 25).
func (v *view) locked() *Decision {
	var hosts []*cluster.HostReport
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		foreign := v.intent != nil && v.intent.Cluster != 0 && h.Status != nil && h.Status.Cluster != 0 && h.Status.Cluster != v.intent.Cluster
		if h.Status != nil && h.Status.Auth && !foreign {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	return wait(false, "auth", "", "etcd's authentication is on, and it takes no credential of the root role from the daemon (%s), which was given none (--etcd-user, --etcd-password-file) or a wrong one; nothing is changed until it has one", hostNames(hosts))
}

// twoFoundings blocks everything when what a host keeps or carries, or what the
// store holds, is of another founding under the same name than the newest
// intent: of the same generation with another nonce, or of one that the newest
// intent's history does not have (SAFETY.md, rule 18).
func (v *view) twoFoundings() *Decision {
	const both = "two clusters were founded under one name; nothing is changed"
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		switch {
		case !v.intent.Follows(h.Intent):
			if h.Intent.Generation == v.intent.Generation {
				return wait(false, "two-foundings", "", "host %s remembers generation %d of this cluster with another nonce than %s does: %s", h.Host, h.Intent.Generation, v.keeperOfIntent(), both)
			}
			return wait(false, "two-foundings", "", "host %s remembers generation %d of this cluster, which is not in the history of generation %d that %s has: %s", h.Host, h.Intent.Generation, v.intent.Generation, v.keeperOfIntent(), both)
		case h.Carries() && !v.intent.FollowsMember(h.Local):
			return wait(false, "two-foundings", "", "host %s carries a member of generation %d of cluster %s, which is not in the history of generation %d that %s has: %s", h.Host, h.Local.Generation, h.Local.Cluster, v.intent.Generation, v.keeperOfIntent(), both)
		}
	}
	if in := v.obs.Store.Intent; !v.intent.Follows(in) {
		return wait(false, "two-foundings", "", "the store's record of generation %d is of another founding than the one that %s remembers: %s", in.Generation, v.keeperOfIntent(), both)
	}
	return nil
}

// mendIntent rewrites a marker that is missing or older than what hosts keep.
func (v *view) mendIntent() *Decision {
	st := v.obs.Store
	if d := v.twoFoundings(); d != nil {
		return d
	}
	if !st.Read || v.intent == nil || v.intent.Order(st.Intent) <= 0 {
		return nil
	}
	change := &IntentChange{Replace: v.intent}
	if !st.Marker {
		change = &IntentChange{Create: v.intent}
	}
	reason := "the store's record of this cluster is missing or older than what its hosts keep; write theirs back"
	if !st.Marker && !st.Specified {
		// As an empty directory does where the store's disk is not mounted.
		reason = "the store has neither a spec nor the record of this cluster, which its hosts keep: is it the right store (mount, bucket, prefix)? Write theirs back"
	}
	return &Decision{Reason: reason, Action: &Action{Kind: ActIntent, Intent: change}}
}

func (v *view) keeperOfIntent() string {
	if v.obs.Store.Intent != nil && v.intent.Order(v.obs.Store.Intent) == 0 {
		return "the store"
	}
	for i := range v.obs.Hosts {
		if v.intent.Order(v.obs.Hosts[i].Intent) == 0 {
			return "host " + string(v.obs.Hosts[i].Host)
		}
	}
	return "the store"
}

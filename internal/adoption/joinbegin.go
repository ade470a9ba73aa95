package adoption

import (
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// giveUp is where a person reads how.
const giveUp = `docs/operations/predecessor.md, "To give up"`

// want is how many of ours there shall be.
func (s *Scene) want() int {
	switch {
	case s.Joining != nil && !s.ended():
		return s.Joining.Members
	case s.Count != 0:
		return s.Count
	}
	return len(s.Members)
}

// ended: what is written down is over, or was never begun in earnest, and an adoption
// begins anew over it. No member of ours is listed, this host was given none, and
// ours have voted and are gone, other members are there than were, the backup is old,
// or another count is wanted.
func (s *Scene) ended() bool {
	j, a := s.Joining, s.Admission
	if j == nil || j.Cluster != s.Cluster || s.Moving || a != nil && a.Member != 0 {
		return false
	}
	same := len(j.Foreign) == len(s.Members)
	for _, m := range s.Members {
		if s.isOurs(m) || slices.Contains(j.Promoted, m.ID) {
			return false
		}
		same = same && j.IsForeign(m.Member)
	}
	return !same || s.Old || len(j.Promoted) > 0 || s.Count != 0 && s.Count != j.Members
}

// otherCluster comes before all: a person who names a cluster means no other one.
func (s *Scene) otherCluster() *Step {
	if s.Of != 0 && s.Of != s.Cluster {
		return step(StepRefuse, Seen{}, "the members at --endpoints are of cluster %s, and cluster %s is meant: look at both, and correct the one that is wrong", s.Cluster, s.Of)
	}
	return nil
}

func (s *Scene) otherStore() *Step {
	if s.Joining != nil && s.Joining.Cluster != s.Cluster {
		return step(StepRefuse, Seen{}, "the store has the adoption of cluster %s, and the members at --endpoints are of cluster %s: give every cluster a store of its own", s.Joining.Cluster, s.Cluster)
	}
	return nil
}

// strangers: a member that was there neither before the first of ours nor is one. It
// may have taken the place of one that was: a vote that the cluster needs.
func (s *Scene) strangers() *Step {
	if s.Joining == nil || s.ended() {
		return nil
	}
	if a := s.Admission; a != nil && a.Cluster == s.Cluster && a.Member != 0 && !slices.ContainsFunc(s.Members, s.isOurs) {
		return s.wasRemoved()
	}
	for _, m := range s.Members {
		switch {
		case s.isOurs(m) || s.Joining.IsForeign(m.Member):
		case s.Moving:
			return step(StepWait, m, "another run writes down who joins")
		case m.Learner:
			return step(StepRefuse, m, "something else has added learner %s since the adoption began: was it this command on a host of ours? Then run it there again. Else end what manages the members there, and have it promote or remove the learner%s", m.label(), s.gone(m))
		default:
			return step(StepRefuse, m, "something else has added member %s since the adoption began: look what it is. If it took the place of a member that was there, it is needed: end what manages the members, give this adoption up (%s), and run it anew%s", m.label(), giveUp, s.gone(m))
		}
	}
	return nil
}

// unfitCluster is what no member may be added to or taken from. Releases of one minor
// version may differ, as while they are being patched.
func (s *Scene) unfitCluster() *Step {
	var version cluster.Version
	var locked *Seen // says nothing to who asks
	for i, m := range s.Members {
		st := m.Status
		if st != nil && st.Auth {
			locked = &s.Members[i] // some releases tell a version to whom they do not know
			continue
		}
		if st == nil || st.Member != m.ID {
			continue
		}
		switch {
		case len(st.Alarms) > 0:
			return step(StepRefuse, m, "member %s reports %s: %s", m.label(), strings.Join(st.Alarms, ", "), cure(st.Alarms))
		case !st.Downgrading.IsZero():
			return step(StepRefuse, m, "a downgrade to %d.%d is under way: finish or cancel it first", st.Downgrading.Major, st.Downgrading.Minor)
		case !version.IsZero() && !version.SameMinor(st.Version):
			return step(StepRefuse, m, "the members run etcd %s and %s: bring them to one minor release first, by what runs them; ours stay at the one they joined with, so that if others went on from there, they go back, or this adoption is given up (%s)", version, st.Version, giveUp)
		case !st.Version.AtLeast(3, 4):
			return step(StepRefuse, m, "member %s runs etcd %s, which knows no learners: upgrade it to 3.4 first", m.label(), st.Version)
		}
		version = st.Version
	}
	switch {
	case !version.IsZero(): // where one talks, another one only does not know the token yet
	case locked != nil:
		return step(StepRefuse, *locked, "member %s: %v", locked.label(), ErrCredential)
	case slices.ContainsFunc(s.Members, func(m Seen) bool { return m.Status != nil }):
		return step(StepRefuse, Seen{}, "no member answers at its client URLs")
	default:
		return step(StepWait, Seen{}, "no member answers at its client URLs (%s)", s.Members[0].Why)
	}
	return nil
}

// cure is what a person does about alarms.
func cure(alarms []string) string {
	if slices.ContainsFunc(alarms, func(a string) bool { return strings.HasPrefix(a, "NOSPACE") }) {
		return "etcd takes no writes, so that a new member would only see a cluster that is stuck. Make room first: etcdctl compact REVISION, then etcdctl defrag --cluster, or a larger --quota-backend-bytes on every member; then etcdctl alarm disarm"
	}
	return "lift the alarm first; a member whose data is damaged is to be replaced by what runs it"
}

// Versions is what the members run, as far as they say, the highest first.
func (s *Scene) Versions() (all []cluster.Version) {
	for _, m := range s.Members {
		if m.Status != nil && !m.Status.Auth && !m.Status.Version.IsZero() && !slices.Contains(all, m.Status.Version) {
			all = append(all, m.Status.Version)
		}
	}
	slices.SortFunc(all, func(a, b cluster.Version) int { return b.Compare(a) })
	return all
}

// Version is the highest of Versions; zero: none.
func (s *Scene) Version() cluster.Version {
	if all := s.Versions(); len(all) > 0 {
		return all[0]
	}
	return cluster.Version{}
}

// backup comes before the first change, with all that is written down with it.
func (s *Scene) backup() *Step {
	if s.Joining != nil && s.Count != 0 && s.Count != s.Joining.Members && !s.ended() {
		if s.Moving {
			return step(StepWait, Seen{}, "another run writes down who joins")
		}
		return step(StepRefuse, Seen{}, "this adoption was begun for --members=%d, and not --members=%d: leave it out; it can be changed before the first host of ours joins, and by the spec once the cluster is ours", s.Joining.Members, s.Count)
	}
	if s.Joining != nil && s.Joining.Backup != "" && !s.ended() {
		return nil
	}
	if down := s.down(); down != nil {
		return down
	}
	for _, m := range s.Members {
		if m.Learner && !s.isOurs(m) {
			return step(StepRefuse, m, "member %s is a learner: promote or remove it first", m.label())
		}
	}
	if lost := s.lost(); lost != nil {
		return lost
	}
	if m, listed := s.own(); listed && !s.isOurs(m) {
		return step(StepRefuse, m, "member %s has the peer URLs of this host already, and it was not added by this command: is its etcd on this host? Then take it over in place, without --join", m.label())
	}
	if refused := s.spec(); refused != nil {
		return refused
	}
	if s.ended() {
		return step(StepBackup, Seen{}, "anew: none of the members that were to be ours is listed any more, or what was written down is out of date")
	}
	return step(StepBackup, Seen{}, "the cluster as it is")
}

// lost: a host of ours has a member that is not written down as ours. It was added by this command, and the store lost its list since:
// begun anew, it would count among the members that are to go.
func (s *Scene) lost() *Step {
	for _, m := range s.Members {
		at := slices.ContainsFunc(m.PeerURLs, func(u string) bool {
			return slices.ContainsFunc(s.Hosts, func(h string) bool { return cluster.SameAddresses([]string{h}, []string{u}) })
		})
		if a := s.Admission; a != nil && a.Cluster == s.Cluster && a.Member == m.ID {
			at = true
		}
		if at && !s.isOurs(m) {
			return step(StepRefuse, m, "member %s is at a host of ours, and what the store says of this adoption does not have it: the store was lost, or put back. Remove the members at hosts of ours one by one (etcdctl member remove), while the others are a quorum by themselves; empty those hosts, and run this again (%s)", m.label(), howEmpty)
		}
	}
	return nil
}

// spec is what the daemons will go by once the cluster is ours.
func (s *Scene) spec() *Step {
	asked := cluster.Spec{MemberCount: s.want(), EtcdVersion: s.Version()}
	if err := asked.Validate(); err != nil {
		return step(StepRefuse, Seen{}, "%d hosts of ours with etcd %s cannot be: %v (--members says how many)", asked.MemberCount, asked.EtcdVersion, err)
	}
	const line = "etcd-manager-ctl --backup-store=… --member-count=%d --etcd-version=%s configure-cluster"
	switch {
	case !s.Release.IsZero() && !s.Release.SameMinor(asked.EtcdVersion):
		return step(StepRefuse, Seen{}, "the members run etcd %s, and etcd %s is asked for: set the version (spec.version, --etcd-version) to %[1]s, adopt, and then change it", asked.EtcdVersion, s.Release)
	case s.SpecWhy != "":
		return step(StepRefuse, Seen{}, "the spec in the store cannot be read (%s): write it, "+line, s.SpecWhy, asked.MemberCount, asked.EtcdVersion)
	case s.Spec != nil && (s.Spec.MemberCount != asked.MemberCount || !slices.Contains(s.Versions(), s.Spec.EtcdVersion)):
		return step(StepRefuse, Seen{}, "the spec in the store asks for %d members of etcd %s, and this adoption is for %d of etcd %s: say --members=%d, or change the spec, "+line,
			s.Spec.MemberCount, s.Spec.EtcdVersion, asked.MemberCount, asked.EtcdVersion, s.Spec.MemberCount, asked.MemberCount, asked.EtcdVersion)
	}
	return nil
}

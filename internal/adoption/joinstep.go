package adoption

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/record"
)

// Scene is what was seen at one moment of a cluster that our hosts join, with what
// was written down. Its member list went through raft.
type Scene struct {
	Cluster cluster.ClusterID
	Members []Seen // sorted by ID
	Joining *control.Joining
	// Peer are the peer URLs of the host that asks, and Admission is its disk's.
	Peer      []string
	Admission *record.Admission
	// Hosts are peer URLs of hosts of ours, whether or not they have joined.
	Hosts []string
	// Keep: the members that are not ours stay.
	Keep bool
	// Of is the cluster that a person means; zero: whichever answers.
	Of cluster.ClusterID
	// Count is how many of ours a person asks for; zero: as was written down, else as
	// many as there are. Spec is what the store asks for already, and SpecWhy why that
	// cannot be read.
	Count   int
	Spec    *cluster.Spec
	SpecWhy string
	// Release is the one that a person asks for; zero: whichever runs.
	Release cluster.Version
	// Old is that the backup is too old to go on with, and Moving that what was
	// written down changed while the members were listed.
	Old, Moving bool
	// Recorded is that the leading daemon has written the record of this cluster, so
	// that its members are that daemon's to change, and no longer this command's.
	Recorded bool
}

// Seen is a listed member and its own word.
type Seen struct {
	cluster.Member
	Status *cluster.MemberStatus // nil: it does not answer
	Why    string                // it does not
}

// Up is that it answers as this member, and as a voter it has just read through a quorum.
func (m Seen) Up() bool {
	return m.Status != nil && m.Status.Member == m.ID && m.Status.Healthy && len(m.Status.Errors) == 0
}

func (m Seen) label() string {
	if m.Name == "" {
		return fmt.Sprintf("%s (%s)", m.ID, strings.Join(m.PeerURLs, ", "))
	}
	return fmt.Sprintf("%s (%s)", m.Name, m.ID)
}

// StepKind is what is to be done next.
type StepKind string

// The kinds, in the order in which an adoption goes through them.
const (
	StepRefuse  StepKind = "refuse"  // only a person can go on
	StepWait    StepKind = "wait"    // it may pass by itself
	StepBackup  StepKind = "backup"  // of the cluster as it is
	StepAdd     StepKind = "add"     // write down what exists, then add a learner
	StepAdmit   StepKind = "admit"   // tell this host's daemon that its member was added
	StepStart   StepKind = "start"   // the daemon starts it
	StepPromote StepKind = "promote" // the learner has caught up
	StepMove    StepKind = "move"    // raft's leadership, to a member of ours
	StepRemove  StepKind = "remove"  // a member that is not ours
	StepJoined  StepKind = "joined"  // this host has; others are to follow, or --keep ends it
	StepDone    StepKind = "done"    // no member but ours is left
)

// Step is one step. Member is what it is done to, To who leads then.
type Step struct {
	Kind   StepKind
	Member Seen
	To     Seen
	Reason string
}

// most entries of the log that a learner may lack when it is promoted. etcd asks for
// nine tenths of the log only, which are no measure for one that is long.
const caughtUp = 5000

// Next is the one step that may be taken in this scene: a pure function, asked anew
// after each step with what was seen by then (SAFETY.md, rules 1, 3, 4 and 5).
//
//   - One learner at a time, and only where every voter is up.
//   - It is promoted on its own word that it has caught up.
//   - Nothing is removed before as many of ours are voters as are wanted, all of
//     them up. Who does not answer is removed first, on the quorum of the rest; one
//     that is up only when every other one is.
//   - The leader is never removed: it moves to a member of ours before.
func (s *Scene) Next() Step {
	for _, rule := range []func() *Step{s.otherCluster, s.recorded, s.otherStore, s.strangers, s.unfitCluster, s.backup, s.join} {
		if step := rule(); step != nil {
			return *step
		}
	}
	return s.remove()
}

// recorded comes before all others: what the daemons add and remove by the record is
// nothing for a person to take back.
func (s *Scene) recorded() *Step {
	if !s.Recorded {
		return nil
	}
	return step(StepDone, Seen{}, "the leading daemon has written the cluster's record")
}

func step(k StepKind, m Seen, format string, args ...any) *Step {
	return &Step{Kind: k, Member: m, Reason: fmt.Sprintf(format, args...)}
}

// down is the first voter that is not up, as something to wait for.
func (s *Scene) down() *Step {
	for _, m := range s.Members {
		if !m.Learner && !m.Up() {
			return step(StepWait, m, "member %s is not healthy: %s%s", m.label(), m.ails(), s.gone(m))
		}
	}
	return nil
}

// gone says how a person gives up a member that will never answer again. It says so
// of none that answers.
func (s *Scene) gone(m Seen) string {
	switch {
	case m.Status != nil:
		return ""
	case m.Learner:
		return "; if nothing will run there any more, as after a mistyped --peer-urls: " + s.away(m)
	}
	return "; if its host is gone for good (look there first): " + s.away(m)
}

// howEmpty is how a person has a host begin without what it held of its member. A pod has a volume, which nobody moves away: its claim
// goes, and the operator makes another host.
const howEmpty = "on a machine, move etcdadm and data out of its data directory; in Kubernetes, delete its claim and its pod (kubectl delete --wait=false pvc/HOST pod/HOST-0), and another host takes its place"

// away is how a member that does not answer is removed by hand, and what that costs.
func (s *Scene) away(m Seen) string {
	after := ""
	if s.isOurs(m) {
		after = "; then empty its host: " + howEmpty
	}
	if m.Learner {
		return fmt.Sprintf("etcdctl member remove %s, at any time, since a learner counts for no quorum%s", m.ID, after)
	}
	rest, up := 0, 0
	for _, o := range s.Members {
		if o.ID != m.ID && !o.Learner {
			rest++
			if o.Up() {
				up++
			}
		}
	}
	if up < cluster.Quorum(rest) {
		return fmt.Sprintf("it cannot be removed, since of the other voters %d of %d are up, which is no quorum: bring another one back first", up, rest)
	}
	return fmt.Sprintf("etcdctl member remove %s, which gives its data up for ever; of the other voters %d of %d are up%s", m.ID, up, rest, after)
}

func (m Seen) ails() string {
	switch {
	case m.Status == nil:
		return "its status cannot be had (" + m.Why + ")"
	case m.Status.Auth:
		return "it does not take the token that was given out for --user, as while it has not caught up"
	case m.Status.Member != m.ID:
		return fmt.Sprintf("member %s answers at its client URLs", m.Status.Member)
	case m.Status.Leader == 0:
		return "it sees no leader"
	}
	return "it has no quorum, or says of itself: " + strings.Join(m.Status.Errors, ", ")
}

// join brings this host's member to a vote; nil: it has one.
func (s *Scene) join() *Step {
	own, listed := s.own()
	a := s.Admission
	if a != nil && a.Cluster != s.Cluster {
		return step(StepRefuse, Seen{}, "this host was prepared for cluster %s: empty it, and run this again (%s)", a.Cluster, howEmpty)
	}
	if listed && !own.Learner {
		if a == nil || a.Member != 0 && a.Member != own.ID {
			return s.notThisDisk(own, "member %s votes at this host's peer URLs, and this disk knows nothing of it")
		}
		return nil
	}
	for _, m := range s.Members {
		if m.Learner && m.ID != own.ID && s.isOurs(m) {
			return step(StepWait, m, "the host at %s is joining: one at a time%s", strings.Join(m.PeerURLs, ", "), s.gone(m))
		} else if m.Learner && m.ID != own.ID {
			return step(StepRefuse, m, "member %s is a learner: promote or remove it first", m.label())
		}
	}
	switch {
	case !listed:
		return s.add()
	case a == nil || slices.Contains(a.Known, own.ID) || a.Member != 0 && a.Member != own.ID:
		return s.notThisDisk(own, "learner %s has this host's peer URLs, and this disk was not prepared for it")
	case a.Member == 0 || !s.Joining.IsOurs(own.Member):
		return step(StepAdmit, own, "its daemon may start it")
	case own.Name == "" || own.Status == nil:
		return step(StepStart, own, "the daemon of this host starts it%s", s.forgotten(own))
	}
	return s.promote(own)
}

// forgotten is the way out where this disk has lost its member, which its daemon tells,
// or went back to before it began, which only the panic of its etcd tells.
func (s *Scene) forgotten(own Seen) string {
	if own.Status != nil {
		return ""
	}
	return "; if that says that this disk gave the member up, or its etcd panics with \"tocommit … is out of range\", since the disk went back in time: " + s.away(own)
}

// notThisDisk: another host's peer URLs were given, or this host has lost its disk.
func (s *Scene) notThisDisk(own Seen, format string) *Step {
	what := fmt.Sprintf(format, own.label())
	if own.Status != nil {
		return step(StepRefuse, own, "%s, and it runs: are these another host's --peer-urls? Nothing is to be removed", what)
	}
	return step(StepRefuse, own, "%s: are these another host's --peer-urls? If they are this host's, and its data is lost: %s. Then run this again", what, s.away(own))
}

func (s *Scene) add() *Step {
	if a := s.Admission; a != nil && a.Member != 0 {
		return s.wasRemoved()
	}
	voting := 0
	for _, m := range s.Members {
		if s.isOurs(m) {
			voting++
		}
	}
	if voting >= s.Joining.Members && !s.Joining.IsOurs(cluster.Member{PeerURLs: s.Peer}) {
		return step(StepRefuse, Seen{}, "%d hosts of ours vote, which are as many as are wanted, and this host is none of them: run this on one of them", voting)
	}
	if down := s.down(); down != nil {
		return down
	}
	return step(StepAdd, Seen{}, "as a learner, which counts for no quorum")
}

func (s *Scene) wasRemoved() *Step {
	for _, m := range s.Members {
		if m.ID == s.Admission.Member {
			return step(StepRefuse, m, "member %s of this host is listed at %s, and this host's peer URLs are %s: has somebody changed them? Nothing is to be emptied; have them agree, and run this again", m.ID, strings.Join(m.PeerURLs, ", "), strings.Join(s.Peer, ", "))
		}
	}
	return step(StepRefuse, Seen{}, "member %s of this host was removed: empty the host, and run this again (%s)", s.Admission.Member, howEmpty)
}

func (s *Scene) promote(own Seen) *Step {
	st := own.Status
	var last uint64
	for _, m := range s.Members {
		if m.Status != nil {
			last = max(last, m.Status.Index)
		}
	}
	switch {
	case st.Auth:
		return step(StepWait, own, "the learner does not take the token that a voter gave out for --user, as while it has not caught up")
	case st.Member != own.ID || st.Cluster != s.Cluster:
		return step(StepRefuse, own, "member %s of cluster %s answers at this host's client URLs, and its member is %s of %s", st.Member, st.Cluster, own.ID, s.Cluster)
	case st.Leader == 0:
		return step(StepWait, own, "the learner hears of no leader: do the members reach this host at %s%s?", strings.Join(own.PeerURLs, ", "), trusts(own))
	case last-min(last, st.Applied) > caughtUp:
		return step(StepWait, own, "the learner has caught up to %d of %d entries", st.Applied, last)
	}
	if down := s.down(); down != nil {
		return down
	}
	return step(StepPromote, own, "it has caught up")
}

// remove takes the members away that are not ours, once this host's votes.
func (s *Scene) remove() Step {
	var ours, foreign []Seen
	up := 0
	for _, m := range s.Members {
		if m.Up() {
			up++
		}
		switch {
		case m.Learner:
			return *step(StepWait, m, "the host at %s is joining%s", strings.Join(m.PeerURLs, ", "), s.gone(m))
		case s.isOurs(m):
			ours = append(ours, m)
		default:
			foreign = append(foreign, m)
		}
	}
	switch {
	case len(foreign) == 0:
		return s.done(ours)
	case len(ours) < s.Joining.Members:
		return *step(StepJoined, Seen{}, "%d of %d hosts of ours have joined: run this on the next one", len(ours), s.Joining.Members)
	case s.Keep:
		return *step(StepJoined, Seen{}, "%d hosts of ours have joined, and the members that are not ours stay", len(ours))
	}
	for _, m := range ours {
		if !m.Up() {
			return *step(StepWait, m, "member %s of ours is not healthy: %s%s", m.label(), m.ails(), s.gone(m))
		}
	}
	victim := s.victim(foreign)
	rest := len(s.Members) - 1
	upAfter := up
	if victim.Up() {
		upAfter--
		if upAfter < rest {
			return *s.down()
		}
	}
	if upAfter < cluster.Quorum(rest) {
		return *step(StepWait, victim, "without member %s, %d of %d would be up, and that is no quorum", victim.label(), upAfter, rest)
	}
	if victim.ID == s.leader() {
		to := s.heir(ours)
		return Step{Kind: StepMove, Member: victim, To: to, Reason: fmt.Sprintf("from %s, which is to go", victim.label())}
	}
	if s.leader() == 0 {
		return *step(StepWait, victim, "the members do not agree on who leads")
	}
	return *step(StepRemove, victim, "%d of %d that stay are up", upAfter, rest)
}

// done: the record waits for each of ours, so that one that will never answer again
// is said here. Nobody else replaces a member before there is a record.
func (s *Scene) done(ours []Seen) Step {
	for _, m := range ours {
		if !m.Up() {
			return *step(StepDone, m, "all %d members are ours, and member %s is not healthy: %s%s", len(ours), m.label(), m.ails(), s.gone(m))
		}
	}
	return *step(StepDone, Seen{}, "all %d members are ours", len(ours))
}

// trusts is what else a member's peers need for it, where it speaks TLS.
func trusts(m Seen) string {
	if slices.ContainsFunc(m.PeerURLs, secure) {
		return ", and does their authority for peers trust its certificate"
	}
	return ""
}

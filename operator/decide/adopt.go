package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// Adopt is a cluster that runs elsewhere, and is to be taken over into hosts of this one (docs/adr/046-adopting-a-running-cluster.md).
type Adopt struct {
	// Cluster is the ID that a person named; zero: none.
	Cluster cluster.ClusterID
}

// Joining is what etcdadm adopt --join wrote down in the control object.
type Joining struct {
	Cluster cluster.ClusterID
	// Members is how many hosts are to join, Hosts how many have, or were about to, and Votes how many of them were made voters, or were
	// about to be. Foreign is how many members were there before.
	Members, Hosts, Votes, Foreign int
}

// Adoption is how far the adoption of a cluster is, by what the control object has. Before it is TakenOver nothing is founded, and no
// host is stopped, replaced or given up.
type Adoption string

// The states. No way leads from Awaited or UnderWay to a cluster that begins empty.
const (
	NoAdoption Adoption = ""
	Awaited    Adoption = "awaited"   // it was written down that a cluster is to be adopted, and nobody has begun
	UnderWay   Adoption = "under-way" // hosts may have members in a cluster that somebody else runs
	Lost       Adoption = "lost"      // so they may, and the control object that said it is gone
	Beside     Adoption = "beside"    // the record is of another cluster than the one that hosts joined
	TakenOver  Adoption = "taken"     // the record says that it is ours, and what the EtcdCluster asks for is not written yet
)

// Adoption tells it. What is written counts, and not what the EtcdCluster says now.
func (w *World) Adoption() Adoption {
	ours := w.ours()
	switch {
	case w.Unread != "" && w.Record.Adopts:
		return UnderWay
	case w.Unread == "" && !ours && w.astray() && w.trace() != nil:
		return Lost
	case !ours && w.Joining != nil, w.Intent.Adopted() && !w.Intent.Joins:
		return UnderWay
	case !w.Record.Adopts && !w.Intent.Adopted():
		return NoAdoption
	case !ours:
		return Awaited
	case w.Joining != nil && w.Joining.Cluster == w.Intent.Cluster, w.Joining == nil && w.Meant() != 0 && w.Meant() == w.Intent.Cluster:
		return TakenOver
	}
	return Beside
}

// trace is a host that was made to join a cluster, by its volume; nil: there is none.
func (w *World) trace() *Host {
	if i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Adopts }); i >= 0 {
		return &w.Hosts[i]
	}
	return nil
}

// said is the cluster that the EtcdCluster names; zero: none.
func (w *World) said() cluster.ClusterID {
	if w.Want.Adopt == nil {
		return 0
	}
	return w.Want.Adopt.Cluster
}

// Meant is the cluster that a person named; zero: none. Before a host has joined one that is what the EtcdCluster says, and after
// that what was written down. Where the list of those that joined is lost, and the record is ours, a person says of which cluster it is.
func (w *World) Meant() cluster.ClusterID {
	id, named := w.traced()
	switch {
	case w.Joining == nil && w.ours() && w.said() != 0 && w.said() == w.Intent.Cluster:
		return w.said()
	case w.unjoined():
		return cmp.Or(w.said(), w.Record.AdoptsID)
	case named && w.astray() && !w.ours():
		return id
	}
	return cmp.Or(w.Record.AdoptsID, w.said())
}

// ours: there is a record, and it is the cluster's own.
func (w *World) ours() bool { return w.Intent != nil && !w.Intent.Adopted() }

// unjoined says that by what is written no host has joined a cluster: each is written down before it does. Where that is lost, hosts may
// have joined the cluster that their volumes name.
func (w *World) unjoined() bool {
	_, named := w.traced()
	return w.Unread == "" && !w.ours() && (w.Joining == nil || w.Joining.Hosts == 0) && !(named && w.astray())
}

// astray: the control object is lost, and with it which hosts have joined.
func (w *World) astray() bool { return w.Joining == nil && (w.Record.Remade || !w.Record.There) }

// traced is the cluster that volumes name which were made to join it; zero: they name several. named: one does at least.
func (w *World) traced() (id cluster.ClusterID, named bool) {
	for _, h := range w.Hosts {
		switch {
		case !h.Adopts || h.AdoptsID == 0:
			continue
		case named && id != h.AdoptsID:
			return 0, true
		}
		id, named = h.AdoptsID, true
	}
	return id, named
}

// Adopting reports whether the cluster is somebody else's yet, by what is written or is to be written.
func (w *World) Adopting() bool {
	a := w.Adoption()
	return a != NoAdoption && a != TakenOver || w.toAdopt()
}

// toAdopt: the EtcdCluster asks for an adoption, of which nothing is written yet.
func (w *World) toAdopt() bool {
	return w.Want.Adopt != nil && w.Adoption() == NoAdoption && w.Intent == nil && !w.gone()
}

// toNote says why it is to be written down that a cluster is to be adopted; empty: it was. Whatever was lost of that is written again.
func (w *World) toNote() string {
	switch a := w.Adoption(); {
	case w.toAdopt():
		return "nothing is founded before a cluster is adopted"
	case w.Unread != "", a == NoAdoption, a == Beside:
	case !w.Record.Adopts, w.Intent == nil && w.Joining == nil:
		return "hosts are to join a cluster, or have, and that is not written down"
	case w.Record.AdoptsID != w.Meant() && (w.unjoined() || w.Joining != nil && w.Joining.Cluster == w.Meant()):
		return "the cluster that is meant is named, and no host has joined another one"
	case a == Lost && w.Meant() != 0 && w.Record.AdoptsID != w.Meant():
		return "the volumes of hosts name the cluster that they were to join"
	case a != Lost && w.Record.AdoptsID != 0 && slices.ContainsFunc(w.Hosts, func(h Host) bool { return h.Adopts && h.AdoptsID != w.Record.AdoptsID }):
		return "volumes of hosts do not name the cluster that is meant, and are all that says it where the control object is lost"
	}
	return ""
}

// adopt makes the hosts that are to join a cluster which somebody else runs, and nothing else: a person has them join. It says
// whether that is all that is to be done.
func (w *World) adopt(d *Decision) bool {
	note := w.toNote()
	switch {
	case w.Want.Adopt != nil && w.Record.Kept && w.Intent != nil && !w.Record.Adopts && !w.Intent.Adopted():
		d.wait(SpecRefused, fmt.Sprintf("cluster %s, which was kept when an EtcdCluster of this name was deleted, is here, and none is adopted into it. To take it up, take spec.bootstrap away; to adopt another one, make an EtcdCluster of another name", w.Intent.Cluster))
		w.letBe(d)
		return true
	case w.toAdopt() && w.Spec != nil:
		d.wait(SpecRefused, "a cluster of this name was begun before, as its control object says, so that none is adopted into it: make an EtcdCluster of another name")
		w.letBe(d)
		return true
	case note != "" && (w.toAdopt() || w.Adopting()):
		d.do(Step{Kind: NoteAdoption, Why: note})
		return true
	case !w.Adopting():
		return false
	}
	d.do(Step{Kind: MakeShared, Why: "the cluster's shared objects are as they are to be"})
	if w.Adoption() == Lost || w.Adoption() == Beside {
		w.letBe(d)
		w.renew(d)
		d.Waits = append(d.Waits, w.strayed())
		return true
	}
	w.hosts(d)
	w.budget(d)
	d.Waits = append(d.Waits, Wait{Code: Adopting, Sentence: w.adoptionWords(), Command: w.AdoptCommand()})
	return true
}

// strayed is what a person does where what is written does not say any more which hosts vote where.
func (w *World) strayed() Wait {
	if w.Adoption() == Lost {
		return Wait{Code: Adopting, Sentence: "the control object was lost while hosts were to join a cluster that runs elsewhere, and nobody knows here which of them vote in it: nothing is founded, and no host is stopped. Look at that cluster's members (etcdctl member list). Where none is at a host of this one, go on: " +
			w.AdoptCommand() + w.misnamed() + ". Else see docs/operator/reasons.md, Adopting"}
	}
	joined := "none was joined, by what is written"
	if w.Joining != nil {
		joined = fmt.Sprintf("hosts joined cluster %s", w.Joining.Cluster)
	}
	says := "Look at both: where this one is empty, its data is not the one that was to be adopted"
	if w.Joining == nil {
		says += "; where it is the one that was meant, set spec.bootstrap.adopt.clusterID to its ID"
	}
	return Wait{Code: Adopting, Sentence: fmt.Sprintf("the record is of cluster %s, and %s: a cluster was founded here beside the one that is to be adopted. It is not taken for that one, no spec is written, and no host is stopped. %s (docs/operator/reasons.md, Adopting)", w.Intent.Cluster, joined, says),
		Command: w.Kubectl("get configmap " + cluster.ShellWord(w.Name+"-control") + " -o yaml")}
}

// misnamed says that the EtcdCluster does not name the cluster that volumes do, which hosts may have joined; empty: it does, or names none.
func (w *World) misnamed() string {
	switch id, named := w.traced(); {
	case !named || w.said() == 0 || w.said() == id:
		return ""
	case id == 0:
		return ". The volumes of hosts name several clusters, so that nobody knows which one they were to join"
	default:
		return fmt.Sprintf(". The volumes of hosts name cluster %s, which counts, and spec.bootstrap.adopt.clusterID is %s: set it to %[1]s", id, w.said())
	}
}

// copiedMidway is what a person does with a control object that was put back in the middle: nobody else has what it says, so that it
// stays. It may be older than what hosts have done since, which the command finds in the member list.
func (w *World) copiedMidway() Wait {
	name := cluster.ShellWord(w.Name + "-control")
	uid := fmt.Sprintf("$(%s)", w.Kubectl("get configmap "+name+" -o 'jsonpath={.metadata.uid}'"))
	return Wait{
		Code: RecordCopied,
		Sentence: "the control object was copied, or put back, while a running cluster is being adopted: nothing is done here. Do not delete it: it alone says which hosts have joined. Where this is the cluster itself, and no other copy of it runs, mark it as its own, and go on with the adoption; " +
			"in a copied namespace delete the EtcdCluster, which stops nothing elsewhere (docs/operator/copied.md)",
		Command: w.Kubectl("annotate --overwrite configmap " + name + ` etcdadm.io/self="` + uid + `"`),
	}
}

// AdoptCommand is what a person types to begin an adoption, or to go on with it.
func (w *World) AdoptCommand() string {
	return fmt.Sprintf("kubectl etcdadm adopt %s --namespace=%s --endpoints=https://MEMBER:2379", cluster.ShellWord(w.Name), cluster.ShellWord(w.Namespace))
}

func (w *World) adoptionWords() string {
	var b strings.Builder
	j := w.Joining
	switch {
	case w.Adoption() == Awaited:
		b.WriteString("a cluster that runs elsewhere is to be adopted, and no host has joined it yet: once the pods run, have them join it. Nothing is founded here before that is done")
	case j == nil:
		b.WriteString("something else runs the cluster whose marker the control object has")
	default:
		fmt.Fprintf(&b, "the adoption of cluster %s is under way: %d of %d hosts were made voters of it, or are about to be", j.Cluster, min(j.Votes, j.Members), j.Members)
	}
	if j != nil {
		if n := w.Want.Spec.MemberCount; n != j.Members {
			fmt.Fprintf(&b, ". spec.size is %d, and the adoption was begun for %d: set it back; it can be changed once the cluster is ours", n, j.Members)
		}
		if other := w.unlike(j.Cluster); other != "" {
			b.WriteString(". " + strings.ToUpper(other[:1]) + other[1:])
		}
	}
	if w.Want.Hibernate {
		b.WriteString(". spec.hibernate waits for it, since the cluster may need the members of these hosts")
	}
	return b.String() + ". Next: " + w.AdoptCommand()
}

// unlike is what of the EtcdCluster does not fit the cluster that was adopted, or is being adopted; empty: nothing. It would be
// written over what that cluster has.
func (w *World) unlike(is cluster.ClusterID) string {
	const stays = "until then the cluster stays as it was adopted"
	if named := cmp.Or(w.said(), w.Record.AdoptsID); named != 0 && named != is {
		return fmt.Sprintf("the cluster has the ID %s, and the one that was named to be adopted is %s (spec.bootstrap.adopt.clusterID, which can be changed only until a host has joined): set it to %[1]s, or make another EtcdCluster for %[2]s; %[3]s", is, named, stays)
	}
	if w.Spec == nil {
		return ""
	}
	if was, want := w.Spec.EtcdVersion, w.Want.Spec.EtcdVersion; want.Compare(was) < 0 || !want.SameMinor(was) {
		return fmt.Sprintf("the cluster runs etcd %s, and spec.version is %s: set it to %[1]s, and change it once the cluster is adopted; %[3]s", was, want, stays)
	}
	var lacking []string
	for _, name := range slices.Sorted(maps.Keys(w.Spec.Options)) {
		if w.Want.Spec.Options[name] != w.Spec.Options[name] {
			lacking = append(lacking, fmt.Sprintf("%s: %q", name, w.Spec.Options[name]))
		}
	}
	if len(lacking) > 0 {
		return fmt.Sprintf("the cluster was adopted with settings that spec.options has not, or otherwise: set %s, and change it once that is over; %s", strings.Join(lacking, ", "), stays)
	}
	return ""
}

// mayVote says that hosts may vote in a cluster that somebody else runs. Where the control object is lost, nobody knows; one that was
// put back may be older than what the daemons tell.
func (w *World) mayVote() bool {
	switch w.Adoption() {
	case Awaited:
		return w.tellVoters()
	case UnderWay, Beside:
		return w.Joining == nil || w.Joining.Hosts > 0
	case Lost:
		return true
	}
	return w.Want.Adopt != nil && w.Intent == nil && !w.Record.Adopts && slices.ContainsFunc(w.Hosts, func(h Host) bool { return h.Set })
}

// adopted says that a deleted EtcdCluster has hosts whose data was somebody else's until just now, or may be yet: none of it is given
// up with the EtcdCluster, whatever it says.
func (w *World) adopted() bool { return w.mayVote() || w.Adoption() == TakenOver }

// held says that the end of a deleted EtcdCluster waits, since hosts may vote in a cluster that somebody else runs, which needs them,
// or are all that there is of one that was taken over. A person may let the EtcdCluster go, and with it nothing else.
func (w *World) held(d *Decision) bool {
	switch {
	case !w.adopted() || w.NamespaceEnds:
		return false
	case w.Want.LetGo:
		d.do(Step{Kind: LetGo, Why: "a person lets the EtcdCluster go: all runs on"})
		return true
	case w.Want.GivenUp && w.mayVote() && !w.tellVoters():
		return false
	}
	w.renew(d)
	d.Waits = append(d.Waits, Wait{
		Code: Adopting, Sentence: w.heldWords(),
		Command: w.Kubectl(fmt.Sprintf("annotate --overwrite etcdclusters.etcdadm.io %s %s=true", cluster.ShellWord(w.Name), AnnotationLetGo)),
	})
	return true
}

// renew keeps hosts serving whose cluster is otherwise let be.
func (w *World) renew(d *Decision) {
	for _, h := range w.Hosts {
		if h.Running && h.LeavesDue && !w.Authorities.ended(w.Now) {
			d.do(Step{Kind: RenewLeaves, N: h.N, Host: h.Name, Why: "a third of their life is over"})
		}
	}
}

// tellVoters says that fresh words of the daemons have members at hosts.
func (w *World) tellVoters() bool {
	t := w.fresh()
	return t != nil && (len(t.Members) > 0 || slices.ContainsFunc(t.Hosts, func(h ToldHost) bool { return h.Carries }))
}

func (w *World) heldWords() string {
	const back = " A deletion cannot be taken back: let the EtcdCluster go, so that all runs on, and make it again under the same name, which takes it up"
	j := w.Joining
	where := "a cluster that runs elsewhere"
	if j != nil {
		where = "cluster " + j.Cluster.String()
	}
	switch {
	case w.Adoption() == TakenOver:
		return fmt.Sprintf("the EtcdCluster is deleted, and its hosts are all that there is of cluster %s, which was adopted: nothing is stopped.", w.Intent.Cluster) + back +
			". To end the cluster, delete that one once it is Ready"
	case w.Want.GivenUp:
		return fmt.Sprintf("the adoption was given up, and the daemons tell of members at hosts of it: nothing is stopped before they are removed from %s.", where) + back
	}
	held := fmt.Sprintf("the EtcdCluster is deleted while hosts of it may vote in %s, so that nothing is stopped.", where) + back
	if j == nil || !j.spares() {
		return held
	}
	return held + fmt.Sprintf(". Or give the adoption up: have etcdctl member remove each member that is at one of its hosts, then annotate the EtcdCluster with %s=%s; its volumes are kept", AnnotationGivenUp, j.Cluster)
}

// spares says that the members that were there are a quorum by themselves, by what is written: none of them is removed before as many
// of ours vote as are wanted.
func (j *Joining) spares() bool {
	return j.Votes < j.Members && j.Foreign >= cluster.Quorum(j.Foreign+j.Votes)
}

// Annotations that a person sets on a deleted EtcdCluster. AnnotationGivenUp has the ID of a cluster of which no host has a member any
// more. AnnotationLetGo takes the finalizer from it, and nothing else goes.
const (
	AnnotationGivenUp = "etcdadm.io/adoption-given-up"
	AnnotationLetGo   = "etcdadm.io/let-go"
)

package decide

import (
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
	// Members is how many hosts are to join, Hosts how many have, or were about to, and Votes how many of them were made voters.
	Members, Hosts, Votes int
}

// Adoption is how far the adoption of a cluster is, by what the control object has. While it is Awaited or UnderWay, nothing is founded,
// and no host is stopped, replaced or given up.
type Adoption string

// The states, in their order. No other way leads from one of the first two to a cluster that begins empty.
const (
	NoAdoption Adoption = ""
	Awaited    Adoption = "awaited"   // it was written down that a cluster is to be adopted, and nobody has begun
	UnderWay   Adoption = "under-way" // hosts may have members in a cluster that somebody else runs
	TakenOver  Adoption = "taken"     // the record says that it is ours, and what the EtcdCluster asks for is not written yet
)

// Adoption tells it. What is written counts, and not what the EtcdCluster says now.
func (w *World) Adoption() Adoption {
	switch {
	case w.Intent.Adopted(), w.Joining != nil && w.Intent == nil, w.Record.Adopts && w.Unread != "":
		return UnderWay
	case !w.Record.Adopts:
		return NoAdoption
	case w.Intent != nil:
		return TakenOver
	}
	return Awaited
}

// Adopting: the cluster is somebody else's yet, by what is written or is to be written.
func (w *World) Adopting() bool {
	a := w.Adoption()
	return a == Awaited || a == UnderWay || w.toAdopt()
}

// toAdopt: the EtcdCluster asks for an adoption, of which nothing is written yet.
func (w *World) toAdopt() bool {
	return w.Want.Adopt != nil && w.Adoption() == NoAdoption && w.Intent == nil && !w.gone()
}

// adopt makes the hosts that are to join a cluster which somebody else runs, and nothing else: a person has them join. It says
// whether that is all that is to be done.
func (w *World) adopt(d *Decision) bool {
	switch {
	case !w.Adopting():
		return false
	case w.toAdopt() && w.Spec != nil:
		d.wait(SpecRefused, "a cluster of this name was begun before, as its control object says, so that none is adopted into it: make an EtcdCluster of another name")
		w.letBe(d)
		return true
	case w.toAdopt():
		d.do(Step{Kind: NoteAdoption, Why: "nothing is founded before a cluster is adopted"})
		return true
	}
	d.do(Step{Kind: MakeShared, Why: "the cluster's shared objects are as they are to be"})
	w.hosts(d)
	w.budget(d)
	d.Waits = append(d.Waits, Wait{Code: Adopting, Sentence: w.adoptionWords(), Command: w.AdoptCommand()})
	return true
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
		fmt.Fprintf(&b, "the adoption of cluster %s is under way: %d of %d hosts vote in it", j.Cluster, j.Votes, j.Members)
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
	if a := w.Want.Adopt; a != nil && a.Cluster != 0 && a.Cluster != is {
		return fmt.Sprintf("the cluster has the ID %s, and spec.bootstrap.adopt.clusterID is %s: if it is the one that was meant, take spec.bootstrap away; %s", is, a.Cluster, stays)
	}
	if w.Spec == nil {
		return ""
	}
	if was, want := w.Spec.EtcdVersion, w.Want.Spec.EtcdVersion; want.Compare(was) < 0 {
		return fmt.Sprintf("the cluster runs etcd %s, and spec.version is %s: set it to %[1]s; %[3]s", was, want, stays)
	}
	var lacking []string
	for _, name := range slices.Sorted(maps.Keys(w.Spec.Options)) {
		if _, is := w.Want.Spec.Options[name]; !is {
			lacking = append(lacking, fmt.Sprintf("%s: %q", name, w.Spec.Options[name]))
		}
	}
	if len(lacking) > 0 {
		return fmt.Sprintf("the cluster was adopted with settings that spec.options has not: add %s; %s", strings.Join(lacking, ", "), stays)
	}
	return ""
}

// mayVote says that hosts may vote in a cluster that somebody else runs. Where the control object is lost, nobody knows.
func (w *World) mayVote() bool {
	if w.Adoption() == UnderWay {
		return w.Joining == nil || w.Joining.Hosts > 0
	}
	return w.Want.Adopt != nil && w.Intent == nil && !w.Record.Adopts && slices.ContainsFunc(w.Hosts, func(h Host) bool { return h.Set })
}

// held says that the end of a deleted EtcdCluster waits, since hosts may vote in a cluster that somebody else runs, which needs them.
func (w *World) held(d *Decision) bool {
	j := w.Joining
	if !w.mayVote() || w.NamespaceEnds || w.Want.GivenUp {
		return false
	}
	id, where := "CLUSTER-ID", "a cluster that runs elsewhere"
	if j != nil {
		id, where = j.Cluster.String(), "cluster "+j.Cluster.String()
	}
	d.Waits = append(d.Waits, Wait{
		Code: Adopting,
		Sentence: fmt.Sprintf("the EtcdCluster is deleted while hosts of it may vote in %s, so that nothing is stopped. Go on with the adoption (%s). Or give it up: have etcdctl member remove each member that is at one of its hosts, and then say so",
			where, w.AdoptCommand()),
		Command: w.Kubectl(fmt.Sprintf("annotate etcdclusters.etcdadm.io %s %s=%s", cluster.ShellWord(w.Name), AnnotationGivenUp, id)),
	})
	return true
}

// AnnotationGivenUp is set by a person on an EtcdCluster: the ID of a cluster of which no host has a member any more.
const AnnotationGivenUp = "etcdadm.io/adoption-given-up"

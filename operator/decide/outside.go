package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

// Outside is what is seen of a cluster on bare hosts: in the World what its store tells, and who looks after the store.
//
// What must always hold:
//
//   - Nothing is written into a store that has another one's mark, or none yet, but the mark itself.
//   - Of the spec, count, version and the options that the EtcdCluster names are amended, and the count not under a hold.
//   - The end of the EtcdCluster takes the mark away, and changes nothing else.
type Outside struct {
	World
	// Me is the mark of this EtcdCluster, and Owner that in the store; nil: there is none.
	Me    control.Owner
	Owner *control.Owner
	// TakeOver is the UID of an owner whose mark a person gives to this one.
	TakeOver string
	// Unreached says why the store does not answer, or is not asked; empty: it does.
	Unreached string
}

// letGoAfter is how long a deleted EtcdCluster waits for a store that does not answer, so as to take its mark away.
const letGoAfter = 2 * time.Minute

// NextOutside is what the operator does next for a cluster on bare hosts.
func NextOutside(w Outside) Decision {
	var d Decision
	mine := w.Owner != nil && w.Owner.UID == w.Me.UID
	switch {
	case !w.Want.Deleted.IsZero():
		w.end(&d, mine)
		return d
	case w.Want.Refused != "":
		d.wait(SpecRefused, w.Want.Refused)
	case w.Unreached != "":
		d.wait(StoreUnreached, w.Unreached)
	case w.Owner != nil && !mine && w.Owner.UID != w.TakeOver:
		d.Waits = append(d.Waits, Wait{
			Code: StoreTaken, Sentence: fmt.Sprintf("%s looks after this store: nothing is written. If that one is gone for good, give its mark to this one", w.Owner),
			Command: fmt.Sprintf("kubectl annotate --overwrite --namespace %s etcdcluster %s etcdadm.io/take-over=%s", w.Me.Namespace, w.Me.Name, cluster.ShellWord(w.Owner.UID)),
		})
	case w.Unread != "":
		d.wait(RecordUnread, "the record in the store cannot be read: "+w.Unread)
	}
	if len(d.Waits) > 0 {
		return d
	}
	now := w.amended()
	if w.Want.Paused {
		d.wait(Paused, "spec.paused is true: the operator writes nothing into the store"+w.wouldWrite(now))
		return d
	}
	if !mine {
		d.do(Step{Kind: MarkStore, Options: w.options(), Why: w.takes()})
		return d
	}
	err := now.Validate()
	if err != nil {
		d.wait(SpecRefused, strings.TrimPrefix(err.Error(), cluster.ErrSpec.Error()+": "))
	}
	if w.shown(&d); err != nil {
		return d
	}
	named := slices.Sorted(maps.Keys(w.Want.Spec.Options))
	switch {
	case w.Spec == nil || !w.Spec.Equal(now):
		if owned := w.options(); !slices.Equal(owned, w.Owner.Options) {
			d.do(Step{Kind: MarkStore, Options: owned, Why: "other options are the EtcdCluster's"})
			return d
		}
		d.do(Step{Kind: AmendSpec, Spec: &now, Why: w.writes(now)})
	case !slices.Equal(named, w.Owner.Options):
		d.do(Step{Kind: MarkStore, Options: named, Why: "some options are not the EtcdCluster's any more"})
	}
	return d
}

// end takes the mark away, and lets go.
func (w *Outside) end(d *Decision, mine bool) {
	late := w.Now.Sub(w.Want.Deleted) > letGoAfter
	switch {
	case w.Want.Refused != "":
		d.do(Step{Kind: LetGo, Why: "nothing was ever written"})
	case w.Unreached != "" && !late:
		d.wait(StoreUnreached, w.Unreached)
	case w.Unreached != "":
		d.do(Step{Kind: LetGo, Why: fmt.Sprintf("the store did not answer for %s: the mark stays there", letGoAfter)})
	case mine:
		d.do(Step{Kind: UnmarkStore, Why: "the EtcdCluster was deleted; hosts, data and backups stay as they are"})
	default:
		d.do(Step{Kind: LetGo, Why: "no mark of this EtcdCluster is in the store"})
	}
}

// shown says what a person should know of, and what keeps nothing from being done.
func (w *Outside) shown(d *Decision) {
	if w.Spec != nil && w.Spec.Hold {
		d.Waits = append(d.Waits, Wait{
			Code: Held, Sentence: fmt.Sprintf("a person holds the members of this cluster as they are: spec.size %d is not written before the hold is lifted", w.Want.Spec.MemberCount),
			Command: fmt.Sprintf("etcdadm seed STORE --nodes %d", w.Want.Spec.MemberCount),
		})
	}
	if w.Spec != nil && w.Intent == nil && w.Told == nil {
		d.wait(NoDaemons, "the spec is in the store, and no daemon has told anything there: start the daemons of the hosts with this store, and they found the cluster")
	}
}

func (w *Outside) takes() string {
	if w.Owner != nil {
		return "a person gave it the mark of " + w.Owner.String()
	}
	return "nobody looks after this store"
}

// options are those that are, or were until now, the EtcdCluster's.
func (w *Outside) options() []string {
	names := slices.Collect(maps.Keys(w.Want.Spec.Options))
	if w.Owner != nil {
		names = append(names, w.Owner.Options...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// amended is the spec that is there with the EtcdCluster's own keys.
func (w *Outside) amended() cluster.Spec {
	now := cluster.Spec{}
	if w.Spec != nil {
		now = *w.Spec
	}
	if !now.Hold {
		now.MemberCount = w.Want.Spec.MemberCount
	}
	now.EtcdVersion = w.Want.Spec.EtcdVersion
	now.Options = w.Amend(now.Options)
	return now
}

// Amend gives options as the EtcdCluster wants them: what it names, without what it named before, and with all others.
func (w *Outside) Amend(options map[string]string) map[string]string {
	now := maps.Clone(options)
	if w.Owner != nil {
		maps.DeleteFunc(now, func(name, _ string) bool { return slices.Contains(w.Owner.Options, name) })
	}
	if now == nil {
		now = map[string]string{}
	}
	maps.Copy(now, w.Want.Spec.Options)
	return now
}

// writes says in words what a write changes.
func (w *Outside) writes(now cluster.Spec) string {
	if w.Spec == nil {
		return fmt.Sprintf("no spec is there: %d members of etcd %s", now.MemberCount, now.EtcdVersion)
	}
	return w.differs(now)
}

func (w *Outside) wouldWrite(now cluster.Spec) string {
	if w.Spec != nil && w.Spec.Equal(now) {
		return ""
	}
	return ". It would write: " + w.writes(now)
}

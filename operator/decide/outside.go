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
//   - Nothing is written into a store that has another one's mark, or that of a later state of this one, or none yet, but the
//     mark itself; and the spec only by a mark of the very generation that is wanted.
//   - Without a person's word nothing that is there becomes another by the first mark.
//   - Of the spec, count, version and the options that the EtcdCluster names are amended, and the count not under a hold.
//   - The end of the EtcdCluster takes the mark away, and changes nothing else.
type Outside struct {
	World
	// Me is the mark of this EtcdCluster, and Owner that in the store; nil: there is none.
	Me    control.Owner
	Owner *control.Owner
	// TakeOver is a person's word: the UID of an owner whose mark this one gets, or Free.
	TakeOver string
	// Unreached says why the store does not answer, or is not asked; empty: it does.
	Unreached string
}

// Free is a person's word for a store that has nobody's mark, and a cluster.
const Free = "free"

// letGoAfter is how long a deleted EtcdCluster waits for its store, so as to take its mark away.
const letGoAfter = 2 * time.Minute

// NextOutside is what the operator does next for a cluster on bare hosts.
func NextOutside(w Outside) Decision {
	var d Decision
	mine := w.Mine()
	switch {
	case !w.Want.Deleted.IsZero():
		w.end(&d)
		return d
	case w.Want.Refused != "":
		d.wait(SpecRefused, w.Want.Refused)
	case w.Unreached != "":
		d.wait(StoreUnreached, w.Unreached)
	case w.Owner != nil && !mine && w.Owner.UID != w.TakeOver:
		w.ask(&d, StoreTaken, w.Owner.UID, w.taken())
	case w.Unread != "":
		d.wait(RecordUnread, "the record in the store cannot be read: "+w.Unread)
	}
	if len(d.Waits) > 0 {
		return d
	}
	if mine && w.TakeOver != "" {
		d.do(Step{Kind: EndWord, Why: "the mark is written, and a person's word counts once"})
		return d
	}
	now := w.amended()
	changes := w.Spec == nil || !w.Spec.Equal(now)
	would := ""
	if changes {
		would = ". The operator would write: " + w.writes(now)
	}
	if w.Want.Paused {
		d.wait(Paused, "spec.paused is true: the operator writes nothing into the store"+would)
		return d
	}
	if w.Owner == nil && changes && (w.Intent != nil || w.Spec != nil) && w.TakeOver != Free {
		w.ask(&d, StoreFree, Free, "the cluster in this store has no owner and differs from this spec: a person confirms first"+would)
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
	named, owned := slices.Sorted(maps.Keys(w.Want.Spec.Options)), w.options()
	switch {
	case w.Owner.Generation != w.Me.Generation:
		d.do(Step{Kind: MarkStore, Options: owned, Why: fmt.Sprintf("generation %d of the EtcdCluster is there", w.Me.Generation)})
	case changes && !slices.Equal(owned, w.Owner.Options):
		d.do(Step{Kind: MarkStore, Options: owned, Why: "other options are the EtcdCluster's"})
	case changes:
		d.do(Step{Kind: AmendSpec, Spec: &now, Why: w.writes(now)})
	case !slices.Equal(named, w.Owner.Options):
		d.do(Step{Kind: MarkStore, Options: named, Why: "some options are not the EtcdCluster's any more"})
	}
	return d
}

// Mine says that the mark is this EtcdCluster's, and not that of a later state of it.
func (w *Outside) Mine() bool {
	return w.Owner != nil && w.Owner.UID == w.Me.UID && w.Owner.Generation <= w.Me.Generation
}

// ask waits for a person's word.
func (w *Outside) ask(d *Decision, c Code, word, sentence string) {
	d.Waits = append(d.Waits, Wait{
		Code: c, Sentence: sentence,
		Command: fmt.Sprintf("kubectl annotate --overwrite --namespace %s etcdcluster %s etcdadm.io/take-over=%s", w.Me.Namespace, w.Me.Name, cluster.ShellWord(word)),
	})
}

// taken says whose the mark is that is not this one's.
func (w *Outside) taken() string {
	if w.Owner.UID != w.Me.UID {
		return fmt.Sprintf("the cluster on bare hosts in this store belongs to %s: this one writes nothing. Delete one of the two, or take the store over if that one is gone for good", w.Owner)
	}
	return fmt.Sprintf("the cluster on bare hosts in this store was written by generation %d of this EtcdCluster, and Kubernetes has generation %d, as after a restore: this one writes nothing. Set spec to what the hosts have, then confirm", w.Owner.Generation, w.Me.Generation)
}

// end takes the mark away, and lets go. What hinders that is waited for a while.
func (w *Outside) end(d *Decision) {
	late := w.Now.Sub(w.Want.Deleted) > letGoAfter
	if w.Unreached != "" && !late {
		d.wait(StoreUnreached, w.Unreached)
		return
	}
	if w.Unreached == "" && w.Mine() {
		d.do(Step{Kind: UnmarkStore, Why: "the EtcdCluster was deleted; hosts, data and backups stay as they are"})
		if !late {
			return
		}
	}
	why := "no mark of this EtcdCluster is in the store"
	switch {
	case late && (w.Unreached != "" || w.Mine()):
		why = fmt.Sprintf("it was deleted more than %s ago: a mark that cannot be taken away stays there", letGoAfter)
	case w.Owner != nil && w.Owner.UID == w.Me.UID:
		why = "the mark in the store is of a later state of this EtcdCluster, and stays there"
	}
	d.do(Step{Kind: LetGo, Why: why})
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
		return fmt.Sprintf("%s of etcd %s; no spec is there yet", count(now.MemberCount, "member", "members"), now.EtcdVersion)
	}
	was, all := *w.Spec, []string{}
	if was.MemberCount != now.MemberCount {
		all = append(all, fmt.Sprintf("%s in place of %d", count(now.MemberCount, "member", "members"), was.MemberCount))
	}
	if was.EtcdVersion != now.EtcdVersion {
		all = append(all, fmt.Sprintf("etcd %s in place of %s", now.EtcdVersion, was.EtcdVersion))
	}
	if !maps.Equal(was.Options, now.Options) {
		all = append(all, "other options")
	}
	return strings.Join(all, ", ")
}

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// most is how many hosts beyond those that are wanted may run at once, for exchanges and for hosts that stay silent.
const most = 2

// Next is what the operator does next. The order of the parts is policy: what forbids everything, the end, what has to be
// there, the spec, then what may go, and last which pods are replaced.
func Next(w World) Decision {
	d := w.next()
	w.runsOut(&d)
	return d
}

func (w *World) next() Decision {
	var d Decision
	if w.forbidden(&d) {
		return d
	}
	if !w.Want.Deleted.IsZero() {
		w.end(&d)
		return d
	}
	if w.Want.Paused {
		w.pause(&d)
		return d
	}
	if w.Want.Hibernate && w.Record.There && !w.Adopting() {
		w.sleep(&d)
		return d
	}
	if refused := w.refused(); refused != nil {
		d.Waits = append(d.Waits, *refused)
		w.letBe(&d)
		return d
	}
	if !w.Record.There {
		d.do(Step{Kind: MakeRecord, N: w.lastNumber() + 1, Why: "the cluster has no control objects"})
		return d
	}
	if w.found(&d) || w.adopt(&d) {
		return d
	}
	d.do(Step{Kind: MakeShared, Why: "the cluster's shared objects are as they are to be"})
	w.hosts(&d)
	w.budget(&d)
	w.spec(&d)
	w.rotate(&d)
	if d.idle() {
		d.Steps = w.leftovers(&d)
	}
	if d.idle() {
		w.roll(&d)
	}
	return d
}

// refused says why nothing is made of what the EtcdCluster asks for; nil: it can be.
func (w *World) refused() *Wait {
	if w.Want.Refused != "" {
		return &Wait{Code: SpecRefused, Sentence: w.Want.Refused}
	}
	if err := w.Want.Spec.Validate(); err != nil {
		return &Wait{Code: SpecRefused, Sentence: strings.TrimPrefix(err.Error(), cluster.ErrSpec.Error()+": ")}
	}
	return nil
}

// idle: nothing but what is looked after all the time is to be done.
func (d *Decision) idle() bool {
	besides := []Kind{MakeShared, RenewLeaves, AskIssuer, SendRequest}
	return !slices.ContainsFunc(d.Steps, func(s Step) bool { return !slices.Contains(besides, s.Kind) })
}

// forbidden says whether nothing at all may be done.
func (w *World) forbidden(d *Decision) bool {
	deleted := !w.Want.Deleted.IsZero()
	switch {
	case deleted && w.NamespaceEnds:
		return false
	case deleted && w.KindEnds:
		d.do(Step{Kind: LetGo, Why: "the kind EtcdCluster is being deleted, which is no word about clusters: all runs on"})
	case deleted && w.Record.Copied:
		d.do(Step{Kind: LetGo, Why: "what is here is a copy of another cluster's"})
	case w.Record.Copied && w.Adoption() != NoAdoption:
		d.Waits = append(d.Waits, w.copiedMidway())
	case w.Record.Copied:
		d.wait(RecordCopied, "the control object was copied, or put back: nothing is done here. In a copied namespace make a new EtcdCluster, from a backup or from the copied claims. Where this is the cluster itself, delete its ConfigMap with the record (docs/operator/copied.md): its hosts write it back")
	case w.Unread != "" && !deleted:
		d.wait(RecordUnread, "the control object cannot be read: "+w.Unread)
	case len(w.Taken) > 0 && !deleted:
		d.wait(NameTaken, fmt.Sprintf("%s: somebody else's object has this name. Delete it, or choose another name for the EtcdCluster", strings.Join(w.Taken, ", ")))
	case w.StoreOf != "" && !deleted:
		d.Waits = append(d.Waits, Wait{
			Code:     StoreTaken,
			Sentence: fmt.Sprintf("EtcdCluster %s has the same backup store and comes first, since it runs or is the older of two; two clusters in one store would restore each other's data. Set spec.backup.store of this one to another path, or delete %[1]s if nobody needs it", w.StoreOf),
			Command:  w.Kubectl("edit etcdclusters.etcdadm.io " + w.Name),
		})
		return !w.Record.There // a cluster that runs is looked after nonetheless
	default:
		return false
	}
	return true
}

// pause has the daemons hold the member count, and does nothing else.
func (w *World) pause(d *Decision) {
	d.wait(Paused, "spec.paused is true: the operator changes nothing, and the daemons keep the members that are there")
	w.letBe(d)
	if w.Spec == nil || w.Spec.Hold || w.Adopting() {
		return
	}
	held := *w.Spec
	held.Hold = true
	d.do(Step{Kind: WriteSpec, Spec: &held, Held: true, Why: "paused"})
}

// sleep stops the hosts, one after the other, once a backup is there.
func (w *World) sleep(d *Decision) {
	next := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Running })
	if next < 0 {
		d.wait(Hibernates, "spec.hibernate is true: no pod runs")
		return
	}
	if t := w.fresh(); w.Want.Backup && (t == nil || w.Now.Sub(t.Backed) > time.Hour) {
		if none := w.noBackup(); none != "" {
			d.stand(BackupMissing, "no backup can be taken before the hosts stop: "+none+". Set spec.hibernate to false until its pod is replaced, or spec.deletion.finalBackup to Never to do without")
			return
		}
		d.do(Step{Kind: AskBackup, Why: "the cluster is to hibernate"})
		d.wait(BackupMissing, "a backup is taken before the hosts stop, by hosts that have spec.backup.store, while a quorum serves; set spec.deletion.finalBackup to Never to do without")
		return
	}
	d.do(Step{Kind: StopHost, N: w.Hosts[next].N, Host: w.Hosts[next].Name, Why: "spec.hibernate is true"})
	d.wait(Hibernates, "spec.hibernate is true: one host after the other stops")
}

// Known says whether the record that is seen is the cluster's own, so that what it lacks is not there.
func (w *World) Known() bool {
	return w.Record.There && !w.Record.Copied && w.Unread == "" && w.Bars == "" && !w.gone()
}

// Unsure says that there is, or was, a record of the cluster which is not seen: it may say anything.
func Unsure(w *World) bool {
	return w.Unread != "" || w.Bars != "" || w.gone() || !w.Record.There && (w.Record.Part || len(w.Hosts) > 0)
}

// Deaf says why nothing is asked of the daemons now; empty: it can be.
func (w *World) Deaf() string {
	var d Decision
	switch {
	case w.Bars != "":
		return w.Bars
	case w.forbidden(&d) && len(d.Waits) > 0:
		return d.Waits[0].Sentence
	case w.Want.Paused:
		return "spec.paused is true, so that the operator asks for nothing"
	case w.Adopting():
		return "nothing is asked of a cluster before it is adopted; before it changes anything, the adoption backs the cluster up: " + w.AdoptCommand()
	case w.Want.Hibernate:
		return "spec.hibernate is true: nothing is done before it is awake"
	case w.gone():
		return "its control object was made anew, and the hosts have not written the record back yet"
	case !w.Record.There:
		if refused := w.refused(); refused != nil {
			return "it is not made yet: " + refused.Sentence
		}
		return "it is not made yet; its condition Ready says what it waits for"
	}
	return ""
}

// TakesBackups says whether a backup can be asked for, and is taken into the store that is wanted.
func (w *World) TakesBackups() bool { return w.noBackup() == "" }

// noBackup is why none can be asked for, or it might be taken into another store than is wanted; empty: one can.
func (w *World) noBackup() string {
	less := w.Storeless()
	switch {
	case !w.Record.There:
		return "the control objects are gone"
	case !slices.ContainsFunc(w.Hosts, func(h Host) bool { return h.Running }):
		return "no host runs"
	case len(less) == 1:
		return less[0] + " runs without the store that spec.backup names"
	case len(less) > 1:
		return strings.Join(less, ", ") + " run without the store that spec.backup names"
	}
	return ""
}

// Storeless are the hosts that run and have not the store that is wanted now. The daemons choose who takes a backup, and may
// choose one of them.
func (w *World) Storeless() (names []string) {
	for _, h := range w.Hosts {
		if h.Running && h.NoStore {
			names = append(names, h.Name)
		}
	}
	return names
}

func (w *World) lastNumber() (n int) {
	for _, h := range w.Hosts {
		n = max(n, h.N)
	}
	return max(n, w.Record.Next-1)
}

// NextNumber is that of the next host.
func (w *World) NextNumber() int { return w.lastNumber() + 1 }

// stays says whether a host is one to keep: nothing of it is lost, and nobody wants another one in its place.
func (h Host) stays() bool { return h.Set && h.Claim == ClaimThere && !h.Replace }

// LostAt is from when on a host that is silent has been so for too long; zero: it is not silent, or is not replaced for that. One that
// never got a volume did not run yet: where there is no place for it, there is none for another one.
func (w *World) LostAt(h Host) time.Time {
	if h.SilentSince.IsZero() || h.Unbound && !w.votes(h.Name) {
		return time.Time{}
	}
	return h.SilentSince.Add(w.Want.ReplaceAfter)
}

func (w *World) lost(h Host) bool {
	at := w.LostAt(h)
	return !at.IsZero() && !w.Now.Before(at)
}

// NextLost is when the next host will be; zero: none will.
func (w *World) NextLost() (next time.Time) {
	for _, h := range w.Hosts {
		if at := w.LostAt(h); at.After(w.Now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// hosts makes those that are missing: all at once for a cluster that is new or grows, one at a time in place of others.
func (w *World) hosts(d *Decision) {
	var nominal, sound, carrying, running, silent int
	var pending, why string
	free := false // one that stays has no voter
	for _, h := range w.Hosts {
		if w.retired(h) {
			continue
		}
		h = w.complete(d, h)
		if h.Running {
			running++
			if w.lost(h) {
				silent++
			}
		}
		switch _, heard, known := w.Hears(h.Name); {
		case h.stays() && w.lost(h):
			nominal++
		case h.stays():
			nominal++
			sound++
			free = free || !w.votes(h.Name)
			if known && !heard && !w.votes(h.Name) {
				if pending = h.Name; h.Why() != "" {
					why = " (" + h.Why() + ")"
				}
			}
		case w.votes(h.Name):
			carrying++
		}
	}
	if pending != "" {
		d.Waits = append(d.Waits, Wait{Code: Pending, Host: pending, Sentence: fmt.Sprintf("%s does not run yet%s, and no other host is made in place of one before it does", pending, why), Command: w.Describe(pending)})
	}
	wanted := w.Want.Spec.MemberCount + w.Want.Spare
	switch missing := wanted - nominal - carrying; {
	case w.gone():
		d.wait(RecordGone, "the control object was made anew: no host is made before the hosts have written the cluster's record back")
		return
	case missing > 0:
		for i := range missing {
			d.do(Step{Kind: MakeHost, N: w.lastNumber() + 1 + i, Why: fmt.Sprintf("%s wanted, %s there", count(wanted, "host is", "hosts are"), count(nominal+carrying, "is", "are"))})
		}
		return
	case sound >= wanted && (free || !w.noHost()), w.Adopting(): // whose members vote elsewhere is in no record
		return
	}
	switch {
	case pending != "":
	case running >= wanted+most && silent == 0: // those that make way are not stopped yet
	case running >= wanted+most:
		d.wait(TooManyHosts, fmt.Sprintf("%d hosts are to run, %s wanted, %s silent: no further one is made before one of them has ended", running, count(wanted, "is", "are"), count(silent, "is", "are")))
	default:
		d.do(Step{Kind: MakeHost, N: w.lastNumber() + 1, Why: fmt.Sprintf("%d of %d hosts can stay: another one takes a place", sound, wanted)})
	}
}

// complete makes what is missing of a host, and gives it as it is then. A volume that is gone is none of that: it would be
// another one under the same name.
func (w *World) complete(d *Decision, h Host) Host {
	switch {
	case (h.Claim == ClaimThere || h.Claim == ClaimOther && !w.idles(h.Name)) && !(h.Set && h.Leaves) || h.Kept:
		d.do(Step{Kind: MakeHost, N: h.N, Host: h.Name, Why: "something of the host is missing"})
		h.Set, h.Running = true, true
	case h.Set && !h.Running:
		if (h.LeavesDue || h.OldLeaves) && !w.Authorities.ended(w.Now) { // so that it starts with what others trust
			d.do(Step{Kind: RenewLeaves, N: h.N, Host: h.Name, Why: "it is to start"})
		}
		d.do(Step{Kind: StartHost, N: h.N, Host: h.Name, Why: "it may carry a member"})
		h.Running = true
	case w.Authorities.ended(w.Now): // nothing is issued any more
	case h.LeavesDue:
		d.do(Step{Kind: RenewLeaves, N: h.N, Host: h.Name, Why: "a third of their life is over"})
	case h.OldLeaves:
		d.do(Step{Kind: RenewLeaves, N: h.N, Host: h.Name, Why: "they are of an earlier step of the authorities"})
	}
	return h
}

// noHost says whether the daemons ask for another host. They asked before a host took the place where by what is written
// one votes, or is about to, of which they told no member.
func (w *World) noHost() bool {
	t := w.fresh()
	if t == nil || !slices.Contains(t.Blockers, "no-host") {
		return false
	}
	for _, set := range w.Intent.VoterSets() {
		for _, v := range set {
			if len(t.Members) > 0 && v.Host != "" && !slices.Contains(t.Members, string(v.Host)) {
				return false
			}
		}
	}
	return true
}

// count is a number with the words for it.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// quorumOf is how many pods may not be drained; 0: there is no budget for one member.
func quorumOf(voters int) int {
	if voters <= 1 {
		return 0
	}
	return voters/2 + 1
}

// budget raises it before the spec asks for more. It goes down when nothing else is to be done.
func (w *World) budget(d *Decision) {
	if least := quorumOf(w.largest()); w.Budget < least {
		d.do(Step{Kind: SetBudget, AtLeast: least, Why: count(w.largest(), "member votes, or is to vote", "members vote, or are to vote")})
	}
}

// largest is the number of voters that are, or are to be by anything that is written or wanted, with the one more that there
// is while one takes the place of another.
func (w *World) largest() int {
	n := max(w.voters(), w.Want.Spec.MemberCount)
	if w.Spec != nil {
		n = max(n, w.Spec.MemberCount)
	}
	if w.moves(w.names()) {
		n = max(n, len(w.Intent.Voters)+1)
	}
	return n
}

package decide

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/internal/duration"
)

// day is how long a host's data lies there unused before its volume may go.
const day = 24 * time.Hour

// leftovers ends what carries nothing any more. It is asked when nothing else is to be done.
func (w *World) leftovers(d *Decision) []Step {
	for _, h := range w.Hosts {
		if h.Claim == ClaimNone && w.idles(h.Name) && (h.Set || h.Leaves) {
			return []Step{{Kind: ClearHost, N: h.N, Host: h.Name, Why: "its volume is gone, and it carries no member"}}
		}
	}
	for _, h := range w.Hosts {
		if h.Set && h.Running && w.Stays(h) == "" {
			told, heard, _ := w.Hears(h.Name)
			return []Step{{Kind: StopHost, N: h.N, Host: h.Name, Spent: heard && told.Spent, Why: "it carries no member, and is to carry none"}}
		}
	}
	for _, h := range w.Hosts {
		if h.Claim != ClaimNone && w.Keeps(h) == "" {
			return []Step{{Kind: DropVolume, N: h.N, Host: h.Name, Why: w.drops(h)}}
		}
	}
	if least := quorumOf(w.largest()); w.Budget > least && !w.gone() {
		return []Step{{Kind: LowerBudget, AtLeast: least, Why: count(w.largest(), "member votes", "members vote")}}
	}
	return d.Steps
}

// Stays says why a host is not stopped; empty: it may be.
func (w *World) Stays(h Host) string {
	told, heard, known := w.Hears(h.Name)
	switch {
	case w.Intent == nil:
		return "the cluster has no record yet"
	case w.Spec == nil || w.named(h.Name):
		return "it may carry a member"
	case w.votes(h.Name):
		return "it is a voter, or may become one by a change that is under way"
	case !known:
		return "the daemons have not said lately whom they hear"
	case heard && told.Carries:
		return "a member is there"
	}
	return ""
}

// Keeps says why a host's volume is not given up; empty: it may be. A volume that a person deleted goes once its host
// carries nothing; any other one as data that was set aside (SAFETY.md, rule 22).
func (w *World) Keeps(h Host) string {
	switch {
	case w.Intent == nil:
		return "the cluster has no record, so that nobody knows who is a voter"
	case w.Spec == nil || w.named(h.Name):
		return "its host may carry a member"
	case w.votes(h.Name):
		return "its host is a voter, or may become one by a change that is under way"
	case h.Running || h.Pod:
		return "its host runs"
	case h.Claim == ClaimLeaving:
		return ""
	case h.Unbound:
		return "its claim never got a volume, and nothing is in it; delete the claim"
	}
	t := w.fresh()
	switch {
	case t == nil:
		return "the daemons have not told of themselves lately"
	case !t.AllUp:
		return "not all voters are up"
	case h.SpentSince.IsZero():
		return "its daemon has not said that nothing but a removed member's data lies there; delete the claim to give it up"
	case w.Now.Sub(h.SpentSince) < day:
		return fmt.Sprintf("a day has to pass; it is kept until %s", h.SpentSince.Add(day).UTC().Format(time.RFC3339))
	case !t.Proven.After(h.SpentSince):
		return "no proven backup is newer than its last data; delete the claim to give it up"
	}
	return ""
}

func (w *World) drops(h Host) string {
	if h.Claim == ClaimLeaving {
		return "a person deleted the claim, and its host carries no member"
	}
	return "a removed member's data is a day old, all voters are up, and a newer backup is proven"
}

// end is the way of a cluster whose EtcdCluster was deleted: last backup, hosts, what they shared, and then the data, or a
// label that says that it was kept.
func (w *World) end(d *Decision) {
	drop := w.Want.Volumes == DeleteVolumes || w.Want.Volumes == KeepUnproven && w.Record.Last.Taken && w.Record.Last.Proven
	drop = drop && !w.adopted() || w.NamespaceEnds
	if w.held(d) || w.Want.Backup && !w.NamespaceEnds && (!w.Adopting() || w.Adoption() == Beside) && w.backupFirst(d) {
		return
	}
	for _, h := range w.Hosts {
		if h.Set || h.Leaves {
			d.Steps = []Step{{Kind: EndHost, N: h.N, Host: h.Name, Why: "the cluster is deleted"}}
			return
		}
	}
	for _, h := range w.Hosts {
		switch {
		case h.Pod:
			d.Waits = append(d.Waits, Wait{Code: Pending, Host: h.Name, Sentence: "pod " + h.Name + "-0 is still ending", Command: w.Describe(h.Name)})
			return
		case h.Claim != ClaimNone && (drop || h.Claim == ClaimLeaving):
			d.do(Step{Kind: DropVolume, N: h.N, Host: h.Name, Why: w.dropsLast()})
			return
		}
	}
	kept := func(h Host) bool { return h.Kept || h.Claim == ClaimNone }
	switch {
	case w.Shared:
		d.do(Step{Kind: EndShared, Why: "the cluster is deleted"})
	case drop && (w.Record.There || w.Record.Part):
		d.do(Step{Kind: EndRecord, Why: w.dropsLast()})
	case !drop && (!all(w.Hosts, kept) || w.Record.There && !w.Record.Kept):
		d.do(Step{Kind: KeepData, Why: "no last backup is proven, or spec.deletion.volumes keeps them"})
	default:
		d.do(Step{Kind: LetGo, Why: "nothing of the cluster runs any more"})
	}
}

// tryAgain is how long after a backup that failed another one is asked for.
const tryAgain = time.Minute

// backupFirst says whether the end waits for a last backup: until it is taken, and until it is proven where that comes by
// itself and the volumes hang on it. Where no host runs any more, and the data is kept, nothing is lost without one.
func (w *World) backupFirst(d *Decision) bool {
	const without = "; set spec.deletion.finalBackup to Never to do without"
	last := w.Record.Last
	runs := slices.ContainsFunc(w.Hosts, func(h Host) bool { return h.Running })
	dropped := w.Want.Volumes == DeleteVolumes && slices.ContainsFunc(w.Hosts, func(h Host) bool { return h.Claim != ClaimNone })
	switch {
	case last.Taken && (!runs || last.Proven || !w.Want.Drills || w.Want.Volumes != KeepUnproven):
		return false
	case last.Taken:
		d.wait(BackupMissing, "the last backup is taken, and a drill is to prove it before the volumes go"+w.nextDrill()+"; set spec.deletion.volumes to Keep or Delete to go on at once")
	case !runs && !dropped:
		return false
	case w.noBackup() != "":
		d.stand(BackupMissing, "no last backup can be taken: "+w.noBackup()+without)
	case last.Failed != "" && w.Now.Sub(last.At) < tryAgain:
		d.wait(BackupMissing, "the last backup was not taken, and is asked for again: "+last.Failed+without)
	default:
		if !last.Asked || last.Failed != "" {
			d.do(Step{Kind: AskBackup, Why: "the cluster is deleted"})
		}
		d.wait(BackupMissing, "a last backup is taken before the hosts end"+without)
	}
	return true
}

// nextDrill says when one is due; empty: nobody knows.
func (w *World) nextDrill() string {
	t := w.fresh()
	if t == nil || t.Drilled.IsZero() || w.Want.DrillEvery == 0 {
		return ""
	}
	return fmt.Sprintf(", from %s on (the last one was at %s, and spec.backup.drillInterval is %s)", t.Drilled.Add(w.Want.DrillEvery).UTC().Format(time.RFC3339), t.Drilled.UTC().Format(time.RFC3339), duration.Format(w.Want.DrillEvery))
}

func all(hosts []Host, are func(Host) bool) bool {
	return !slices.ContainsFunc(hosts, func(h Host) bool { return !are(h) })
}

func (w *World) dropsLast() string {
	switch {
	case w.NamespaceEnds:
		return "the namespace is deleted"
	case w.Want.Volumes == DeleteVolumes:
		return "spec.deletion.volumes is Delete"
	}
	return "the cluster is deleted, and its last backup is proven"
}

package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
)

// record reads the control record out of its ConfigMaps.
func (s *sight) record(ctx context.Context) {
	w := &s.world
	w.Record.Next = int(s.cluster.Status.NextHost)
	w.Record.Part = (s.control == nil) != (s.status == nil)
	_, w.Want.LetGo = s.cluster.Annotations[decide.AnnotationLetGo]
	w.Want.GivenUp = s.cluster.Annotations[decide.AnnotationGivenUp] != ""
	if s.control == nil {
		return
	}
	a := s.control.Annotations
	w.Record.There = s.status != nil && a[shape.AnnotationSelf] != ""
	w.Record.Copied = shape.IsCopy(s.control)
	next, _ := strconv.Atoi(a[shape.AnnotationNext])
	w.Record.Next = max(w.Record.Next, next)
	_, w.Record.Kept = s.control.Labels[shape.LabelKept]
	_, w.Record.Remade = a[shape.AnnotationRemade]
	_, w.Record.Held = a[shape.AnnotationHeld]
	view := record.Of(s.control, s.status)
	folder := view.Folder(s.shape.ClusterName())
	spec, err := folder.ReadSpec(ctx)
	w.Spec = spec.Spec
	if errors.Is(err, cluster.ErrSpec) {
		err = nil // one that is refused is written anew
	}
	in, _, _, ierr := folder.ReadIntent(ctx)
	if ierr == nil {
		w.Intent = in
	}
	begun, berr := s.begun(ctx, folder)
	w.Record.Begun = begun
	jerr := s.joining(ctx, folder)
	if err := errors.Join(err, ierr, berr, jerr); err != nil {
		w.Unread = err.Error()
	}
	if told, is, err := folder.ReadStatus(ctx); err == nil && is { // what cannot be read was not told
		s.told, w.Told = &told, toldOf(&told, w.Intent)
	}
	w.Record.Last = s.lastBackup(ctx, folder)
	w.Record.Next = max(w.Record.Next, s.lastNamed()+1)
}

// readable is the cluster's record; nil: there is none, or not all of it can be read.
func (s *sight) readable() *control.Folder {
	switch {
	case s.world.Unread != "":
		return nil
	case s.outside != nil:
		return s.folder
	case s.control == nil:
		return nil
	}
	return record.Of(s.control, s.status).Folder(s.shape.ClusterName())
}

// begun is what is written of the backup that the cluster begins with, and what became of its restore.
func (s *sight) begun(ctx context.Context, f *control.Folder) (begun decide.Begun, err error) {
	origin, err := f.ReadOrigin(ctx)
	if err != nil || origin == nil {
		return begun, err
	}
	queued, err := f.Commands(ctx)
	if err != nil {
		return begun, err
	}
	past, err := control.Past(ctx, f)
	if err != nil {
		return begun, err
	}
	begun.Backup = origin.Backup
	mine := s.beginning(origin.Backup)
	for _, c := range queued {
		begun.Queued = begun.Queued || c.Restore != nil
		begun.Asked = begun.Asked || c.Name == mine
	}
	for _, e := range past {
		if e.Name == mine {
			begun.Asked, begun.Failed = true, cmp.Or(e.Reason, e.Result)
		}
	}
	return begun, nil
}

// beginning is the name of the command by which this EtcdCluster begins with a backup.
func (s *sight) beginning(backup string) string {
	sum := sha256.Sum256([]byte(backup))
	return control.CommandName(s.cluster.CreationTimestamp.Time, string(s.cluster.UID)+hex.EncodeToString(sum[:4]))
}

// lastNamed is the highest number among the hosts that anything names.
func (s *sight) lastNamed() (last int) {
	for _, name := range s.named(&s.world) {
		if n, is := s.shape.Number(string(name)); is {
			last = max(last, n)
		}
	}
	return last
}

// named are the hosts that anything names which is written or told.
func (s *sight) named(w *decide.World) (names []cluster.HostID) {
	if w.Spec != nil {
		names = append(names, w.Spec.Hosts...)
	}
	if w.Intent != nil {
		for _, set := range w.Intent.VoterSets() {
			for _, v := range set {
				names = append(names, v.Host)
			}
		}
	}
	if s.told != nil {
		for _, h := range s.told.Hosts {
			names = append(names, h.Host)
		}
		for _, m := range s.told.Members {
			names = append(names, m.Host)
		}
	}
	return names
}

// lastBackup is what became of the wish that was made for this EtcdCluster. One that is neither in the queue nor among those
// that ended was lost.
func (s *sight) lastBackup(ctx context.Context, f *control.Folder) (last decide.LastBackup) {
	name, is := strings.CutPrefix(s.control.Annotations[shape.AnnotationLast], string(s.cluster.UID)+" ")
	if !is {
		return last
	}
	past, err := control.Past(ctx, f)
	if err != nil {
		return decide.LastBackup{Asked: true} // nobody knows
	}
	i := slices.IndexFunc(past, func(e control.Ended) bool { return e.Name == name })
	if i < 0 {
		queued, err := f.Commands(ctx)
		last.Asked = err != nil || slices.ContainsFunc(queued, func(c control.Command) bool { return c.Name == name })
		return last
	}
	end := past[i]
	last.Asked, last.At = true, end.At
	if last.Taken = end.Result == "done"; !last.Taken {
		last.Failed = cmp.Or(end.Reason, end.Result, "nobody says why")
	}
	if s.told != nil && s.told.Proven != nil {
		p := s.told.Proven
		last.Proven = last.Taken && (p.Name == end.Backup || p.At.After(end.At) && s.world.Intent.HasBeen(p.Cluster))
	}
	return last
}

// foreign says that a backup is of another cluster, which has nothing of what this one wrote, and that the cluster was not made of
// it either. Somebody copied it into the store.
func foreign(in *cluster.Intent, b *cluster.Backup) bool {
	return in != nil && b.Cluster != 0 && !in.HasBeen(b.Cluster) && b.Name != in.Source.Backup
}

// toldOf is what is decided by of what the daemons told. Backups of other clusters are taken out of it.
func toldOf(t *control.Status, in *cluster.Intent) *decide.Told {
	if t.Backup != nil && foreign(in, t.Backup) {
		t.Backup = nil
	}
	if t.Proven != nil && foreign(in, t.Proven) {
		t.Proven = nil
	}
	out := &decide.Told{At: t.At, Generation: t.Generation, AllUp: len(t.Members) > 0, Silent: map[string]time.Duration{}}
	for _, m := range t.Members {
		out.AllUp = out.AllUp && (m.Learner || m.Up)
		out.Members, out.Silent[string(m.Host)] = append(out.Members, string(m.Host)), m.Silent
		if m.Up {
			out.Up = append(out.Up, string(m.Host))
		}
		if m.Leads {
			out.Leads = string(m.Host)
		}
	}
	for _, p := range t.Pauses {
		out.Paused = append(out.Paused, string(p.Host))
		if p.MayGo && p.ID != "" {
			out.MayGo = append(out.MayGo, p.ID)
		}
	}
	for _, b := range t.Blockers {
		out.Blockers = append(out.Blockers, b.Code)
		var facts struct{ Survivor, Host, Voter, Why string }
		if len(b.Facts) == 0 || json.Unmarshal(b.Facts, &facts) != nil {
			continue
		}
		switch {
		case decide.LosesQuorum(b.Code):
			out.Survivor = cmp.Or(out.Survivor, facts.Survivor)
		case b.Code == "host-paused" && facts.Voter == "" && facts.Why != "": // of a voter it would be why that does not answer
			if out.Stays == nil {
				out.Stays = map[string]string{}
			}
			out.Stays[facts.Host] = facts.Why
		}
	}
	for _, h := range t.Hosts {
		told := decide.ToldHost{Name: string(h.Host), Carries: h.Data == cluster.DataMember, Spent: h.Data == cluster.DataRemoved || h.Data == cluster.DataNone}
		if t := h.Trust; t != nil {
			told.Trust = &decide.Trust{Daemon: t.Daemon, Member: t.Member, Signed: t.Signed}
		}
		out.Hosts = append(out.Hosts, told)
	}
	for _, b := range []*cluster.Backup{t.Backup, t.Proven} {
		if b != nil && b.Drilled.After(out.Drilled) {
			out.Drilled = b.Drilled
		}
	}
	if t.Backup != nil {
		out.Backed, out.BackedName = t.Backup.At, t.Backup.Name
	}
	if t.Proven != nil {
		out.ProvenName = t.Proven.Name
		if in.HasBeen(t.Proven.Cluster) { // one of nobody knows what proves nothing of this one's data
			out.Proven = t.Proven.At
		}
	}
	return out
}

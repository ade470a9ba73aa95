package sim

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/sim/fakeetcd"
)

// pruning is what the world knows of it; w.mu guards it.
type pruning struct {
	after  time.Duration   // how long hosts keep what they set aside; never changed
	proven map[string]bool // backups, by name
	pruned int             // directories
}

// checkPrune: what is pruned by itself is what a member left that is not listed
// any more in the cluster that serves now, with a quorum up; every voter of it
// has gone beyond that log, and a backup of it that was proven has, too
// (SAFETY.md, rule 22). It looks at the data itself, not at what is written
// beside it. m.mu is held.
func (w *World) checkPrune(d *daemon, have *dir) {
	seen := w.etcd.Look()
	member, own := have.data.Member()
	term, index, _ := w.etcd.End(have.data)
	in := w.recorded()
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	have.lost = true // from here on nobody misses it
	l := w.check.now
	if l == nil || l.id != own || in == nil || in.Cluster != own || in.State != cluster.IntentFounded {
		w.violate("%s prunes data of member %s of cluster %s, which does not serve now", d.id, member, own)
		return
	}
	if slices.ContainsFunc(l.list, func(m cluster.Member) bool { return m.ID == member }) {
		w.violate("%s prunes the data of the listed member %s", d.id, member)
	}
	n, beyond := 0, 0
	for _, m := range l.list {
		if m.Learner {
			continue
		}
		n++
		harmed, ok := w.check.harmed[m.ID]
		if slices.ContainsFunc(seen, func(s fakeetcd.Seen) bool { return s.Member == m.ID && s.Applied > index }) || ok && time.Since(harmed) < excuse {
			beyond++
		}
	}
	if beyond < n {
		w.violate("%s prunes the log of member %s up to index %d, and %d of %d voters are beyond it", d.id, member, index, beyond, n)
	}
	if !w.provenBeyond(own, term, index) {
		w.violate("%s prunes the log of member %s up to index %d of term %d, and no proven backup is beyond it", d.id, member, index, term)
	}
	w.countPruned()
}

func (w *World) countPruned() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pruning.pruned++
}

// prunedSoFar counts the directories that were pruned.
func (w *World) prunedSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pruning.pruned
}

// provenBeyond reports whether a backup of a cluster was proven that is beyond
// the end of a log.
func (w *World) provenBeyond(id cluster.ClusterID, term, index uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.backups {
		if w.pruning.proven[name] && !w.damaged[name] && s.Cluster == id && s.Index > index && s.Term >= term {
			return true
		}
	}
	return false
}

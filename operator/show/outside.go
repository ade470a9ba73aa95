package show

import (
	"slices"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unreached is what an EtcdCluster shows of bare hosts whose store does not answer: what was so is left, nothing is up as far
// as is known, and since when is the time of the conditions.
func Unreached(s Seen, why string) v1alpha1.ClusterStatus {
	out := *s.Cluster.Status.DeepCopy()
	out.ObservedGeneration, out.Up, out.Leader, out.Blockers = s.Cluster.Generation, nil, "", nil
	for _, w := range s.Decision.Waits {
		out.Blockers = append(out.Blockers, v1alpha1.Blocker{Code: string(w.Code), Sentence: w.Sentence, Command: w.Command})
	}
	for i := range out.Hosts {
		out.Hosts[i].Up, out.Hosts[i].Why, out.Hosts[i].SilentSince = false, "not known: the store is not reached", nil
	}
	unreached, unknown := string(decide.StoreUnreached), metav1.ConditionUnknown
	s.set(&out, []condition{
		{v1alpha1.Reporting, unknown, unreached, why}, {v1alpha1.Available, unknown, unreached, why}, {v1alpha1.Progressing, unknown, unreached, why},
		{v1alpha1.BackedUp, unknown, unreached, why}, s.degraded(&out), s.ready(&out),
	})
	return out
}

// backupCodes are the daemons' blockers about backups.
var backupCodes = []string{"backup-failed", "backup-unprotected", "backup-wanted"}

// backedUpOutside goes by what the daemons say: how often they back up is their own setting.
func (s Seen) backedUpOutside(out *v1alpha1.ClusterStatus) condition {
	for _, b := range out.Blockers {
		if slices.Contains(backupCodes, b.Code) {
			return condition{v1alpha1.BackedUp, metav1.ConditionFalse, reason(b.Code), b.Sentence}
		}
	}
	if out.LastBackup == nil {
		return condition{v1alpha1.BackedUp, metav1.ConditionFalse, "NoBackup", "the daemons have told of no backup yet"}
	}
	return condition{v1alpha1.BackedUp, metav1.ConditionTrue, "Told", "the newest backup that the daemons told of is of " + out.LastBackup.At.UTC().Format(time.RFC3339)}
}

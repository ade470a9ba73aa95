package plan

import (
	"fmt"

	"etcdadm.io/cluster"
)

// leftBehind tells of set-aside data that goes further than the survivor that the
// present generation was made from: a host was out of sight then, named as lost, and
// has come back. What it has beyond may have been acknowledged, and nobody who named
// it could know. How far each log went its host wrote down when it set it aside.
func (v *view) leftBehind() {
	in := v.intent
	if in == nil || in.State != cluster.IntentFounded || in.Source.Kind != cluster.SourceSurvivor || len(in.Founders) != 1 {
		return
	}
	founder, ok := v.obs.Host(in.Founders[0].Host)
	if !ok {
		return
	}
	var from cluster.SetAside // what the founder had itself
	for _, a := range founder.SetAside {
		if a.Reason == cluster.AsideSuperseded && !a.Foreign && a.Generation < in.Generation && a.Generation >= from.Generation {
			from = a
		}
	}
	if from.Cluster == 0 || from.Log == (cluster.Progress{}) || from.Cluster != in.Superseded() {
		return // nobody can tell: what it was made from was given up since
	}
	further, at := from, cluster.HostID("")
	for i := range v.obs.Hosts {
		for _, a := range v.obs.Hosts[i].SetAside {
			if a.Cluster == from.Cluster && !a.Foreign && further.Log.Before(a.Log) {
				further, at = a, v.obs.Hosts[i].Host
			}
		}
	}
	if at == "" {
		return
	}
	v.aside("left-behind", fmt.Sprintf("etcdadm restore --undo --from %s --dir %s", at, further.Name()),
		"generation %d was recovered from host %s, whose log ended at term %d, index %d, and host %s has come back with data of the same cluster whose log ends at term %d, index %d: writes that clients were told are kept may be in it and not in the cluster. It lies set aside; to go back to it gives up what was written since, and etcdadm host prune %s --dir %s --force gives it up",
		in.Generation, founder.Host, from.Log.Term, from.Log.Index, at, further.Log.Term, further.Log.Index, at, further.Name())
}

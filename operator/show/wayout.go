package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/duration"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
)

// wayOut says what helps where the quorum is lost: an EtcdRestore, or what a person has to know before there is one.
func (s Seen) wayOut(b *v1alpha1.Blocker, way *decide.WayOut) {
	if len(way.GiveUp) == 0 {
		b.Command = s.restore(way)
		if way.Survivor != "" && len(way.Lost) > 0 {
			b.Sentence = s.survivor(way)
		}
		return
	}
	b.Sentence += ". No voter's host has answered for " + duration.Format(s.World.Want.ReplaceAfter)
	s.giveUp(b, way.GiveUp)
}

// survivor says what the EtcdRestore of a survivor gives up. What the daemons say is about a command of theirs, which names no host.
func (s Seen) survivor(way *decide.WayOut) string {
	var silent []string
	for _, name := range way.Lost {
		if i := slices.IndexFunc(s.World.Hosts, func(h decide.Host) bool { return h.Name == name }); i >= 0 && !s.World.Hosts[i].SilentSince.IsZero() {
			name += " (silent since " + s.World.Hosts[i].SilentSince.UTC().Format(time.RFC3339) + ")"
		}
		silent = append(silent, name)
	}
	return fmt.Sprintf("no quorum is in sight: %s do not answer. If so many of their disks are gone for good that no quorum can come back, and only then, make this EtcdRestore: the cluster goes on from what host %s has, and what only the hosts in lost had is lost. Take a host out of lost whose disk is there. kubectl create --dry-run=server changes nothing",
		strings.Join(silent, ", "), way.Survivor)
}

// giveUp has a person say that volumes are gone which Kubernetes has for there.
func (s Seen) giveUp(b *v1alpha1.Blocker, claims []string) {
	b.Sentence += ". If their volumes are gone for good, and only then, delete their claims: no pod can use a deleted claim again, and the EtcdRestore of a backup is shown next"
	b.Command = s.World.Kubectl("delete --wait=false persistentvolumeclaims " + strings.Join(claims, " "))
}

// restore is the EtcdRestore that a way out is, as a person makes it, again where the last one did not begin in time. Each word
// is quoted: some of them may come from a pod.
func (s Seen) restore(way *decide.WayOut) string {
	source, in := fmt.Sprintf("survivor: %q", way.Survivor), s.World.Intent
	switch {
	case way.Proven:
		source = "newestProven: true"
	case way.Backup != "":
		source = fmt.Sprintf("backup: %q", way.Backup)
	}
	id := ""
	if in.Cluster != 0 {
		id = fmt.Sprintf(", clusterID: %q", in.Cluster)
	}
	lost := ""
	for _, name := range way.Lost {
		lost += fmt.Sprintf(", %q", name)
	}
	if lost != "" {
		lost = ", lost: [" + strings.TrimPrefix(lost, ", ") + "]"
	}
	return fmt.Sprintf(`kubectl create -f - <<'END'
apiVersion: %s
kind: EtcdRestore
metadata: {generateName: "%s-after-%d-", namespace: %q}
spec: {cluster: %q, replaces: %[3]d%[6]s, source: {%[7]s}%[8]s}
END`, v1alpha1.GroupVersion, s.Cluster.Name, in.Generation, s.Cluster.Namespace, s.Cluster.Name, id, source, lost)
}

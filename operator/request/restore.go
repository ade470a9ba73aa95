package request

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
)

// Restore is the command that an EtcdRestore is for its cluster, or why it is not asked for. The generation that it names is
// compared with the record's, which is in the object that the command is written into: who writes a generation in between has
// the command refused. So is it for first, another command that asks for a generation: what that makes is not what this one
// names, and the daemons tell the two apart by clocks alone.
func Restore(w *decide.World, spec *v1alpha1.RestoreSpec, first string) (cluster.Command, *Hindrance) {
	if h := replaces(w.Intent, spec); h != nil {
		return cluster.Command{}, h
	}
	if first != "" {
		return cluster.Command{}, &Hindrance{Why: fmt.Sprintf("command %s, which asks for a generation too, comes first", first)}
	}
	if !w.Reports() {
		return cluster.Command{}, &Hindrance{Why: fmt.Sprintf("no daemon has told anything of this generation within %s, so that nobody knows what is there", decide.Fresh)}
	}
	c := cluster.Command{}
	for _, name := range spec.Lost {
		if _, heard, _ := w.Hears(name); heard { // what was told may be older than the loss
			return c, &Hindrance{Why: fmt.Sprintf("host %s is named as lost, and its daemon answered at %s: never name a host that runs", name, w.Told.At.UTC().Format(time.RFC3339))}
		}
		c.Lost = append(c.Lost, cluster.HostID(name))
	}
	switch from := spec.Source; {
	case from.Survivor != "":
		c.Kind, c.Host = cluster.CommandRecover, cluster.HostID(from.Survivor)
		return c, nil
	case from.SetAside != nil:
		c.Kind, c.Host, c.Dir = cluster.CommandUndo, cluster.HostID(from.SetAside.Host), from.SetAside.Dir
		c.Seen = &cluster.Seen{Generation: uint64(spec.Replaces)}
		return c, nil
	case from.NewestProven:
		c.Backup = w.Told.ProvenName
	default:
		c.Backup = string(from.Backup)
	}
	c.Kind = cluster.CommandRestore
	if h := Backup(w); h != nil {
		return c, h
	}
	if c.Backup == "" {
		return c, &Hindrance{Why: "the daemons know of no proven backup: name one in spec.source.backup"}
	}
	return c, copied(w.Copy, spec)
}

// copied says why a backup of another store is not in the cluster's own; nil: it is.
func copied(c *decide.Copy, spec *v1alpha1.RestoreSpec) *Hindrance {
	name := string(spec.Source.Backup)
	switch {
	case spec.From == nil, c != nil && c.Done:
		return nil
	case c == nil:
		return never("the cluster is on bare hosts, into whose store nothing is copied from here: run etcdadm backup copy on one of them, and make an EtcdRestore without spec.from")
	case c.Failed != "":
		return never("backup %s was not fetched from %s: %s. Mend that, and make another EtcdRestore", name, c.From, c.Failed)
	}
	return &Hindrance{Why: c.Words(name), Copy: !c.There && c.Lacks == ""}
}

// replaces holds the generation that is to be given up against the one that is there.
func replaces(in *cluster.Intent, spec *v1alpha1.RestoreSpec) *Hindrance {
	var now uint64
	if in != nil {
		now = in.Generation
	}
	switch said := uint64(spec.Replaces); {
	case said == now:
		return of(in, spec.ClusterID)
	case now == 0:
		return never("spec.replaces is %d, and the cluster has no generation yet: leave it out", said)
	case said == 0:
		return never("spec.replaces is missing, and the cluster has generation %d, which a restore gives up: make an EtcdRestore with replaces: %d", now, now)
	case said+1 == now && madeOf(in.Source, spec.Source):
		return &Hindrance{Why: fmt.Sprintf("generation %d was made in place of generation %d already, before this EtcdRestore: nothing is done", now, said), Before: true}
	case said < now:
		return never("generation %d was given up already, and generation %d is there: nothing is done. To give that one up, make an EtcdRestore with replaces: %d", said, now, now)
	default:
		return never("spec.replaces is %d, and the cluster has generation %d: nothing is done. To give that one up, make an EtcdRestore with replaces: %d", said, now, now)
	}
}

// of holds the cluster that is to be given up against the one that is there: one that was made anew under the same name, such as
// after the loss of its namespace, comes by the same generations.
func of(in *cluster.Intent, said string) *Hindrance {
	switch {
	case said == "":
		return nil
	case in == nil:
		return never("spec.clusterID is %s, and there is no cluster yet: leave it out", said)
	case in.Cluster == 0:
		return &Hindrance{Why: fmt.Sprintf("generation %d is being founded, and has no ID to compare with spec.clusterID yet", in.Generation)}
	case in.Cluster.String() != said:
		return never("generation %d is there, of another cluster than is to be given up: its ID is %s, and spec.clusterID is %s. Nothing is done", in.Generation, in.Cluster, said)
	}
	return nil
}

// madeOf says whether a generation was made of what is asked for, as far as it is written.
func madeOf(made cluster.Source, asked v1alpha1.RestoreSource) bool {
	switch made.Kind {
	case cluster.SourceBackup:
		return asked.NewestProven || made.Backup == string(asked.Backup)
	case cluster.SourceSurvivor:
		return asked.Survivor != ""
	case cluster.SourceSetAside:
		return asked.SetAside != nil && asked.SetAside.Dir == made.Dir
	}
	return false
}

// Opening is what the generation that was founded for a command waits for before every member lets ordinary clients in; empty:
// they are let in, or another generation has taken its place. told is nil where the daemons tell nothing that counts.
func Opening(in *cluster.Intent, command string, told *control.Status) string {
	if in == nil || in.CommandID != command {
		return ""
	}
	if told == nil {
		return fmt.Sprintf("generation %d is there, and no daemon has told lately that it serves", in.Generation)
	}
	for _, b := range told.Blockers {
		if in.Quarantined && b.Code == "quarantine" {
			return b.Sentence
		}
	}
	if !in.Quarantined && !slices.ContainsFunc(told.Members, func(m control.MemberStatus) bool { return m.Quarantined }) {
		return ""
	}
	return fmt.Sprintf("generation %d is there, and lets ordinary clients in once a majority of its members is up", in.Generation)
}

func never(format string, args ...any) *Hindrance {
	return &Hindrance{Why: fmt.Sprintf(format, args...), Never: true}
}

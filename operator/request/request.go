// Package request says what becomes of an EtcdBackup or EtcdRestore: a pure function of the object, of its cluster, and of
// what the cluster's control record says of the one command that the object is there.
//
// What must always hold:
//
//   - One object is one command: its name is made of the object's own UID, so that asking again is asking for the same.
//   - What was asked for, and is known to nobody any more, is not asked for again.
//   - What is done or failed stays so. So nothing has failed while its cluster's record, which may say that it is done, cannot be
//     read.
package request

import (
	"cmp"
	"fmt"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
)

// Seen is what is decided by.
type Seen struct {
	// Cluster is the EtcdCluster's name, and World what is seen of it; nil: there is none.
	Cluster string
	World   *decide.World
	// Command is the name that the request has in the queue, and Heard what the record says of it.
	Command string
	Heard   record.Heard
	// Shown is the status that the object has.
	Shown v1alpha1.RequestStatus
	// Late: it was not asked for in the time for which the word of who made the object counts.
	Late bool
	// Opening is what the generation that was made for the command waits for before all clients are served; empty: nothing.
	Opening string
	// Hindrance is why the cluster, of which commands can be asked, cannot do what this one asks; nil: it can.
	Hindrance *Hindrance
}

// Hindrance is why a command is not asked for.
type Hindrance struct {
	Why string
	// Never: no time changes that. Before: it is done already.
	Never, Before bool
	// Copy: a backup is to be copied into the cluster's store first, and nobody does that yet.
	Copy bool
}

// Outcome is what follows.
type Outcome struct {
	// Ask: the command is put into the queue. Copy: the backup is copied into the cluster's store first.
	Ask, Copy bool
	// Status is what the object is to show. One who may have looked at what is old looks again before it shows an end.
	Status v1alpha1.RequestStatus
}

// notBegun is what is known of a command of which the daemons have said nothing yet.
const notBegun = "the daemons have not begun it"

// Next is what becomes of a request.
func Next(s Seen) Outcome {
	out := Outcome{Status: s.Shown}
	if s.Shown.Ended() {
		return out
	}
	st := &out.Status
	asked := s.Shown.Command != ""
	hindered := s.hindered()
	switch end := s.Heard.Ended; {
	case end != nil:
		st.Command, st.Backup = s.Command, end.Backup
		st.Phase, st.Reason = v1alpha1.Done, ""
		if end.Result != "done" {
			st.Phase, st.Reason = v1alpha1.Failed, cmp.Or(end.Reason, "the command ended: "+end.Result)
		} else if s.Opening != "" {
			st.Phase, st.Reason = v1alpha1.Running, s.Opening
		}
	case s.Heard.Queued:
		st.Command, st.Backup, st.Phase, st.Reason = s.Command, s.Heard.Backup, v1alpha1.Queued, cmp.Or(s.Heard.For, notBegun)
		switch {
		case s.Heard.Running:
			st.Phase, st.Reason = v1alpha1.Running, s.Heard.For
		case hindered != nil:
			st.Reason = hindered.Why
		case !s.World.Reports():
			st.Reason = "it is in the queue, and the daemons have told nothing lately"
		}
	case asked && (s.World == nil || !s.World.Known()), s.unsure(hindered): // who asked may have died, or had no answer
		st.Phase, st.Reason = v1alpha1.Queued, "whether the command is in the queue is not known: "+hindered.Why
	case asked:
		st.Phase, st.Reason = v1alpha1.Failed, "the command is not in the queue any more, and nobody says how it ended: somebody took it out"
	case hindered != nil && hindered.Before:
		st.Phase, st.Reason = v1alpha1.Done, hindered.Why
	case hindered != nil && hindered.Never:
		st.Phase, st.Reason = v1alpha1.Failed, hindered.Why
	case s.Late:
		st.Phase, st.Reason = v1alpha1.Failed, s.late(hindered)
	case hindered != nil:
		st.Phase, st.Reason, out.Copy = v1alpha1.Queued, hindered.Why, hindered.Copy
	default:
		out.Ask = true
		st.Command, st.Phase, st.Reason = s.Command, v1alpha1.Queued, notBegun
	}
	return out
}

// unsure says that nothing is to be done any more, while a record that nobody can read may say that it is in the queue, or done.
func (s Seen) unsure(hindered *Hindrance) bool {
	return s.World != nil && decide.Unsure(s.World) && (s.Late || hindered.Never)
}

// late says what came of a word that does not count any more.
func (s Seen) late(hindered *Hindrance) string {
	why := ""
	if hindered != nil {
		why = ": " + hindered.Why
	}
	return fmt.Sprintf("it could not begin within %s%s. Make it again if it is still wanted", cluster.ConsentLasts, why)
}

// hindered is what keeps the command from being asked for; nil: nothing does.
func (s Seen) hindered() *Hindrance {
	name := "EtcdCluster " + s.Cluster
	if s.World == nil {
		return &Hindrance{Why: fmt.Sprintf("there is no %s in this namespace", name)}
	}
	if !s.World.Want.Deleted.IsZero() {
		return &Hindrance{Why: name + " is being deleted", Never: true}
	}
	if why := s.World.Deaf(); why != "" {
		return &Hindrance{Why: name + ": " + why}
	}
	return s.Hindrance
}

// Backup says why a cluster cannot take a backup.
func Backup(w *decide.World) *Hindrance {
	switch {
	case !w.Want.Store:
		return &Hindrance{Why: "the EtcdCluster names no store for backups: set spec.backup.store"}
	case len(w.Storeless()) > 0:
		return &Hindrance{Why: fmt.Sprintf("%s: no store yet, or another one than spec.backup.store, until the operator has rolled each host; and any host may be the one that takes a backup", strings.Join(w.Storeless(), ", "))}
	case !w.TakesBackups():
		return &Hindrance{Why: "no host runs: the condition Ready of the EtcdCluster says what it waits for"}
	}
	return nil
}

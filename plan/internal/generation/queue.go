package generation

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// Waiting is a command in the store's queue, and what it waits for.
type Waiting struct {
	Command string              `json:"command"` // its name
	Kind    cluster.CommandKind `json:"kind"`
	What    string              `json:"what"`    // what it is about, for people
	Running bool                `json:"running"` // something was begun for it
	For     string              `json:"for"`     // a sentence
}

// ofGenerations are the codes of what keeps a new generation from being made.
var ofGenerations = []string{"promises", "no-founder", "founder-silent", "founder-forgot", "store-silent", "recovering", "no-release", "no-spec"}

// Queue says of each command what it waits for, in the order in which they are
// run. The decision is the one that was made from the observation.
func Queue(o *cluster.Observation, d decision.Decision) []Waiting {
	var out []Waiting
	before := "" // what has to end before the next generation begins
	in := o.Intent()
	if in != nil && in.State == cluster.IntentFounding && in.Source.FromData() {
		before = in.CommandID
	}
	for i := range o.Commands {
		c := &o.Commands[i]
		w := Waiting{Command: c.Name, Kind: c.Kind, What: commandWords(c)}
		switch {
		case c.Unread != "":
			w.What, w.For = "a command that the backup store does not give", c.Unread
		case c.Malformed != "":
			w.For = c.Malformed
		case c.Ended != "":
			w.For = "it is " + c.Ended + ", and is taken out of the queue"
		case c.Kind == cluster.CommandBackup:
			w.What = "a backup of the running cluster"
			w.Running, w.For = backupWaits(o, c)
		case in != nil && slices.Contains(in.CommandsRun, c.Name):
			w.Running, w.For = true, fmt.Sprintf("generation %d, which is %s", in.Generation, in.State)
			if d.Rule == "generation" {
				w.For = d.Reason.String()
			}
		case before != "":
			w.For = fmt.Sprintf("command %s comes first (etcdadm queue cancel %s takes that out of the queue)", before, before)
		default:
			w.Running, w.For = generationWaits(o, d, c)
			w.For += behind(o, o.Commands[i+1:])
			before = c.Name
		}
		out = append(out, w)
	}
	return out
}

// behind says which of the commands later in the queue wait for the one before them.
func behind(o *cluster.Observation, later []cluster.Command) string {
	var names []string
	for _, c := range later {
		if c.Kind != cluster.CommandBackup && c.Unread == "" && c.Malformed == "" && c.Ended == "" && !o.Ran(c.Name) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; behind it waits " + strings.Join(names, ", ")
}

func backupWaits(o *cluster.Observation, c *cluster.Command) (running bool, why string) {
	for i := range o.Hosts {
		if t := o.Hosts[i].Taken; t != nil && t.Running && t.Command == c.Name {
			return true, "host " + string(o.Hosts[i].Host) + " takes it"
		}
	}
	return false, "a member that is up, and its host"
}

func generationWaits(o *cluster.Observation, d decision.Decision, c *cluster.Command) (running bool, why string) {
	for i := range o.Hosts {
		h := &o.Hosts[i]
		s := h.Staged
		if s == nil || s.Command != c.Name || !asAsked(s, c) {
			continue
		}
		switch s.State {
		case cluster.StageFetching, cluster.StageBuilding:
			return true, fmt.Sprintf("host %s makes it ready: %s, %d bytes so far", h.Host, s.State, s.Bytes)
		case cluster.StageReady:
			running, why = true, fmt.Sprintf("it lies ready on host %s", h.Host)
		}
	}
	if o.Unlisted != "" {
		return running, "the queue cannot be listed: " + o.Unlisted
	}
	if i := slices.IndexFunc(d.Blockers, func(b decision.Blocker) bool { return slices.Contains(ofGenerations, b.Code) }); i >= 0 {
		return running, d.Blockers[i].Sentence.String()
	}
	switch {
	case d.Rule == "generation":
		return true, d.Reason.String()
	case why == "":
		why = "its turn: " + d.Reason.String()
	}
	return running, why
}

package cluster

import (
	"slices"
	"time"
)

// AskedUndo is what has to be remembered of an undo in the queue.
type AskedUndo struct {
	Command string `json:"command"`
	// Since is when the leader saw it first, or the last time that something was seen
	// to be done for it. Whoever queued it may have another clock, so the command's own
	// time tells nothing of that (SAFETY.md, rule 17).
	Since time.Time `json:"since"`
}

// UndoSince is since when nothing has been done for an undo that is in the queue; zero:
// nobody has seen it there.
func (m Memory) UndoSince(command string) time.Time {
	for _, u := range m.Undos {
		if u.Command == command {
			return u.Since
		}
	}
	return time.Time{}
}

// foldUndos notes since when undos have been waiting.
func foldUndos(before []AskedUndo, o *Observation) []AskedUndo {
	var out []AskedUndo
	for _, c := range o.Commands {
		if c.Kind != CommandUndo {
			continue
		}
		now := AskedUndo{Command: c.Name, Since: o.At}
		if i := slices.IndexFunc(before, func(u AskedUndo) bool { return u.Command == c.Name }); i >= 0 && !o.worksOn(c.Name) {
			now = before[i]
		}
		out = append(out, now)
	}
	return out
}

// worksOn: a source is being made ready for a command, or a backup is being taken, for
// it or in the way of its own. Each has a bound of its own.
func (o *Observation) worksOn(command string) bool {
	return slices.ContainsFunc(o.Hosts, func(h HostReport) bool {
		s := h.Staged
		return s != nil && s.Command == command && (s.State == StageFetching || s.State == StageBuilding) || h.Taken != nil && h.Taken.Running
	})
}

package cluster

import (
	"slices"
	"time"
)

// AskedSince is since when nothing has been done for a command that is in the queue; zero:
// nobody has seen it there.
func (m Memory) AskedSince(command string) time.Time {
	for _, a := range m.Asked {
		if a.Command == command {
			return a.Since
		}
	}
	return time.Time{}
}

// foldAsked notes since when commands have been waiting.
func foldAsked(before []Asked, o *Observation) []Asked {
	var out []Asked
	for _, c := range o.Commands {
		if c.Kind == CommandBackup {
			continue
		}
		now := Asked{Command: c.Name, Since: o.At}
		if i := slices.IndexFunc(before, func(a Asked) bool { return a.Command == c.Name }); i >= 0 && !o.worksOn(c.Name) {
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

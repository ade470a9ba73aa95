package sight

import (
	"slices"

	"etcdadm.io/cluster"
)

// NextCommand is the first of the queue that asks for a generation and was
// not run yet.
func (v *Sight) NextCommand() *cluster.Command {
	for i := range v.Obs.Commands {
		c := &v.Obs.Commands[i]
		if c.Kind != cluster.CommandBackup && c.Unread == "" && !v.Obs.Ran(c.Name) {
			return c
		}
	}
	return nil
}

// Queued reports whether a person, or another program, put the command into the queue, and it is
// told how it ends.
func (v *Sight) Queued(name string) bool {
	return slices.ContainsFunc(v.Obs.Commands, func(c cluster.Command) bool { return c.Name == name })
}

// QueueUnknown reports whether what the queue asks for is not known, in whole or of one command.
func (v *Sight) QueueUnknown() bool {
	return v.Obs.Unlisted != "" || slices.ContainsFunc(v.Obs.Commands, func(c cluster.Command) bool { return c.Unread != "" })
}

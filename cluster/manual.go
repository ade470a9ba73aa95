package cluster

import "time"

// Manual turns self-management off. The daemons begin nothing because of what they see (a dead
// voter, a full database, an old backup): they name the command for it. The spec, commands and
// what these began go on, and a process that crashed starts again.
type Manual struct {
	Since time.Time `json:"since"` // by the clock of most hosts
	By    string    `json:"by,omitempty"`
}

// Equal reports whether both are the same word; nil is none.
func (m *Manual) Equal(n *Manual) bool {
	return m == nil && n == nil || m != nil && n != nil && m.Since.Equal(n.Since) && m.By == n.By
}

// SelfManaged reports whether the daemons may begin something by themselves: nobody has
// turned that off. What is not known is no permission.
func (o *Observation) SelfManaged() bool { return o.Manual == nil && o.ManualUnknown == "" }

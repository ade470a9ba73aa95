package cluster

import "time"

// Manual is a person's word that the daemons begin nothing by themselves: what they would do
// because of what they see (a dead voter, a full database, the age of the last backup) is
// told, with the command that does it. What a person asked for goes on: the spec, commands,
// what they began, and a process that crashed starts again.
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

package cluster

// Origin is the backup that a new cluster begins with. The cluster is not founded empty before the backup is restored;
// a person gives it up with init --empty.
type Origin struct {
	Backup string `json:"backup,omitempty"` // its name in the store; empty: it is not there yet
	File   string `json:"file,omitempty"`   // that it was taken from; empty: it was in the store
	SHA256 string `json:"sha256,omitempty"` // of the file's content
	// Ended is how the last restore ended that was to make it, and why. Only a look has it.
	Ended string `json:"ended,omitempty"`
}

// Equal reports whether both say the same; nil is none.
func (o *Origin) Equal(p *Origin) bool { return o == p || o != nil && p != nil && *o == *p }

func (o *Origin) String() string {
	switch {
	case o.File == "":
		return "backup " + o.Backup
	case o.Backup == "":
		return "snapshot " + o.File
	}
	return "snapshot " + o.File + " (backup " + o.Backup + ")"
}

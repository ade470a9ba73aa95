package cluster

// LogEnd is what a host holds of its member, told to somebody who considers a recovery.
type LogEnd struct {
	Host HostID `json:"host"`
	// Unknown is why the host cannot tell what it holds; empty: the rest says it.
	Unknown    string      `json:"unknown,omitempty"`
	Generation uint64      `json:"generation,omitempty"`
	Cluster    ClusterID   `json:"cluster,omitempty"`
	Member     MemberID    `json:"member,omitempty"`
	State      MemberState `json:"state,omitempty"`
	Runs       bool        `json:"runs,omitempty"`
	HasData    bool        `json:"hasData,omitempty"`
	// Log is the end of its log; nil: there is none, it cannot be read, or it is
	// still being read, and then Reading says how far that is.
	Log     *Progress   `json:"log,omitempty"`
	Reading *LogReading `json:"reading,omitempty"`
	// Highest is what the host remembers, of whatever member it had.
	Highest Progress `json:"highest,omitzero"`
	Intent  *Intent  `json:"intent,omitempty"`
	// SetAside is what the host gave up, with the end of each log that can be read.
	SetAside []SetAside `json:"setAside,omitempty"`
}

// Report is what the planner compares of it.
func (e LogEnd) Report() HostReport {
	local := LocalMember{Generation: e.Generation, Cluster: e.Cluster, Member: e.Member, State: e.State, HasData: e.HasData}
	return HostReport{HostState: HostState{Host: e.Host, Local: local, Log: e.Log, Reading: e.Reading, Highest: e.Highest, SetAside: e.SetAside}}
}

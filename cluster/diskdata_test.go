package cluster

import (
	"testing"
	"time"
)

// What may go with a disk by itself is only what pruning goes by.
func TestDataOfADisk(t *testing.T) {
	removed := SetAside{Dir: "x", Cluster: 1, Generation: 1, Member: 1, Reason: AsideRemoved, At: time.Unix(1, 0), Log: Progress{Term: 1, Index: 1}, Doubt: DoubtNone}
	unknown := removed
	unknown.Reason = AsideUnknown
	for name, c := range map[string]struct {
		host HostState
		want DiskData
	}{
		"nothing":                           {HostState{}, DataNone},
		"a member":                          {HostState{Local: LocalMember{State: MemberStarted}, SetAside: []SetAside{removed}}, DataMember},
		"one that stopped for good":         {HostState{Local: LocalMember{State: MemberRemoved}}, DataMember},
		"a process of somebody's":           {HostState{Process: Process{State: ProcessForeign}}, DataMember},
		"a member that was removed":         {HostState{SetAside: []SetAside{removed}}, DataRemoved},
		"one that nobody knows, beside it":  {HostState{SetAside: []SetAside{removed, unknown}}, DataOther},
		"data without an account":           {HostState{Foreign: []SetAside{removed}}, DataOther},
		"another program's member":          {HostState{Predecessor: &Predecessor{Waits: "x"}}, DataOther},
		"a source that is being made ready": {HostState{Staged: &Staged{}}, DataOther},
	} {
		if got := c.host.Data(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

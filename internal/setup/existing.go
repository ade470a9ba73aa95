package setup

import (
	"context"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
)

// Existing is an etcd that something else runs on this machine, and that is to go on as the member of this host: with its
// data, IDs, addresses and certificates. Package handover has it. Every step may have been taken before.
type Existing interface {
	// Settings are the flags of the agent that follow from it: host-id, address, data-dir, its URLs.
	Settings() Settings
	// Release is what it runs.
	Release() cluster.Version
	// Members is how many its cluster has.
	Members() int
	// Prepared says that what lies in the data directory was prepared of it by an earlier run.
	Prepared() bool
	// Checks say what is there, and what keeps it from being taken over.
	Checks() []Check
	// Among is an error unless one of its other members is at a host of these endpoints.
	Among(ctx context.Context, endpoints []string) error
	// Authorities copies its authority to where the agent's are, where there are none.
	Authorities(dir string) error
	// Mark begins a record, or goes on with one, of a cluster that something else founded.
	Mark(context.Context, *control.Folder) error
	// Prepare writes what the agent needs beside the data, while it runs.
	Prepare() error
	// Stop ends it, for good, once every other voter was seen to be up. It waits for its end.
	Stop(context.Context) error
	// Move brings its data to where the agent takes them over. Nothing may run on them.
	Move() error
	// Words are the steps Prepare, Stop and Move, as a person reads them before.
	Words() (prepare, stop, move string)
	// Back is how a person goes back, in words for a shell.
	Back() []string
}

// TakenOver is what became of an etcd that something else ran here.
type TakenOver struct {
	Members int `json:"members"` // of its cluster
	// Back is how to go back while not all members are taken over.
	Back []string `json:"back"`
}

func takenOver(e Existing) *TakenOver {
	if e == nil {
		return nil
	}
	return &TakenOver{Members: e.Members(), Back: e.Back()}
}

// settleExisting fills in what follows from it, and refuses another name of this host than its member has.
func settleExisting(e Existing, address, id string) (Settings, error) {
	s := Settings{}
	for name, value := range e.Settings() {
		s[name] = value
	}
	if id != "" && id != string(s.HostID()) {
		return nil, &Error{Problem: fmt.Sprintf("the member here is called %s, and --host-id is %s", s.HostID(), id), Err: ErrSetUp, Advice: "leave --host-id out: a member keeps its name"}
	}
	if address != "" {
		s.setFlag("address", address)
	}
	return s, nil
}

// handoverSteps come right before the settings are written: who has these has the data.
func (m *Machine) handoverSteps(e Existing) []step {
	if e == nil {
		return nil
	}
	prepare, stop, move := e.Words()
	return []step{
		{prepare, func(context.Context) error { return e.Prepare() }},
		{stop, e.Stop},
		{move, func(context.Context) error { return e.Move() }},
	}
}

// counted notes that the member count is what the cluster has, and is changed by a person only.
func (p Paths) counted() error {
	return durable.Replace(p.begun(), []byte("etcdadm init --adopt has taken over a cluster here; its member count is changed by etcdadm seed\n"), modePublic)
}

// unitOnly refuses what is only done under systemd on a machine where an earlier run has begun a static pod.
func (m *Machine) unitOnly(e Existing, priorities map[string]string) error {
	switch {
	case m.pod == nil:
	case e != nil:
		return &Error{Problem: "an etcd that runs here is taken over under systemd, and a static pod is set up here: " + m.file(), Err: ErrSetUp, Advice: "etcdadm reset, then run the command again without --static-pod"}
	case len(priorities) > 0:
		return &Error{Problem: "priorities are those of a systemd unit, and a static pod is set up here: " + m.file(), Err: ErrSetUp, Advice: "leave them out"}
	}
	return nil
}

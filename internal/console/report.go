package console

import (
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

// Kinds of questions.
const (
	AskStatus = "status"
	// AskForget asks the daemon that answers to forget Host.
	AskForget = "forget"
	// AskFence asks what a reset of this host's promise would do; with Do it is done.
	AskFence = "reset-fence"
	// AskConfirm asks whether a person may confirm this host's disk; with Do it is done.
	AskConfirm = "confirm-disk"
	// AskPrune asks what this host has set aside, or what of it Dir is; with Do
	// that is removed.
	AskPrune = "prune"
	// AskLog asks how far the log of the host's member goes, as read from the disk.
	AskLog = "log"
	// AskServed asks at which revision the host's member serves, read through raft for
	// the answer.
	AskServed = "served"
	// AskReleases asks which releases of etcd this host's daemon finds.
	AskReleases = "releases"
	// AskLastWord tells why the daemon of Host did not start, or ended: it is its last word.
	AskLastWord = "last-word"
)

// Question is what a person's tool asks a daemon. Whatever changes something
// is for the operator's certificate only.
type Question struct {
	Kind string         `json:"kind"`
	Host cluster.HostID `json:"host,omitempty"`
	Do   bool           `json:"do,omitempty"`
	Dir  string         `json:"dir,omitempty"` // by its name
	// Refusal is what is told with AskLastWord.
	Refusal *Refusal `json:"refusal,omitempty"`
}

// Pruned is what a host has set aside, or has had removed of it.
type Pruned struct {
	Host   cluster.HostID     `json:"host"`
	Aside  []cluster.SetAside `json:"setAside"`
	Refuse string             `json:"refused,omitempty"` // why nothing was removed
	Done   bool               `json:"done,omitempty"`    // Aside was removed
}

// Served is what the member of a host has just answered a read through raft with.
type Served struct {
	Host     cluster.HostID    `json:"host"`
	Cluster  cluster.ClusterID `json:"cluster,omitempty"`
	Revision int64             `json:"revision,omitempty"` // zero: none
}

// Releases are the releases of etcd that a host's daemon finds.
type Releases struct {
	Host  cluster.HostID `json:"host"`
	Found []Release      `json:"found,omitempty"` // the oldest first
	// Passed are places that hold something that will not do, and why.
	Passed []string `json:"passed,omitempty"`
	// Unknown is why the host cannot tell; empty: the rest says it.
	Unknown string `json:"unknown,omitempty"`
	// Looking: the host's look goes on, and can be asked for again.
	Looking bool `json:"looking,omitempty"`
}

// Release is one of etcd on a host.
type Release struct {
	Version string `json:"version"`         // what the program says
	Asked   string `json:"asked,omitempty"` // by whose name it is found
	Dir     string `json:"dir,omitempty"`   // empty for the built-in one
	Builtin bool   `json:"builtin,omitempty"`
}

// Forgot is what became of a host that a daemon was asked to forget.
type Forgot struct {
	By     cluster.HostID `json:"by"`
	Host   cluster.HostID `json:"host"`
	Knew   bool           `json:"knew"`              // By had heard of the host
	Refuse string         `json:"refused,omitempty"` // why it is not forgotten; empty: it is
}

// DiskConfirmation is what a person's confirmation of a host's disk does, or has done.
type DiskConfirmation struct {
	Host cluster.HostID `json:"host"`
	// Unheard are the hosts of other voters that have not said yet what they remember of the disk.
	Unheard []cluster.HostID `json:"unheard,omitempty"`
	Refuse  string           `json:"refused,omitempty"` // why it is not confirmed
	Done    bool             `json:"done,omitempty"`
}

// FenceReset is what a reset of a host's promise does, or has done.
type FenceReset struct {
	Host cluster.HostID `json:"host"`
	Was  cluster.Fence  `json:"was"`
	// To is the highest that anybody else has promised, as far as is known.
	To    cluster.Fence    `json:"to"`
	Heard []cluster.HostID `json:"heard,omitempty"` // on whose word To rests
	// Unheard are hosts of the cluster that are out of sight: one of them may
	// have promised more.
	Unheard []cluster.HostID `json:"unheard,omitempty"`
	Refuse  string           `json:"refused,omitempty"` // why nothing is reset
	Done    bool             `json:"done,omitempty"`
}

// Report is a daemon's answer: what it knows, which is everything when it
// leads, and otherwise whom to ask.
type Report struct {
	Cluster string         `json:"cluster"`
	Host    cluster.HostID `json:"host"`
	Build   string         `json:"build"`
	Leader  cluster.HostID `json:"leader,omitempty"`
	// At is when the daemon answered, by its clock: what is told of ages goes by it.
	At time.Time `json:"at,omitzero"`
	// LeaderEndpoint is where the leading daemon is reached.
	LeaderEndpoint string `json:"leaderEndpoint,omitempty"`
	Leading        bool   `json:"leading,omitempty"`
	// Unfit says why the daemon that answers must not lead.
	Unfit    string            `json:"unfit,omitempty"`
	Contacts []cluster.Contact `json:"contacts,omitempty"`
	// Observation and Decision are the leader's newest.
	Observation *cluster.Observation `json:"observation,omitempty"`
	Decision    *plan.Decision       `json:"decision,omitempty"`
	// Backups, Queue and Steps say in short what the observation has in full: the
	// newest backup, what each queued command waits for, and how far a new
	// generation is.
	Backups *Backups       `json:"backups,omitempty"`
	Queue   []plan.Waiting `json:"queue,omitempty"`
	Steps   []plan.Step    `json:"steps,omitempty"`
	// Aside is what becomes of everything that is set aside.
	Aside []plan.Aside `json:"aside,omitempty"`
	// Recent are the last decisions that were said, oldest first.
	Recent []Said `json:"recent,omitempty"`
	// Keepers are the hosts that keep the record of a cluster without a shared store, as the daemon that answers has
	// heard last. Empty: there is a store, or it is not known.
	Keepers      []cluster.HostID `json:"keepers,omitempty"`
	Certificates []Certificate    `json:"certificates,omitempty"`
}

// Now is the time that ages are told by: that of the answer, or of the leader's look
// where an older daemon answers.
func (r Report) Now() time.Time {
	if r.At.IsZero() && r.Observation != nil {
		return r.Observation.At
	}
	return r.At
}

// Said is a decision as it was said.
type Said struct {
	Number   int           `json:"number"`
	At       time.Time     `json:"at"`
	Decision plan.Decision `json:"decision"`
}

// Certificate is when a certificate ends.
type Certificate struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"notAfter"`
}

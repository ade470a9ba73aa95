package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/pki"
)

// ClientURL is where clients reach etcd in clusters that are made here: on etcd's usual port.
const ClientURL = "https://__address__:2379"

// Init is what a new cluster is to be. Everything has a value that is good for most.
type Init struct {
	Cluster     string                 // its name
	Store       string                 // URL; empty: the hosts keep the record and the backups themselves
	CreateStore bool                   // make the directory of a file:// store
	Address     string                 // of this host, as the others reach it
	HostID      string                 // of this host
	Members     int                    // how many are wanted once as many hosts have joined
	Version     cluster.Version        // of etcd
	FromBackup  string                 // a snapshot in a file, or a backup in the store by its name; empty: the cluster begins empty
	WithoutHash bool                   // FromBackup may be a copied database, whose pages are checked in place of its hash
	Empty       bool                   // the cluster begins empty after all, where it was to begin from a backup and none could be restored
	Manual      bool                   // self-management is off from the beginning
	Life        time.Duration          // of the token that is made at the end
	Wait        time.Duration          // for etcd to serve
	More        Settings               // flags of the agent beyond these, by variable
	Authority   func(dir string) error // copies a person's own authority into that directory; nil: they are made
	Priorities  map[string]string      // directives of the unit for CPU and disk, as "Nice"
	DataDir     string                 // of the agent; empty: the usual one
	Existing    Existing               // an etcd that runs here and becomes the member of this host; nil: none
	SetAside    bool                   // have the check say what would be set aside: data of other clusters, and of nobody knows whom
	Aside       []Aside                // what a person agreed to set aside: the check's
}

// Initialised is what came of it.
type Initialised struct {
	Cluster  string          `json:"cluster"`
	Host     cluster.HostID  `json:"host"`
	Address  string          `json:"address"`
	Etcd     string          `json:"etcd"` // URLs of clients
	Members  int             `json:"members"`
	Version  cluster.Version `json:"version"`
	Endpoint string          `json:"endpoint"` // of the agent
	CAHash   string          `json:"caHash"`
	// Token is the join token, whose only copy this is.
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
	Etcdctl string    `json:"etcdctl"` // the file that a shell reads
	// Again: the cluster had been begun here before.
	Again bool `json:"again,omitempty"`
	// SelfManagementOff: it is off as was asked for, by this run or an earlier one.
	SelfManagementOff bool `json:"selfManagementOff,omitempty"`
	// TakenOver is the etcd that ran here before; nil: none did, or an earlier run took it over.
	TakenOver *TakenOver `json:"takenOver,omitempty"`

	begun bool // what it begins with was queued just now
}

// Settle fills in what a person left out, from what an earlier run has kept and from the machine.
func (m *Machine) Settle(ctx context.Context, o Init) (Init, Settings, error) {
	if err := m.Paths.notHalfReset(); err != nil {
		return o, nil, err
	}
	had, err := ReadSettings(m.Paths)
	again := err == nil
	if err != nil && !errors.Is(err, ErrNotSetUp) {
		return o, nil, err
	}
	if again {
		if err := sameCluster(had, o.Cluster, o.Store); err != nil {
			return o, nil, err
		}
		if err := m.sameHost(had, o.Address, o.HostID, o.DataDir); err != nil {
			return o, nil, err
		}
		o.Cluster, o.Store = had.Cluster(), had.Store()
		o.Address, o.HostID = had.Flag("address"), string(had.HostID())
		if o.Existing != nil {
			o.Version = o.Existing.Release()
		}
		return o, had, nil
	}
	if err := m.unitOnly(o.Existing, o.Priorities); err != nil {
		return o, nil, err
	}
	existing := Settings{}
	if o.Existing != nil {
		if existing, err = settleExisting(o.Existing, o.Address, o.HostID); err != nil {
			return o, nil, err
		}
		o.Address, o.HostID, o.Version = existing.Flag("address"), string(existing.HostID()), o.Existing.Release()
		o.DataDir = existing.Flag("data-dir")
	}
	o.DataDir = cmp.Or(o.DataDir, m.Paths.Data())
	if o.Store == "" { // the hosts keep what a store would have
		o.Store = kept.URL(o.DataDir)
	}
	o.Cluster = cmp.Or(o.Cluster, DefaultCluster)
	if o.Address == "" {
		if o.Address, err = DefaultAddress(ctx, ""); err != nil {
			return o, nil, err
		}
	}
	if o.HostID == "" {
		if o.HostID, err = HostName(); err != nil {
			return o, nil, err
		}
	}
	if err := (pki.Identity{Cluster: o.Cluster, Role: pki.RoleHost, ID: o.HostID}).Validate(); err != nil {
		return o, nil, &Error{Problem: "the names of cluster and host", Err: err, Advice: "give others: --cluster-name, --host-id"}
	}
	s := m.hostSettings(o.Address, o.HostID, o.DataDir)
	s.setFlag("cluster-name", o.Cluster)
	s.setFlag("backup-store", o.Store)
	s.setFlag("client-urls", ClientURL)
	for _, more := range []Settings{existing, o.More} {
		for name, value := range more {
			s[name] = value
		}
	}
	m.forPod(s)
	for _, pair := range m.Environ {
		if name, value, _ := strings.Cut(pair, "="); value != "" && open.Credentialed(o.Store) && open.Variable(name) {
			s[name] = value
		}
	}
	return o, s, nil
}

// hostSettings are those that each host has of its own.
func (m *Machine) hostSettings(address, id, dataDir string) Settings {
	s := Settings{}
	s.setFlag("address", address)
	s.setFlag("host-id", id)
	s.setFlag("data-dir", cmp.Or(dataDir, m.Paths.Data()))
	s.setFlag("pki-dir", m.Paths.PKI())
	if ip := net.ParseIP(address); ip != nil && ip.IsLoopback() { // several hosts of one machine
		s.setFlag("etcd-address", address)
	}
	return s
}

// sameCluster refuses a machine that is a host of another cluster than is named.
func sameCluster(had Settings, name, store string) error {
	const way = "use another machine, or take this one out of its cluster: etcdadm reset"
	switch {
	case name != "" && name != had.Cluster():
		return &Error{Problem: fmt.Sprintf("this machine is a host of cluster %s, and cluster %s was named", had.Cluster(), name), Err: ErrOther, Advice: way}
	case store != "" && store != had.Store():
		return &Error{Problem: fmt.Sprintf("this machine is a host of cluster %s with another store than was named", had.Cluster()), Err: ErrOther, Advice: way}
	}
	return nil
}

// sameHost refuses to set a machine up under another address or ID than it has.
func (m *Machine) sameHost(had Settings, address, id, dataDir string) error {
	for _, one := range [][3]string{{"address", address, had.Flag("address")}, {"host-id", id, string(had.HostID())}, {"data-dir", dataDir, had.Flag("data-dir")}} {
		if name, asked, has := one[0], one[1], one[2]; asked != "" && asked != has {
			return &Error{Problem: fmt.Sprintf("this machine is set up with --%s=%s, and %s was given", name, has, asked), Err: ErrSetUp,
				Advice: fmt.Sprintf("leave --%s out; an address that has changed is changed in %s, and %s takes it", name, m.Paths.Settings(), m.speak().Reload)}
		}
	}
	return nil
}

// CheckInit looks at everything first, and changes nothing.
func (m *Machine) CheckInit(ctx context.Context, o Init) (Report, error) {
	o, s, err := m.Settle(ctx, o)
	if err != nil {
		return Report{}, err
	}
	running, _ := m.Service.Active(ctx) // where systemd does not answer, another check says so
	mine := ""
	if all, err := pki.Load(m.Paths.PKI(), time.Now()); err == nil {
		mine = all.Manager.Hash()
	}
	_, notSetUp := ReadSettings(m.Paths) // what a host of a cluster has is never in the way of that cluster
	var r Report
	r.Checks = m.lookAround(ctx, s, lookFor{existing: o.Existing, mine: mine, setAside: o.SetAside && notSetUp != nil, running: running}, &r)
	r.Checks = append(r.Checks, m.Paths.checkAuthorities(), m.checkStore(ctx, o, s))
	if o.FromBackup != "" && notSetUp != nil { // a cluster that runs has begun
		r.Checks = append(r.Checks, m.checkSource(ctx, o, s))
	}
	r.Steps = whats(append(asideSteps(r.Aside), m.initSteps(o, s, new(Initialised))...))
	return r, nil
}

// lookFor is what a look at this machine goes by.
type lookFor struct {
	existing          Existing
	mine, joins       string // hashes: of the authority that is here, and of the cluster that is joined
	setAside, running bool
	others            bool // authorities of another cluster than is joined are here
}

// lookAround makes the checks of this machine alone, and fills in what is to be set aside.
func (m *Machine) lookAround(ctx context.Context, s Settings, l lookFor, r *Report) []Check {
	found := m.findData(ctx, s, cmp.Or(l.joins, l.mine))
	if l.existing != nil && l.existing.Prepared() {
		found = foundData{dataSame, s.Flag("data-dir") + " has what was prepared of the etcd that runs here"}
	}
	if l.setAside && !l.running && (l.existing == nil || !HoldsMember(s.Flag("data-dir"))) { // what is to be taken over stays
		r.Aside = m.Paths.inTheWay(s, found, l.others)
	}
	checks := m.machineChecks(ctx, s, m.checkData(s, found, r.Aside), l.running, l.existing != nil || m.hasMember(s))
	if l.existing != nil {
		checks = append(checks, l.existing.Checks()...)
	}
	return checks
}

// checkAuthorities: there are none, all, or those that an interrupted init has made.
func (p Paths) checkAuthorities() Check {
	const name = "authorities"
	dir := p.PKI()
	var missing, there []string
	gap := false
	for _, file := range AuthorityFiles() {
		if _, err := os.Lstat(filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, file)
			continue
		}
		there = append(there, file)
		gap = gap || len(missing) > 0
	}
	switch {
	case len(there) == 0:
		return good(name, "none in %s, which will be made", dir)
	case gap:
		return refuse(name, "copy what is missing from where the others are from, or move "+dir+" away", "%s has %s and not %s: they were not left by an init that was interrupted", dir, strings.Join(there, ", "), strings.Join(missing, ", "))
	case len(missing) > 0:
		return good(name, "%s has some of an init that was interrupted", dir)
	}
	all, err := pki.Load(dir, time.Now())
	if err != nil {
		remedy := ""
		if told, ok := errors.AsType[*pki.Error](err); ok {
			remedy = told.Advice
		}
		return refuse(name, remedy, "%v", err)
	}
	return good(name, "%s has them, with the hash %s", dir, all.Manager.Hash())
}

// Init makes this machine the first host of a new cluster. Run again it goes on where it was interrupted.
//
// Errors: *RefusedError, and nothing was changed; *Error, with ErrOther, ErrWaiting (the agent goes on without us) or what it is.
func (m *Machine) Init(ctx context.Context, o Init) (Initialised, error) {
	o, s, err := m.Settle(ctx, o)
	if err != nil {
		return Initialised{}, err
	}
	done := Initialised{
		Cluster: o.Cluster, Host: cluster.HostID(o.HostID), Address: o.Address, Members: o.Members, Version: o.Version,
		Endpoint: s.Endpoint(), Etcdctl: m.Paths.Etcdctl(),
		Etcd: clientURLs(s), TakenOver: takenOver(o.Existing),
	}
	return done, run(ctx, append(asideSteps(o.Aside), m.initSteps(o, s, &done)...))
}

// initSteps are the work, in its order: what the settings name comes before them, and who has the settings is set up.
func (m *Machine) initSteps(o Init, s Settings, done *Initialised) []step {
	begin := "begin the cluster's record: one member of etcd " + o.Version.String()
	if o.FromBackup != "" {
		begin += ", restored from " + o.FromBackup
	}
	authorities := step{"make the three authorities in " + m.Paths.PKI(), func(context.Context) error { return m.makeAuthorities(o.Authority, done) }}
	if o.Existing != nil {
		authorities = step{"copy the authority of the etcd that runs here to " + m.Paths.PKI(), func(context.Context) error { return m.makeAuthorities(o.Existing.Authorities, done) }}
		begin = fmt.Sprintf("begin the cluster's record, of a cluster that something else founded: %d members of etcd %s", o.Existing.Members(), o.Version)
	}
	steps := []step{authorities, {begin, func(ctx context.Context) error {
		if err := m.seed(ctx, o, s, done); err != nil || o.Existing == nil {
			return err
		}
		done.Members, done.Version = o.Existing.Members(), o.Version
		return m.Paths.counted()
	}}}
	steps = append(steps, m.agentSteps(s, append(m.prioritySteps(o.Priorities), m.handoverSteps(o.Existing)...))...)
	if o.FromBackup != "" || o.Empty {
		steps = append(steps, step{"see whether the cluster is to begin otherwise than an earlier run asked", func(ctx context.Context) error { return m.beginOtherwise(ctx, o, s, done) }})
	}
	steps = append(steps, step{"wait until etcd serves", func(ctx context.Context) error { return m.awaitServing(ctx, s, o.Wait) }})
	if o.FromBackup != "" {
		steps = append(steps, step{"see that it serves the data of " + o.FromBackup, func(ctx context.Context) error { return m.servesBackup(ctx, o, s) }})
	}
	if o.Existing != nil {
		return append(steps, step{"make a join token", func(ctx context.Context) error { return m.firstToken(ctx, o, s, done) }})
	}
	return append(steps,
		step{fmt.Sprintf("ask for %d members, which hosts that join will carry", o.Members), func(ctx context.Context) error { return m.grow(ctx, o, s, done) }},
		step{"make a join token", func(ctx context.Context) error { return m.firstToken(ctx, o, s, done) }},
	)
}

// makeAuthorities makes what is missing, after copies of somebody's authority were made; copies may be nil.
func (m *Machine) makeAuthorities(copies func(dir string) error, done *Initialised) error {
	if c := m.Paths.checkAuthorities(); c.Standing == Refused {
		return &Error{Problem: c.Found, Advice: c.Remedy}
	}
	if err := m.noteAuthorities(); err != nil {
		return err
	}
	if copies != nil {
		if err := copies(m.Paths.PKI()); err != nil {
			return err
		}
	}
	all, err := pki.Create(m.Paths.PKI(), time.Now())
	if err != nil {
		return err
	}
	done.CAHash = all.Manager.Hash()
	return nil
}

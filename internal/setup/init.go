package setup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/token"
	"etcdadm.io/internal/unit"
)

// ClientURL is where clients reach etcd in clusters that are made here: on etcd's usual port.
const ClientURL = "https://__address__:2379"

// Init is what a new cluster is to be. Everything has a value that is good for most.
type Init struct {
	Cluster     string          // its name
	Store       string          // URL; empty: the hosts keep the record and the backups themselves
	CreateStore bool            // make the directory of a file:// store
	Address     string          // of this host, as the others reach it
	HostID      string          // of this host
	Members     int             // how many are wanted once as many hosts have joined
	Version     cluster.Version // of etcd
	Life        time.Duration   // of the token that is made at the end
	Wait        time.Duration   // for etcd to serve
	More        Settings        // flags of the agent beyond these, by variable
}

// DefaultCluster is the name where nothing is said.
const DefaultCluster = "etcd"

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
}

// storeTimeout bounds each look at the store: what is wrong with one is seen within that.
const storeTimeout = 10 * time.Second

// Settle fills in what a person left out, from what an earlier run has kept and from the machine.
func (m *Machine) Settle(ctx context.Context, o Init) (Init, Settings, error) {
	had, err := ReadSettings(m.Paths)
	again := err == nil
	if err != nil && !errors.Is(err, ErrNotSetUp) {
		return o, nil, err
	}
	if again {
		if err := sameCluster(m.Paths, had, o.Cluster, o.Store); err != nil {
			return o, nil, err
		}
		if err := sameHost(m.Paths, had, o.Address, o.HostID); err != nil {
			return o, nil, err
		}
		o.Cluster, o.Store = had.Cluster(), had.Store()
		o.Address, o.HostID = had.Flag("address"), string(had.HostID())
		return o, had, nil
	}
	if o.Store == "" { // the hosts keep what a store would have
		o.Store = kept.URL(m.Paths.Data())
	}
	o.Cluster = orElse(o.Cluster, DefaultCluster)
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
	s := m.hostSettings(o.Address, o.HostID)
	s.setFlag("cluster-name", o.Cluster)
	s.setFlag("backup-store", o.Store)
	s.setFlag("client-urls", ClientURL)
	for name, value := range o.More {
		s[name] = value
	}
	for _, pair := range m.Environ {
		if name, value, _ := strings.Cut(pair, "="); value != "" && open.Credentialed(o.Store) && open.Variable(name) {
			s[name] = value
		}
	}
	return o, s, nil
}

// hostSettings are those that each host has of its own.
func (m *Machine) hostSettings(address, id string) Settings {
	s := Settings{}
	s.setFlag("address", address)
	s.setFlag("host-id", id)
	s.setFlag("data-dir", m.Paths.Data())
	s.setFlag("pki-dir", m.Paths.PKI())
	if ip := net.ParseIP(address); ip != nil && ip.IsLoopback() { // several hosts of one machine
		s.setFlag("etcd-address", address)
	}
	return s
}

// sameCluster refuses a machine that is a host of another cluster than is named.
func sameCluster(p Paths, had Settings, name, store string) error {
	const advice = "use another machine, or take this one out: systemctl disable --now etcdadm, then move %s, %s and %s away"
	way := fmt.Sprintf(advice, p.Settings(), p.PKI(), p.Data())
	switch {
	case name != "" && name != had.Cluster():
		return &Error{Problem: fmt.Sprintf("this machine is a host of cluster %s, and cluster %s was named", had.Cluster(), name), Err: ErrOther, Advice: way}
	case store != "" && store != had.Store():
		return &Error{Problem: fmt.Sprintf("this machine is a host of cluster %s with another store than was named", had.Cluster()), Err: ErrOther, Advice: way}
	}
	return nil
}

// sameHost refuses to set a machine up under another address or ID than it has.
func sameHost(p Paths, had Settings, address, id string) error {
	for _, one := range [][3]string{{"address", address, had.Flag("address")}, {"host-id", id, string(had.HostID())}} {
		if name, asked, has := one[0], one[1], one[2]; asked != "" && asked != has {
			return &Error{Problem: fmt.Sprintf("this machine is set up with --%s=%s, and %s was given", name, has, asked), Err: ErrSetUp,
				Advice: fmt.Sprintf("leave --%s out; an address that has changed is changed in %s, and systemctl reload etcdadm takes it", name, p.Settings())}
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
	r := Report{Checks: m.machineChecks(ctx, s, running)}
	r.Checks = append(r.Checks, m.checkAuthorities(), m.checkStore(ctx, o, s))
	r.Steps = whats(m.initSteps(o, s, new(Initialised)))
	return r, nil
}

// authorityFiles are in the order in which pki.Create makes them.
func authorityFiles() (names []string) {
	for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
		names = append(names, name+".key", name+".crt")
	}
	return names
}

// checkAuthorities: there are none, all, or those that an interrupted init has made.
func (m *Machine) checkAuthorities() Check {
	const name = "authorities"
	dir := m.Paths.PKI()
	var missing, there []string
	gap := false
	for _, file := range authorityFiles() {
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

// checkStore: it answers, and nobody else has begun a cluster in it.
func (m *Machine) checkStore(ctx context.Context, o Init, s Settings) Check {
	const name = "store"
	if _, ok := kept.DataDir(o.Store); ok {
		return good(name, "none: the hosts of the cluster keep its record and its backups")
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.Environment(); err != nil {
		return refuse(name, "", "%v", err)
	}
	store, err := open.Open(ctx, o.Store, open.Options{ReadOnly: true})
	if err != nil && o.CreateStore && errors.Is(err, file.ErrNoDirectory) {
		return good(name, "its directory will be made")
	}
	if err != nil {
		return refuse(name, storeRemedy(err), "%v", err)
	}
	folder := control.New(store, o.Cluster)
	mine := ""
	if all, err := pki.Load(m.Paths.PKI(), time.Now()); err == nil {
		mine = all.Manager.Hash()
	}
	founder, err := folder.Tokens().Founder(ctx)
	if err != nil {
		return refuse(name, storeRemedy(err), "%v", err)
	}
	in, _, _, err := folder.ReadIntent(ctx)
	switch {
	case errors.Is(err, control.ErrOtherCluster):
		return refuse(name, "give this cluster a store of its own, such as another folder", "%v", err)
	case err != nil:
		return refuse(name, storeRemedy(err), "%v", err)
	case founder != "" && founder == mine:
		return good(name, "answers, and this machine has begun a cluster in it")
	case founder != "":
		return refuse(name, joinInstead, "another machine has begun cluster %s in it", o.Cluster)
	case in != nil:
		return refuse(name, "make this machine one of its hosts by hand (docs/operations/install-and-run.md), or give the new cluster a folder of its own", "it belongs to cluster %s, which exists", o.Cluster)
	}
	read, err := folder.ReadSpec(ctx)
	if err != nil || read.Spec != nil {
		return refuse(name, "give the new cluster an empty folder", "it holds a spec already")
	}
	return good(name, "answers, and is empty")
}

const joinInstead = "to make this machine one of its hosts, run on a host of it: etcdadm token create; if that machine never came to run: move control/etcdadm-tokens.json and the spec away in the store"

func storeRemedy(err error) string {
	if errors.Is(err, file.ErrNoDirectory) {
		return "mount the shared directory, or have it made: --create-store"
	}
	if told, ok := errors.AsType[*blob.Error](err); ok && told.Advice != "" {
		return told.Advice
	}
	return "look at the store, its URL and its credentials"
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
		Etcd: clientURLs(s),
	}
	return done, run(ctx, m.initSteps(o, s, &done))
}

func clientURLs(s Settings) string {
	address := s.Flag("address")
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		address = "[" + address + "]"
	}
	return strings.ReplaceAll(orElse(s.Flag("client-urls"), listeners[1].usual), "__address__", address)
}

// initSteps are the work, in its order: what the settings name comes before them, and who has the settings is set up.
func (m *Machine) initSteps(o Init, s Settings, done *Initialised) []step {
	steps := []step{
		{"make the three authorities in " + m.Paths.PKI(), func(context.Context) error { return m.makeAuthorities(done) }},
		{"begin the cluster's record: one member of etcd " + o.Version.String(), func(ctx context.Context) error { return m.seed(ctx, o, s, done) }},
	}
	steps = append(steps, m.agentSteps(s)...)
	return append(steps,
		step{"wait until etcd serves", func(ctx context.Context) error { return m.awaitServing(ctx, s, o.Wait) }},
		step{fmt.Sprintf("ask for %d members, which hosts that join will carry", o.Members), func(ctx context.Context) error { return m.grow(ctx, o, s, done) }},
		step{"make a join token", func(ctx context.Context) error { return m.firstToken(ctx, o, s, done) }},
	)
}

// agentSteps install and start the agent.
func (m *Machine) agentSteps(s Settings) []step {
	return []step{
		{"write for etcdctl: " + m.Paths.Etcdctl(), func(context.Context) error { return m.writeEtcdctl(s) }},
		{"make the data directory " + s.Flag("data-dir"), func(context.Context) error {
			return durable.MakeDir(s.Flag("data-dir"), modeData)
		}},
		{"write the unit " + m.Paths.Unit(), func(context.Context) error { return m.writeUnit(s) }},
		{"write the agent's settings to " + m.Paths.Settings(), func(context.Context) error { return m.writeSettings(s) }},
		{"start the agent", func(ctx context.Context) error { return m.Service.Start(ctx) }},
	}
}

func (m *Machine) makeAuthorities(done *Initialised) error {
	if c := m.checkAuthorities(); c.Standing == Refused {
		return &Error{Problem: c.Found, Advice: c.Remedy}
	}
	all, err := pki.Create(m.Paths.PKI(), time.Now())
	if err != nil {
		return err
	}
	done.CAHash = all.Manager.Hash()
	return nil
}

// openStore opens the store to write to it.
func openStore(ctx context.Context, s Settings, create bool) (*control.Folder, error) {
	if err := s.Environment(); err != nil {
		return nil, err
	}
	if dir, ok := kept.DataDir(s.Store()); ok {
		store, err := console.OpenKept(dir)
		if err != nil {
			return nil, &Error{Problem: "ask this machine's agent for the cluster's record", Err: err, Advice: "systemctl status etcdadm"}
		}
		return control.New(store, s.Cluster()).Known(), nil
	}
	store, err := open.Open(ctx, s.Store(), open.Options{Create: create})
	if err != nil {
		return nil, &Error{Problem: "open the store", Err: err, Advice: storeRemedy(err)}
	}
	folder := control.New(store, s.Cluster())
	if _, err := folder.Probe(ctx); err != nil {
		return nil, &Error{Problem: "try the store out", Err: err, Advice: storeRemedy(err)}
	}
	return folder, nil
}

// OpenFolder opens the control folder of the cluster that this machine is a host of.
func OpenFolder(ctx context.Context, s Settings) (*control.Folder, error) {
	return openStore(ctx, s, false)
}

// seed marks the store as this founder's, and asks for the first member. Where the cluster runs nothing is left to do.
func (m *Machine) seed(ctx context.Context, o Init, s Settings, done *Initialised) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if dir, ok := kept.DataDir(s.Store()); ok {
		return m.foundRecord(ctx, dir, o, s, done)
	}
	folder, err := openStore(ctx, s, o.CreateStore)
	if err != nil {
		return err
	}
	in, _, _, err := folder.ReadIntent(ctx)
	if err != nil {
		return err
	}
	if _, err := ReadSettings(m.Paths); err == nil && in != nil { // a host of it, by init or by join
		done.Again = true
		return nil
	}
	switch err := folder.Tokens().Found(ctx, done.CAHash, time.Now()); {
	case errors.Is(err, control.ErrTaken):
		return &Error{Problem: "begin cluster " + o.Cluster, Err: err, Advice: joinInstead}
	case err != nil:
		return err
	}
	read, err := folder.ReadSpec(ctx)
	if err != nil || read.Spec != nil { // an earlier run wrote it
		return err
	}
	_, _, err = folder.AmendSpec(ctx, control.Amend{MemberCount: 1, EtcdVersion: o.Version, Shown: &read})
	return err
}

// foundRecord makes the record of a cluster without a store, on this machine's disk and before its agent runs: whoever has the
// record has all of it. Where it is there, an earlier run made it, or this machine has joined.
func (m *Machine) foundRecord(ctx context.Context, dataDir string, o Init, s Settings, done *Initialised) error {
	err := kept.Found(ctx, dataDir, cluster.HostID(o.HostID), rand.Text, func(ctx context.Context, store blob.Store) error {
		folder := control.New(store, s.Cluster()).Known()
		if err := folder.Tokens().Found(ctx, done.CAHash, time.Now()); err != nil {
			return err
		}
		_, _, err := folder.AmendSpec(ctx, control.Amend{MemberCount: 1, EtcdVersion: o.Version})
		return err
	})
	if !errors.Is(err, keeper.ErrOther) {
		return err
	}
	if _, err := ReadSettings(m.Paths); err == nil {
		done.Again = true
		return nil
	}
	founder, err := kept.Founder(ctx, dataDir, func(ctx context.Context, store blob.Store) (string, error) {
		return control.New(store, s.Cluster()).Known().Tokens().Founder(ctx)
	})
	if err != nil {
		return err
	}
	if founder != done.CAHash {
		return &Error{Problem: fmt.Sprintf("%s holds the record of a cluster with other authorities", dataDir), Err: ErrOther, Advice: "if nobody needs it: mv " + dataDir + " " + dataDir + ".aside"}
	}
	return nil
}

func (m *Machine) writeSettings(s Settings) error {
	data, err := s.text()
	if err != nil {
		return err
	}
	if _, err := ReadSettings(m.Paths); err == nil { // a person may have changed them since
		return nil
	}
	return put(m.Paths.Settings(), data, modeSecret, func([]byte) bool { return false })
}

func (m *Machine) writeUnit(s Settings) error {
	u := unit.Spec{Binary: m.Binary, Environment: m.Paths.Settings(), Writes: []string{s.Flag("data-dir")}}
	if at, err := url.Parse(s.Store()); err == nil && at.Scheme == "file" {
		u.Writes = append(u.Writes, at.Path)
		u.Mounts = append(u.Mounts, at.Path)
	}
	data, err := u.Text()
	if err != nil {
		return err
	}
	return put(m.Paths.Unit(), data, modePublic, unit.Ours)
}

const etcdctlMark = "# Made by etcdadm"

func (m *Machine) writeEtcdctl(s Settings) error {
	dir := filepath.Join(s.Flag("data-dir"), "etcdadm", "pki", "etcdctl")
	var b strings.Builder
	b.WriteString(etcdctlMark + ", for a shell: . " + m.Paths.Etcdctl() + "\n")
	for _, pair := range [][2]string{
		{"ETCDCTL_ENDPOINTS", clientURLs(s)},
		{"ETCDCTL_CACERT", filepath.Join(dir, pki.ClientNames.CA)},
		{"ETCDCTL_CERT", filepath.Join(dir, pki.ClientNames.Cert)},
		{"ETCDCTL_KEY", filepath.Join(dir, pki.ClientNames.Key)},
		{envfile.OfFlag("data-dir"), s.Flag("data-dir")},
	} {
		fmt.Fprintf(&b, "export %s=%s\n", pair[0], cluster.ShellWord(pair[1]))
	}
	err := put(m.Paths.Etcdctl(), []byte(b.String()), modePublic, func(had []byte) bool { return strings.HasPrefix(string(had), etcdctlMark) })
	if told, ok := errors.AsType[*Error](err); ok && told.Err == nil { // nothing of ours hangs on it
		m.say("left as it is: %s exists and was not made by etcdadm", m.Paths.Etcdctl())
		return nil
	}
	return err
}

// grow asks for as many members as are wanted in the end, once: later counts are a person's.
func (m *Machine) grow(ctx context.Context, o Init, s Settings, done *Initialised) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	folder, err := openStore(ctx, s, false)
	if err != nil {
		return err
	}
	read, err := folder.ReadSpec(ctx)
	if err != nil || read.Spec == nil {
		return err
	}
	done.Members, done.Version = read.Spec.MemberCount, read.Spec.EtcdVersion
	founder, err := folder.Tokens().Founder(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(m.Paths.begun()); err == nil || founder != done.CAHash {
		return nil
	}
	if o.Members != 1 && read.Spec.MemberCount == 1 {
		if _, _, err := folder.AmendSpec(ctx, control.Amend{MemberCount: o.Members, Shown: &read}); err != nil {
			return err
		}
		done.Members = o.Members
	}
	return durable.Replace(m.Paths.begun(), []byte("etcdadm init has begun the cluster here; its member count is changed by etcdadm seed\n"), modePublic)
}

func (m *Machine) firstToken(ctx context.Context, o Init, s Settings, done *Initialised) error {
	made, err := MakeToken(ctx, s, NewToken{Life: o.Life, Description: "made by etcdadm init"})
	if err != nil {
		return err
	}
	done.Token, done.Expires = made.Token.Reveal(), made.Record.Expires
	return nil
}

// NewToken is what a join token is to be.
type NewToken struct {
	Life        time.Duration // 0: token.DefaultLife
	Uses        int           // 0: any number
	Description string
}

// MadeToken is a join token and its record.
type MadeToken struct {
	Token  token.Token
	Record token.Record
}

// MakeToken makes a join token and keeps its record in the store.
//
// Errors: control.ErrTokensFull; control.ErrConflict; what the store says.
func MakeToken(ctx context.Context, s Settings, n NewToken) (MadeToken, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	folder, err := openStore(ctx, s, false)
	if err != nil {
		return MadeToken{}, err
	}
	made, err := token.Mint(rand.Reader)
	if err != nil {
		return MadeToken{}, err
	}
	if n.Life == 0 {
		n.Life = token.DefaultLife
	}
	now := time.Now().UTC().Truncate(time.Second)
	r := token.Record{ID: made.ID, Hash: made.Hash(), Created: now, Expires: now.Add(n.Life), Uses: n.Uses, Description: n.Description}
	return MadeToken{made, r}, folder.Tokens().Add(ctx, r)
}

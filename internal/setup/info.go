package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/bounded"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/staticpod"
	"etcdadm.io/internal/unit"
	"golang.org/x/sys/unix"
)

// Look looks at a machine as a host, and changes nothing.
type Look struct {
	Paths   Paths
	Service Service
	// DataDir is that of a daemon which neither init nor join has set up; empty: theirs.
	DataDir string
	// ShowURL is a store's URL as people may see it.
	ShowURL func(string) string
}

// Info is what a machine is as a host. It holds no secret.
type Info struct {
	Cluster string         `json:"cluster"`
	Host    cluster.HostID `json:"host,omitempty"`
	Address string         `json:"address,omitempty"`
	Store   string         `json:"store,omitempty"`
	Agent   AgentInfo      `json:"agent"`
	Etcd    EtcdInfo       `json:"etcd"`
	Data    DataInfo       `json:"data"`
	// Installed are the files that init or join made.
	Installed    []Installed  `json:"installed,omitempty"`
	Ports        []Port       `json:"ports,omitempty"`
	Certificates []pki.Expiry `json:"certificates,omitempty"` // the first to end first
	// Unknown says what could not be looked at, and why.
	Unknown []string `json:"unknown,omitempty"`
}

// AgentInfo is about the daemon of this host.
type AgentInfo struct {
	Unit    string `json:"unit,omitempty"` // running, not running; empty: no unit, or not known
	Service string `json:"service"`        // what runs it, such as etcdadm.service or static pod FILE
	Answers bool   `json:"answers"`
	Release string `json:"release,omitempty"`
	Leads   bool   `json:"leads,omitempty"`
	Leader  string `json:"leader,omitempty"` // who leads the daemons
}

// EtcdInfo is about the member of this host, as the leading daemon saw it last.
type EtcdInfo struct {
	Member  cluster.MemberID `json:"member,omitempty"`
	Role    string           `json:"role,omitempty"` // voter, learner; empty: not listed, or not known
	State   string           `json:"state"`          // "none": the host carries no member
	Version string           `json:"version,omitempty"`
	PID     int              `json:"pid,omitempty"`
	Clients []string         `json:"clients,omitempty"` // URLs
	DBSize  int64            `json:"dbSize,omitempty"`  // bytes
}

// DataInfo is about the data directory.
type DataInfo struct {
	Dir  string `json:"dir"`
	Free int64  `json:"free"` // bytes; -1: not known
	// SetAside is how many directories of former members lie there.
	SetAside int `json:"setAside,omitempty"`
}

// Installed is a file or a directory, and whether it is there.
type Installed struct {
	What  string `json:"what"`
	Path  string `json:"path"`
	State string `json:"state"` // there, missing, "not etcdadm's"
}

// Port is where this host listens.
type Port struct {
	What string `json:"what"`
	Port string `json:"port"`
}

// stateNone is the state of an etcd that is not there, stateUnknown of one of which nobody tells.
const (
	stateNone    = "none"
	stateUnknown = "unknown"
)

// infoAsk bounds each question that a look asks.
const infoAsk = 5 * time.Second

// Info looks. What does not answer is told in Unknown, after infoAsk at most.
//
// Errors: ErrNotSetUp where the machine is no host, and no data directory was named.
func (l Look) Info(ctx context.Context) (Info, error) {
	s, err := ReadSettings(l.Paths)
	made := err == nil
	switch {
	case l.DataDir != "" && (errors.Is(err, ErrNotSetUp) || made && s.Flag("data-dir") != l.DataDir):
		s, made = Settings{}, false
		s.setFlag("data-dir", l.DataDir)
	case err != nil:
		return Info{}, err
	}
	i := Info{Cluster: s.Cluster(), Host: s.HostID(), Address: s.Flag("address"), Data: DataInfo{Dir: s.Flag("data-dir"), Free: -1}, Etcd: EtcdInfo{State: stateUnknown}}
	if l.ShowURL != nil {
		i.Store = l.ShowURL(s.Store())
	}
	if made {
		i.Ports = portsOf(s)
		i.Installed = l.installed(s)
		_, words := RunnerOf(l.Paths)
		i.Agent.Service = words.Name
		i.lookAtUnit(ctx, l.Service)
	}
	i.lookAtData(ctx)
	i.ask(ctx)
	if len(i.Certificates) == 0 && made { // the agent did not tell
		i.readAuthorities(s.PKI(l.Paths))
	}
	slices.SortFunc(i.Certificates, func(a, b pki.Expiry) int { return a.NotAfter.Compare(b.NotAfter) })
	return i, nil
}

func (i *Info) unknown(format string, args ...any) {
	i.Unknown = append(i.Unknown, fmt.Sprintf(format, args...))
}

// portsOf are those that the settings name.
func portsOf(s Settings) (ports []Port) {
	for _, l := range listeners {
		if l.flag == "" {
			ports = append(ports, Port{l.name, cmp.Or(s.Flag("grpc-port"), usualPort)})
			continue
		}
		for _, raw := range strings.Split(cmp.Or(s.Flag(l.flag), l.usual), ",") {
			if u, err := url.Parse(raw); err == nil && u.Port() != "" {
				ports = append(ports, Port{l.name, u.Port()})
			}
		}
	}
	if port := s.Flag("etcd-manager-metrics-port"); port != "" {
		ports = append(ports, Port{"port of the agent's metrics", port})
	}
	return ports
}

// installed are the files of init and join.
func (l Look) installed(s Settings) []Installed {
	service, ours := Installed{What: "unit", Path: l.Paths.Unit()}, unit.Ours
	if file, err := l.Paths.podFile(); err == nil && file != "" {
		service, ours = Installed{What: "static pod", Path: file}, staticpod.Ours
	}
	all := []Installed{
		{What: "settings", Path: l.Paths.Settings()}, {What: "authorities", Path: s.PKI(l.Paths)},
		service, {What: "etcdctl's settings", Path: l.Paths.Etcdctl()}, {What: "etcdctl's script", Path: l.Paths.EtcdctlScript()},
	}
	for n := range all {
		one := &all[n]
		found := existing(one.Path) == one.Path
		if data, err := regular.Read(one.Path, regular.SmallSize); err == nil {
			found = true
			if one.Path == service.Path && !ours(data) {
				one.State = "not etcdadm's"
				continue
			}
		} else if !errors.Is(err, fs.ErrNotExist) && !found {
			one.State = err.Error()
			continue
		}
		if one.State = "missing"; found {
			one.State = "there"
		}
	}
	return all
}

func (i *Info) lookAtUnit(ctx context.Context, service Service) {
	if service == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, infoAsk)
	defer cancel()
	err := service.Check(ctx)
	active := false
	if err == nil {
		active, err = service.Active(ctx)
	}
	switch {
	case err != nil:
		i.unknown("%s: %v", i.Agent.Service, err)
	case active:
		i.Agent.Unit = "running"
	default:
		i.Agent.Unit = "not running"
	}
}

func (i *Info) lookAtData(ctx context.Context) {
	dir := existing(i.Data.Dir)
	st, err := bounded.Do(ctx, dir, infoAsk, func() (unix.Statfs_t, error) {
		var st unix.Statfs_t
		return st, unix.Statfs(dir, &st)
	})
	if err != nil {
		i.unknown("room in %s: %v", dir, err)
		return
	}
	i.Data.Free = int64(st.Bavail) * st.Bsize //nolint:unconvert // the types are other ones elsewhere
	state, err := bounded.Do(ctx, dir, infoAsk, func() (known knownState, err error) {
		s, err := datadir.KnownState(i.Data.Dir)
		return knownState{s.Cluster, s.Host, s.Local.State == cluster.MemberNone, s.Local.Member}, err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		i.Etcd.State = stateNone
	case err != nil:
		i.unknown("the state in %s: %v", i.Data.Dir, err)
	default:
		if i.Cluster == "" {
			i.Cluster = state.cluster
		}
		if i.Host == "" {
			i.Host = state.host
		}
		if i.Etcd.Member = state.member; state.none {
			i.Etcd.State = stateNone
		}
	}
}

// knownState is what a look needs of the state on the disk.
type knownState struct {
	cluster string
	host    cluster.HostID
	none    bool
	member  cluster.MemberID
}

// ask has the agent, and the leading one, tell the rest.
func (i *Info) ask(ctx context.Context) {
	access, err := console.ReadAccess(i.Data.Dir)
	if err != nil {
		i.unknown("the agent: %v", err)
		return
	}
	if i.Address == "" && len(access.Endpoints) > 0 {
		i.Address, _, _ = net.SplitHostPort(access.Endpoints[0])
	}
	i.Etcd.Clients = access.Etcd.Endpoints
	c, err := console.Open(access)
	if err != nil {
		i.unknown("the agent: %v", err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, infoAsk)
	defer cancel()
	own, err := c.First(ctx)
	if err != nil {
		i.unknown("the agent: %v", err)
		return
	}
	i.Agent.Answers, i.Agent.Release, i.Agent.Leads, i.Agent.Leader = true, own.Build, own.Leading, string(own.Leader)
	i.Cluster, i.Host = own.Cluster, own.Host
	for _, cert := range own.Certificates {
		i.Certificates = append(i.Certificates, pki.Expiry{Name: cert.Name, NotAfter: cert.NotAfter})
	}
	led, err := c.Status(ctx)
	if err != nil || led.Observation == nil {
		i.unknown("etcd: the leading agent is not in reach")
		return
	}
	i.member(led.Observation)
}

// member is what the leading agent saw of this host's.
func (i *Info) member(o *cluster.Observation) {
	h, seen := o.Host(i.Host)
	if !seen {
		i.unknown("etcd: the leading agent does not see this host")
		return
	}
	i.Data.SetAside = len(h.SetAside)
	i.Etcd.PID = h.Process.PID
	i.Etcd.State = stateNone
	if h.Local.State != cluster.MemberNone {
		i.Etcd.State, i.Etcd.Member = h.Process.Words(), h.Local.Member
	}
	if h.Status != nil {
		i.Etcd.Version, i.Etcd.DBSize = h.Status.Version.String(), h.Status.DBSize
	}
	roster, _ := o.Roster()
	if s, ok := roster.Seat(i.Etcd.Member); ok {
		if i.Etcd.Role = "voter"; s.Learner {
			i.Etcd.Role = "learner"
		}
		if i.Etcd.State = "healthy"; !s.Up {
			i.Etcd.State = s.State()
		}
	}
}

func (i *Info) readAuthorities(dir string) {
	all, err := pki.Load(dir, time.Now())
	if err != nil {
		i.unknown("the authorities: %v", err)
		return
	}
	i.Certificates = all.Expiries()
}

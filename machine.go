package etcdadm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/token"
	"go.etcd.io/etcd/api/v3/version"
)

// Machine is the one that [Init] and [Join] make a host of a cluster. A program that has no etcdadm beside it copies one
// there first: it is the agent, and the etcd that is built in.
type Machine struct {
	// Program is the path of etcdadm, which the agent is started with.
	Program string
	// Release is that of Program, as the cluster is told it; empty: "library".
	Release string
	// Service starts the agent; nil: what has it already, on a fresh machine systemd, as etcdadm.service.
	Service Service
	// StaticPod has the machine's kubelet start the agent, where Service is nil; nil: that was not asked for.
	StaticPod *StaticPod
	// Root is the directory below which everything is written; empty: /.
	Root string
	// Environ is NAME=VALUE, from which the credentials of a bucket are taken; nil: there are none. Those that the
	// agent's settings have are put into this program's environment, where they are not set: the buckets' libraries
	// read them there.
	Environ []string
	// Say is told what is done and waited for, a sentence at a time; nil: nobody is.
	Say func(sentence string)
}

// Service starts the agent of a machine.
type Service interface {
	// Check is an error where agents cannot be started.
	Check(context.Context) error
	// Active tells whether the agent runs.
	Active(context.Context) (bool, error)
	// Start starts the agent if it does not run, now and with the machine: Program auto, with the settings in
	// etc/etcdadm/agent.env, which are there by then, as its environment.
	Start(context.Context) error
}

// StaticPod says how a kubelet runs the agent. The zero value is good for most.
type StaticPod struct {
	Manifests string // the kubelet's directory of static pods; empty: /etc/kubernetes/manifests
	Image     string // with /usr/bin/etcdadm; empty: that of the manifest which is there, else localhost/etcdadm:RELEASE
}

// DataDir is the data directory of the machine's agent, for [Access].
func (m Machine) DataDir() string { return setup.Paths{Root: m.Root}.Data() }

// Settings is the file with the agent's settings.
func (m Machine) Settings() string { return setup.Paths{Root: m.Root}.Settings() }

func (m Machine) setup() (*setup.Machine, error) {
	if m.Program == "" {
		return nil, errors.New("the machine names no etcdadm to run")
	}
	if m.Release == "" {
		m.Release = "library"
	}
	on := &setup.Machine{
		Paths: setup.Paths{Root: m.Root}, Service: m.Service, Binary: m.Program, Build: m.Release, Environ: m.Environ, Say: m.Say,
	}
	if m.Service != nil {
		return on, nil
	}
	var pod *setup.Pod
	if m.StaticPod != nil {
		pod = &setup.Pod{Manifests: m.StaticPod.Manifests, Image: m.StaticPod.Image}
	}
	return on, sortSetup(on.RunBy(pod))
}

// NewCluster is what [Init] makes. The zero value is good for most.
type NewCluster struct {
	Name        string          // empty: etcd
	Store       string          // URL of a store that all hosts reach; empty: the hosts keep the record and the backups
	CreateStore bool            // make the directory of a file:// store
	Address     string          // of this machine, as the others reach it; empty: that of its default route
	Host        cluster.HostID  // of this machine; empty: the machine's name
	Members     int             // how many are wanted once as many hosts have joined: 1, 3, 5, 7 or 9; zero: 3
	Version     cluster.Version // of etcd; zero: the one that is built into the etcdadm of this release
	FromBackup  string          // a snapshot in a file, or a backup in the store by its name; empty: the cluster begins empty
	Empty       bool            // it begins empty after all, where it was to begin from a backup and none could be restored
	Manual      bool            // self-management is off from the beginning
	Wait        time.Duration   // for etcd to serve, within the context's time; zero: two minutes
}

// Invitation is what another machine joins with. Whoever has it and reaches the endpoint gets the keys of the cluster.
type Invitation struct {
	Endpoint string    // of a daemon, host:port
	Token    string    // a secret: keep it as you keep keys
	CAHash   string    // of the authority that the daemon shows
	Expires  time.Time // zero: not known
}

// String is the invitation without its secret.
func (i Invitation) String() string { return "invitation to " + i.Endpoint }

// GoString is String.
func (i Invitation) GoString() string { return i.String() }

// Host is a machine that [Init] or [Join] has set up.
type Host struct {
	Cluster string
	Host    cluster.HostID
	Address string
	Etcd    string // URLs of clients, with commas
	// Again: it had been set up before.
	Again bool
	// Spare: other hosts have all the members that are wanted, and this one stands by.
	Spare bool
}

// Init makes the machine the first host of a new cluster, and returns when etcd serves there. It looks at everything
// first. Run again, after an interruption too, it goes on and comes to the same end, with another invitation. Nothing
// that exists is overwritten or deleted.
//
// Errors: ErrRefused, and nothing was changed; ErrOtherCluster, where the machine or the store is another one's;
// ErrWaiting, and the agent goes on; the context's; what was not possible.
func Init(ctx context.Context, m Machine, c NewCluster) (Host, Invitation, error) {
	on, err := m.setup()
	if err != nil {
		return Host{}, Invitation{}, err
	}
	o := setup.Init{
		Cluster: c.Name, Store: c.Store, CreateStore: c.CreateStore, Address: c.Address, HostID: string(c.Host),
		Members: c.Members, Version: c.Version, FromBackup: c.FromBackup, Empty: c.Empty, Manual: c.Manual, Wait: c.Wait,
	}
	o.Members = cmp.Or(o.Members, 3)
	if o.Version.IsZero() {
		if o.Version, err = cluster.ParseVersion(version.Version); err != nil {
			return Host{}, Invitation{}, err
		}
	}
	if err := (cluster.Spec{MemberCount: o.Members, EtcdVersion: o.Version}).Validate(); err != nil {
		return Host{}, Invitation{}, sorted(ErrRefused, err)
	}
	report, err := on.CheckInit(ctx, o)
	if err := looked(ctx, report, err); err != nil {
		return Host{}, Invitation{}, err
	}
	done, err := on.Init(ctx, o)
	if err != nil {
		return Host{}, Invitation{}, sortSetup(err)
	}
	return Host{Cluster: done.Cluster, Host: done.Host, Address: done.Address, Etcd: done.Etcd, Again: done.Again},
		Invitation{Endpoint: done.Endpoint, Token: done.Token, CAHash: done.CAHash, Expires: done.Expires}, nil
}

// Joining is how a machine joins. The zero value is good for most.
type Joining struct {
	Address string         // of this machine, as the others reach it; empty: that of the way to the endpoint
	Host    cluster.HostID // empty: the machine's name
	Wait    time.Duration  // for the member to vote, within the context's time; zero: two minutes
}

// Join makes the machine a host of the cluster that it was invited to, and returns when its member votes, or when
// it stands by. Nothing is sent before the other side has shown that it holds the authority of the hash. Run again,
// after an interruption too, it goes on and comes to the same end, and uses the token once.
//
// Errors: ErrRefused, where this machine is not fit, or the cluster does not take it in: then nothing was changed but
// what a later try needs; ErrOtherCluster; ErrWaiting, and the agent goes on; ErrNoDaemon; the context's.
func Join(ctx context.Context, m Machine, i Invitation, j Joining) (Host, error) {
	on, err := m.setup()
	if err != nil {
		return Host{}, err
	}
	if !pki.ValidHash(i.CAHash) {
		return Host{}, sorted(ErrRefused, errors.New("the invitation's hash is not sha256: and 64 hexadecimal digits"))
	}
	o := setup.Join{Endpoint: i.Endpoint, CAHash: i.CAHash, Address: j.Address, HostID: string(j.Host), Wait: j.Wait}
	if o.Token, err = token.Parse(i.Token); err != nil {
		return Host{}, sorted(ErrRefused, fmt.Errorf("the invitation's token %w", err))
	}
	report, err := on.CheckJoin(ctx, o)
	if err := looked(ctx, report, err); err != nil {
		return Host{}, err
	}
	done, err := on.Join(ctx, o)
	if err != nil {
		return Host{}, sortSetup(err)
	}
	return Host{Cluster: done.Cluster, Host: done.Host, Address: done.Address, Etcd: done.Etcd, Again: done.Again, Spare: done.Spare}, nil
}

// looked is what comes of the checks, which changed nothing. One that was cut short says nothing about the machine.
func looked(ctx context.Context, report setup.Report, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("look at the machine: %w; nothing was changed", ctx.Err())
	case err != nil:
		return sortSetup(err)
	}
	return sortSetup(report.Err())
}

// sortSetup says of which kind an error of setup is.
func sortSetup(err error) error {
	switch {
	case errors.Is(err, setup.ErrOther), errors.Is(err, pki.ErrOtherAuthority):
		return sorted(ErrOtherCluster, err)
	case errors.Is(err, setup.ErrSetUp), errors.Is(err, setup.ErrHalfReset), errors.Is(err, peer.ErrJoin), errors.Is(err, pki.ErrClock), errors.As(err, new(*setup.RefusedError)):
		return sorted(ErrRefused, err)
	case errors.Is(err, setup.ErrWaiting):
		return sorted(ErrWaiting, err)
	case errors.Is(err, peer.ErrUnreachable), errors.Is(err, peer.ErrClearText):
		return sorted(ErrNoDaemon, err)
	}
	return err
}

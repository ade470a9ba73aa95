// Package playground runs a whole cluster on this machine for a person to
// watch and to hurt: daemons as processes of their own on 127.0.0.1, .2, …,
// a backup store in a directory, certificates of its own, and a view of what
// is decided and why. It starts daemons, keeps them running and asks them; it
// has no way into the cluster that a user would not have.
package playground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/runtime"
)

// Options are the playground's flags.
type Options struct {
	Members  int
	Version  cluster.Version
	Asked    bool   // whether a person named one of these two
	Dir      string // empty: a temporary one
	BasePort int
	Insecure bool
	Keep     bool // leave a temporary directory behind
	// Path and Args start a daemon: etcdadm auto, by this very program.
	Path string
	Args []string
	// Releases is where the daemons will find etcd.
	Releases *release.Finder
	// Shown is how people call etcdadm here.
	Shown string
	View  View
}

// MaxHosts is how many daemons a playground starts at most.
const MaxHosts = cluster.MaxMembers

// ClusterName is the name of every playground's cluster.
const ClusterName = "playground"

// View shows what happens. Its methods are called one at a time.
type View interface {
	// Begin is called once, when everything was started.
	Begin(Scene)
	// Show is called whenever the report or the hosts may have changed.
	Show(Scene)
	// Say tells of something that happened to a daemon.
	Say(event, text string)
	// End is called once, when everything has ended.
	End()
}

// Scene is all that a view needs.
type Scene struct {
	Dir     string
	Store   string
	Shown   string
	Started time.Time
	Hosts   []*Host
	Access  console.Access
	// Report is the newest one; nil before the first daemon answered.
	Report *console.Report
}

// Mistake is something that keeps the playground from starting.
type Mistake struct {
	Problem string
	Advice  string
}

func (m *Mistake) Error() string { return m.Problem }

// Hint is the way out.
func (m *Mistake) Hint() string { return m.Advice }

// playground is one that runs.
type playground struct {
	o     Options
	dir   string
	store string
	hosts []*Host
	live  *console.Console
	scene Scene
}

// Run runs a playground until ctx ends, and ends everything that it started.
func Run(ctx context.Context, o Options) error {
	spec := cluster.Spec{MemberCount: o.Members, EtcdVersion: o.Version}
	if err := spec.Validate(); err != nil {
		return &Mistake{err.Error(), "see etcdadm playground --help"}
	}
	p := &playground{o: o, dir: o.Dir}
	before := p.found()
	if before == 0 { // what keeps a first start from succeeding makes nothing
		if _, err := o.Releases.Find(ctx, o.Version.String()); err != nil {
			return err
		}
	}
	_, statErr := os.Stat(p.dir)
	if err := p.makeDir(); err != nil {
		return err
	}
	if o.Dir == "" && !o.Keep {
		defer os.RemoveAll(p.dir) // it was made by makeDir, for this run only
	}
	if before == 0 {
		if err := p.checkPorts(o.Members, false); err != nil {
			if errors.Is(statErr, os.ErrNotExist) {
				_ = os.Remove(p.dir) // it is empty, and was made just now
			}
			return err
		}
	}
	lock, err := runtime.LockStateDir(p.dir)
	if err != nil {
		return &Mistake{fmt.Sprintf("another playground runs in %s: %v", p.dir, err), "end it, or give this one another --dir"}
	}
	defer func() { _ = lock.Unlock() }() // it ends with the program anyway
	if before > 0 {
		if err := p.checkPorts(max(o.Members, before), true); err != nil {
			return err
		}
	}
	if err := p.prepare(ctx, spec, max(o.Members, before)); err != nil {
		return err
	}
	return p.play(ctx)
}

// makeDir makes the directory and finds out whether it can be written.
func (p *playground) makeDir() error {
	var err error
	if p.dir == "" {
		p.dir, err = os.MkdirTemp("", "etcdadm-playground-")
	} else if p.dir, err = filepath.Abs(p.dir); err == nil {
		err = os.MkdirAll(p.dir, 0o700)
	}
	if err != nil {
		return &Mistake{fmt.Sprintf("cannot make the playground's directory: %v", err), "give one that you may write: --dir"}
	}
	probe, err := os.CreateTemp(p.dir, ".probe-")
	if err != nil {
		return &Mistake{fmt.Sprintf("cannot write to %s: %v", p.dir, err), "give one that you may write: --dir"}
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// prepare makes what n daemons find: authorities, store and spec.
func (p *playground) prepare(ctx context.Context, spec cluster.Spec, n int) error {
	pkiDir := filepath.Join(p.dir, "pki")
	_, err := os.Stat(pkiDir)
	if tls := err == nil; p.found() > 0 && tls == p.o.Insecure {
		kind, advice := "with TLS", "leave --insecure out, or give another --dir"
		if !tls {
			kind, advice = "without TLS", "start it with --insecure, or give another --dir"
		}
		return &Mistake{fmt.Sprintf("the cluster in %s was made %s", p.dir, kind), advice}
	}
	if errors.Is(err, os.ErrNotExist) && !p.o.Insecure {
		if _, err := pki.Create(pkiDir, time.Now()); err != nil {
			return err
		}
	}
	storeDir := filepath.Join(p.dir, "store")
	p.store = file.URL(storeDir)
	store, err := file.Open(ctx, storeDir, file.Options{Create: true})
	if err != nil {
		return err
	}
	folder := control.New(store, ClusterName)
	read, err := folder.ReadSpec(ctx)
	if err != nil {
		return fmt.Errorf("read the spec of %s: %w", p.dir, err)
	}
	switch {
	case read.Spec == nil:
		if err := folder.ConfigureCluster(ctx, spec.MemberCount, spec.EtcdVersion); err != nil {
			return fmt.Errorf("write the spec: %w", err)
		}
	case p.o.Asked && (read.Spec.MemberCount != spec.MemberCount || read.Spec.EtcdVersion != spec.EtcdVersion):
		p.o.View.Say("spec", fmt.Sprintf("the cluster in %s was asked to have %s of etcd %s, and a start does not change that",
			p.dir, membersWords(read.Spec.MemberCount), read.Spec.EtcdVersion))
	}
	for i := range n {
		p.hosts = append(p.hosts, p.newHost(i+1))
	}
	return nil
}

// found is the highest number of a host of an earlier playground in the
// directory: all up to it are started, since any may hold a member.
func (p *playground) found() int {
	entries, err := os.ReadDir(filepath.Join(p.dir, "hosts"))
	if p.dir == "" || err != nil {
		return 0
	}
	highest := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && e.IsDir() && n <= MaxHosts {
			highest = max(highest, n)
		}
	}
	return highest
}

// play starts the daemons, shows what happens, and starts more of them when
// the spec asks for more.
func (p *playground) play(ctx context.Context) error {
	started := time.Now()
	keeper := newKeeper(p.o.View.Say)
	defer p.o.View.End()
	defer keeper.stopAll()
	for _, h := range p.hosts {
		if err := keeper.start(h); err != nil {
			return err
		}
	}
	p.scene = Scene{Dir: p.dir, Store: p.store, Shown: p.o.Shown, Started: started, Hosts: p.hosts}
	p.scene.Access = p.access()
	if err := writeEnvironment(p.scene); err != nil {
		return fmt.Errorf("write the environment for shells: %w", err)
	}
	p.o.View.Begin(p.scene)
	defer func() {
		if p.live != nil {
			p.live.Close()
		}
	}()
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		p.ask(ctx)
		if err := p.grow(keeper); err != nil {
			return err
		}
		p.scene.Hosts = p.hosts
		p.o.View.Show(p.scene)
	}
}

const (
	lookEvery = 100 * time.Millisecond // what is shown is that fresh
	askWithin = 2 * time.Second        // of a report; without it the last one is not shown any more
)

// ask gets the newest report; a playground that was hurt may have none.
func (p *playground) ask(ctx context.Context) {
	if p.live == nil {
		c, err := console.Open(p.scene.Access)
		if err != nil {
			return // the certificates are not there yet
		}
		p.live = c
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if r, err := p.live.Status(ctx); err == nil {
		p.scene.Report = &r
	} else {
		p.scene.Report = nil
	}
}

// grow starts daemons for hosts that the spec has no place for yet.
func (p *playground) grow(k *keeper) error {
	r := p.scene.Report
	if r == nil || r.Observation == nil || r.Observation.Spec == nil {
		return nil
	}
	for len(p.hosts) < min(r.Observation.Spec.MemberCount, MaxHosts) {
		h := p.newHost(len(p.hosts) + 1)
		p.hosts = append(p.hosts, h)
		p.o.View.Say("host", fmt.Sprintf("%s was started, because the spec asks for %s", h.Name, membersWords(r.Observation.Spec.MemberCount)))
		if err := k.start(h); err != nil {
			return err
		}
		p.scene.Access, p.scene.Hosts = p.access(), p.hosts
		if err := writeEnvironment(p.scene); err != nil {
			return fmt.Errorf("write the environment for shells: %w", err)
		}
		if p.live != nil {
			p.live.Close()
			p.live = nil
		}
	}
	return nil
}

// access is how people and the playground itself reach the cluster.
func (p *playground) access() console.Access {
	first := p.hosts[0]
	a := console.Access{Cluster: ClusterName}
	for _, h := range p.hosts {
		a.Endpoints = append(a.Endpoints, h.Daemon)
		a.Etcd.Endpoints = append(a.Etcd.Endpoints, h.Client)
	}
	if !p.o.Insecure {
		dir := filepath.Join(first.Dir, "etcdadm", "pki")
		a.Credentials = filepath.Join(dir, "operator")
		a.Etcd.CA = filepath.Join(dir, "etcdctl", pki.ClientNames.CA)
		a.Etcd.Cert = filepath.Join(dir, "etcdctl", pki.ClientNames.Cert)
		a.Etcd.Key = filepath.Join(dir, "etcdctl", pki.ClientNames.Key)
	}
	return a
}

// Environment is what etcdctl and etcdadm need to reach the cluster.
func (s Scene) Environment() []string {
	e := []string{"ETCDCTL_ENDPOINTS=" + strings.Join(s.Access.Etcd.Endpoints, ",")}
	if a := s.Access.Etcd; a.Cert != "" {
		e = append(e, "ETCDCTL_CACERT="+a.CA, "ETCDCTL_CERT="+a.Cert, "ETCDCTL_KEY="+a.Key)
	}
	return append(e, "ETCDADM_DATA_DIR="+s.Hosts[0].Dir)
}

package setup

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/token"
)

// Join is how a machine becomes a host of a cluster that exists.
type Join struct {
	Endpoint   string // of an agent of the cluster, host:port
	Token      token.Token
	CAHash     string
	Address    string            // of this machine; empty: that of the way to the endpoint
	HostID     string            // empty: the machine's name
	Again      bool              // ask the cluster once more, on a host without the authorities' keys
	Wait       time.Duration     // for the member to vote
	More       Settings          // flags of the agent of this host, by variable
	Priorities map[string]string // directives of the unit for CPU and disk, as "Nice"
	DataDir    string            // of the agent; empty: the usual one
	Existing   Existing          // an etcd that runs here and becomes the member of this host; nil: none
	SetAside   bool              // have the check say what would be set aside: data and authorities of other clusters
	Aside      []Aside           // what a person agreed to set aside: the check's
}

// Joined is what came of it.
type Joined struct {
	Cluster string         `json:"cluster"`
	Host    cluster.HostID `json:"host"`
	Address string         `json:"address"`
	Etcd    string         `json:"etcd"`
	Etcdctl string         `json:"etcdctl"`
	// Again: this machine had been a host of the cluster before.
	Again bool `json:"again,omitempty"`
	// LeafOnly: this host holds no authority's key, and has others sign its certificates.
	LeafOnly bool `json:"leafOnly,omitempty"`
	// Spare: all members are wanted from other hosts, and this one stands by.
	Spare bool `json:"spare,omitempty"`
	// TakenOver is the etcd that ran here before; nil: none did, or an earlier run took it over.
	TakenOver *TakenOver `json:"takenOver,omitempty"`
}

// own says whether this machine is a host of the cluster of that hash already. Settings of another one are refused.
func (p Paths) own(caHash string) (Settings, error) {
	s, err := ReadSettings(p)
	if errors.Is(err, ErrNotSetUp) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := pki.LoadAuthority(s.PKI(p), pki.ManagerCA, time.Now())
	if err != nil {
		return nil, err
	}
	if !all.HasHash(caHash) { // of a rotation under way either will do
		return nil, &Error{Problem: fmt.Sprintf("this machine is a host of cluster %s, whose authority has the hash %s", s.Cluster(), all.Hash()), Err: ErrOther,
			Advice: "use another machine, or take this one out of its cluster: etcdadm reset"}
	}
	return s, nil
}

// SettleJoin fills in what a person left out.
func (m *Machine) SettleJoin(ctx context.Context, o Join) (Join, Settings, error) {
	if err := m.Paths.notHalfReset(); err != nil {
		return o, nil, err
	}
	had, err := m.Paths.own(o.CAHash)
	if err != nil {
		return o, nil, err
	}
	if had != nil {
		if err := m.sameHost(had, o.Address, o.HostID, o.DataDir); err != nil {
			return o, nil, err
		}
		o.Address, o.HostID = had.Flag("address"), string(had.HostID())
		return o, had, nil
	}
	if err := m.unitOnly(o.Existing, o.Priorities); err != nil {
		return o, nil, err
	}
	if o.Existing != nil {
		existing, err := settleExisting(o.Existing, o.Address, o.HostID)
		if err != nil {
			return o, nil, err
		}
		o.Address, o.HostID, o.DataDir = existing.Flag("address"), string(existing.HostID()), existing.Flag("data-dir")
	}
	o.DataDir = cmp.Or(o.DataDir, m.Paths.Data())
	if o.Address == "" {
		if o.Address, err = DefaultAddress(ctx, o.Endpoint); err != nil {
			return o, nil, err
		}
	}
	if o.HostID == "" {
		if o.HostID, err = HostName(); err != nil {
			return o, nil, err
		}
	}
	return o, nil, nil
}

// CheckJoin looks at this machine first, and changes nothing. The cluster is not asked: that uses the token.
func (m *Machine) CheckJoin(ctx context.Context, o Join) (Report, error) {
	o, had, err := m.SettleJoin(ctx, o)
	if err != nil {
		return Report{}, err
	}
	s := had
	if s == nil {
		s = m.hostSettings(o.Address, o.HostID, o.DataDir)
		s.setFlag("client-urls", ClientURL)
		m.forPod(s)
		for name, value := range o.existing() {
			s[name] = value
		}
	}
	running, _ := m.Service.Active(ctx)
	var r Report
	r.Checks = m.lookAround(ctx, s, lookFor{existing: o.Existing, joins: o.CAHash, setAside: o.SetAside && had == nil, running: running, others: m.Paths.checkPrivate(o.CAHash).Standing == Refused}, &r)
	if had == nil {
		r.Checks = append(r.Checks, m.checkPrivateOr(o.CAHash, r.Aside))
	}
	r.Steps = whats(asideSteps(r.Aside))
	ask := had == nil
	if had != nil {
		if ask, err = m.Paths.asksAgain(had, o.Again); err != nil {
			return Report{}, err
		}
	}
	if ask {
		r.Steps = append(r.Steps, "ask "+o.Endpoint+" to take this host in, with the token", "write the authorities of the cluster to "+m.Paths.PKI())
	}
	r.Steps = append(append(r.Steps, whats(m.agentSteps(s, append(m.prioritySteps(o.Priorities), m.handoverSteps(o.Existing)...)))...), "wait until etcd serves")
	return r, nil
}

// existing are the settings that follow from the etcd that runs here.
func (o Join) existing() Settings {
	if o.Existing == nil {
		return nil
	}
	return o.Existing.Settings()
}

// checkPrivateOr is checkPrivate, unless those that are there are set aside.
func (m *Machine) checkPrivateOr(caHash string, aside []Aside) Check {
	c := m.Paths.checkPrivate(caHash)
	if i := slices.IndexFunc(aside, func(a Aside) bool { return a.From == m.Paths.PKI() }); i >= 0 {
		return warn(c.Name, "", "%s; they will be set aside: %s", c.Found, aside[i].To)
	}
	return c
}

// checkPrivate: authorities that are there are those of the cluster.
func (p Paths) checkPrivate(caHash string) Check {
	const name = "authorities"
	dir := p.PKI()
	file := filepath.Join(dir, pki.ManagerCA+".crt")
	switch _, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return good(name, "none in %s", dir)
	case err != nil:
		return refuse(name, "", "%v", err)
	}
	a, err := pki.LoadAuthorityFiles(pki.ManagerCA, file, "", time.Now())
	if err != nil {
		return refuse(name, setAsideHint, "%v", err)
	}
	if a.Hash() != caHash {
		return refuse(name, setAsideHint, "%s has those of another cluster, with the hash %s", dir, a.Hash())
	}
	return good(name, "%s has those of the cluster", dir)
}

// Join makes this machine a host of the cluster. Run again it goes on where it was interrupted, with the same token.
//
// Errors: those of peer.Join; *Error with ErrOther or ErrWaiting, or with what it is.
func (m *Machine) Join(ctx context.Context, o Join) (Joined, error) {
	o, s, err := m.SettleJoin(ctx, o)
	if err != nil {
		return Joined{}, err
	}
	done := Joined{Host: cluster.HostID(o.HostID), Address: o.Address, Etcdctl: m.Paths.Etcdctl(), Again: s != nil, TakenOver: takenOver(o.Existing)}
	ask := s == nil
	if s != nil {
		ask, err = m.Paths.asksAgain(s, o.Again)
	} else {
		err = run(ctx, asideSteps(o.Aside))
	}
	if err != nil {
		return done, err
	}
	if ask {
		if s, err = m.askToJoin(ctx, o, s); err != nil {
			return done, err
		}
	}
	if all, err := pki.Load(s.PKI(m.Paths), time.Now()); err == nil {
		done.LeafOnly = !all.CanIssue()
	}
	done.Cluster, done.Etcd = s.Cluster(), clientURLs(s)
	steps := append(m.agentSteps(s, append(m.prioritySteps(o.Priorities), m.handoverSteps(o.Existing)...)), step{"wait until etcd serves", func(ctx context.Context) (err error) {
		done.Spare, err = m.awaitMember(ctx, s, o.Wait)
		return err
	}})
	if err := run(ctx, steps); err != nil {
		return done, err
	}
	_ = os.Remove(m.Paths.try()) // the token is not asked for any more
	return done, nil
}

// askToJoin has the cluster take this host in, and keeps the authorities that it gives. A host that is one already, with
// the settings had, keeps these, its data and its name.
func (m *Machine) askToJoin(ctx context.Context, o Join, had Settings) (Settings, error) {
	data := cmp.Or(o.DataDir, m.Paths.Data())
	if had != nil {
		data = had.Flag("data-dir")
	} else if _, err := os.Lstat(filepath.Join(data, "etcdadm", keeper.FileName)); !errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Problem: "this machine has begun a cluster of its own, or was a host of one: " + data + " holds its record", Err: ErrOther, Advice: setAsideHint}
	}
	if err := m.Service.Check(ctx); err != nil {
		return nil, &Error{Problem: "the agent could not be started here", Err: err}
	}
	try, err := m.Paths.number()
	if err != nil {
		return nil, err
	}
	request, key, err := m.ask(o, data, try)
	if err != nil {
		return nil, err
	}
	reply, _, err := peer.Join(ctx, o.Endpoint, o.CAHash, request)
	if err != nil {
		return nil, err
	}
	s := had
	switch {
	case had == nil:
		s, err = m.newSettings(ctx, o, reply)
	case had.Cluster() != reply.Cluster:
		err = &Error{Problem: fmt.Sprintf("this machine is a host of cluster %s, and cluster %s answered", had.Cluster(), reply.Cluster), Err: ErrOther, Advice: "give the address of a host of its own cluster"}
	}
	if err != nil {
		return nil, err
	}
	if err := m.keepAuthorities(s.PKI(m.Paths), reply.Authorities, o.CAHash); err != nil {
		return nil, err
	}
	if len(reply.Authorities) == len(AuthorityFiles()) { // it issues for itself
		return s, nil
	}
	return s, m.keepLeaf(s, key, reply.Leaf)
}

func hostID(o Join) cluster.HostID { return cluster.HostID(o.HostID) }

// number is this machine's number for this join: the same one after an interruption.
func (p Paths) number() (string, error) {
	path := p.try()
	if err := durable.MakeDir(filepath.Dir(path), modeDir); err != nil {
		return "", &Error{Problem: "make " + filepath.Dir(path), Err: err, Advice: "run it as root"}
	}
	err := durable.Create(path, []byte(rand.Text()), modeSecret)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", &Error{Problem: "write " + path, Err: err}
	}
	data, err := regular.Read(path, regular.SmallSize)
	if err != nil {
		return "", &Error{Problem: "read " + path, Err: err}
	}
	return string(data), nil
}

// OwnFlags are each host's own, and are taken from no other one. The rest is daemon.Config's Shared.
var OwnFlags = []string{
	"address", "host-id", "data-dir", "pki-dir", "leaves-dir", "env-file", "hosts-file", "release-dir", "discovery", "static-config", "containerized",
	"volume-provider", "volume-tag", "volume-name-tag", "insecure", "etcd-user", "etcd-password-file", "backup-identity-file", "on-sigterm",
	"listen-metrics-urls", "network-cidr", "v",
}

package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/pki"
)

// foreignEtcd is the cluster that our hosts join, through the client URLs of its
// members, as adoption wants it.
type foreignEtcd struct {
	tls       *tls.Config
	peer      func() (*tls.Config, error) // as this host's member will have it
	auth      func(context.Context) (user, password string, err error)
	catalogue *backupstore.Catalogue // nil: not looked into yet
	packing   backupstore.Packing
	name      string // of the cluster among our daemons
	own       []string
	inClear   bool      // a person named none but endpoints without TLS for whatever was given
	say       io.Writer // how far a backup is; nil: nobody hears

	mu        sync.Mutex
	endpoints []string // who is asked, the last one that answered first
	failed    []string // and who last, since no call came through there
	members   []cluster.Member
	at        map[cluster.MemberID]string // where each member answered last
}

func (a *adoptFlags) openForeign(ctx context.Context) (*foreignEtcd, error) {
	e := &foreignEtcd{name: a.name, endpoints: slices.Clone(a.endpoints), own: a.join.urls.Client}
	e.inClear = !slices.ContainsFunc(a.endpoints, func(u string) bool { return !strings.HasPrefix(u, "http:") })
	var err error
	if e.tls, err = a.access.CommandTLS(ctx); err != nil {
		return nil, fmt.Errorf("read the certificates for etcd: %w", err)
	}
	if e.packing, err = (backupstore.Choices{Recipients: a.join.recipients}).Packing(); err != nil {
		return nil, err
	}
	if e.auth, err = a.credential(ctx); err != nil {
		return nil, err
	}
	e.peer = sync.OnceValues(func() (*tls.Config, error) { return a.peerTLS(time.Now()) })
	return e, nil
}

// credential is the user that was given; nil: none, or that of the certificate.
func (a *adoptFlags) credential(ctx context.Context) (func(context.Context) (user, password string, err error), error) {
	if a.say != nil { // whoever writes to a pipe may be asking a person
		told, end := working(ctx, a.say, "etcdadm adopt")
		defer end()
		ctx = told
	}
	return a.join.password.given(ctx, "--", a.join.user, a.join.passwordFile)
}

// peerTLS is what this host's member will show its peers, and believe of them: a
// certificate that --pki-dir's authority for peers issues, or etcd's own of
// --certs-dir, which becomes that.
func (a *adoptFlags) peerTLS(now time.Time) (*tls.Config, error) {
	if !strings.HasPrefix(a.join.urls.Peer[0], "https:") {
		return nil, nil
	}
	if a.join.leaves != "" {
		return leafTLS(a.join.leaves, now)
	}
	r := a.request
	authority, err := pki.LoadAuthority(r.PKIDir, pki.PeersCA, now)
	if err != nil && r.CertsDir != "" {
		authority, err = pki.LoadAuthorityFiles("etcd's authority", filepath.Join(r.CertsDir, "ca.crt"), filepath.Join(r.CertsDir, "ca.key"), now)
	}
	if err != nil {
		return nil, fmt.Errorf("the authority for peers is needed, with its key: %w; lay the one that the members trust at their peer ports as etcd-peers-ca.{crt,key}, and the one for clients as etcd-clients-ca.{crt,key}, into %s, or name a directory with ca.{crt,key} by --certs-dir", err, r.PKIDir)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "etcdadm"
	}
	request, err := pki.PeerRequest(host, a.join.urls.Peer, []string{"127.0.0.1"}, pki.DefaultLifetime())
	if err != nil {
		return nil, err
	}
	pair, err := authority.Issue(request, now)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for this host's member: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authority.Pool(), Certificates: []tls.Certificate{*pair.TLS()}}, nil
}

// leafTLS is the certificate that somebody else renews for this host's member, and whom it believes.
func leafTLS(dir string, now time.Time) (*tls.Config, error) {
	authority, err := pki.LoadAuthorityFiles(pki.PeersCA, filepath.Join(dir, pki.PeersCA+".crt"), "", now)
	if err != nil {
		return nil, fmt.Errorf("read the authority for peers: %w", err)
	}
	pair, err := pki.LoadKeypair(dir, pki.Names{CA: pki.PeersCA + ".crt", Cert: "peer.crt", Key: "peer.key"})
	if err != nil {
		return nil, fmt.Errorf("read the certificate of this host's member: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authority.Pool(), Certificates: []tls.Certificate{*pair.TLS()}}, nil
}

func (e *foreignEtcd) dial(urls []string) (*etcd.Client, error) {
	return etcd.New(etcd.Config{Endpoints: urls, TLS: e.tls, Credential: e.auth, Voters: e.voters, InClear: e.inClear})
}

// voters are where a learner's caller gets its token.
func (e *foreignEtcd) voters(context.Context) (urls []string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.members {
		if !m.Learner {
			urls = append(urls, m.ClientURLs...)
		}
	}
	return urls, nil
}

// candidates are who may be asked: who answered last, who was named, this host's
// own member, and the members of the last list.
func (e *foreignEtcd) candidates() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := slices.Concat(e.endpoints, e.own)
	for _, m := range e.members {
		if !m.Learner {
			all = append(all, m.ClientURLs...)
		}
	}
	var once, last []string
	for _, u := range all {
		switch {
		case slices.Contains(once, u) || slices.Contains(last, u):
		case slices.Contains(e.failed, u):
			last = append(last, u)
		default:
			once = append(once, u)
		}
	}
	return append(once, last...)
}

func (e *foreignEtcd) answered(endpoint string, members []cluster.Member) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = slices.DeleteFunc(e.failed, func(u string) bool { return u == endpoint })
	e.endpoints = append([]string{endpoint}, slices.DeleteFunc(e.endpoints, func(u string) bool { return u == endpoint })...)
	if members != nil {
		e.members = members
	}
}

// any has the first member that can answer it do what changes nothing.
func (e *foreignEtcd) any(ctx context.Context, do func(context.Context, *etcd.Client) error) error {
	var failed []error
	for _, endpoint := range e.candidates() {
		c, err := e.dial([]string{endpoint})
		if err == nil {
			err = do(ctx, c)
			c.Close()
		}
		switch {
		case err == nil:
			e.answered(endpoint, nil)
			return nil
		case errors.Is(err, etcd.ErrUnreachable), errors.Is(err, etcd.ErrLearner), errors.Is(err, etcd.ErrNoAnswer):
			failed = append(failed, fmt.Errorf("%s: %w", endpoint, err)) // another may answer
		default:
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// change has one member make a change, after it said through raft that it is of this
// cluster. What fails there is not tried at another one: what the caller goes by is
// old by then. He looks again, and asks another one the next time.
func (e *foreignEtcd) change(ctx context.Context, of cluster.ClusterID, avoid []string, do func(context.Context, *etcd.Client) error) error {
	endpoint := ""
	for _, u := range e.candidates() {
		if !slices.Contains(avoid, u) {
			endpoint = u
			break
		}
	}
	if endpoint == "" {
		return errors.New("no member is left that could be asked")
	}
	if err := e.changeAt(ctx, []string{endpoint}, of, do); err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.failed = append(slices.DeleteFunc(e.failed, func(u string) bool { return u == endpoint }), endpoint)
		return fmt.Errorf("%s: %w", endpoint, err)
	}
	e.answered(endpoint, nil)
	return nil
}

func (e *foreignEtcd) changeAt(ctx context.Context, endpoints []string, of cluster.ClusterID, do func(context.Context, *etcd.Client) error) error {
	c, err := e.dial(endpoints)
	if err != nil {
		return err
	}
	defer c.Close()
	view, err := c.View(ctx, true)
	switch {
	case err != nil:
		return err
	case view.Cluster != of:
		return fmt.Errorf("a member of cluster %s answers, and not of %s", view.Cluster, of)
	}
	return do(ctx, c)
}

// List implements adoption.Members.
func (e *foreignEtcd) List(ctx context.Context) (view cluster.MemberView, err error) {
	var failed []error
	for _, endpoint := range e.candidates() {
		c, err := e.dial([]string{endpoint})
		if err != nil {
			return view, err
		}
		view, err = c.View(ctx, true)
		c.Close()
		if err == nil {
			e.answered(endpoint, view.Members)
			return view, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", endpoint, err)) // another may answer
		if ctx.Err() != nil {
			break
		}
	}
	return view, unknown(errors.Join(failed...))
}

// unknown has adoption's words for a credential that does not do.
func unknown(err error) error {
	switch {
	case errors.Is(err, etcd.ErrAuthRequired):
		return fmt.Errorf("%w (%w)", adoption.ErrCredential, err)
	case errors.Is(err, etcd.ErrPermission):
		return fmt.Errorf("%w (%w)", adoption.ErrRole, err)
	}
	return err
}

// MayChange implements adoption.Members.
func (e *foreignEtcd) MayChange(ctx context.Context) error {
	return unknown(e.any(ctx, func(ctx context.Context, c *etcd.Client) error { return c.MayChange(ctx) }))
}

// Quota implements adoption.Members.
func (e *foreignEtcd) Quota(ctx context.Context, m cluster.Member) (int64, error) {
	return etcd.MeasuredQuota(ctx, etcd.Config{Endpoints: e.reached(m), TLS: e.tls})
}

// AddLearner implements adoption.Members.
func (e *foreignEtcd) AddLearner(ctx context.Context, of cluster.ClusterID, peerURLs []string) error {
	return e.change(ctx, of, nil, func(ctx context.Context, c *etcd.Client) error {
		_, err := c.AddMember(ctx, peerURLs, true)
		return err
	})
}

// Promote implements adoption.Members.
func (e *foreignEtcd) Promote(ctx context.Context, of cluster.ClusterID, id cluster.MemberID) error {
	return e.change(ctx, of, nil, func(ctx context.Context, c *etcd.Client) error { return c.Promote(ctx, id) })
}

// Remove implements adoption.Members. The one that goes is not asked: it may not be
// there any more to answer.
func (e *foreignEtcd) Remove(ctx context.Context, of cluster.ClusterID, id cluster.MemberID) error {
	return e.change(ctx, of, e.urlsOf(id), func(ctx context.Context, c *etcd.Client) error { return c.Remove(ctx, id) })
}

// urlsOf are where a listed member serves clients.
func (e *foreignEtcd) urlsOf(id cluster.MemberID) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.members {
		if m.ID == id {
			return m.ClientURLs
		}
	}
	return nil
}

// MoveLeader implements adoption.Members.
func (e *foreignEtcd) MoveLeader(ctx context.Context, of cluster.ClusterID, leader cluster.Member, to cluster.MemberID) error {
	at := e.reached(leader)
	if len(at) == 0 {
		return errors.New("the leader advertises no client URL")
	}
	return e.changeAt(ctx, at, of, func(ctx context.Context, c *etcd.Client) error { return c.MoveLeader(ctx, to) })
}

// Certified implements adoption.Members.
func (e *foreignEtcd) Certified() error {
	if e.tls == nil && slices.ContainsFunc(e.own, func(u string) bool { return strings.HasPrefix(u, "https:") }) {
		return errors.New("this host's member will serve clients with TLS, and this command has no certificate for it: give --cacert, --cert and --key by its authority for clients, or start this host's daemon first, which leaves here what is needed")
	}
	_, err := e.peer()
	return err
}

// Reach implements adoption.Members.
func (e *foreignEtcd) Reach(ctx context.Context, m cluster.Member) error {
	var config *tls.Config
	if slices.ContainsFunc(m.PeerURLs, func(u string) bool { return strings.HasPrefix(u, "https:") }) {
		var err error
		if config, err = e.peer(); err != nil {
			return err
		}
	}
	_, err := etcd.VoterURLs(ctx, m.PeerURLs, config)
	return err
}

// Backup implements adoption.Members.
func (e *foreignEtcd) Backup(ctx context.Context, of cluster.ClusterID) (name string, err error) {
	if e.say != nil {
		told, end := working(ctx, e.say, "backing the cluster up")
		defer end()
		ctx = told
	}
	err = e.any(ctx, func(ctx context.Context, c *etcd.Client) error {
		st, err := c.Status(ctx)
		if err != nil {
			return err
		}
		if st.Cluster != of {
			return fmt.Errorf("a member of cluster %s answers, and not of %s", st.Cluster, of)
		}
		snapshot, err := c.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer snapshot.Close()
		b, err := e.catalogue.Write(ctx, backupstore.Request{
			Meta: backup.Meta{EtcdVersion: st.Version},
			Manifest: backup.Manifest{
				Cluster: e.name, Reason: backup.ReasonBeforeChange, ClusterID: st.Cluster, MemberID: st.Member, EtcdVersion: st.Version,
				StorageVersion: snapshot.StorageVersion, Position: backup.Position{Revision: st.Revision, Term: st.Term, Index: st.Applied},
			},
			Compression: e.packing.Compression, Recipients: e.packing.Recipients,
		}, snapshot)
		name = b.Name.String()
		return err
	})
	return name, err
}

package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/signing"
)

// renewEvery is how often certificates are looked at, at least; short-lived
// ones are looked at twelve times in their life. A look writes nothing unless
// one is due, at two thirds of its life.
const renewEvery = 10 * time.Minute

// untimelyEvery is the same while one of them is not valid.
const untimelyEvery = 30 * time.Second

// renewLeast is the same for lifetimes of tests.
const renewLeast = time.Second

// certs issues the leaves of this host and keeps them fresh. Without TLS on
// either side it has nothing to do there, and says so by nil configurations.
type certs struct {
	cluster   string
	host      cluster.HostID
	addresses []string
	dataDir   string
	life      pki.Lifetime
	daemons   *pki.Live // nil: no TLS between daemons
	etcdTLS   bool
	pkiDir    string
	given     bool             // pkiDir has the leaves as well, and somebody else renews them
	keys      pki.KeyAlgorithm // of etcd's pairs, as a person said
	etcdEnv   []string         // what is passed on to etcd
	log       *slog.Logger

	writing sync.Mutex // held to issue and write; guards launch and asking
	launch  record.Launch
	asking  asking

	mu       sync.Mutex       // guards what follows; never held over a write, since reports and observations ask for it
	cas      *pki.Authorities // nil: neither side uses TLS
	expiries map[string]time.Time
	leaves   map[string]*x509.Certificate   // those that this host keeps, as they are
	behind   map[string][]*x509.Certificate // what their files have behind them
	said     map[string]time.Time           // what went wrong, and when that was said last
	facts    *cluster.HostAuthorities       // replaced, never changed
	overdue  map[string]error               // why a certificate that is due could not be renewed

	follows rotation      // set before run
	epoch   atomic.Uint64 // grows with each change of whom this host trusts
}

func newCerts(c *Config, id cluster.HostID, etcdEnv []string, log *slog.Logger) (*certs, error) {
	life, err := pki.LifetimeFromEnv(os.Getenv)
	if err != nil {
		return nil, err
	}
	keys, err := pki.ParseKeyAlgorithm(c.KeyAlgorithm)
	if err != nil {
		return nil, err
	}
	k := &certs{
		cluster: c.ClusterName, host: id, dataDir: c.DataDir, life: life, etcdTLS: !c.EtcdInsecure,
		pkiDir: c.AuthoritiesDir(), given: c.LeavesDir != "", keys: keys, etcdEnv: etcdEnv, log: log, expiries: map[string]time.Time{}, leaves: map[string]*x509.Certificate{}, behind: map[string][]*x509.Certificate{}, said: map[string]time.Time{}, overdue: map[string]error{},
		addresses: signing.Names(string(id), c.Address, c.DNSSuffix),
	}
	if c.Insecure && c.EtcdInsecure {
		return k, nil
	}
	if k.etcdTLS && !k.given {
		if _, err := k.keyKind(nil); err != nil {
			return nil, err
		}
	}
	if k.cas, err = pki.Load(k.pkiDir, time.Now()); err != nil {
		return nil, err
	}
	if !c.Insecure {
		k.daemons = pki.NewLive(nil)
	}
	err = k.renew(context.Background()) // nobody is asked yet
	if err != nil && k.cas != nil && !k.cas.CanIssue() && k.daemons != nil && k.daemons.Loaded() {
		log.Info("this host holds no authorities' keys: it asks others for certificates once it has found them", "lacking", err)
		return k, nil // a member that is there is started without asking anybody
	}
	return k, err
}

func (k *certs) stateDir(name string) string { return filepath.Join(k.dataDir, "etcdadm", "pki", name) }

// peersDir and clientsDir are where the predecessor keeps them too.
func (k *certs) peersDir(token string) string {
	return filepath.Join(k.dataDir, "pki", token, "peers")
}

func (k *certs) clientsDir(token string) string {
	return filepath.Join(k.dataDir, "pki", token, "clients")
}

func (k *certs) authorities() *pki.Authorities {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cas
}

// ends notes when a certificate does.
func (k *certs) ends(name string, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expiries[name] = at
}

// renew makes what is missing and renews what is due.
func (k *certs) renew(ctx context.Context) error {
	cas := k.authorities()
	if cas == nil {
		return nil
	}
	k.writing.Lock()
	defer k.writing.Unlock()
	defer k.tell()
	k.mu.Lock()
	maps.DeleteFunc(k.expiries, func(name string, _ time.Time) bool { return strings.HasSuffix(name, "]") }) // of a bundle, which may have lost some
	k.mu.Unlock()
	for _, a := range cas.Expiries() {
		k.ends(a.Name, a.NotAfter)
	}
	if k.given {
		return k.take()
	}
	if k.daemons != nil {
		if err := k.renewDaemons(ctx); err != nil {
			return err
		}
	}
	if !k.etcdTLS {
		return nil
	}
	person, err := pki.ClientRequest("root", k.life)
	if err != nil {
		return err
	}
	if _, err := k.ensure(ctx, leafEtcdctl, k.stateDir(leafEtcdctl), pki.ClientNames, k.authorities().Clients, person); err != nil {
		return err
	}
	if k.launch.Token == "" {
		return nil
	}
	return k.renewEtcd(ctx, k.launch)
}

func (k *certs) renewDaemons(ctx context.Context) error {
	self, err := pki.HostRequest(pki.Identity{Cluster: k.cluster, Role: pki.RoleHost, ID: string(k.host)}, k.addresses, k.life)
	if err != nil {
		return err
	}
	pair, err := k.ensure(ctx, leafDaemon, k.stateDir(leafDaemon), pki.PeerNames, k.authorities().Manager, self)
	if err != nil {
		// One that has ended is shown all the same: others say then why they do not take it.
		if had, _ := pki.LoadKeypair(k.stateDir(leafDaemon), pki.PeerNames); had != nil && !k.authorities().Manager.CanIssue() {
			k.daemons.Swap(had, k.authorities().Manager)
			k.keeps(leafDaemon, had)
		}
		return err
	}
	k.daemons.Swap(pair, k.authorities().Manager)
	operator, err := pki.CallerRequest(pki.Identity{Cluster: k.cluster, Role: pki.RoleOperator, ID: console.Operator}, k.life)
	if err != nil {
		return err
	}
	_, err = k.ensure(ctx, leafOperator, k.stateDir(leafOperator), pki.PeerNames, k.authorities().Manager, operator)
	return err
}

// renewEtcd is about the files that the member reads at each handshake.
func (k *certs) renewEtcd(ctx context.Context, l record.Launch) error {
	kind, err := k.keyKind(l.Options)
	if err != nil {
		return err
	}
	// etcd holds a caller's certificate against the address that the call came
	// from, and between loopback addresses that is 127.0.0.1.
	peer, err := pki.PeerRequest(string(k.host), l.URLs.Peer, append([]string{"127.0.0.1"}, k.addresses...), k.life)
	if err != nil {
		return err
	}
	peer.Kept, peer.Key = l.Adopted, kind
	if err := k.member(ctx, leafPeer, k.peersDir(l.Token), pki.PeerNames, k.authorities().Peers, peer); err != nil {
		return err
	}
	urls := append(append([]string{}, l.URLs.Client...), l.URLs.Quarantine...)
	server, err := pki.ServerRequest(string(k.host), urls, k.addresses, k.life)
	if err != nil {
		return err
	}
	server.Kept, server.Key = l.Adopted, kind
	if err := k.member(ctx, leafServer, k.clientsDir(l.Token), pki.ServerNames, k.authorities().Clients, server); err != nil {
		return err
	}
	client, err := pki.ClientRequest("root", k.life)
	if err != nil {
		return err
	}
	return k.member(ctx, leafClient, k.clientsDir(l.Token), pki.ClientNames, k.authorities().Clients, client)
}

// ensure has a certificate issued here, or by another host where this one does not have the key.
func (k *certs) ensure(ctx context.Context, name, dir string, names pki.Names, a *pki.Authority, r pki.Request) (*pki.Keypair, error) {
	if a.CanIssue() {
		return k.ensureBy(name, dir, names, a, r, nil)
	}
	return k.ensureBy(name, dir, names, a, r, k.signs(ctx, name))
}

func (k *certs) ensureBy(name, dir string, names pki.Names, a *pki.Authority, r pki.Request, by pki.Issuer) (*pki.Keypair, error) {
	r.OnRequest = by != nil
	done, err := pki.EnsureBy(dir, names, a, r, time.Now(), by)
	k.mu.Lock()
	k.overdue[name] = errors.Join(err, done.Overdue)
	k.mu.Unlock()
	if err != nil {
		return nil, err
	}
	switch {
	case done.Overdue != nil:
		k.failed("a certificate is due and could not be renewed", done.Overdue, "certificate", name)
	case done.Issued != "":
		k.log.Info("issued a certificate", "certificate", name, "because", done.Issued)
	}
	k.keeps(name, done.Pair)
	return done.Pair, nil
}

// keeps notes which leaf is kept under a name.
func (k *certs) keeps(name string, pair *pki.Keypair) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expiries[name], k.leaves[name], k.behind[name] = pair.Leaf().NotAfter, pair.Leaf(), pair.Behind()
}

// failed says what went wrong, unless the same was said within renewEvery: looks are
// many while a certificate is not valid.
func (k *certs) failed(what string, err error, about ...any) {
	key, now := fmt.Sprint(what, about, err), time.Now()
	k.mu.Lock()
	maps.DeleteFunc(k.said, func(_ string, at time.Time) bool { return now.Sub(at) >= renewEvery })
	_, known := k.said[key]
	if !known {
		k.said[key] = now
	}
	k.mu.Unlock()
	if !known {
		k.log.Warn(what, append(about, "err", err)...)
	}
}

// untimely tells whether a leaf is not valid now: one that was issued while this host's
// clock was ahead, mostly, and nobody talks with this host until there is another.
func (k *certs) untimely(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, leaf := range k.leaves {
		if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
			return true
		}
	}
	return false
}

// forLaunch makes the files that a member launched like this reads.
func (k *certs) forLaunch(l record.Launch) error {
	if !k.etcdTLS {
		return nil
	}
	k.writing.Lock()
	defer k.writing.Unlock()
	defer k.tell()
	if k.launch.Token != l.Token {
		k.dropEtcd()
	}
	k.launch = l
	ctx, cancel := context.WithTimeout(context.Background(), askTotal)
	defer cancel()
	if k.given {
		if err := k.take(); err != nil {
			return err
		}
	} else if err := k.renewEtcd(ctx, l); err != nil {
		return err
	}
	if err := k.keysServe(l.Options, k.pair(leafPeer, l.Token)); err != nil {
		return err
	}
	return k.keysServe(l.Options, k.pair(leafServer, l.Token))
}

// over ends what is done for a launch whose data was set aside: else its certificates
// would be renewed, and their ends be told, for a member that is none any more. The files
// stay where they are: nothing is deleted, data that is taken back gets a token and
// certificates of its own, and an etcd that was given up without its end being seen may
// still read them.
func (k *certs) over(token string) {
	k.writing.Lock()
	defer k.writing.Unlock()
	defer k.tell()
	if token == "" || k.launch.Token != token {
		return
	}
	k.launch = record.Launch{}
	k.dropEtcd()
}

// memberDisk tells the certificates what was set aside.
type memberDisk struct {
	*datadir.Dir
	certs *certs
}

// SetAside implements host.Disk.
func (d memberDisk) SetAside(token string, what cluster.SetAside) (cluster.SetAside, error) {
	aside, err := d.Dir.SetAside(token, what)
	if err == nil {
		d.certs.over(token)
	}
	return aside, err
}

// dropEtcd forgets the files of a launch that is over: nobody reads or renews them.
func (k *certs) dropEtcd() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range []string{leafPeer, leafServer, leafClient} {
		delete(k.leaves, name)
		delete(k.expiries, name)
	}
}

// adopted goes on renewing the files of a member that an earlier daemon
// started; it serves with those that are there if that fails.
func (k *certs) adopted(l record.Launch) {
	if err := k.forLaunch(l); err != nil {
		k.log.Warn("could not renew the certificates of the adopted etcd", "err", err)
	}
}

// run looks after the certificates until ctx ends.
func (k *certs) run(ctx context.Context) error {
	if err := k.lacks(ctx); err != nil {
		return err
	}
	t := time.NewTicker(followEvery)
	defer t.Stop()
	untimely := time.Now()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		if k.authorities() == nil {
			continue
		}
		k.follow(ctx)
		now := time.Now()
		due := now.Sub(last) >= k.every()
		if !due && now.Sub(untimely) >= untimelyEvery {
			untimely = now
			due = k.untimely(now)
		}
		if due {
			last = now
			if err := k.look(ctx); err != nil {
				k.failed("could not renew certificates", err)
			}
		}
	}
}

// look reads the authorities, which may have been rotated on disk, and renews what is due.
func (k *certs) look(ctx context.Context) error {
	if k.given {
		return k.lookAtGiven(ctx)
	}
	if err := k.reread(); err != nil {
		k.failed("could not read the authorities again; those that are known stay in use", err)
	}
	return k.renew(ctx)
}

func (k *certs) reread() error {
	cas, err := pki.Load(k.pkiDir, time.Now())
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.cas = cas
	k.mu.Unlock()
	return nil
}

// list is every certificate that this host knows of, with its end.
func (k *certs) list() []console.Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []console.Certificate
	for name, end := range k.expiries {
		out = append(out, console.Certificate{Name: name, NotAfter: end})
	}
	slices.SortFunc(out, func(a, b console.Certificate) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// access is what a person's tool needs to reach this daemon and its etcd.
func (k *certs) access(c *Config, urls cluster.URLs) console.Access {
	a := console.Access{Cluster: c.ClusterName, Endpoints: []string{c.Endpoint()}, Etcd: console.EtcdAccess{Endpoints: urls.Client}, Settings: &console.Settings{
		URLs: urls, ControlStore: ShownURL(c.ControlStore), Store: ShownURL(c.BackupStore), Secret: SecretIn(c.ControlStore) || SecretIn(c.BackupStore),
		Leaves: c.LeavesDir, Releases: c.ReleaseDirs, Recipients: c.Backups.Recipients,
	}}
	if c.LeavesDir == "" {
		a.Settings.PKI = c.PKIDir
	}
	if k.daemons != nil {
		p := k.pair(leafOperator, "")
		a.Credentials = p.dir
		if k.given {
			a.Files = p.names
		}
	}
	if k.etcdTLS {
		p := k.pair(leafEtcdctl, "")
		a.Etcd.CA, a.Etcd.Cert, a.Etcd.Key = p.file(p.names.CA), p.file(p.names.Cert), p.file(p.names.Key)
	}
	return a
}

// Package console is a person's connection to the daemons: it finds one, with
// the operator's certificate that every daemon leaves beside its state, asks
// it, and follows it to the one that leads.
package console

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
)

// Access is how the daemons of a cluster are reached.
type Access struct {
	Cluster   string   `json:"cluster"`
	Endpoints []string `json:"endpoints"` // host:port, tried in this order
	// Credentials is the directory of the operator's key pair; empty: no TLS.
	Credentials string `json:"credentials,omitempty"`
	// Files are the names of that pair; none: those of a daemon's own.
	Files pki.Names `json:"files,omitzero"`
	// Etcd is how to reach etcd itself, for people.
	Etcd EtcdAccess `json:"etcd,omitzero"`
	// Settings are those of the daemon that a command on its host goes by; nil: an older daemon left this.
	Settings *Settings `json:"settings,omitempty"`
}

// Settings are how a daemon was started, without secrets, for commands that would be given the same once more.
type Settings struct {
	URLs cluster.URLs `json:"urls,omitzero"`
	// ControlStore is the URL of the store with the control record, where that is another one than Store, which has the
	// backups. Secret: one of them has what looks like a credential, and was left out.
	ControlStore string `json:"controlStore,omitempty"`
	Store        string `json:"store,omitempty"`
	Secret       bool   `json:"secret,omitempty"`
	// Leaves is the directory of certificates that somebody else renews, and PKI that of the authorities; one of the two.
	Leaves     string   `json:"leaves,omitempty"`
	PKI        string   `json:"pki,omitempty"`
	Releases   []string `json:"releases,omitempty"` // directories of --release-dir
	Recipients []string `json:"recipients,omitempty"`
}

// EtcdAccess is what etcdctl needs.
type EtcdAccess struct {
	Endpoints []string `json:"endpoints,omitempty"`
	CA        string   `json:"ca,omitempty"`
	Cert      string   `json:"cert,omitempty"`
	Key       string   `json:"key,omitempty"`
}

const accessFile = "access.json"

// Operator is the name in the certificate that a daemon leaves for people.
const Operator = "operator"

// ErrNoDaemon says that no daemon answered.
var ErrNoDaemon = errors.New("no daemon answers")

// ErrOtherCluster says that the credentials are not for the cluster that was named.
var ErrOtherCluster = errors.New("the certificate is for another cluster")

// Write leaves the access beside a daemon's state.
func (a Access) Write(stateDir string) error {
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(stateDir, accessFile), append(data, '\n'), 0o644)
}

// ReadAccess reads what the daemon of a data directory left.
func ReadAccess(dataDir string) (Access, error) {
	var a Access
	path := filepath.Join(dataDir, "etcdadm", accessFile)
	data, err := regular.Read(path, regular.SmallSize)
	if err != nil {
		return a, fmt.Errorf("find the daemon of %s: %w", dataDir, err)
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("read %s: %w", path, err)
	}
	return a, nil
}

// Console asks daemons. Close it.
type Console struct {
	access Access
	pool   *peer.Pool
}

// Open prepares a console; nothing is dialled yet.
func Open(a Access) (*Console, error) {
	self := pki.Identity{Cluster: a.Cluster, Role: pki.RoleOperator, ID: Operator}
	var live *pki.Live
	if a.Credentials != "" {
		names := cmp.Or(a.Files, pki.PeerNames)
		pair, err := pki.LoadKeypair(a.Credentials, names)
		if err != nil {
			return nil, fmt.Errorf("read the operator's certificate: %w", err)
		}
		if self, err = pki.IdentityOf(pair.Leaf()); err != nil {
			return nil, fmt.Errorf("read the operator's certificate: %w", err)
		}
		if a.Cluster != self.Cluster { // whoever named it means another one than would be asked
			return nil, fmt.Errorf("%w: the one in %s is for cluster %q, and %q was named", ErrOtherCluster, a.Credentials, self.Cluster, a.Cluster)
		}
		ca, err := pki.LoadAuthorityFiles("etcd-manager-ca", filepath.Join(a.Credentials, names.CA), "", time.Now())
		if err != nil {
			return nil, fmt.Errorf("read the authority of the daemons: %w", err)
		}
		live = pki.NewLive(nil)
		live.Swap(pair, ca)
	}
	pool, err := peer.NewPool(self, live)
	if err != nil {
		return nil, err
	}
	return &Console{access: a, pool: pool}, nil
}

// Close ends the connections.
func (c *Console) Close() error { return c.pool.Close() }

// Access is what the console was opened with.
func (c *Console) Access() Access { return c.access }

// aloneFor is how long one daemon is waited for before the next one is asked, too: one
// that stands still, or whose host is gone, must not take the time of all.
const aloneFor = time.Second

// leaderTimeout is what the leading daemon has to answer in. One that stands
// still would be waited for until the others call it silent, and longer.
const leaderTimeout = time.Second

// Status asks the leading daemon, or any that answers when none leads.
func (c *Console) Status(ctx context.Context) (Report, error) {
	report, err := c.first(ctx)
	if err != nil || report.Leading || report.LeaderEndpoint == "" {
		return report, err
	}
	leader, err := c.pool.To(cluster.Contact{Host: report.Leader, Endpoint: report.LeaderEndpoint})
	if err != nil {
		return report, nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	led, err := ask(ctx, leader)
	switch {
	case err == nil:
		return led, nil
	case errors.As(err, new(*cluster.NewerError)): // the others know less, and none would say why
		return Report{}, err
	}
	return report, nil // what a daemon knows that does not lead
}

// First is the report of whoever answers first: with the access of a data directory that is
// this host's own daemon, which tells of itself, whoever leads.
func (c *Console) First(ctx context.Context) (Report, error) { return c.first(ctx) }

// first is the report of whoever answers first. The daemons are asked in their order, the
// next one when one before has failed or has not answered for a while.
func (c *Console) first(ctx context.Context) (Report, error) {
	type answer struct {
		endpoint string
		report   Report
		err      error
	}
	rest := c.access.Endpoints
	answers := make(chan answer, len(rest))
	var asking sync.WaitGroup
	defer asking.Wait()
	questions, cancel := context.WithCancel(ctx)
	defer cancel()
	next := time.NewTimer(0)
	defer next.Stop()
	var failed []error
	for open := 0; open > 0 || len(rest) > 0; { // each question ends with ctx
		select {
		case <-next.C:
			if len(rest) == 0 {
				continue
			}
			endpoint := rest[0]
			rest = rest[1:]
			open++
			asking.Go(func() {
				client, err := c.pool.To(cluster.Contact{Endpoint: endpoint})
				a := answer{endpoint: endpoint, err: err}
				if err == nil {
					a.report, a.err = ask(questions, client)
				}
				answers <- a
			})
			next.Reset(aloneFor)
		case a := <-answers:
			if a.err == nil {
				return a.report, nil
			}
			if err := settled(ctx, a.endpoint, a.err); err != nil {
				return Report{}, err
			}
			failed = append(failed, a.err)
			open--
			next.Reset(0)
		}
	}
	return Report{}, fmt.Errorf("%w: %w", ErrNoDaemon, errors.Join(failed...))
}

func ask(ctx context.Context, client *peer.Client) (Report, error) {
	return put[Report](ctx, client, Question{Kind: AskStatus})
}

// put puts a question to one daemon.
func put[A any](ctx context.Context, client *peer.Client, q Question) (A, error) {
	var out A
	question, err := json.Marshal(q)
	if err != nil {
		return out, err
	}
	answer, err := client.Report(ctx, question)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, fmt.Errorf("%w: read the daemon's answer: %w", peer.ErrBody, err) // that daemon is there
	}
	return out, nil
}

// Forget has one daemon forget a host.
func (c *Console) Forget(ctx context.Context, by cluster.Contact, id cluster.HostID) (Forgot, error) {
	client, err := c.pool.To(by)
	if err != nil {
		return Forgot{}, err
	}
	return put[Forgot](ctx, client, Question{Kind: AskForget, Host: id})
}

// ResetFence asks a host's own daemon what a reset of its promise would do, and
// does it where do says so.
func (c *Console) ResetFence(ctx context.Context, at cluster.Contact, do bool) (FenceReset, error) {
	client, err := c.pool.To(at)
	if err != nil {
		return FenceReset{}, err
	}
	return put[FenceReset](ctx, client, Question{Kind: AskFence, Host: at.Host, Do: do})
}

// ConfirmDisk asks a host's own daemon whether a person may confirm its disk, and confirms it where do says so.
func (c *Console) ConfirmDisk(ctx context.Context, at cluster.Contact, do bool) (DiskConfirmation, error) {
	client, err := c.pool.To(at)
	if err != nil {
		return DiskConfirmation{}, err
	}
	return put[DiskConfirmation](ctx, client, Question{Kind: AskConfirm, Host: at.Host, Do: do})
}

// Prune asks a host what it has set aside, or with do has it remove what dir names.
func (c *Console) Prune(ctx context.Context, at cluster.Contact, dir string, do bool) (Pruned, error) {
	client, err := c.pool.To(at)
	if err != nil {
		return Pruned{}, err
	}
	return put[Pruned](ctx, client, Question{Kind: AskPrune, Host: at.Host, Dir: dir, Do: do})
}

// LogEnd asks a host how far the log of its member goes.
func (c *Console) LogEnd(ctx context.Context, at cluster.Contact) (cluster.LogEnd, error) {
	client, err := c.pool.To(at)
	if err != nil {
		return cluster.LogEnd{}, err
	}
	return put[cluster.LogEnd](ctx, client, Question{Kind: AskLog, Host: at.Host})
}

// Served asks a host at which revision its member serves.
func (c *Console) Served(ctx context.Context, at cluster.Contact) (Served, error) {
	client, err := c.pool.To(at)
	if err != nil {
		return Served{}, err
	}
	return put[Served](ctx, client, Question{Kind: AskServed, Host: at.Host})
}

// Releases asks a daemon which releases of etcd it finds on its host.
func (c *Console) Releases(ctx context.Context) (Releases, error) {
	var out Releases
	err := c.each(ctx, func(client *peer.Client) (err error) {
		out, err = put[Releases](ctx, client, Question{Kind: AskReleases})
		return err
	})
	return out, err
}

// LastWord tells one daemon why that of a host did not start.
func (c *Console) LastWord(ctx context.Context, to cluster.Contact, of cluster.HostID, r Refusal) error {
	client, err := c.pool.To(to)
	if err != nil {
		return err
	}
	_, err = put[bool](ctx, client, Question{Kind: AskLastWord, Host: of, Refusal: &r})
	return err
}

// Goal hands a person's step to a daemon, which forwards it to the leading one.
func (c *Console) Goal(ctx context.Context, goal manager.GoalRequest) (manager.GoalResult, error) {
	var out manager.GoalResult
	body, err := json.Marshal(goal)
	if err != nil {
		return out, err
	}
	err = c.each(ctx, func(client *peer.Client) error {
		answer, err := client.Goal(ctx, body)
		if err != nil {
			return err
		}
		return json.Unmarshal(answer, &out)
	})
	return out, err
}

// each tries the endpoints until one answers, be it that this one may not ask. That a person does not wait any longer
// is no fault of a daemon.
func (c *Console) each(ctx context.Context, do func(*peer.Client) error) error {
	var failed []error
	for _, e := range c.access.Endpoints {
		client, err := c.pool.To(cluster.Contact{Endpoint: e})
		if err == nil {
			err = do(client)
		}
		if err == nil {
			return nil
		}
		if err := settled(ctx, e, err); err != nil {
			return err
		}
		failed = append(failed, err)
	}
	return fmt.Errorf("%w: %w", ErrNoDaemon, errors.Join(failed...))
}

// settled is the end of the search for a daemon that answers; nil: the others are asked.
func settled(ctx context.Context, endpoint string, err error) error {
	switch said, ok := errors.AsType[*peer.Error](err); {
	case errors.Is(ctx.Err(), context.Canceled) && ok && said.Delivered:
		return fmt.Errorf("stopped waiting for the daemon at %s, which may carry out what it was asked for: %w", endpoint, ctx.Err())
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("stopped waiting for the daemon at %s: %w", endpoint, ctx.Err())
	case errors.Is(err, peer.ErrRole), errors.As(err, new(*cluster.NewerError)):
		return err // a daemon has answered, and the others would say the same
	}
	return nil
}

// TLS is the client configuration for etcd itself, of files alone; nil where nothing is
// named.
func (e EtcdAccess) TLS() (*tls.Config, error) { return e.tls(regular.Read) }

// CommandTLS is TLS for a person's command, which reads them once: a pipe may bring each
// of them.
func (e EtcdAccess) CommandTLS(ctx context.Context) (*tls.Config, error) {
	return e.tls(func(path string, limit int64) ([]byte, error) {
		data, _, err := regular.ReadOrPipe(ctx, path, limit)
		return data, err
	})
}

func (e EtcdAccess) tls(read func(path string, limit int64) ([]byte, error)) (*tls.Config, error) {
	if e.Cert == "" && e.CA == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.Cert != "" {
		pair, err := keyPair(read, e.Cert, e.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if e.CA != "" { // else the system's
		ca, err := pki.LoadTrusted("etcd-clients-ca", e.CA, read, time.Now())
		if err != nil {
			return nil, err
		}
		c.RootCAs = ca.Pool()
	}
	return c, nil
}

// keyPair is [tls.LoadX509KeyPair] with another way to read.
func keyPair(read func(path string, limit int64) ([]byte, error), certFile, keyFile string) (tls.Certificate, error) {
	cert, err := read(certFile, regular.SmallSize)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := read(keyFile, regular.SmallSize)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

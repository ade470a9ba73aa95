package peer

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Pool keeps one Client, and so one connection, for each daemon. Safe for concurrent use.
type Pool struct {
	self pki.Identity
	live *pki.Live
	// Record names the control record that this host keeps, "" for none. Nil: there is a shared store. It is set before the
	// first call.
	Record func() string
	// Disks is set before the first call. Nil: nothing is said of disks.
	Disks Disks

	mu      sync.Mutex                  // guards what follows
	clients map[cluster.Contact]*Client // nil once closed
	retired []*Client                   // that calls may still run on
}

// NewPool makes calls as self, which live's certificate has to say too. A nil live means no TLS (--insecure).
func NewPool(self pki.Identity, live *pki.Live) (*Pool, error) {
	if err := self.Validate(); err != nil {
		return nil, fmt.Errorf("new peer pool: %w", err)
	}
	return &Pool{self: self, live: live, clients: make(map[cluster.Contact]*Client)}, nil
}

// To is the client for a contact. With an empty Host whoever answers at the endpoint is taken, if it is a
// host of our cluster: for seeds, whose ID is not known yet. Nothing is dialled before the first call.
func (p *Pool) To(contact cluster.Contact) (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients == nil {
		return nil, &Error{Op: "dial", Endpoint: contact.Endpoint, Host: string(contact.Host), Err: ErrClosed}
	}
	if c, ok := p.clients[contact]; ok {
		return c, nil
	}
	c, err := p.dial(contact, p.self.Cluster)
	if err != nil {
		return nil, err
	}
	p.clients[contact] = c
	return c, nil
}

// Ask is a client of its own for a daemon of any cluster, on which only Hello makes sense. The caller closes it.
func (p *Pool) Ask(endpoint string) (*Client, error) {
	return p.dial(cluster.Contact{Endpoint: endpoint}, "")
}

// Close ends the client's connection; calls that are running fail. Clients that come from Pool.To are closed by the Pool.
func (c *Client) Close() error { return c.conn.Close() }

// Retain closes the clients that keep does not want, such as those of hosts that have left or moved.
func (p *Pool) Retain(keep func(cluster.Contact) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for contact, c := range p.clients {
		if !keep(contact) {
			errs = append(errs, c.Close())
			delete(p.clients, contact)
		}
	}
	return errors.Join(errs...)
}

// Renew has later calls connect anew, and so show the certificate of by then: a server judges that of a connection
// again for each call, and an authority may be trusted no more. Calls that run end on their connections, within the
// time that the longest of them may take.
func (p *Pool) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.clients) == 0 {
		return
	}
	p.retired = slices.AppendSeq(p.retired, maps.Values(p.clients))
	clear(p.clients)
	time.AfterFunc(apply.timeout, func() { _ = p.closeRetired() })
}

func (p *Pool) closeRetired() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range p.retired {
		errs = append(errs, c.Close())
	}
	p.retired = nil
	return errors.Join(errs...)
}

// Close closes every client, and To fails from then on.
func (p *Pool) Close() error {
	err := errors.Join(p.Retain(func(cluster.Contact) bool { return false }), p.closeRetired())
	p.mu.Lock()
	p.clients = nil
	p.mu.Unlock()
	return err
}

func (p *Pool) record() string {
	if p.Record == nil {
		return ""
	}
	return p.Record()
}

func (p *Pool) dial(contact cluster.Contact, name string) (*Client, error) {
	failed := func(err error) (*Client, error) {
		return nil, &Error{Op: "dial", Endpoint: contact.Endpoint, Host: string(contact.Host), Err: err, Advice: "give it as host:port"}
	}
	if host, port, err := net.SplitHostPort(contact.Endpoint); err != nil || host == "" || port == "" {
		return failed(errors.New("it is no endpoint"))
	}
	seen := new(sight)
	creds := insecure.NewCredentials()
	if p.live != nil {
		creds = credentials.NewTLS(p.live.ClientConfig(name, string(contact.Host)))
	}
	conn, err := grpc.NewClient("passthrough:///"+contact.Endpoint, // the name is resolved at each dial: addresses change
		grpc.WithTransportCredentials(&watchedCredentials{creds, seen}),
		grpc.WithStatsHandler(sentMarker{}),
		grpc.WithContextDialer(seen.dial), // and through no proxy: one for the world outside is no way to a neighbour
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(idleAfter),
		grpc.WithUserAgent("etcdadm"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxRequestBytes)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: keepaliveTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnectFirst, Multiplier: 2, Jitter: 0.2, MaxDelay: reconnectMost},
			MinConnectTimeout: dialTimeout,
		}),
	)
	if err != nil {
		return failed(err)
	}
	return &Client{
		to: contact, self: p.self, conn: conn, rpc: peerpb.NewPeerClient(conn), seen: seen,
		plain: p.live == nil, record: p.record, disks: p.Disks,
	}, nil
}

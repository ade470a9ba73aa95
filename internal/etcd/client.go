package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// CallTimeout ends every call whose context lasts longer.
const CallTimeout = 5 * time.Second

const (
	reconnectMin = 50 * time.Millisecond
	reconnectMax = 500 * time.Millisecond
	// connectTimeout is long on purpose: etcd listens before it serves, and a
	// connection that waits in the listener's queue is served the moment etcd
	// is ready. When the process dies the connection ends at once.
	connectTimeout = 20 * time.Second
	// refusedGrace is how long a call waits for a connection that was just
	// refused. A member on the same machine that listens answers well within.
	refusedGrace = 100 * time.Millisecond
	maxMessage   = 64 << 20 // bytes; a reply of ours is a few kilobytes
)

// Config says which member to ask, and as whom.
type Config struct {
	// Endpoints are client URLs of one and the same member, all http or all
	// https.
	Endpoints []string
	// TLS is used for https endpoints; nil means the system's roots.
	TLS *tls.Config
	// ServerName is whom the member's certificate has to name; empty: the host of the
	// endpoint. It is not asked of others, as of a voter that gives a token.
	ServerName string
	// Peer are peer URLs of the same member, at which it tells what the members
	// have agreed on; none: that cannot be asked. PeerTLS is used for https.
	Peer    []string
	PeerTLS *tls.Config
	// Quota is the size in bytes to which the member was told to hold its database,
	// for releases before 3.6, which do not say it. Zero: etcd's default.
	Quota int64
	// Credential, when not nil, gives the user and password to show once the
	// member asks for one. It is called again when etcd refuses the last.
	Credential func(ctx context.Context) (user, password string, err error)
	// Voters, when not nil, says where clients reach the voters, in the order
	// to ask them: while the member is a learner, the driver shows the
	// credential to one of them, because a learner takes tokens and gives none.
	// See VoterURLs.
	Voters func(ctx context.Context) ([]string, error)
	// InClear: the credential goes to voters without TLS as well, from a member with
	// it; whoever gave it shows it to them anyway.
	InClear bool
}

// Client is the driver of one member. It is safe for concurrent use.
type Client struct {
	conn        *grpc.ClientConn
	kv          pb.KVClient
	cluster     pb.ClusterClient
	maintenance pb.MaintenanceClient
	auth        pb.AuthClient
	credential  func(ctx context.Context) (user, password string, err error)
	voters      func(ctx context.Context) ([]string, error)
	inClear     bool        // see Config
	tls         bool        // the endpoints are https
	config      *tls.Config // for a voter, as it was given
	quota       int64
	peer        string // a peer URL of the member; empty: not known
	http        *http.Client

	token  atomic.Pointer[string] // nil: none yet
	asking singleflight.Group     // a question for a token
}

// New prepares the driver. It connects at the first call, so a member that is
// down is no error here.
func New(cfg Config) (*Client, error) {
	addresses, secure, err := parseEndpoints(cfg.Endpoints)
	if err != nil {
		return nil, fmt.Errorf("prepare etcd driver: %w", err)
	}
	transport := insecure.NewCredentials()
	if secure {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if cfg.TLS != nil {
			config = cfg.TLS.Clone()
		}
		for i := range addresses { // gRPC heeds no name in the TLS configuration beside these
			addresses[i].ServerName = cmp.Or(cfg.ServerName, addresses[i].ServerName)
		}
		transport = credentials.NewTLS(config)
	}
	members := manual.NewBuilderWithScheme("etcd-member")
	members.InitialState(resolver.State{Addresses: addresses})
	conn, err := grpc.NewClient("etcd-member:///"+addresses[0].Addr,
		grpc.WithResolvers(members),
		grpc.WithTransportCredentials(transport),
		grpc.WithNoProxy(),
		// Fixed windows: gRPC would measure the line with two frames a call else.
		grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(1<<20),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithStatsHandler(sentStats{}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: reconnectMin, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax,
			},
			MinConnectTimeout: connectTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("prepare etcd driver: %w", err)
	}
	return &Client{
		conn:        conn,
		kv:          pb.NewKVClient(conn),
		cluster:     pb.NewClusterClient(conn),
		maintenance: pb.NewMaintenanceClient(conn),
		auth:        pb.NewAuthClient(conn),
		credential:  cfg.Credential,
		voters:      cfg.Voters,
		inClear:     cfg.InClear,
		tls:         secure,
		config:      cfg.TLS,
		quota:       cfg.Quota,
		peer:        first(cfg.Peer),
		http:        plainHTTP(cfg),
	}, nil
}

func first(of []string) string {
	if len(of) == 0 {
		return ""
	}
	return of[0]
}

// Close ends the connection; calls under way fail.
func (c *Client) Close() error { return c.conn.Close() }

func parseEndpoints(endpoints []string) (addresses []resolver.Address, secure bool, err error) {
	if len(endpoints) == 0 {
		return nil, false, errors.New("no client URL")
	}
	for i, e := range endpoints {
		u, err := url.Parse(e)
		if err != nil {
			return nil, false, fmt.Errorf("client URL %q: %w", e, err)
		}
		host, _, err := net.SplitHostPort(u.Host)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, false, fmt.Errorf("client URL %q: want http(s)://host:port", e)
		}
		if i > 0 && secure != (u.Scheme == "https") {
			return nil, false, fmt.Errorf("client URL %q: http and https are mixed", e)
		}
		secure = u.Scheme == "https"
		addresses = append(addresses, resolver.Address{Addr: u.Host, ServerName: host})
	}
	return addresses, secure, nil
}

// waitConnection returns once there is a connection.
func (c *Client) waitConnection(ctx context.Context) error {
	for {
		state := c.conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Shutdown:
			return ErrClosed
		case connectivity.Idle:
			c.conn.Connect()
		}
		if !c.conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("%w: %w", ErrUnreachable, context.Cause(ctx))
		}
	}
}

// connect is waitConnection for a call: where the member refused connections just
// now it tries once more and gives up soon, so that a member that is down
// costs its host no time.
func (c *Client) connect(ctx context.Context) error {
	state := c.conn.GetState()
	if state == connectivity.Ready {
		return nil
	}
	if state == connectivity.TransientFailure {
		c.conn.ResetConnectBackoff()
		grace, cancel := context.WithTimeout(ctx, refusedGrace)
		defer cancel()
		return c.waitConnection(grace)
	}
	// Idle or connecting: wait for what comes of it.
	for {
		if state == connectivity.Idle {
			c.conn.Connect()
		}
		if !c.conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("%w: %w", ErrUnreachable, context.Cause(ctx))
		}
		switch state = c.conn.GetState(); state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure:
			return fmt.Errorf("%w: connection refused or broken", ErrUnreachable)
		case connectivity.Shutdown:
			return ErrClosed
		}
	}
}

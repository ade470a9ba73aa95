package peer

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Caller is who made a call.
type Caller struct {
	Identity pki.Identity
	Remote   string // the address that it came from
	// Verified says that a certificate proves the identity. Without TLS it is what the caller claims.
	Verified bool
	// Leaf is the certificate that proves it; nil without TLS.
	Leaf *x509.Certificate
	// Record is the control record that a host keeps which calls, "" for none.
	Record string
}

// Handler answers the calls that the server let through. It is called from many goroutines at once. An error
// reaches the caller as its text, so it must not hold a secret; one with a method Hint() string keeps its hint.
type Handler interface {
	Ping(context.Context, Caller, cluster.Ping) (cluster.Ping, error)
	Observe(context.Context, Caller, cluster.ObserveRequest) (cluster.ObserveReply, error)
	Apply(context.Context, Caller, cluster.ApplyRequest) (cluster.ApplyReply, error)
	// Goal and Report carry JSON that only the floors above know the types of.
	Goal(context.Context, Caller, json.RawMessage) (json.RawMessage, error)
	Report(context.Context, Caller, json.RawMessage) (json.RawMessage, error)
	Keep(context.Context, Caller, KeepRequest) (KeepReply, error)
	// Authority gives the key of a next authority.
	Authority(context.Context, Caller, AuthorityRequest) (AuthorityReply, error)
}

// ServerOptions say whom a server answers for. All but Log, Live, Record, Disks, Admitter and Signer are required.
type ServerOptions struct {
	Cluster  string
	Host     cluster.HostID
	Handler  Handler
	Admitter Admitter     // nil: no host is taken in
	Signer   Signer       // nil: nothing is signed for other hosts
	Live     *pki.Live    // nil: no TLS, and callers are believed (--insecure)
	Log      *slog.Logger // nil: slog.Default
	// Record names the control record that this host keeps, "" for none. Nil: there is a shared store.
	Record func() string
	// Disks is what this host remembers of disks. Nil: nothing is said of them.
	Disks Disks
	// AtHosts says that the hosts keep the record: those are refused that have it in a store.
	AtHosts bool
	// Heard is told which record another host names, also one that is refused for it. Nil: nobody is.
	Heard func(record string)
}

// Server answers calls until its context ends.
type Server struct {
	peerpb.UnimplementedPeerServer
	opt   ServerOptions
	log   *slog.Logger
	once  *onceLog
	calls chan struct{} // one token for each call that is running
	joins chan struct{} // likewise, of hosts that ask to join
	each  *callers
	waits *bodies
	used  atomic.Bool
}

// NewServer starts nothing.
func NewServer(opt ServerOptions) (*Server, error) {
	if opt.Handler == nil {
		return nil, errors.New("new peer server: no handler")
	}
	if err := (pki.Identity{Cluster: opt.Cluster, Role: pki.RoleHost, ID: string(opt.Host)}).Validate(); err != nil {
		return nil, fmt.Errorf("new peer server: %w", err)
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	once := newOnceLog(opt.Log)
	return &Server{
		opt: opt, log: opt.Log, once: once, calls: make(chan struct{}, maxCalls), joins: make(chan struct{}, maxJoins), each: newCallers(time.Now), waits: newBodies(bodyTimeout, once),
	}, nil
}

// ErrCallsRun says that handlers have not returned, and may go on with what they do for as long as the
// program runs.
var ErrCallsRun = errors.New("calls still run")

// Serve answers on l, which it closes, until ctx ends. Then it accepts no more, gives running calls
// shutdownGrace, breaks off the rest, gives their connections as long to end, and their handlers as long to
// return. It can be called once. The error is nil after an orderly end, and wraps ErrCallsRun where a
// handler is left behind.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if s.used.Swap(true) {
		return errors.New("serve peers: a server serves once")
	}
	creds := insecure.NewCredentials()
	if s.opt.Live != nil {
		creds = serverCredentials(s.opt.Live, s.once)
	}
	bounded := newBoundedListener(l, newOnceLog(s.log), s.opt.Live != nil) // of its own: that there are too many is said whatever else is
	g := grpc.NewServer(
		grpc.Creds(creds),
		grpc.MaxRecvMsgSize(maxRequestBytes), grpc.MaxSendMsgSize(maxMessageBytes), grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes), grpc.InTapHandle(s.waits.begun),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: keepaliveServer, Timeout: keepaliveTimeout, MaxConnectionIdle: maxConnectionIdle, MaxConnectionAge: maxConnectionAge, MaxConnectionAgeGrace: apply.timeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveEvery / 2, PermitWithoutStream: true}),
	)
	peerpb.RegisterPeerServer(g, s)

	served := make(chan error, 1)
	go func() { served <- g.Serve(bounded) }()
	var err error
	select {
	case err = <-served:
		g.Stop()
	case <-ctx.Done():
		stopGracefully(g)
		if err = end(served); errors.Is(err, grpc.ErrServerStopped) {
			err = nil // it was stopped before it had begun
		}
	}
	if err != nil {
		err = fmt.Errorf("serve peers on %s: %w", l.Addr(), err)
	}
	return errors.Join(err, s.join())
}

// stopGracefully lets calls finish for a while, then breaks them off. A handler that
// heeds nothing, as one that waits for a disk, is not waited for here: gRPC would do so
// without an end.
func stopGracefully(g *grpc.Server) {
	done := make(chan struct{})
	go func() { g.GracefulStop(); close(done) }()
	timer := time.NewTimer(shutdownGrace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		go g.Stop() // with its end Serve's comes
	}
}

// end is how a server that was stopped ended, which waits for no handler.
func end(served <-chan error) error {
	timer := time.NewTimer(shutdownGrace)
	defer timer.Stop()
	select {
	case err := <-served:
		return err
	case <-timer.C:
		return errors.New("the connections of callers do not end")
	}
}

// join waits until every handler has returned, by taking every token.
func (s *Server) join() error {
	timer := time.NewTimer(shutdownGrace)
	defer timer.Stop()
	for n := range maxCalls {
		select {
		case s.calls <- struct{}{}:
		case <-timer.C:
			return fmt.Errorf("serve peers: %w: %d of them", ErrCallsRun, maxCalls-n)
		}
	}
	return nil
}

// Hello is the one call that names no cluster, since it asks for the name.
func (s *Server) Hello(ctx context.Context, _ *peerpb.HelloRequest) (*peerpb.HelloReply, error) {
	defer s.waits.came(ctx)()
	from, err := s.certified(ctx)
	if err != nil {
		return nil, err
	}
	end, err := s.begin(hello, from)
	if err != nil {
		return nil, err
	}
	defer end()
	return &peerpb.HelloReply{Protocol: Protocol, Cluster: s.opt.Cluster, Host: string(s.opt.Host)}, nil
}

// Ping answers gossip. A host speaks for itself only, so the body has to name the caller. To one that keeps another control record only the
// beat goes.
func (s *Server) Ping(ctx context.Context, c *peerpb.Call) (*peerpb.Answer, error) {
	return answer(ctx, s, ping, c, func(ctx context.Context, from Caller, p cluster.Ping) (cluster.Ping, error) {
		if string(p.Host) != from.Identity.ID || p.Cluster != from.Identity.Cluster {
			return cluster.Ping{}, refuse(codes.PermissionDenied, peerpb.Refusal_KIND_IDENTITY, "", "%s pings as host %q of cluster %q", from.Identity, p.Host, p.Cluster)
		}
		err := s.sameRecord(c.GetHeader().GetRecord())
		if err == nil {
			return s.opt.Handler.Ping(ctx, from, p)
		}
		why := status.Convert(err).Message()
		s.once.warn("call refused", "call", ping.name, "caller", from.Identity.String(), "remote", remoteHost(from.Remote), "reason", why)
		reply, err := s.opt.Handler.Ping(ctx, from, p.Beat(why)) // a refusal is no silence: what is remembered of the caller's disk goes with it
		return reply.Beat(why), err
	})
}

// Observe asks this host for facts and a promise.
func (s *Server) Observe(ctx context.Context, c *peerpb.Call) (*peerpb.Answer, error) {
	return answer(ctx, s, observe, c, s.opt.Handler.Observe)
}

// Apply asks this host for one op.
func (s *Server) Apply(ctx context.Context, c *peerpb.Call) (*peerpb.Answer, error) {
	return answer(ctx, s, apply, c, s.opt.Handler.Apply)
}

// Goal hands over a person's wish.
func (s *Server) Goal(ctx context.Context, c *peerpb.Call) (*peerpb.Answer, error) {
	return answer(ctx, s, goal, c, s.opt.Handler.Goal)
}

// Report answers a person's question.
func (s *Server) Report(ctx context.Context, c *peerpb.Call) (*peerpb.Answer, error) {
	return answer(ctx, s, report, c, s.opt.Handler.Report)
}

// Keep asks for what this host keeps.
func (s *Server) Keep(ctx context.Context, c *peerpb.Call) (*peerpb.Answer, error) {
	return answer(ctx, s, keep, c, s.opt.Handler.Keep)
}

// answer is one call from its envelope to its answer.
func answer[Request, Reply any](ctx context.Context, s *Server, m method, c *peerpb.Call,
	do func(context.Context, Caller, Request) (Reply, error)) (*peerpb.Answer, error) {
	defer s.waits.came(ctx)()
	from, err := s.admit(ctx, m, c.GetHeader())
	if err != nil {
		s.once.warn("call refused", "call", m.name, "remote", remoteHost(from.Remote), "reason", status.Convert(err).Message())
		return nil, err
	}
	end, err := s.begin(m, from)
	if err != nil {
		return nil, err
	}
	defer end()
	hearOf(s.opt.Disks, from.Identity, c.GetHeader().GetRemembered()) // before anything is answered
	var request Request
	if err := decode(c.GetBody(), m.strict, &request); err != nil {
		err = s.notUnderstood(m, err)
		s.once.warn("call refused", "call", m.name, "caller", from.Identity.String(), "remote", remoteHost(from.Remote), "reason", status.Convert(err).Message())
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok && m.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.timeout)
		defer cancel()
	}
	reply, err := do(ctx, from, request)
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, status.FromContextError(ctx.Err()).Err() // not the handler's fault
	case err != nil:
		return nil, handlerStatus(err)
	}
	body, err := json.Marshal(reply)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "write the answer of %s: %v", m.name, err)
	}
	out := &peerpb.Answer{Host: string(s.opt.Host), Body: body}
	if from.Identity.Role == pki.RoleHost {
		out.Remembered = rememberedOf(s.opt.Disks, cluster.HostID(from.Identity.ID))
	}
	return out, nil
}

// notUnderstood refuses a call for its body. One that holds more than this release knows has had no
// effect: nothing of it is kept, and nothing is promised to who made it.
func (s *Server) notUnderstood(m method, err error) error {
	if newer, ok := errors.AsType[*cluster.NewerError](err); ok {
		return refuse(codes.FailedPrecondition, peerpb.Refusal_KIND_PROTOCOL, fmt.Sprintf("update etcdadm on host %s", s.opt.Host),
			"host %s runs an older release of etcdadm than this call needs: %v", s.opt.Host, newer)
	}
	return refuse(codes.InvalidArgument, peerpb.Refusal_KIND_BODY, adviceRelease, "read the body of %s: %v", m.name, err)
}

// begin takes the place of a call, or refuses it; the place is given back by end.
func (s *Server) begin(m method, from Caller) (end func(), err error) {
	ended, why := s.each.begin(from)
	if why != "" {
		s.once.warn("call refused", "call", m.name, "caller", from.Identity.String(), "remote", remoteHost(from.Remote), "reason", why)
		return nil, refuse(codes.ResourceExhausted, peerpb.Refusal_KIND_OVERLOAD, "try again a little later", "%s", why)
	}
	select {
	case s.calls <- struct{}{}:
		return func() { <-s.calls; ended() }, nil
	default:
		ended()
		return nil, refuse(codes.ResourceExhausted, peerpb.Refusal_KIND_OVERLOAD, "try again a little later", "%d calls are running", maxCalls)
	}
}

// decode reads exactly one JSON value.
func decode(body []byte, strict bool, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}

// admit says who calls, or refuses. The order goes from what would confuse most to what is finest.
func (s *Server) admit(ctx context.Context, m method, h *peerpb.Header) (Caller, error) {
	from, err := s.certified(ctx)
	if err != nil {
		return from, err
	}
	claimed := pki.Identity{Cluster: h.GetCluster(), Role: pki.Role(h.GetRole()), ID: h.GetCaller()}
	switch {
	case h.GetProtocol() != Protocol:
		return from, refuse(codes.FailedPrecondition, peerpb.Refusal_KIND_PROTOCOL, "run the same release of etcdadm on both hosts",
			"the caller speaks protocol %d, this host %d", h.GetProtocol(), Protocol)
	case claimed.Cluster != s.opt.Cluster:
		return from, refuse(codes.FailedPrecondition, peerpb.Refusal_KIND_CLUSTER, "compare --cluster-name on both hosts",
			"the call is for cluster %q, this host belongs to %q", claimed.Cluster, s.opt.Cluster)
	case h.GetTo() != "" && h.GetTo() != string(s.opt.Host):
		return from, refuse(codes.FailedPrecondition, peerpb.Refusal_KIND_HOST, "", "the call is for host %q, this is %q", h.GetTo(), s.opt.Host)
	}
	if s.opt.Heard != nil && (!from.Verified || from.Identity.Role == pki.RoleHost && from.Identity.Cluster == s.opt.Cluster) {
		s.opt.Heard(h.GetRecord())
	}
	if m.name != ping.name && m.name != keep.name && m.name != sign.name { // what each keeps is asked; a certificate is no order
		if err := s.sameRecord(h.GetRecord()); err != nil {
			return from, err
		}
	}
	from.Record = h.GetRecord()
	if !from.Verified {
		from.Identity = claimed
	}
	if err := errors.Join(claimed.Validate(), pki.CheckCaller(from.Identity, claimed)); err != nil {
		return from, refuse(codes.PermissionDenied, peerpb.Refusal_KIND_IDENTITY, "issue a certificate for this caller", "%v", err)
	}
	if !slices.Contains(m.roles, from.Identity.Role) {
		return from, refuse(codes.PermissionDenied, peerpb.Refusal_KIND_ROLE, m.advice(), "%s may not call %s, which is for the roles %v", from.Identity, m.name, m.roles)
	}
	return from, nil
}

// InStore is what a host names as its record that has it in a store which has no name, for all that it knows. Who is at a place with a
// name knows that for another one: the store may have gone back, and its hosts lead by what it says.
const InStore = "in a store"

// sameRecord refuses a host that keeps another control record: of two records each has an intent of its own, and neither host may obey the
// other's.
func (s *Server) sameRecord(theirs string) error {
	if s.opt.Record == nil || theirs == "" {
		return nil
	}
	ours := s.opt.Record()
	if ours == "" && !(theirs == InStore && s.opt.AtHosts) || ours == theirs {
		return nil
	}
	return refuse(codes.FailedPrecondition, peerpb.Refusal_KIND_CLUSTER, adviceOtherRecord,
		"the caller keeps the record %s, and host %s keeps %s: one of them was made again from a part of the hosts, or one of the hosts has not followed a move yet", theirs, s.opt.Host, ours)
}

// certified reads the caller from the connection. With TLS its certificate is verified again at each call, so
// that one that has expired since, or an authority that was withdrawn, ends an open connection's rights.
func (s *Server) certified(ctx context.Context) (Caller, error) {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return Caller{}, status.Error(codes.Internal, "the call has no connection")
	}
	from := Caller{Remote: p.Addr.String()}
	if s.opt.Live == nil {
		return from, nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return from, status.Error(codes.Unauthenticated, "the connection is not TLS")
	}
	if joining(info.State) { // whoever it is has shown nothing
		return from, refuse(codes.Unauthenticated, peerpb.Refusal_KIND_IDENTITY, "connect again with a valid certificate", "the connection is for joining, and nothing else is answered on it")
	}
	id, err := s.opt.Live.Verify(info.State.PeerCertificates, x509.ExtKeyUsageClientAuth)
	if err != nil {
		advice := "connect again with a valid certificate"
		if errors.Is(err, pki.ErrExpired) || errors.Is(err, pki.ErrNotYetValid) { // it was valid when the connection was made
			advice = "compare the clocks of both hosts, then renew that certificate"
		}
		return from, refuse(codes.Unauthenticated, peerpb.Refusal_KIND_IDENTITY, advice, "%v", err)
	}
	from.Identity, from.Verified, from.Leaf = id, true, info.State.PeerCertificates[0]
	return from, nil
}

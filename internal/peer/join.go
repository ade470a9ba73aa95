package peer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Bounds of joining.
const (
	// JoinTimeout is how long a joiner waits for its answer: the store is read and written for it.
	JoinTimeout = 10 * time.Second
	// joinDial is how long it waits for the connection. What is wrong with that is told within 3 s.
	joinDial = 2500 * time.Millisecond
	// maxJoins are answered at once, of all addresses: whoever reaches the port may ask, and each asks the store.
	maxJoins = 8
	// maxJoinBody is of a request: a token, two names, a time, a certificate and a request for one.
	maxJoinBody = 16 << 10
)

// join is the one call without a certificate.
var join = method{name: "Join", timeout: JoinTimeout, strict: true}

// roleJoiner is who a joiner is in logs, and where calls are counted. No certificate names it.
const roleJoiner pki.Role = "joiner"

// ErrJoin says that a call for joining was refused, or that joining is not for this daemon.
var ErrJoin = errors.New("the cluster does not take this host in")

// JoinRequest is what a fresh host says of itself. It is sent once the joiner has seen that the other side holds the
// authority that its person named.
type JoinRequest struct {
	Token string         `json:"token"`
	Host  cluster.HostID `json:"host"` // the ID that it is to have
	// Address is where the others are to reach it.
	Address string    `json:"address"`
	Build   string    `json:"build"` // its release
	Clock   time.Time `json:"clock"`
	// Try is a random number of the joiner's, the same one whenever it asks again for the same join.
	Try string `json:"try"`
	// Leaf is a request in PKCS 10 for the certificate of the joiner's daemon, for a token that gives no authority's key.
	Leaf []byte `json:"leaf,omitempty"`
	// Former is the certificate that the key of Leaf had before, in DER, of a host that comes back.
	Former []byte `json:"former,omitempty"`
}

// JoinReply is what makes a fresh host one of the cluster's. It holds secrets: the keys of the authorities, and what
// the store is asked with.
type JoinReply struct {
	Cluster string         `json:"cluster"`
	Host    cluster.HostID `json:"host"` // who answered
	// Authorities are the files of the PKI directory, by name: three certificates and three keys, or the certificates only.
	Authorities map[string][]byte `json:"authorities"`
	// Leaf is the certificate that was asked for, in DER, where no keys are given.
	Leaf []byte `json:"leaf,omitempty"`
	// Settings are flags of the daemon that are the same on every host, by their names without dashes;
	// __address__ in a value stands for the host's own.
	Settings map[string]string `json:"settings"`
	// Environment is what the store is asked with, by the variables' names.
	Environment map[string]string `json:"environment,omitempty"`
	// Daemons are endpoints of those that are known.
	Daemons []string `json:"daemons,omitempty"`
}

// String shows nothing of what is in it.
func (JoinRequest) String() string { return "join request" }

// GoString is String.
func (r JoinRequest) GoString() string { return r.String() }

// String names the cluster, and nothing else of what is in it.
func (r JoinReply) String() string { return "join reply of cluster " + r.Cluster }

// GoString is String.
func (r JoinReply) GoString() string { return r.String() }

// Admitter answers joiners. It judges the token; nobody else does. remote is the joiner's address, for the log.
type Admitter interface {
	Join(ctx context.Context, remote string, r JoinRequest) (JoinReply, error)
}

// joining tells whether a connection was made as joiners make it.
func joining(state tls.ConnectionState) bool { return state.ServerName == pki.JoinName }

// Join takes a fresh host in. It is answered on a connection for joining only, and there nothing else is: such a
// connection has no certificate, which every other call asks for.
func (s *Server) Join(ctx context.Context, c *peerpb.Call) (*peerpb.Answer, error) {
	defer s.waits.came(ctx)()
	answer, from, err := s.takeIn(ctx, c)
	if err != nil {
		s.once.warn("a host was not let join", "remote", remoteHost(from.Remote), "reason", status.Convert(err).Message())
		return nil, err
	}
	return answer, nil
}

func (s *Server) takeIn(ctx context.Context, c *peerpb.Call) (*peerpb.Answer, Caller, error) {
	from := Caller{Identity: pki.Identity{Role: roleJoiner}}
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return nil, from, status.Error(codes.Internal, "the call has no connection")
	}
	from.Remote = p.Addr.String()
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	switch {
	case s.opt.Live == nil:
		return nil, from, refuse(codes.FailedPrecondition, peerpb.Refusal_KIND_ROLE, "start the daemons without --insecure, or start one on this host by hand with the flags of the others",
			"the daemons of this cluster run with --insecure, and a token and keys are not sent without TLS")
	case !ok || !joining(info.State) || info.State.Version < tls.VersionTLS13:
		return nil, from, refuse(codes.PermissionDenied, peerpb.Refusal_KIND_ROLE, "run etcdadm join on the host that is to join", "Join is answered on connections for joining only")
	case s.opt.Admitter == nil:
		return nil, from, refuse(codes.FailedPrecondition, peerpb.Refusal_KIND_ROLE, "", "this daemon takes no hosts in")
	case c.GetHeader().GetProtocol() != Protocol:
		return nil, from, refuse(codes.FailedPrecondition, peerpb.Refusal_KIND_PROTOCOL, "install the same release of etcdadm on both hosts",
			"the joiner speaks protocol %d, host %s of the cluster %d", c.GetHeader().GetProtocol(), s.opt.Host, Protocol)
	case len(c.GetBody()) > maxJoinBody:
		return nil, from, refuse(codes.ResourceExhausted, peerpb.Refusal_KIND_BODY, "", "the request to join has %d bytes, and %d are allowed", len(c.GetBody()), maxJoinBody)
	}
	end, err := s.begin(join, from)
	if err != nil {
		return nil, from, err
	}
	defer end()
	select {
	case s.joins <- struct{}{}:
		defer func() { <-s.joins }()
	default:
		return nil, from, refuse(codes.ResourceExhausted, peerpb.Refusal_KIND_OVERLOAD, "try again a little later", "%d hosts ask to join at once", maxJoins)
	}
	var request JoinRequest
	if decode(c.GetBody(), join.strict, &request) != nil { // what is wrong with it could repeat the token
		return nil, from, refuse(codes.InvalidArgument, peerpb.Refusal_KIND_BODY, "install the same release of etcdadm on both hosts", "the request to join cannot be read")
	}
	ctx, cancel := context.WithTimeout(ctx, join.timeout)
	defer cancel()
	reply, err := s.opt.Admitter.Join(ctx, remoteHost(from.Remote), request)
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil, from, status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return nil, from, handlerStatus(err)
	}
	body, err := json.Marshal(reply)
	if err != nil {
		return nil, from, status.Error(codes.Internal, "write the answer of Join")
	}
	return &peerpb.Answer{Host: string(s.opt.Host), Body: body}, from, nil
}

// Join asks the daemon at an endpoint to take this host in. Nothing is sent before the other side has shown that it
// holds an authority of the hash caHash, and is one of its hosts. id is the identity that it has shown.
//
// Errors are *Error around ErrUnreachable, ErrDeadline, ErrJoin, ErrProtocol, ErrOverload, pki.ErrOtherAuthority,
// pki.ErrClock or pki.ErrIdentity. None shows the token.
func Join(ctx context.Context, endpoint, caHash string, r JoinRequest) (reply JoinReply, id pki.Identity, err error) {
	failed := func(delivered bool, advice string, err error) (JoinReply, pki.Identity, error) {
		return JoinReply{}, id, &Error{Op: "join", Endpoint: endpoint, Err: err, Advice: advice, Delivered: delivered}
	}
	if _, _, err := net.SplitHostPort(endpoint); err != nil {
		return failed(false, "give it as host:port, such as 192.0.2.1:8000", errors.New("it is no endpoint"))
	}
	// The connection is made here and not by gRPC, which would try again and again, and whose errors are texts.
	dialing, cancel := context.WithTimeout(ctx, joinDial)
	defer cancel()
	dialer := tls.Dialer{Config: pki.JoinerConfig(caHash, time.Now, &id)}
	conn, err := dialer.DialContext(dialing, "tcp", endpoint)
	if err != nil {
		advice, cause := explainJoin(ctx, err)
		return failed(false, advice, cause)
	}
	defer conn.Close()
	body, err := json.Marshal(r)
	if err != nil {
		return failed(false, "", errors.New("write the request"))
	}
	cc, err := grpc.NewClient("passthrough:///"+endpoint, grpc.WithTransportCredentials(&once{conn: conn}),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return conn, nil }),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithUserAgent("etcdadm"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	if err != nil {
		return failed(false, "", err)
	}
	defer cc.Close()
	calling, done := context.WithTimeout(ctx, JoinTimeout)
	defer done()
	answer, err := peerpb.NewPeerClient(cc).Join(calling, &peerpb.Call{Body: body, Header: &peerpb.Header{Protocol: Protocol, Role: string(roleJoiner), Caller: string(r.Host)}})
	if err != nil {
		st := status.Convert(err)
		refusal := refusalOf(err)
		switch {
		case refusal != nil:
			kind := ErrJoin
			if k := refusal.GetKind(); k == peerpb.Refusal_KIND_PROTOCOL || k == peerpb.Refusal_KIND_OVERLOAD {
				kind = kinds[k]
			}
			return failed(true, words(refusal.GetHint()), fmt.Errorf("%w: %s", kind, words(st.Message())))
		case ctx.Err() != nil:
			return failed(true, "", ctx.Err())
		case st.Code() == codes.Unimplemented:
			return failed(false, "install the same release of etcdadm there", fmt.Errorf("%w: the daemon there takes no hosts in", ErrProtocol))
		case st.Code() == codes.DeadlineExceeded:
			return failed(true, "look at the log of the daemon there and at the backup store, and run the command again", fmt.Errorf("%w: none within %s", ErrDeadline, JoinTimeout))
		}
		return failed(true, "look at the log of the daemon there, and run the command again", fmt.Errorf("%w: %s", ErrUnreachable, words(plain(st.Message()))))
	}
	if json.Unmarshal(answer.GetBody(), &reply) != nil { // what is wrong with it could repeat a key
		return failed(true, "install the same release of etcdadm on both hosts", fmt.Errorf("%w: the answer cannot be read", ErrBody))
	}
	if reply.Cluster != id.Cluster || string(reply.Host) != id.ID {
		return failed(true, "look which daemon listens there", fmt.Errorf("%w: %s answered for host %s of cluster %s", ErrIdentity, id, reply.Host, reply.Cluster))
	}
	return reply, id, nil
}

// explainJoin says why no connection for joining came about.
func explainJoin(ctx context.Context, err error) (advice string, cause error) {
	var clear tls.RecordHeaderError
	var network net.Error
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, pki.ErrOtherAuthority):
		return "compare --ca-hash, and whose address it is: etcdadm token create prints the whole command on a host of the cluster", err
	case errors.Is(err, pki.ErrClock):
		return "set this host's clock by NTP, and run the command again", err
	case errors.Is(err, pki.ErrIdentity):
		return "give the address and port of a daemon of etcdadm", err
	case errors.As(err, &clear):
		return "the port is another program's, or the daemons run with --insecure, where hosts are started by hand", ErrClearText
	case isAlert(err):
		return "the daemon there may be of a release that takes no hosts in: install the same one", fmt.Errorf("%w: the other side ended the handshake: %w", ErrProtocol, err)
	case errors.As(err, &network) && network.Timeout():
		return "check the address, the port and the firewalls on the way", fmt.Errorf("%w: it does not answer within %s", ErrUnreachable, joinDial)
	}
	return "check that the daemon runs there (systemctl status etcdadm) and listens on that port", fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// once gives gRPC a connection whose handshake is over.
type once struct {
	conn net.Conn
}

// ClientHandshake implements credentials.TransportCredentials.
func (o *once) ClientHandshake(_ context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	info := credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	if c, ok := raw.(*tls.Conn); ok {
		info.State = c.ConnectionState()
	}
	return raw, info, nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (o *once) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("it is a client's")
}

// Info implements credentials.TransportCredentials.
func (o *once) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (o *once) Clone() credentials.TransportCredentials { return &once{o.conn} }

// OverrideServerName implements credentials.TransportCredentials.
func (o *once) OverrideServerName(string) error { return nil }

// Endpoints are those that a list names, sorted and each once.
func (r JoinReply) Endpoints() []string {
	out := slices.Clone(r.Daemons)
	slices.Sort(out)
	return slices.Compact(out)
}

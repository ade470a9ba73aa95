package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
)

// Client calls one daemon. It connects at the first call, and again after a broken connection at
// the next call that comes 50 ms to 1 s later. Safe for concurrent use. Get one from a Pool.
type Client struct {
	to    cluster.Contact // Host may be empty
	self  pki.Identity
	conn  *grpc.ClientConn
	rpc   peerpb.PeerClient
	seen  *sight
	plain bool // without TLS
	// record names the control record of this host.
	record func() string
	disks  Disks
}

// Hello is what a daemon says of itself. Its certificate says the same; without TLS nothing proves it.
type Hello struct {
	Protocol uint32
	Cluster  string
	Host     cluster.HostID
}

// Contact is whom this client calls.
func (c *Client) Contact() cluster.Contact { return c.to }

// Hello asks which cluster and host answers.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	var by grpcpeer.Peer
	reply, err := invoke(ctx, c, hello, func(ctx context.Context) (*peerpb.HelloReply, error) {
		return c.rpc.Hello(ctx, &peerpb.HelloRequest{Protocol: Protocol}, grpc.Peer(&by))
	})
	if err != nil {
		return Hello{}, err
	}
	if err := c.speaks(by.AuthInfo, reply.GetCluster(), reply.GetHost()); err != nil {
		return Hello{}, c.failed(hello, true, err, adviceOtherHost)
	}
	return Hello{Protocol: reply.GetProtocol(), Cluster: reply.GetCluster(), Host: cluster.HostID(reply.GetHost())}, nil
}

// Ping exchanges gossip. It ends with ctx, and by itself only when the connection does. The answer is by the host that answered, and says so.
// That of a host which keeps another control record is its beat, beside the error.
func (c *Client) Ping(ctx context.Context, p cluster.Ping) (cluster.Ping, error) {
	reply, from, err := call[cluster.Ping](ctx, c, ping, c.rpc.Ping, p)
	if err == nil && (string(reply.Host) != from || reply.Cluster != c.self.Cluster) {
		err = c.failed(ping, true, fmt.Errorf("%w: host %q answered as host %q of cluster %q", ErrIdentity, from, reply.Host, reply.Cluster), adviceOtherHost)
	}
	switch {
	case err != nil:
		return cluster.Ping{}, err
	case reply.Refused != "":
		return reply.Beat(words(reply.Refused)), c.failed(ping, true, fmt.Errorf("%w: %s", ErrWrongCluster, words(reply.Refused)), adviceOtherRecord)
	}
	return reply, nil
}

// Observe asks for facts and, with a fence, for a promise.
func (c *Client) Observe(ctx context.Context, r cluster.ObserveRequest) (cluster.ObserveReply, error) {
	reply, _, err := call[cluster.ObserveReply](ctx, c, observe, c.rpc.Observe, r)
	return reply, err
}

// Apply asks for one op. An *Error with Delivered means that the op's outcome is unknown.
func (c *Client) Apply(ctx context.Context, r cluster.ApplyRequest) (cluster.ApplyReply, error) {
	reply, _, err := call[cluster.ApplyReply](ctx, c, apply, c.rpc.Apply, r)
	return reply, err
}

// Goal hands over a person's wish, as JSON.
func (c *Client) Goal(ctx context.Context, wish json.RawMessage) (json.RawMessage, error) {
	reply, _, err := call[json.RawMessage](ctx, c, goal, c.rpc.Goal, wish)
	return reply, err
}

// Report asks a person's question, as JSON.
func (c *Client) Report(ctx context.Context, question json.RawMessage) (json.RawMessage, error) {
	reply, _, err := call[json.RawMessage](ctx, c, report, c.rpc.Report, question)
	return reply, err
}

// Keep asks for what a host keeps of a cluster without a shared store.
func (c *Client) Keep(ctx context.Context, r KeepRequest) (KeepReply, error) {
	if c.plain && r.secret() {
		return KeepReply{}, c.failed(keep, false, ErrIdentity, "the daemons talk without TLS, and credentials go over TLS only: unset the variables of the store here, and see that each host reaches it by itself")
	}
	reply, _, err := call[KeepReply](ctx, c, keep, c.rpc.Keep, r)
	return reply, err
}

// rpc is the signature that the generated client gives to every call with an envelope.
type rpc func(context.Context, *peerpb.Call, ...grpc.CallOption) (*peerpb.Answer, error)

// call makes one call with an envelope, and says which host answered.
func call[Reply any](ctx context.Context, c *Client, m method, do rpc, request any) (reply Reply, from string, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return reply, "", c.failed(m, false, fmt.Errorf("%w: write the body: %w", ErrBody, err), "")
	}
	envelope := &peerpb.Call{Body: body, Header: &peerpb.Header{
		Protocol: Protocol, Cluster: c.self.Cluster, Role: string(c.self.Role), Caller: c.self.ID, To: string(c.to.Host), Record: c.record(),
		Remembered: rememberedOf(c.disks, c.to.Host),
	}}
	var by grpcpeer.Peer
	answer, err := invoke(ctx, c, m, func(ctx context.Context) (*peerpb.Answer, error) { return do(ctx, envelope, grpc.Peer(&by)) })
	if err != nil {
		return reply, "", err
	}
	from = answer.GetHost()
	if c.to.Host != "" && from != string(c.to.Host) { // without TLS nothing else has shown it
		return reply, from, c.failed(m, true, fmt.Errorf("%w: host %q answered", ErrWrongHost, from), "look which daemon listens at that address, and which is announced with it")
	}
	if err := c.speaks(by.AuthInfo, c.self.Cluster, from); err != nil {
		return reply, from, c.failed(m, true, err, adviceOtherHost)
	}
	hearOf(c.disks, pki.Identity{Role: pki.RoleHost, ID: from}, answer.GetRemembered())
	if err := json.Unmarshal(answer.GetBody(), &reply); err != nil {
		var none Reply
		return none, from, c.notUnderstood(m, from, err)
	}
	return reply, from, nil
}

// notUnderstood is the error of an answer that cannot be read. Of one that holds more than this
// release knows nothing is used: what it leaves out may be what matters.
func (c *Client) notUnderstood(m method, from string, err error) error {
	if newer, ok := errors.AsType[*cluster.NewerError](err); ok {
		return c.failed(m, true, fmt.Errorf("%w: host %s runs a newer release of etcdadm than %s does: %w", ErrProtocol, from, c.self.ID, newer), fmt.Sprintf("update etcdadm on host %s", c.self.ID))
	}
	return c.failed(m, true, fmt.Errorf("%w: read the answer: %w", ErrBody, err), adviceRelease)
}

// adviceRelease is for two hosts of which one does not understand what the other says.
const adviceRelease = "run the same release of etcdadm on both hosts"

// adviceTheirs comes before what helps with a daemon of ours: one of etcd-manager has the same port, and
// certificates of the same authority, and neither tells who is there.
const adviceTheirs = "while kubernetes-sigs/etcd-manager runs there, nothing: the host answers once it is taken over. Otherwise "

// adviceOtherRecord is for two hosts that keep two control records.
const adviceOtherRecord = "see docs/operations/other-record.md"

// adviceOtherHost is for who finds a daemon that speaks for another host than its certificate does.
const adviceOtherHost = "issue that host a certificate of its own ID, or look which daemon listens at that address"

// speaks holds the host that an answer names against the certificate of the connection that brought it: whoever
// is at a seed's address speaks for itself only. Without TLS it is believed.
func (c *Client) speaks(by credentials.AuthInfo, cluster, host string) error {
	if c.plain {
		return nil
	}
	info, ok := by.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return fmt.Errorf("%w: the answer of host %q came without one", ErrIdentity, host)
	}
	id, err := pki.IdentityOf(info.State.PeerCertificates[0])
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrIdentity, err)
	case id.Cluster != cluster || id.ID != host:
		return fmt.Errorf("%w: %s answered as host %q of cluster %q", ErrIdentity, id, host, cluster)
	}
	return nil
}

// invoke makes one RPC, with a deadline unless it is a ping, and explains its failure.
func invoke[Reply any](ctx context.Context, c *Client, m method, do func(context.Context) (Reply, error)) (Reply, error) {
	if _, ok := ctx.Deadline(); !ok && m.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.timeout)
		defer cancel()
	}
	sent := new(atomic.Bool)
	reply, err := do(context.WithValue(ctx, sentKey{}, sent))
	if err != nil {
		var none Reply
		return none, c.explain(ctx, m, sent.Load(), err)
	}
	return reply, nil
}

func (c *Client) failed(m method, delivered bool, err error, advice string) error {
	return &Error{Op: m.name, Endpoint: c.to.Endpoint, Host: string(c.to.Host), Err: err, Advice: advice, Delivered: delivered}
}

package peer

import (
	"context"
	"time"

	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc/codes"
)

// maxSignBody is of a request for a certificate, which package signing bounds more closely.
const maxSignBody = 16 << 10

// sign is for hosts, and only where a certificate says which one it is.
var sign = method{name: "Sign", roles: []pki.Role{pki.RoleHost}, timeout: 5 * time.Second, strict: true}

// SignRequest asks for a certificate of the calling host.
type SignRequest struct {
	Kind    string `json:"kind"`    // which of its certificates, as package signing names them
	Request []byte `json:"request"` // PKCS 10
}

// SignReply is what was signed.
type SignReply struct {
	Certificate []byte `json:"certificate"` // DER
}

// Signer signs for other hosts. It judges what is asked for; the caller's certificate is in Caller.
type Signer interface {
	Sign(ctx context.Context, from Caller, r SignRequest) (SignReply, error)
}

// Sign has this host sign a certificate of the caller's.
func (s *Server) Sign(ctx context.Context, c *peerpb.Call) (*peerpb.Answer, error) {
	return answer(ctx, s, sign, c, func(ctx context.Context, from Caller, r SignRequest) (SignReply, error) {
		switch {
		case !from.Verified || from.Leaf == nil:
			return SignReply{}, refuse(codes.PermissionDenied, peerpb.Refusal_KIND_ROLE, "", "certificates are signed for who shows one, and the daemons of this cluster run with --insecure")
		case s.opt.Signer == nil:
			return SignReply{}, refuse(codes.FailedPrecondition, peerpb.Refusal_KIND_ROLE, "", "this daemon signs nothing")
		case len(c.GetBody()) > maxSignBody:
			return SignReply{}, refuse(codes.ResourceExhausted, peerpb.Refusal_KIND_BODY, "", "the request has %d bytes, and %d are allowed", len(c.GetBody()), maxSignBody)
		}
		return s.opt.Signer.Sign(ctx, from, r)
	})
}

// Sign asks a host that holds the authorities' keys for a certificate of this one.
func (c *Client) Sign(ctx context.Context, r SignRequest) (SignReply, error) {
	reply, _, err := call[SignReply](ctx, c, sign, c.rpc.Sign, r)
	return reply, err
}

package peer

import (
	"context"
	"fmt"

	"etcdadm.io/internal/peer/peerpb"
	"google.golang.org/grpc/codes"
)

// AuthorityRequest asks for the key of a next authority, of a rotation that is under way.
type AuthorityRequest struct {
	Rotation string `json:"rotation"` // its ID
	Name     string `json:"name"`     // such as etcd-peers-ca
	// Seal is over Statement, by the key of etcd-manager-ca: who holds no keys now gets none of the next ones.
	Seal []byte `json:"seal"`
}

// Statement is what a host seals that asks. It begins as nothing else does that the authority's key signs.
func (r AuthorityRequest) Statement(cluster, host string) []byte {
	return fmt.Appendf(nil, "etcdadm authority request, 1\ncluster %q\nhost %q\nrotation %q\nname %q\n", cluster, host, r.Rotation, r.Name)
}

// AuthorityReply has the key, as PEM; none: it is not on that host. No format verb shows it.
type AuthorityReply struct {
	Key []byte `json:"key,omitempty"`
}

func (r AuthorityReply) String() string   { return "the key of an authority" }
func (r AuthorityReply) GoString() string { return r.String() }

// Authority asks a host for the key of a next authority. Without TLS it is not asked.
func (c *Client) Authority(ctx context.Context, r AuthorityRequest) (AuthorityReply, error) {
	if c.plain {
		return AuthorityReply{}, c.failed(authority, false, ErrIdentity, "keys go over TLS only")
	}
	reply, _, err := call[AuthorityReply](ctx, c, authority, c.rpc.Authority, r)
	return reply, err
}

// Authority gives a host whose certificate proves who it is the key of a next authority.
func (s *Server) Authority(ctx context.Context, c *peerpb.Call) (*peerpb.Answer, error) {
	return answer(ctx, s, authority, c, func(ctx context.Context, from Caller, r AuthorityRequest) (AuthorityReply, error) {
		if !from.Verified {
			return AuthorityReply{}, refuse(codes.PermissionDenied, peerpb.Refusal_KIND_IDENTITY, "", "keys are given over TLS only")
		}
		return s.opt.Handler.Authority(ctx, from, r)
	})
}

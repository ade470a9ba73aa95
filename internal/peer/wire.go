package peer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
)

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
	id, err := s.opt.Live.Verify(info.State.PeerCertificates, x509.ExtKeyUsageClientAuth)
	if err != nil {
		advice := "connect again with a valid certificate"
		if errors.Is(err, pki.ErrExpired) || errors.Is(err, pki.ErrNotYetValid) { // it was valid when the connection was made
			advice = "compare the clocks of both hosts, then renew that certificate"
		}
		return from, refuse(codes.Unauthenticated, peerpb.Refusal_KIND_IDENTITY, advice, "%v", err)
	}
	from.Identity, from.Verified = id, true
	return from, nil
}

// maxRefusal bounds what a refusal says, and its hint, in bytes each: they go into logs
// and into the headers of an answer, and repeat what the other side has sent.
const maxRefusal = 2000

// words is a text of the other side as it may be told on.
func words(text string) string {
	if len(text) > maxRefusal {
		text = text[:maxRefusal] + "…"
	}
	return strings.ToValidUTF8(text, "\ufffd") // else a status would lose its reason
}

// refuse is a status with the reason as data, for the client to tell apart.
func refuse(code codes.Code, kind peerpb.Refusal_Kind, hint, format string, args ...any) error {
	st := status.New(code, words(fmt.Sprintf(format, args...)))
	if detailed, err := st.WithDetails(&peerpb.Refusal{Kind: kind, Hint: words(hint)}); err == nil {
		st = detailed
	}
	return st.Err()
}

// roleHint is for a person whose certificate is good and not enough.
const roleHint = "ask with the certificate of an operator: etcdadm pki issue NAME --role operator, or --data-dir on a host"

// handlerStatus passes on what a handler said. A status of our own goes as it is.
func handlerStatus(err error) error {
	if refusalOf(err) != nil {
		return err
	}
	if errors.Is(err, ErrRole) { // some of what a call may ask is for fewer than may call
		return refuse(codes.PermissionDenied, peerpb.Refusal_KIND_ROLE, roleHint, "%s", strings.TrimPrefix(err.Error(), ErrRole.Error()+": "))
	}
	hint := ""
	if h, ok := err.(interface{ Hint() string }); ok { //nolint:errorlint // the outermost error knows best what to do about it
		hint = h.Hint()
	}
	return refuse(codes.Unknown, peerpb.Refusal_KIND_HANDLER, hint, "%v", err)
}

// refusalOf is the refusal that a status carries, or nil.
func refusalOf(err error) *peerpb.Refusal {
	st, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, d := range st.Details() {
		if r, ok := d.(*peerpb.Refusal); ok {
			return r
		}
	}
	return nil
}

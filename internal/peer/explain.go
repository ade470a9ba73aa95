package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// kinds are the sentinels of what a server refuses on purpose.
var kinds = map[peerpb.Refusal_Kind]error{
	peerpb.Refusal_KIND_CLUSTER:  ErrWrongCluster,
	peerpb.Refusal_KIND_HOST:     ErrWrongHost,
	peerpb.Refusal_KIND_IDENTITY: ErrIdentity,
	peerpb.Refusal_KIND_ROLE:     ErrRole,
	peerpb.Refusal_KIND_PROTOCOL: ErrProtocol,
	peerpb.Refusal_KIND_BODY:     ErrBody,
	peerpb.Refusal_KIND_OVERLOAD: ErrOverload,
	peerpb.Refusal_KIND_HANDLER:  ErrRemote,
}

// explain turns what gRPC reports into an *Error. sent says that the body was given to a connection.
func (c *Client) explain(ctx context.Context, m method, sent bool, err error) error {
	st := status.Convert(err)
	said := words(st.Message())
	if r := refusalOf(err); r != nil {
		kind, ok := kinds[r.GetKind()]
		if !ok {
			kind = ErrRemote // a newer server has a reason that we do not know
		}
		// Only a handler, or a reason that we do not know, may have had an effect.
		return c.failed(m, errors.Is(kind, ErrRemote), fmt.Errorf("%w: %s", kind, said), words(r.GetHint()))
	}
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
		return c.failed(m, sent, context.Canceled, "")
	case st.Code() == codes.ResourceExhausted && strings.Contains(said, "larger than max"):
		return c.failed(m, sent, fmt.Errorf("%w: %s", ErrTooLarge, said), "")
	case st.Code() == codes.Unimplemented:
		return c.failed(m, false, fmt.Errorf("%w: the host does not know this call", ErrProtocol), adviceTheirs+adviceRelease)
	case !sent && (st.Code() == codes.Unavailable || st.Code() == codes.DeadlineExceeded):
		if advice, cause := c.seen.explain(); cause != nil {
			return c.failed(m, false, cause, advice)
		}
	}
	switch st.Code() {
	case codes.DeadlineExceeded:
		return c.failed(m, sent, fmt.Errorf("%w: %w", ErrDeadline, context.DeadlineExceeded), "")
	case codes.Unavailable:
		if c.plain && !sent && !strings.Contains(said, "ialing") { // it was dialled: the handshake of HTTP/2 failed
			return c.failed(m, sent, fmt.Errorf("%w: %w", ErrUnreachable, ErrNotPlain), "")
		}
		return c.failed(m, sent, fmt.Errorf("%w: %s", ErrUnreachable, plain(said)), "")
	}
	return c.failed(m, sent, fmt.Errorf("%s: %s", st.Code(), said), "")
}

// plain is what gRPC says of a connection that did not come about, without the
// wrappings that tell nothing.
func plain(message string) string {
	for _, wrapping := range []string{"connection error: ", "transport: ", "Error while dialing: ", "error while dialing: "} {
		if inner, ok := strings.CutPrefix(message, wrapping+"desc = "); ok {
			if unquoted, err := strconv.Unquote(inner); err == nil {
				inner = unquoted
			}
			message = inner
		}
		message = strings.TrimPrefix(message, wrapping)
	}
	return message
}

// explainHandshake says what the error of a TLS handshake, or of the first read after it, means.
// It returns nil for what is no matter of TLS.
func explainHandshake(err error) (advice string, cause error) {
	var clear tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.Is(err, ErrMute):
		return "", fmt.Errorf("%w: %w", ErrUnreachable, ErrMute)
	case errors.As(err, &clear):
		return "start both sides with --insecure, or neither", ErrClearText
	case errors.Is(err, pki.ErrOtherCluster):
		return "compare --cluster-name on both hosts", fmt.Errorf("%w: %w", ErrWrongCluster, err)
	case errors.Is(err, pki.ErrOtherHost):
		return "the address has changed hands, or a seed is out of date", fmt.Errorf("%w: %w", ErrWrongHost, err)
	case errors.Is(err, pki.ErrIdentity):
		return adviceTheirs + "issue a host certificate for that host", fmt.Errorf("%w: %w", ErrIdentity, err)
	case errors.Is(err, pki.ErrExpired), errors.Is(err, pki.ErrNotYetValid):
		return "compare the clocks of both hosts, then renew that host's certificate", fmt.Errorf("%w: %w", ErrCertificate, err)
	case errors.As(err, new(x509.UnknownAuthorityError)), errors.As(err, &verify), errors.As(err, new(x509.CertificateInvalidError)):
		return "both hosts need the same " + pki.ManagerCA + ".crt", fmt.Errorf("%w: %w", ErrCertificate, err)
	case isAlert(err):
		return "compare the clocks and the " + pki.ManagerCA + ".crt of both hosts, and see the other daemon's log", fmt.Errorf("%w: %w", ErrNotTrusted, err)
	}
	return "", nil
}

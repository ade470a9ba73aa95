package peer

import (
	"errors"
	"fmt"
	"strings"

	"etcdadm.io/internal/peer/peerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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

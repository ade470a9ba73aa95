package peer

import (
	"errors"
	"fmt"
)

// Sentinels that callers decide by. They arrive wrapped in an *Error.
var (
	ErrUnreachable = errors.New("no connection")
	ErrDeadline    = errors.New("no answer in time")
	// ErrNotPlain is an ErrUnreachable: a client without TLS was let in, and its
	// connection was ended before it began.
	ErrNotPlain = errors.New("it ends the connection, as a daemon with TLS does where a client has none, and as what is no daemon does")
	// ErrMute is an ErrUnreachable: the connection was taken, and nothing came before it
	// was given up.
	ErrMute         = errors.New("it accepts the connection and does not answer: its process is stopped, hangs, or is still starting")
	ErrClearText    = errors.New("the other side does not speak TLS")
	ErrCertificate  = errors.New("the other side's certificate is not valid")
	ErrNotTrusted   = errors.New("the other side does not accept our certificate")
	ErrWrongCluster = errors.New("another cluster")
	ErrWrongHost    = errors.New("another host")
	ErrIdentity     = errors.New("the certificate is not accepted")
	ErrRole         = errors.New("not allowed")
	ErrProtocol     = errors.New("the releases do not understand each other")
	ErrBody         = errors.New("the message cannot be understood")
	ErrTooLarge     = errors.New("the message is too large")
	ErrOverload     = errors.New("the host is busy with too many calls")
	ErrRemote       = errors.New("the host could not do it") // its handler said why
	ErrClosed       = errors.New("the pool is closed")
)

// Error is a call that did not succeed.
type Error struct {
	Op       string // such as "observe"
	Endpoint string
	Host     string // who was meant; empty: whoever answers
	Err      error  // wraps one of the sentinels, where the cause is known
	Advice   string // what a person can do about it; may be empty
	// Delivered says that the other side may have seen the call, so that its effect is unknown. When it is
	// false the call has certainly had none.
	Delivered bool
}

func (e *Error) Error() string {
	to := e.Endpoint
	if e.Host != "" {
		to = fmt.Sprintf("host %s at %s", e.Host, e.Endpoint)
	}
	s := fmt.Sprintf("%s %s: %v", e.Op, to, e.Err)
	if e.Advice != "" {
		s += ": " + e.Advice
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint is the advice alone.
func (e *Error) Hint() string { return e.Advice }

// IsThere reports whether a call failed although somebody answers where the host that was
// meant is said to be, and nothing shows that it is another one: that host may well run.
// That another one has its address (ErrWrongHost) says nothing of it. Where the client
// has no TLS and is let in no further (ErrNotPlain) it counts as there: a daemon with TLS
// does that.
func IsThere(err error) bool {
	for _, is := range []error{ErrNotPlain, ErrMute, ErrClearText, ErrCertificate, ErrNotTrusted, ErrWrongCluster, ErrIdentity, ErrRole, ErrProtocol, ErrBody, ErrTooLarge, ErrOverload, ErrRemote} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// maxMessage bounds what is repeated of a server's words, in bytes.
const maxMessage = 300

// Failure is why a request failed, said in words of our own. The cause is kept for errors.Is, but not its text: an SDK's errors
// run over several lines, and its URLs can carry signatures.
type Failure struct {
	Words  string
	Advice string
	Cause  error
}

func (f *Failure) Error() string { return f.Words }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Answer is the Failure of a request that the server refused with this status, code and message.
func Answer(status int, code, message string, cause error) *Failure {
	words := fmt.Sprintf("the store answers %d", status)
	if code != "" {
		words += " " + clip(code, 80)
	}
	if message = clip(message, maxMessage); message != "" && message != code {
		words += ": " + message
	}
	return &Failure{Words: words, Cause: cause}
}

// clip makes one line of at most so many bytes.
func clip(s string, limit int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// Network is the Failure of a request that got no answer. caHow says how a person names a CA bundle for this store.
func Network(err error, caHow string) *Failure {
	f := &Failure{Cause: err}
	var (
		dns       *net.DNSError
		unknownCA x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		timeout   interface{ Timeout() bool }
	)
	if proxy, failed := proxyError(err); failed {
		f.Words = "the way to the store is through the proxy that HTTPS_PROXY or HTTP_PROXY names, and it failed: " + Network(proxy, caHow).Words
		f.Advice = "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY of this program"
		return f
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		f.Words = "the store did not answer in time"
		f.Advice = "check the network between this host and the store"
	case errors.As(err, &dns):
		f.Words = fmt.Sprintf("the name %q can not be resolved", dns.Name)
		f.Advice = "check the endpoint, the region and the bucket's name, and this host's DNS"
	case errors.As(err, &unknownCA):
		f.Words = "the store's certificate is signed by an authority that this host does not know"
		f.Advice = "name its CA bundle: " + caHow
	case errors.As(err, &hostname):
		f.Words = "the store's certificate is for another host: " + clip(hostname.Error(), maxMessage)
		f.Advice = "check the endpoint's host name"
	case errors.As(err, &invalid):
		f.Words = "the store's certificate is not valid: " + clip(invalid.Error(), maxMessage)
		f.Advice = "check its dates, and this host's clock"
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		f.Words = "the store does not speak TLS on this port"
		f.Advice = "write http:// in the endpoint if that is meant, or correct its port"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.Words = "nothing listens at the store's address" + address(err)
		f.Advice = "check that the store is up, and the endpoint"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		f.Words = "the store did not answer in time" + address(err)
		f.Advice = "check the network between this host and the store"
	default:
		f.Words = "the connection to the store failed: " + clip(innermost(err).Error(), maxMessage)
		f.Advice = "check the network between this host and the store"
	}
	return f
}

// proxyError is why a proxy could not be reached or used; that it was one is told
// by net/http, which names the step. Its address is not repeated: it may have a
// password in it.
func proxyError(err error) (cause error, failed bool) {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" && op.Err != nil {
		return op.Err, true
	}
	return nil, false
}

// Silent tells whether an error says that a connection failed, or gave nothing in time, rather than that a server answered.
func Silent(err error) bool {
	var (
		network net.Error
		op      *net.OpError
		request *url.Error
	)
	return errors.As(err, &network) || errors.As(err, &op) || errors.As(err, &request)
}

func address(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		return " " + op.Addr.String()
	}
	return ""
}

// innermost is the error at the end of a chain: what an operating system or a protocol said, without the URLs of those around it.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

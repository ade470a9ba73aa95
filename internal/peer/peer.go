// Package peer carries calls between daemons, and from people to daemons: gRPC over mutual TLS on one
// port. A call goes
//
//	Client: dial → the server's certificate names the host that was meant → header and body
//	Server: certificate valid now → header says cluster, receiver and caller, and the certificate says
//	        the same → the caller's role may make this call → body → Handler
//
// The package refuses by identity and decides nothing else. A call that a Handler saw was made by who its Caller says
// (without TLS: by somebody who claims so), for this host and this cluster. No call is repeated by itself once its
// body may have reached the other side.
package peer

import (
	"slices"
	"time"

	"etcdadm.io/internal/pki"
)

// Protocol is the version of the messages. It grows when an old daemon would misunderstand a new one; fields
// that may be ignored do not change it.
const Protocol = 1

// Bounds of both sides.
const (
	maxMessageBytes = 4 << 20 // of an answer
	// The largest are those for observations, with an intent and a spec: a few kilobytes, though either may have
	// up to 1 MiB in the store. Two that together have more than this are refused before they are sent.
	maxRequestBytes = 5 << 18
	maxConnections  = 512 // of a server; a cluster has few hosts
	maxConnectedOf  = 64  // of these from one address
	maxHeaderBytes  = 16 << 10
	maxStreams      = 64  // calls at once on one connection
	maxCalls        = 256 // calls at once in a server

	// A fixed window: gRPC would measure the line with two frames a call else,
	// and most calls are a ping that is one frame itself.
	window = 1 << 20

	handshakeTimeout = 5 * time.Second
	shutdownGrace    = 5 * time.Second // for calls to finish, and again for broken-off ones to return

	// Connections are renewed once in a while, so that none rests for ever on a certificate of last year.
	maxConnectionAge  = time.Hour
	maxConnectionIdle = 10 * time.Minute // beyond what a client of ours rests
	// A client looks after a connection while it waits for an answer on it: then
	// a dead one is given up. What rests is not asked whether it lives.
	keepaliveEvery   = 10 * time.Second // gRPC's least
	keepaliveTimeout = 3 * time.Second
	// A server only clears away what callers left behind who are gone.
	keepaliveServer = 5 * time.Minute

	// A host that comes back is found within a second: 0.8 s and gRPC's jitter of a fifth.
	reconnectFirst = 50 * time.Millisecond
	reconnectMost  = 800 * time.Millisecond
	dialTimeout    = 3 * time.Second
	idleAfter      = 5 * time.Minute
)

// method is what both sides know of an RPC.
type method struct {
	name    string
	roles   []pki.Role    // who may call it
	timeout time.Duration // when the caller set no deadline; 0: none, the caller's context ends the call
	// strict bodies are refused when they hold a field that this release does not know: an op must
	// not be carried out without a guard that its sender relies on.
	strict bool
}

// advice is for a caller whose role may not call it.
func (m method) advice() string {
	if slices.Contains(m.roles, pki.RoleOperator) {
		return roleHint
	}
	return ""
}

var (
	everybody = []pki.Role{pki.RoleHost, pki.RoleOperator, pki.RoleReader}

	hello = method{name: "Hello", roles: everybody, timeout: 2 * time.Second}
	// A ping is answered without waiting, and an idle daemon does little else:
	// timers that are stopped again cost it more than the ping.
	ping    = method{name: "Ping", roles: []pki.Role{pki.RoleHost}}
	observe = method{name: "Observe", roles: []pki.Role{pki.RoleHost}, timeout: 10 * time.Second}
	apply   = method{name: "Apply", roles: []pki.Role{pki.RoleHost}, timeout: time.Minute, strict: true}
	goal    = method{name: "Goal", roles: []pki.Role{pki.RoleHost, pki.RoleOperator}, timeout: time.Minute, strict: true}
	report  = method{name: "Report", roles: everybody, timeout: 10 * time.Second}
	// Strict: a keeper must not answer for a part of a message that it does not know.
	keep = method{name: "Keep", roles: []pki.Role{pki.RoleHost, pki.RoleOperator}, timeout: 10 * time.Second, strict: true}
	// Whoever is a host has the key of every authority, and nobody else has one.
	authority = method{name: "Authority", roles: []pki.Role{pki.RoleHost}, timeout: 10 * time.Second, strict: true}
)

// Package peerpb is generated from peer.proto, which documents the service.
// Run `go generate` here after changing it; the generator and its plug-ins are pinned by gen/go.mod, so that
// they are no dependencies of the program.
package peerpb

//go:generate go run -C gen .

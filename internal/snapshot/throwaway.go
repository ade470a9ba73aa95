package snapshot

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/release"
)

// Site is a directory in which an etcd runs that will be thrown away, with what
// it is made of. Only this user can enter it.
type Site struct{ site *site }

// OpenSite takes a directory, which is made, or emptied if it is one of ours.
// It waits for another holder until ctx ends.
func OpenSite(ctx context.Context, dir string) (*Site, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s, err := openSite(ctx, dir)
	if err != nil {
		return nil, err
	}
	return &Site{site: s}, nil
}

// Path is that of something in the site.
func (s *Site) Path(name string) string { return s.site.path(name) }

// Close takes the site away, with all that is in it.
func (s *Site) Close() error { return s.site.close() }

// ThrowAway is an etcd that runs in a site. It ends with us at the latest.
type ThrowAway struct {
	site *site
	srv  *server
}

// Start runs an etcd of version 3 on a data directory in the site, as a cluster of
// one that nobody reaches but by [ThrowAway.Dial].
func (s *Site) Start(r release.Release, dataDir string, flags ...string) (*ThrowAway, error) {
	return s.throwAway(startServer(r, s.site, dataDir, flags...))
}

// StartWith runs an etcd with these flags and no others.
func (s *Site) StartWith(r release.Release, flags ...string) (*ThrowAway, error) {
	return s.throwAway(s.site.launch(r, slices.Clone(flags)))
}

func (s *Site) throwAway(srv *server, err error) (*ThrowAway, error) {
	if err != nil {
		return nil, err
	}
	return &ThrowAway{site: s.site, srv: srv}, nil
}

// Dial connects to the socket at which an etcd listens for clients that was begun
// by [Site.Start].
func (t *ThrowAway) Dial(ctx context.Context) (net.Conn, error) {
	dir, err := os.Open(t.site.dir) // a socket's path may not be long; this one never is
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), clientSocket))
}

// Until asks until the answer is yes, the etcd is over, or ctx ends; what says
// what is waited for, after "wait until the throw-away etcd".
func (t *ThrowAway) Until(ctx context.Context, what string, ask func(context.Context) (bool, error)) error {
	return t.srv.until(ctx, what, ask)
}

// Stop ends it gracefully, so that all that it has is on disk.
func (t *ThrowAway) Stop(ctx context.Context) error { return t.srv.stop(ctx) }

// Kill ends it, if it has not ended, and returns after it is gone.
func (t *ThrowAway) Kill() { t.srv.kill() }

// Publish makes something in the site durable and moves it to its place, where
// nothing may be, on the same disk.
func (s *Site) Publish(name, place string) error {
	return publish(durable.OS(), s.site.path(name), place)
}

// Empty takes away what is in the site. No etcd may run there.
func (s *Site) Empty() error { return s.site.clear() }

package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
)

// checkPorts finds out, before anything is written, whether the ports can be
// had that will be listened on later. On a host that has been part of a cluster
// etcd's own may be held by the etcd that is to be adopted.
func (d *daemon) checkPorts(ctx context.Context) error {
	if err := d.showMetrics(ctx, namesTimeout); isInUse(err) {
		return inUse("--etcd-manager-metrics-port", cmp.Or(d.cfg.MetricsAddress, d.cfg.Address), strconv.Itoa(d.cfg.MetricsPort))
	}
	if d.experienced || d.besidePredecessor() {
		return nil
	}
	for _, set := range []struct {
		flag string
		urls []string
	}{{"--peer-urls", d.cfg.PeerURLs}, {"--client-urls", d.cfg.ClientURLs}, {"--quarantine-client-urls", d.cfg.QuarantineURLs}} {
		for _, raw := range set.urls {
			u, err := url.Parse(raw)
			if err != nil {
				continue // Validate has said so
			}
			if err := tryPort(ctx, set.flag, d.cfg.EtcdAddress, u.Port()); err != nil {
				return err
			}
		}
	}
	return nil
}

// besidePredecessor: an etcd that this daemon did not start runs on a member that
// etcd-manager left in the data directory. Its ports are those that are wanted
// later, and the host waits for its end.
func (d *daemon) besidePredecessor() bool {
	p, err := d.disk.Predecessor(d.cfg.HostID, "")
	return err == nil && p != nil && p.Held != nil
}

// tryPort listens for a moment. Only that a port is taken counts: an address
// that is not there yet may come, and is told by whoever listens on it.
func tryPort(ctx context.Context, flag, address, port string) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(address, port))
	if isInUse(err) {
		return inUse(flag, address, port)
	}
	if err == nil {
		l.Close()
	}
	return nil
}

func inUse(flag, address, port string) error {
	return &Error{
		Problem: fmt.Sprintf("port %s of %s, which %s names, is in use by another program", port, address, flag),
		Advice:  "stop it, or choose another port",
	}
}

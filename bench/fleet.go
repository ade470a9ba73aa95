package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"time"

	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testetcd"
)

// fleet is a cluster of ours: hosts that are loopback addresses, each with a
// daemon and a data directory, over one backup store.
type fleet struct {
	b       *bench
	dir     string
	version string
	network string // the first three numbers of the hosts' addresses
	ports   []*testetcd.Port
	flags   []string // of the daemons, beside those that all have
	tls     *tls.Config
	hosts   []*daemonHost
}

// The ports of a host, by their place in fleet.ports.
const (
	portDaemon = iota
	portClient
	portQuarantine
	portPeer
	portMetrics
	portCount
)

// newFleet prepares hosts and authorities, and writes the spec; nothing runs yet.
func (b *bench) newFleet(ctx context.Context, dir, version string, hosts, members int, flags ...string) (*fleet, error) {
	f := &fleet{b: b, dir: dir, version: version, flags: flags, network: fmt.Sprintf("127.%d.%d", 1+rand.IntN(250), rand.IntN(250))}
	for range portCount {
		p, err := f.port()
		if err != nil {
			f.close()
			return nil, err
		}
		f.ports = append(f.ports, p)
	}
	if err := f.trust(); err != nil {
		f.close()
		return nil, err
	}
	for i := range hosts {
		f.hosts = append(f.hosts, f.host(fmt.Sprintf("h%d", i+1), i+1))
	}
	if err := b.configure(ctx, f.store(), members, version); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// port reserves a number that is free on every address of the fleet: another
// program may listen on all addresses.
func (f *fleet) port() (*testetcd.Port, error) {
	for range 50 {
		p, err := testetcd.ReservePort()
		if err != nil {
			return nil, err
		}
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", fmt.Sprintf("%s.1:%d", f.network, p.Number))
		if err == nil {
			return p, l.Close()
		}
		p.Release()
	}
	return nil, fmt.Errorf("no port is free on %s.1", f.network)
}

// trust makes the authorities, and a client certificate for the watchers.
func (f *fleet) trust() error {
	cas, err := pki.Create(f.pkiDir(), time.Now())
	if err == nil {
		f.tls, err = clientOf(cas.Clients)
	}
	return err
}

// clientOf has an authority of clients issue a watcher's certificate.
func clientOf(clients *pki.Authority) (*tls.Config, error) {
	request, err := pki.ClientRequest("bench", pki.DefaultLifetime())
	if err != nil {
		return nil, err
	}
	pair, err := clients.Issue(request, time.Now())
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{*pair.TLS()}, RootCAs: clients.Pool(), MinVersion: tls.VersionTLS12}, nil
}

func (f *fleet) pkiDir() string { return filepath.Join(f.dir, "pki") }
func (f *fleet) store() string  { return "file://" + filepath.Join(f.dir, "store") }

// start runs all daemons.
func (f *fleet) start() error {
	for _, h := range f.hosts {
		if err := h.start(); err != nil {
			return err
		}
	}
	return nil
}

// settled makes a fleet, and leaves it alone until its voters are healthy and
// everything may be done to them.
func (b *bench) settledFleet(ctx context.Context, dir, version string, hosts, members int, flags ...string) (*fleet, error) {
	f, err := b.newFleet(ctx, dir, version, hosts, members, flags...)
	if err != nil {
		return nil, err
	}
	if err = f.start(); err == nil {
		err = f.settle(ctx, members)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *fleet) settle(ctx context.Context, members int) error {
	if members == len(f.hosts) {
		if _, _, err := healthy(ctx, time.Now(), members, f.seats()...); err != nil {
			return err
		}
	} else if _, err := f.anyVoter(ctx, members); err != nil {
		return err
	}
	return pause(ctx, settle)
}

// anyVoter waits until one of the hosts carries one of so many voters.
func (f *fleet) anyVoter(ctx context.Context, members int) (*daemonHost, error) {
	var found *daemonHost
	_, err := poll(ctx, func(ctx context.Context) error {
		var last error
		for _, h := range f.hosts {
			v, err := h.seat().open()
			if err != nil {
				return err
			}
			last = v.voter(ctx, members)
			v.close()
			if last == nil {
				found = h
				return nil
			}
		}
		return last
	})
	return found, err
}

func (f *fleet) seats() []seat {
	var out []seat
	for _, h := range f.hosts {
		out = append(out, h.seat())
	}
	return out
}

// close ends every process of the fleet.
func (f *fleet) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, h := range f.hosts {
		h.kill(ctx)
	}
	killUnder(ctx, f.dir)
	for _, p := range f.ports {
		p.Release()
	}
}

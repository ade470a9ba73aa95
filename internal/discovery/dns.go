package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lookupTimeout bounds one DNS lookup.
const lookupTimeout = 5 * time.Second

// Resolver is what DNS needs of a *net.Resolver.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// DNS looks names up: those that begin with an underscore, as _etcdadm._tcp.example.com, for SRV records, which name hosts and ports;
// all others, with or without ":port", for all their addresses. Seeds from it have no ID.
type DNS struct {
	Names    []string
	Port     int      // where a name gives none; records of type SRV always do
	Resolver Resolver // nil means net.DefaultResolver
}

// Seeds implements Seeds. The names are looked up at the same time, each for 5 s at most. A name that is not there is an error, as
// a server that lost its zone says the same.
func (d DNS) Seeds(ctx context.Context) ([]Seed, error) {
	found := make([][]Seed, len(d.Names))
	errs := make([]error, len(d.Names))
	var all sync.WaitGroup
	for i, name := range d.Names {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
			defer cancel()
			if strings.HasPrefix(name, "_") {
				found[i], errs[i] = d.service(ctx, name)
			} else {
				found[i], errs[i] = d.host(ctx, name)
			}
		})
	}
	all.Wait()
	var seeds []Seed
	for _, f := range found {
		seeds = append(seeds, f...)
	}
	return tidy(seeds), errors.Join(errs...)
}

func (d DNS) resolver() Resolver {
	if d.Resolver == nil {
		return net.DefaultResolver
	}
	return d.Resolver
}

func (d DNS) host(ctx context.Context, name string) ([]Seed, error) {
	checked, err := ParseEndpoint(name, d.Port)
	if err != nil {
		return nil, fmt.Errorf("look up %q: %w", name, err)
	}
	host, portText, err := net.SplitHostPort(checked)
	if err != nil {
		return nil, fmt.Errorf("look up %q: %w", name, err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("look up %q: %w", name, err)
	}
	if strings.HasSuffix(name, ".") {
		host += "." // the search list is not to be tried
	}
	addresses, err := d.resolver().LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, &lookupError{name, err}
	}
	var seeds []Seed
	var errs []error
	for _, address := range addresses {
		joined, err := endpoint(address.String(), port)
		if err != nil {
			errs = append(errs, fmt.Errorf("look up %q: %w", name, err))
			continue
		}
		seeds = append(seeds, Seed{Endpoint: joined})
	}
	return seeds, errors.Join(errs...)
}

func (d DNS) service(ctx context.Context, name string) ([]Seed, error) {
	// Beside an error there can be records: then it says that others were malformed.
	_, records, err := d.resolver().LookupSRV(ctx, "", "", name)
	var errs []error
	if err != nil {
		errs = append(errs, &lookupError{name, err})
	}
	var seeds []Seed
	for _, record := range records {
		if record.Target == "." {
			continue // RFC 2782: decidedly no such service
		}
		joined, err := endpoint(record.Target, int(record.Port))
		if err != nil {
			errs = append(errs, fmt.Errorf("look up %q: %w", name, err))
			continue
		}
		seeds = append(seeds, Seed{Endpoint: joined})
	}
	return seeds, errors.Join(errs...)
}

// lookupError says the same about the same trouble each time, where package net tells the local port of the query.
type lookupError struct {
	name string
	err  error
}

func (e *lookupError) Error() string {
	said := e.err.Error()
	if d, ok := errors.AsType[*net.DNSError](e.err); ok {
		switch {
		case d.IsNotFound:
			said = "there is no such name, or it has no records of this kind"
		case d.IsTimeout:
			said = "the server did not answer in time"
		default:
			said = d.Err
			if i := strings.LastIndex(said, ": "); i >= 0 {
				said = said[i+2:]
			}
		}
	}
	return fmt.Sprintf("look up %q: %s", e.name, said)
}

// Unwrap gives the cause.
func (e *lookupError) Unwrap() error { return e.err }

// Package discovery finds seeds: addresses at which other daemons of the cluster may answer.
//
// A seed is a hint and nothing more. It can be stale, foreign or wrong; who really answers is told by the certificate of the
// connection. So every source here gives what it could learn and never guesses that something is gone: a failing source says so,
// and Merged goes on with its last good answer.
package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Seed is where a daemon may answer.
type Seed struct {
	// ID is the host's ID, or empty where the source does not know it.
	ID string
	// Endpoint is "host:port", with brackets around an IPv6 address.
	Endpoint string
}

// Seeds is a source of seeds.
type Seeds interface {
	// Seeds gives what is known now, sorted, without duplicates, possibly including the caller's own entry. It ends soon
	// after ctx does. With an error the seeds are still good; the error says what could not be learned.
	Seeds(ctx context.Context) ([]Seed, error)
}

// Announcer is a source that this host can put itself into.
type Announcer interface {
	// Announce makes the host's own entry say this. It is cheap to call again and again; entries that expire need it at every
	// poll.
	Announce(ctx context.Context, self Seed) error
}

// Watcher is a source that can tell when it has changed.
type Watcher interface {
	// Watch sends on the channel soon after the seeds may have changed, and now and then when they have not; several changes
	// may be told as one. The channel is closed when ctx has ended and nothing is left running.
	Watch(ctx context.Context) <-chan struct{}
}

// ParseEndpoint reads "host:port", "host" with the given default port, or an IP address with or without brackets. It gives the
// form that Seed.Endpoint has. A default port of 0 makes the port required. Errors are sentences.
func ParseEndpoint(s string, defaultPort int) (string, error) {
	if strings.Contains(s, "://") {
		return "", fmt.Errorf("endpoint %q is a URL: write host:port", s)
	}
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	if _, err := parseIP(bare); err == nil {
		return endpoint(bare, defaultPort)
	}
	host, port := s, defaultPort
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		n, err := strconv.ParseUint(s[i+1:], 10, 16)
		if err != nil || n == 0 {
			return "", fmt.Errorf("endpoint %q: the port is not a number from 1 to 65535", s)
		}
		host, port = s[:i], int(n)
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		if ip, err := parseIP(inner); err != nil || !closed || !ip.Is6() {
			return "", fmt.Errorf("endpoint %q: what stands in brackets is not an IPv6 address", s)
		}
		host = inner
	}
	return endpoint(host, port)
}

// endpoint joins a host name or IP address and a port, after looking at both.
func endpoint(host string, port int) (string, error) {
	if port < 1 || port > 65535 {
		if port == 0 {
			return "", fmt.Errorf("endpoint %q has no port", host)
		}
		return "", fmt.Errorf("endpoint %q: port %d is not from 1 to 65535", host, port)
	}
	if ip, err := parseIP(host); err == nil {
		if ip.IsUnspecified() || ip.IsMulticast() {
			return "", fmt.Errorf("endpoint %q is no address of one host", host)
		}
		return net.JoinHostPort(ip.String(), strconv.Itoa(port)), nil
	}
	if err := checkHostName(host); err != nil {
		return "", err
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(host, ".")), strconv.Itoa(port)), nil
}

// parseIP is netip.ParseAddr without addresses of the kind ::ffff:10.0.0.1, which it unwraps, and with zones that are interface names
// only.
func parseIP(s string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return ip, err
	}
	if strings.ContainsFunc(ip.Zone(), func(r rune) bool { return r >= 0x80 || !isNameByte(byte(r)) && r != '.' }) {
		return netip.Addr{}, fmt.Errorf("address %q: the zone is not an interface's name", s)
	}
	return ip.Unmap(), nil
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// checkHostName is liberal: underscores are in use although the standard forbids them.
func checkHostName(name string) error {
	if name == "" {
		return errors.New("endpoint has no host")
	}
	trimmed := strings.TrimSuffix(name, ".")
	if _, err := parseIP(trimmed); err == nil { // without the dot it would be taken for one
		return fmt.Errorf("endpoint %q is an IP address with a dot behind it", name)
	}
	if len(trimmed) > 253 {
		return fmt.Errorf("endpoint %.40q…: the host name is longer than 253 characters", name)
	}
	for label := range strings.SplitSeq(trimmed, ".") {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return fmt.Errorf("endpoint %q is neither an IP address nor a host name", name)
		}
		for _, c := range []byte(label) {
			if !isNameByte(c) {
				return fmt.Errorf("endpoint %q is neither an IP address nor a host name", name)
			}
		}
	}
	return nil
}

// tidy sorts seeds, and drops duplicates: also an entry without ID whose endpoint has an entry with one.
func tidy(seeds []Seed) []Seed {
	named := map[string]bool{}
	for _, s := range seeds {
		if s.ID != "" {
			named[s.Endpoint] = true
		}
	}
	kept := make([]Seed, 0, len(seeds))
	for _, s := range seeds {
		if s.ID != "" || !named[s.Endpoint] {
			kept = append(kept, s)
		}
	}
	slices.SortFunc(kept, func(a, b Seed) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Endpoint, b.Endpoint))
	})
	return slices.Compact(kept)
}

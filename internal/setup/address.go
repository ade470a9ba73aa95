package setup

import (
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"etcdadm.io/internal/regular"
)

func checkAddress(ctx context.Context, address string) Check {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips := []string{address}
	if net.ParseIP(address) == nil {
		found, err := new(net.Resolver).LookupHost(ctx, address)
		if err != nil {
			return refuse("address", "give this machine's IP address: --address", "%s: %v", address, err)
		}
		ips = found
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return warn("address", "", "%s: the addresses of this machine cannot be read: %v", address, err)
	}
	var names []string
	for _, a := range own {
		prefix, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		for _, text := range ips {
			ip := net.ParseIP(text)
			if prefix.IP.Equal(ip) || prefix.IP.IsLoopback() && prefix.Contains(ip) {
				return good("address", "%s is this machine's", address)
			}
		}
		if prefix.IP.IsGlobalUnicast() {
			names = append(names, prefix.IP.String())
		}
	}
	return refuse("address", "give one of those: --address", "%s is not this machine's, which has %s", address, strings.Join(names, ", "))
}

// DefaultAddress is the address from which this machine reaches what is far: of its default route, or of the way to
// an endpoint. Nothing is sent. Where several default routes are alike it does not choose.
func DefaultAddress(ctx context.Context, endpoint string) (string, error) {
	ask := func(why string) error {
		return &Error{Problem: why, Advice: "give the address by which the other hosts reach this one: --address"}
	}
	if endpoint == "" {
		if routes := defaultRoutes(); len(routes) > 1 {
			return "", ask("this machine has several default routes, by " + strings.Join(routes, " and "))
		}
		endpoint = "192.0.2.1:9" // an address that is nobody's
	}
	conn, err := new(net.Dialer).DialContext(ctx, "udp", endpoint) // which looks the route up, no more
	if err != nil {
		return "", ask("this machine's address cannot be told: " + err.Error())
	}
	defer conn.Close()
	at, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok || at.IP.IsLoopback() && !strings.HasPrefix(endpoint, "127.") || at.IP.IsUnspecified() {
		return "", ask("this machine's address cannot be told")
	}
	return at.IP.String(), nil
}

// defaultRoutes are the interfaces of the best default routes for IPv4.
func defaultRoutes() (interfaces []string) {
	data, err := regular.Read("/proc/net/route", regular.SmallSize)
	if err != nil {
		return nil
	}
	best := -1
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		metric, err := strconv.Atoi(f[6])
		switch {
		case err != nil:
		case best < 0 || metric < best:
			best, interfaces = metric, []string{f[0]}
		case metric == best && !slices.Contains(interfaces, f[0]):
			interfaces = append(interfaces, f[0])
		}
	}
	return interfaces
}

// HostName is an ID for this host made of the machine's name.
func HostName() (string, error) {
	name, err := os.Hostname()
	name, _, _ = strings.Cut(name, ".")
	name = strings.ToLower(name)
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' }
	if err != nil || name == "" || name == "localhost" || strings.TrimFunc(name, plain) != "" {
		return "", &Error{Problem: "this machine has no name that is good for a host's ID", Err: err, Advice: "give one: --host-id"}
	}
	return name, nil
}

package discovery

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
)

// records is a name server that answers with what a test wants.
type records struct {
	target  string
	port    uint16
	address []byte
	failed  bool
}

func (r records) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	a, _ := netip.AddrFromSlice(r.address)
	return []netip.Addr{a, a}, r.err()
}

func (r records) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", []*net.SRV{{Target: r.target, Port: r.port}, {Target: r.target, Port: r.port}}, r.err()
}

func (r records) err() error {
	if r.failed {
		return errors.New("some records are malformed")
	}
	return nil
}

// FuzzDNS: whatever a name server answers, a seed is a host and a port that an endpoint
// reads back as it is, and stands once.
func FuzzDNS(f *testing.F) {
	f.Add("_etcdadm._tcp.example.com", "h1.example.com.", uint16(4000), []byte{}, false)
	f.Add("seeds.example.com.", "", uint16(0), []byte{192, 0, 2, 1}, false)
	f.Add("_x", ".", uint16(1), []byte{}, true)
	f.Add("seeds.example.com:99999", "a b", uint16(4000), []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}, true)
	f.Add("_x", "[::1%eth0]:1", uint16(65535), []byte{}, false)
	f.Fuzz(func(t *testing.T, name, target string, port uint16, address []byte, failed bool) {
		d := DNS{Names: []string{name}, Port: 4000, Resolver: records{target, port, address, failed}}
		seeds, err := d.Seeds(t.Context())
		if failed && err == nil && name != "" {
			t.Fatalf("%q: the failure is not told", name)
		}
		known := map[string]bool{}
		for _, s := range seeds {
			read, err := ParseEndpoint(s.Endpoint, 0)
			if err != nil || read != s.Endpoint || s.ID != "" || known[s.Endpoint] {
				t.Fatalf("%q gives %+v, which is %q: %v", name, seeds, read, err)
			}
			known[s.Endpoint] = true
		}
	})
}

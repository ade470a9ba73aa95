package pki

import (
	"slices"
	"testing"
	"time"
)

// FuzzRequest: whatever URLs and addresses are to be in a certificate, they are refused,
// or each stands in it once as an address or a name, and none means all addresses.
func FuzzRequest(f *testing.F) {
	f.Add("https://192.0.2.1:2379", "h1.example.com")
	f.Add("https://[::1]:2379", "0.0.0.0")
	f.Add("https://H1.Example.com.:2379", "::ffff:192.0.2.1")
	f.Add("http://:2379", "[::]")
	f.Add("unix://a b", "*.example.com")
	f.Fuzz(func(t *testing.T, url, address string) {
		r, err := ServerRequest("h1", []string{url}, []string{address}, Lifetime{Duration: 24 * time.Hour, MinTimeLeft: time.Hour})
		if err != nil {
			return
		}
		for i, ip := range r.IPs {
			if ip.IsUnspecified() || i > 0 && ip.Equal(r.IPs[i-1]) {
				t.Fatalf("%q and %q become %v", url, address, r.IPs)
			}
		}
		for _, name := range r.DNS {
			if !isDotted(name) {
				t.Fatalf("%q and %q become %q", url, address, r.DNS)
			}
		}
		if !slices.IsSorted(r.DNS) || len(slices.Compact(slices.Clone(r.DNS))) != len(r.DNS) || !slices.Contains(r.DNS, "localhost") {
			t.Fatalf("%q and %q become %q", url, address, r.DNS)
		}
	})
}

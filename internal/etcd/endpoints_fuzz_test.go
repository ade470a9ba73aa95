package etcd

import (
	"net"
	"testing"
)

// FuzzEndpoints: what is taken for a client URL is host and port.
func FuzzEndpoints(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1:2379", "https://[::1]:2379/x", "unix://a:1", "http://a@b:1", "http://:1", "http://a", "%", "http://a:http"} {
		f.Add(s, "http://192.0.2.1:2379")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		addresses, _, err := parseEndpoints([]string{one, two})
		if err != nil {
			return
		}
		if len(addresses) != 2 {
			t.Fatalf("%q and %q are %v", one, two, addresses)
		}
		for _, a := range addresses {
			if _, _, err := net.SplitHostPort(a.Addr); err != nil {
				t.Fatalf("%q was taken: %v", a.Addr, err)
			}
		}
	})
}

package pki

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"
)

// A pair whose key is of the kind that the suites ask for is served with, by TLS 1.2 alone;
// one of the other kind is not. (Go has the suites by the names that etcd takes.)
func TestKeysForSuites(t *testing.T) {
	now := time.Now()
	all, err := Create(t.TempDir(), now)
	must(t, err)
	for _, test := range []struct {
		suites string
		want   KeyAlgorithm
	}{
		{"", KeyAny},
		{"TLS_AES_128_GCM_SHA256", KeyAny},
		{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", KeyAny},
		{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", KeyRSA},
		{"TLS_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256", KeyRSA},
		{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", KeyECDSA},
	} {
		suites := strings.Split(test.suites, ",")
		if got := KeyForSuites(suites); got != test.want {
			t.Errorf("%s: %q, want %q", test.suites, got, test.want)
		}
		if test.want == KeyAny {
			continue
		}
		var ids []uint16
		for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
			if strings.Contains(test.suites, s.Name) {
				ids = append(ids, s.ID)
			}
		}
		for _, kind := range []KeyAlgorithm{KeyECDSA, KeyRSA} {
			r, err := PeerRequest("a", []string{"https://127.0.0.1:2380"}, nil, DefaultLifetime())
			must(t, err)
			r.Key = kind
			pair, err := all.Peers.Issue(r, now)
			must(t, err)
			if got := pair.Algorithm(); got != kind {
				t.Fatalf("asked for %s, made %s", kind, got)
			}
			ours, theirs := net.Pipe()
			server := tls.Server(ours, &tls.Config{Certificates: []tls.Certificate{*pair.TLS()}, MaxVersion: tls.VersionTLS12, CipherSuites: ids})
			go func() { _ = server.Handshake(); _ = ours.Close() }() // it is the client that judges
			client := tls.Client(theirs, &tls.Config{RootCAs: all.Peers.Pool(), ServerName: "127.0.0.1", CipherSuites: ids})
			if err := client.Handshake(); (err == nil) != (kind == test.want) {
				t.Errorf("%s with an %s key: %v", test.suites, kind, err)
			}
			_ = theirs.Close()
		}
	}
}

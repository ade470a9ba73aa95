package pki

import (
	"crypto/x509"
	"net/url"
	"testing"
)

// FuzzIdentity: a name in a certificate is one identity in one spelling, or none.
func FuzzIdentity(f *testing.F) {
	for _, s := range []string{
		"", "etcdadm://etcd/host/h1", "etcdadm://etcd/operator/%C3%A9", "ETCDADM://etcd/host/h1", "etcdadm://etcd/host/h1?x", "etcdadm://etcd/host/h1#x",
		"etcdadm://a@etcd/host/h1", "etcdadm://etcd:1/host/h1", "etcdadm://etcd//host/h1", "etcdadm://etcd/host/a%2Fb", "etcdadm:etcd/host/h1", "etcdadm://[::1]/host/h1",
	} {
		f.Add(s)
	}
	for _, role := range []Role{RoleHost, RoleOperator} {
		f.Add(Identity{Cluster: "etcd-main.example", Role: role, ID: "h-1%"}.String())
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		id, err := IdentityOf(&x509.Certificate{URIs: []*url.URL{u}})
		if err != nil {
			return
		}
		if err := id.Validate(); err != nil {
			t.Fatalf("%q was taken: %v", s, err)
		}
		own, err := id.uri()
		if err != nil || own.String() != u.String() {
			t.Fatalf("%q was taken for %v, whose name is %v, %v", s, id, own, err)
		}
		if _, err := IdentityOf(&x509.Certificate{URIs: []*url.URL{u, own}}); err == nil {
			t.Fatal("two names are taken for one")
		}
	})
}

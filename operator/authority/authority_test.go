package authority

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"etcdadm.io/internal/duration"
)

var host = Host{Cluster: "team.main.6f9619ff", Name: "main-1", DNS: []string{"main-1-0.main-hosts.team.svc"}, Served: []string{"main-client.team.svc"}}

func leafOf(t *testing.T, files Files, name string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(files[name])
	if block == nil {
		t.Fatalf("%s is no certificate", name)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A host's leaves name it by DNS alone, live for a year, and keep their keys when they are renewed after a third of it.
func TestLeaves(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	authorities, err := Create(now)
	if err != nil || len(authorities) != 6 || len(Bundle(authorities)) != 3 {
		t.Fatalf("%d files, %v", len(authorities), err)
	}
	first, due, err := Issue(authorities, nil, host, now)
	if err != nil || len(first) != 13 {
		t.Fatalf("%d files, %v", len(first), err)
	}
	for name := range first {
		if bytes.Equal(first[name], authorities["etcd-manager-ca.key"]) || name == "etcd-manager-ca.key" {
			t.Errorf("%s is an authority's key", name)
		}
	}
	if got := due.Sub(now); got < 120*duration.Day || got > 123*duration.Day {
		t.Errorf("due after %s", got)
	}
	peer := leafOf(t, first, "peer.crt")
	if len(peer.IPAddresses) > 0 || len(peer.DNSNames) != 1 || peer.DNSNames[0] != host.DNS[0] || !peer.NotAfter.Equal(now.Add(365*duration.Day)) {
		t.Errorf("%v %v until %s", peer.IPAddresses, peer.DNSNames, peer.NotAfter)
	}
	if server := leafOf(t, first, "server.crt"); server.VerifyHostname("main-client.team.svc") != nil {
		t.Errorf("clients are not served under the Service's name: %v", server.DNSNames)
	}
	again, _, err := Issue(authorities, first, host, now.Add(100*duration.Day))
	if err != nil || !bytes.Equal(again["peer.crt"], first["peer.crt"]) {
		t.Errorf("renewed before it was due: %v", err)
	}
	later, next, err := Issue(authorities, first, host, due)
	if err != nil || bytes.Equal(later["peer.crt"], first["peer.crt"]) || !bytes.Equal(later["peer.key"], first["peer.key"]) || !next.After(due) {
		t.Errorf("not renewed with the same key: %v", err)
	}
	if _, _, err := Issue(Files(nil), first, host, now); err == nil {
		t.Error("leaves were issued without authorities")
	}
}

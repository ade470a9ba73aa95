package authority

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// The authorities of somebody else's cluster are taken as they are there, one for both or two; that of the daemons is made.
func TestGiven(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	a, err := Create(now)
	if err != nil {
		t.Fatal(err)
	}
	peers, peersKey, clients, clientsKey := a["etcd-peers-ca.crt"], a["etcd-peers-ca.key"], a["etcd-clients-ca.crt"], a["etcd-clients-ca.key"]
	for what, c := range map[string]struct {
		had            Files
		peers, clients []byte // nil: refused
	}{
		"one for both":       {Files{"ca.crt": peers, "ca.key": peersKey}, peers, peers},
		"of cert-manager":    {Files{"ca.crt": clients, "tls.crt": peers, "tls.key": peersKey}, peers, peers},
		"two":                {Files{"etcd-peers-ca.crt": peers, "etcd-peers-ca.key": peersKey, "etcd-clients-ca.crt": clients, "etcd-clients-ca.key": clientsKey}, peers, clients},
		"one beside another": {Files{"ca.crt": peers, "ca.key": peersKey, "etcd-clients-ca.crt": clients, "etcd-clients-ca.key": clientsKey}, peers, clients},
		"no key":             {Files{"ca.crt": peers}, nil, nil},
		"an empty key":       {Files{"ca.crt": peers, "ca.key": nil}, nil, nil},
		"one of two":         {Files{"etcd-peers-ca.crt": peers, "etcd-peers-ca.key": peersKey}, nil, nil},
	} {
		given, err := Given(c.had)
		if c.peers == nil {
			if !errors.Is(err, ErrNotGiven) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		all, err := Complete(given, now)
		if err != nil || len(all) != 6 || !bytes.Equal(all["etcd-peers-ca.crt"], c.peers) || !bytes.Equal(all["etcd-clients-ca.crt"], c.clients) || bytes.Equal(all["etcd-manager-ca.crt"], c.peers) {
			t.Errorf("%s: %d files, %v", what, len(all), err)
			continue
		}
		leaves, _, err := Issue(all, nil, host, now)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		for name, data := range leaves {
			if bytes.Equal(data, peersKey) || bytes.Equal(data, clientsKey) {
				t.Errorf("%s: %s is the key of an authority", what, name)
			}
		}
	}
	if _, err := Complete(Files{"etcd-peers-ca.crt": peers, "etcd-peers-ca.key": clientsKey}, now); err == nil {
		t.Error("a key of another authority is taken")
	}
}

// What is wrong with authorities is said in the same words each time, without a directory of this process.
func TestAuthoritiesAreRefusedInTheSameWords(t *testing.T) {
	a, err := Create(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for what, had := range map[string]Files{
		"another one's key": {"etcd-peers-ca.crt": a["etcd-peers-ca.crt"], "etcd-peers-ca.key": a["etcd-clients-ca.key"]},
		"no certificate":    {"etcd-peers-ca.crt": []byte("x"), "etcd-peers-ca.key": a["etcd-peers-ca.key"]},
	} {
		var said []string
		for range 2 {
			_, err := Complete(had, time.Now())
			if err == nil {
				t.Fatalf("%s is taken", what)
			}
			said = append(said, err.Error())
		}
		if said[0] != said[1] || strings.Contains(said[0], "pki-") || !strings.Contains(said[0], "etcd-peers-ca") {
			t.Errorf("%s: %q", what, said)
		}
	}
}

package daemon

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/pki"
)

// The keys that etcd gets are of the kind that its cipher suites take, or what a person
// said; what cannot serve is refused in words.
func TestKeysOfEtcd(t *testing.T) {
	dir := t.TempDir()
	if _, err := pki.Create(dir, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	const (
		rsa   = "ETCD_CIPHER_SUITES=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
		ecdsa = "ETCD_CIPHER_SUITES=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
		old   = "ETCD_TLS_MAX_VERSION=TLS1.2"
	)
	launch := record.Launch{Token: "t", URLs: cluster.URLs{Peer: []string{"https://192.0.2.1:2380"}, Client: []string{"https://192.0.2.1:4001"}}}
	certsWith := func(data, flag string, env ...string) (*certs, error) {
		return newCerts(&Config{ClusterName: "c", DataDir: data, PKIDir: dir, Address: "192.0.2.1", KeyAlgorithm: flag}, "a", env, slog.New(slog.DiscardHandler))
	}
	for _, test := range []struct {
		flag    string
		env     []string
		options []string
		want    pki.KeyAlgorithm
		refused string
	}{
		{"", nil, nil, pki.KeyECDSA, ""},
		{"rsa", nil, nil, pki.KeyRSA, ""},
		{"auto", []string{rsa, old}, nil, pki.KeyRSA, ""},
		{"", []string{ecdsa}, nil, pki.KeyECDSA, ""},
		{"", nil, []string{"--cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256"}, pki.KeyRSA, ""},
		{"ecdsa", []string{rsa}, nil, "", "--key-algorithm=ecdsa: etcd's cipher suites are for RSA keys only"},
		{"rsa", []string{ecdsa}, nil, "", "--key-algorithm=rsa: etcd's cipher suites are for ECDSA keys only"},
	} {
		k, err := certsWith(t.TempDir(), test.flag, test.env...)
		if test.refused != "" {
			var said *Error
			if !errors.As(err, &said) || !strings.Contains(said.Problem, test.refused) || said.Advice == "" {
				t.Errorf("%+v: %v", test, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		launch.Options = test.options
		if err := k.forLaunch(launch); err != nil {
			t.Fatalf("%+v: %v", test, err)
		}
		for dir, names := range map[string]pki.Names{k.peersDir("t"): pki.PeerNames, k.clientsDir("t"): pki.ServerNames} {
			if pair, err := pki.LoadKeypair(dir, names); err != nil || pair.Algorithm() != test.want {
				t.Errorf("%+v: %v is for an %s key (%v)", test, names.Cert, pair.Algorithm(), err)
			}
		}
	}

	// Suites that came later: the key that is there stays, and serves by TLS 1.3; where that
	// is off nobody could connect.
	data := t.TempDir()
	launch.Options = nil
	k, err := certsWith(data, "")
	if err == nil {
		err = k.forLaunch(launch)
	}
	if err != nil {
		t.Fatal(err)
	}
	if k, err = certsWith(data, "", rsa); err == nil {
		err = k.forLaunch(launch)
	}
	if err != nil {
		t.Errorf("TLS 1.3 takes any key: %v", err)
	}
	if k, err = certsWith(data, "", rsa, old); err != nil {
		t.Fatal(err)
	}
	if err := k.forLaunch(launch); err == nil || !strings.Contains(err.Error(), "nobody could connect to etcd") || !strings.Contains(err.Error(), "me.crt is for an ECDSA key") {
		t.Errorf("a key that none of the suites takes: %v", err)
	}
}

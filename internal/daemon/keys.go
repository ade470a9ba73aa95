package daemon

import (
	"fmt"
	"strings"

	"etcdadm.io/internal/pki"
)

// keyKind is the kind of the keys that a member's certificates are made for. Before TLS 1.3
// a server whose suites are for another kind than its key answers nobody, and says so
// nowhere but in its clients' errors; a person's choice that leads there is refused.
func (k *certs) keyKind(options []string) (pki.KeyAlgorithm, error) {
	suites := etcdSetting(options, k.etcdEnv, "cipher-suites")
	asked := pki.KeyForSuites(strings.Split(suites, ","))
	switch {
	case k.keys == pki.KeyAny:
		return asked, nil
	case asked != pki.KeyAny && asked != k.keys:
		return k.keys, &Error{
			Problem: fmt.Sprintf("--key-algorithm=%s: etcd's cipher suites are for %s keys only: %s", k.keys, strings.ToUpper(string(asked)), suites),
			Advice:  fmt.Sprintf("leave --key-algorithm out, or add suites for %s keys to ETCD_CIPHER_SUITES or the option cipher-suites", strings.ToUpper(string(k.keys))),
		}
	}
	return k.keys, nil
}

// keysServe refuses to start a member with a key that none of its cipher suites takes, where
// TLS 1.3, which takes any, is turned off.
func (k *certs) keysServe(options []string, at pair) error {
	suites := etcdSetting(options, k.etcdEnv, "cipher-suites")
	asked := pki.KeyForSuites(strings.Split(suites, ","))
	if asked == pki.KeyAny || etcdSetting(options, k.etcdEnv, "tls-max-version") != "TLS1.2" {
		return nil
	}
	pair, err := pki.LoadKeypair(at.dir, at.names)
	if err != nil || pair.Algorithm() == asked {
		return err
	}
	return &Error{
		Problem: fmt.Sprintf("nobody could connect to etcd: %s is for an %s key, and the cipher suites are for %s keys only: %s", at.file(at.names.Cert), strings.ToUpper(string(pair.Algorithm())), strings.ToUpper(string(asked)), suites),
		Advice:  fmt.Sprintf("move %s aside, and a key of the other kind is made at the next start; or change ETCD_CIPHER_SUITES", at.file(at.names.Key)),
	}
}

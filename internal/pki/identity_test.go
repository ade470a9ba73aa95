package pki

import (
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIdentityRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := Identity{
			Cluster: rapid.StringMatching(`[A-Za-z0-9_.-]{1,12}`).Draw(t, "cluster"),
			Role:    rapid.SampledFrom([]Role{RoleHost, RoleOperator, RoleReader}).Draw(t, "role"),
			ID:      rapid.StringMatching(`[ -~]{1,12}`).Draw(t, "id"),
		}
		u, err := id.uri()
		if err != nil {
			if !errors.Is(err, ErrIdentity) {
				t.Fatalf("%+v: %v", id, err)
			}
			return
		}
		got, err := IdentityOf(&x509.Certificate{URIs: []*url.URL{u}})
		if err != nil || got != id {
			t.Fatalf("%+v became %+v, %v", id, got, err)
		}
	})
}

// The IDs that are in use survive an issued certificate, not only the URI.
func TestIdentityInCertificate(t *testing.T) {
	_, all := created(t)
	for _, id := range []string{"a", "vol-0123456789abcdef0", "_9wWIvQ2TwKCnE1s-JMu4g", "-x_", "10.0.0.1:8000", "jo@example.org", "a%2Fb", "a?b#c", "etcd_a.example"} {
		pair, err := all.Manager.Issue(hostRequest(t, id), t0)
		if err != nil {
			t.Errorf("%q: %v", id, err)
			continue
		}
		got, err := IdentityOf(pair.Leaf())
		if want := (Identity{"c1", RoleHost, id}); err != nil || got != want {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
	}
}

func TestIdentityRefused(t *testing.T) {
	for name, uris := range map[string][]string{
		"none":             nil,
		"another scheme":   {"spiffe://c1/host/h1"},
		"two":              {"etcdadm://c1/host/h1", "etcdadm://c1/host/h2"},
		"the same twice":   {"etcdadm://c1/host/h1", "etcdadm://c1/host/h1"},
		"upper-case twin":  {"etcdadm://c1/host/h1", "ETCDADM://c1/operator/h1"},
		"no role":          {"etcdadm://c1"},
		"unknown role":     {"etcdadm://c1/root/h1"},
		"no ID":            {"etcdadm://c1/host/"},
		"longer path":      {"etcdadm://c1/host/h1/x"},
		"escaped slash":    {"etcdadm://c1/host/a%2Fb"},
		"needless escape":  {"etcdadm://c1/host/%68%31"},
		"query":            {"etcdadm://c1/host/h1?x=1"},
		"fragment":         {"etcdadm://c1/host/h1#x"},
		"user":             {"etcdadm://me@c1/host/h1"},
		"port":             {"etcdadm://c1:80/host/h1"},
		"dots as ID":       {"etcdadm://c1/host/.."},
		"opaque":           {"etcdadm:c1/host/h1"},
		"empty cluster":    {"etcdadm:///host/h1"},
		"long ID":          {"etcdadm://c1/host/" + strings.Repeat("x", 254)},
		"double separator": {"etcdadm://c1//host/h1"},
	} {
		cert := new(x509.Certificate)
		for _, text := range uris {
			u, err := url.Parse(text)
			must(t, err)
			cert.URIs = append(cert.URIs, u)
		}
		if id, err := IdentityOf(cert); !errors.Is(err, ErrIdentity) {
			t.Errorf("%s: taken for %+v, %v", name, id, err)
		}
	}
}

func TestCheckServerAndCaller(t *testing.T) {
	host := Identity{"c1", RoleHost, "h1"}
	for _, c := range []struct {
		id            Identity
		cluster, host string
		ok            bool
	}{
		{host, "c1", "h1", true}, {host, "c1", "", true}, {host, "", "", true},
		{host, "c1", "h2", false}, {host, "c2", "h1", false}, {host, "c2", "", false},
		{Identity{"c1", RoleOperator, "h1"}, "c1", "h1", false}, {Identity{"c1", RoleReader, "h1"}, "", "", false},
	} {
		if err := CheckServer(c.id, c.cluster, c.host); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrIdentity) {
			t.Errorf("CheckServer(%v, %q, %q) = %v", c.id, c.cluster, c.host, err)
		}
	}
	for _, claimed := range []Identity{{"c1", RoleHost, "h2"}, {"c2", RoleHost, "h1"}, {"c1", RoleOperator, "h1"}, {}} {
		if err := CheckCaller(host, claimed); !errors.Is(err, ErrIdentity) {
			t.Errorf("%v passed as %v: %v", host, claimed, err)
		}
	}
	must(t, CheckCaller(host, host))
}

func TestLifetimeFromEnv(t *testing.T) {
	for _, c := range []struct {
		duration, left string
		want           Lifetime
		ok             bool
	}{
		{"", "", Lifetime{730 * day, 60 * day}, true},
		{"1y", "30d", Lifetime{365 * day, 30 * day}, true},
		{"24h", "", Lifetime{24 * time.Hour, 8 * time.Hour}, true},
		{"24h", "24h", Lifetime{}, false},
		{"", "3y", Lifetime{}, false},
		{"soon", "", Lifetime{}, false},
		{"1s", "", Lifetime{}, false},
	} {
		env := map[string]string{EnvDuration: c.duration, EnvMinTimeLeft: c.left}
		got, err := LifetimeFromEnv(func(name string) string { return env[name] })
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%q %q: %v, %v", c.duration, c.left, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "ETCD_MANAGER_CERT_") {
			t.Errorf("the error does not name the setting: %v", err)
		}
	}
}

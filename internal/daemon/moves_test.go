package daemon

import (
	"os"
	"testing"

	"etcdadm.io/internal/moving"
	"etcdadm.io/internal/peer"
)

// The place that the record was moved to goes before what the daemon was started with, and its variables are used as one set: half a pair
// of keys is worse than none. Settings that name the place are a person's.
func TestPlaced(t *testing.T) {
	for name, c := range map[string]struct {
		given, url, key string
		elsewhere       bool
	}{
		"started for the hosts": {"hosts:///data", "s3://bucket/folder", "", true},
		"started elsewhere":     {"s3://left/folder", "s3://bucket/folder", "", true},
		"started there":         {"s3://bucket/folder", "s3://bucket/folder", "former", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("S3_SECRET_ACCESS_KEY", "former")
			t.Setenv("S3_ACCESS_KEY_ID", "former")
			t.Setenv("HTTPS_PROXY", "http://192.0.2.1")
			t.Setenv("NO_PROXY", "own")
			n := moving.Notes{Place: &moving.Place{Offer: peer.Offer{URL: "s3://bucket/folder", Variables: map[string]string{"S3_ACCESS_KEY_ID": "given", "NO_PROXY": "a laptop's"}}}}
			url, elsewhere := placed(n, "/data", c.given)
			if elsewhere != c.elsewhere || url != c.url {
				t.Errorf("%v %s", elsewhere, url)
			}
			if got := os.Getenv("S3_SECRET_ACCESS_KEY"); got != c.key {
				t.Errorf("the secret of another store: %q", got)
			}
			if c.elsewhere && os.Getenv("S3_ACCESS_KEY_ID") != "given" || os.Getenv("HTTPS_PROXY") == "" || os.Getenv("NO_PROXY") != "own" {
				t.Error(os.Environ())
			}
		})
	}
	if url, elsewhere := placed(moving.Notes{}, "/data", "hosts:///data"); elsewhere || url != "hosts:///data" {
		t.Errorf("%v %s", elsewhere, url)
	}
}

func TestSecretIn(t *testing.T) {
	for url, secret := range map[string]bool{
		"s3://bucket/folder": false, "file:///shared": false, "s3://bucket/folder?endpoint=https://minio:9000&ca=/etc/ca.pem": false,
		"s3://user:word@bucket/folder": true, "s3://bucket/folder?secret=x": true, "azureblob://c/f?sig=x": true, "s3://%zz": true,
	} {
		if got := SecretIn(url); got != secret {
			t.Errorf("%s: %v", url, got)
		}
	}
}

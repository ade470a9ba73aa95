package remote_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		url, prefix, shown string
		params             map[string]string
	}{
		{"s3://b-u_c.k3T", "", "s3://b-u_c.k3T", nil},
		{"S3://azAZ09/", "", "s3://azAZ09", nil},
		{"s3://b/f/g/", "f/g/", "s3://b/f/g", nil},
		{"s3://b/a%20%23b?endpoint=https://x&region=r", "a #b/", "s3://b/a #b", map[string]string{"endpoint": "https://x", "region": "r"}},
	} {
		l, err := remote.Parse(test.url, "endpoint", "region")
		if err != nil || l.Scheme != "s3" || l.Prefix != test.prefix || l.String() != test.shown || !maps.Equal(l.Params, test.params) {
			t.Errorf("%s: %+v, %q, %v", test.url, l, l, err)
		}
	}
}

// What cannot be meant is refused, in words for it and without a secret.
func TestParseRefuses(t *testing.T) {
	for url, words := range map[string]string{
		"bucket/folder":                  "no valid scheme",
		"s 3://b":                        "no valid scheme",
		"s3://b/\x1f":                    "can not be printed",
		"s3://b/a\x7f":                   "can not be printed",
		"s3://b/a#planted":               "# part",
		"s3://u:planted@b/f":             "credentials",
		"s3:///f":                        "names no bucket",
		"s3://b:1/f":                     "can not be the name of a bucket",
		"s3://b/%zz":                     "two hexadecimal digits",
		"s3://b/a/../b":                  "the folder can not be used",
		"s3://b?endpoint=%zz":            "can not be read",
		"s3://b?planted=1":               "is not a parameter",
		"s3://b?region":                  "takes one value",
		"s3://b?region=":                 "takes one value",
		"s3://b?region=1&region=planted": "takes one value",
	} {
		_, err := remote.Parse(url, "endpoint", "region")
		told, ok := errors.AsType[*blob.Error](err)
		if !ok || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v, want %q", url, err, words)
			continue
		}
		if words != "is not a parameter" && strings.Contains(err.Error()+told.Hint(), "planted") {
			t.Errorf("%q: it is repeated: %v; %s", url, err, told.Hint())
		}
	}
}

func TestEndpoint(t *testing.T) {
	for raw, want := range map[string]string{
		"host":                "https://host",
		"host:9000/base":      "https://host:9000/base",
		"http://host":         "http://host",
		"https://[::1]:1/":    "https://[::1]:1/",
		"ftp://host":          "does not begin with",
		"https://":            "names no host",
		"https://u:planted@h": "credentials",
		"https://h?planted":   "after ? or #",
		"https://h#planted":   "after ? or #",
		"https://h:planted":   "not a URL",
	} {
		u, err := remote.Endpoint(raw)
		switch {
		case strings.Contains(want, "://"):
			if err != nil || u.String() != want {
				t.Errorf("%s: %v, %v", raw, u, err)
			}
		case err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "planted"):
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}

// A name in the bucket is at most as long as stores take it, folder and all.
func TestKeysWithTheFolder(t *testing.T) {
	l := remote.Location{Scheme: "s3", Bucket: "b", Prefix: strings.Repeat("f", 20) + "/"}
	longest := strings.Repeat("k/", (blob.MaxKey-21)/2)
	longest += strings.Repeat("k", blob.MaxKey-21-len(longest))
	for key, want := range map[string]bool{longest: true, longest + "k": false, "": false, "../a": false} {
		name, err := l.Key(key)
		if (err == nil) != want || want && name != l.Prefix+key || !want && !errors.Is(err, blob.ErrInvalidKey) {
			t.Errorf("a key of %d bytes: %v", len(key), err)
		}
	}
	if name, err := l.KeyPrefix(""); err != nil || name != l.Prefix {
		t.Errorf("%q, %v", name, err)
	}
	for _, prefix := range []string{longest + "k", "../"} {
		if _, err := l.KeyPrefix(prefix); !errors.Is(err, blob.ErrInvalidKey) {
			t.Errorf("a prefix of %d bytes: %v", len(prefix), err)
		}
	}
	for name, want := range map[string]bool{l.Prefix + "a/b": true, "a/b": false, l.Prefix: false, l.Prefix + "a/": false} {
		if key, ours := l.Own(name); ours != want || want && key != "a/b" {
			t.Errorf("%q: %q, %v", name, key, ours)
		}
	}
}

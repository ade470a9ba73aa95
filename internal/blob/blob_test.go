package blob_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/blob"
)

func TestCondition(t *testing.T) {
	for _, test := range []struct {
		cond   blob.Condition
		exists bool
		tag    blob.ETag
		want   bool
	}{
		{blob.Any, true, "1", true},
		{blob.Any, false, "", true},
		{blob.IfAbsent, false, "", true},
		{blob.IfAbsent, true, "1", false},
		{blob.IfMatch("1"), true, "1", true},
		{blob.IfMatch("1"), true, "2", false},
		{blob.IfMatch("1"), false, "", false},
		{blob.IfMatch(""), false, "", false},
		{blob.IfMatch(""), true, "", false},
		{blob.IfMatch("absent"), false, "", false},
		{blob.Condition("nonsense"), true, "nonsense", false},
	} {
		if got := test.cond.Holds(test.exists, test.tag); got != test.want {
			t.Errorf("%q on (%v, %q) holds: %v", test.cond, test.exists, test.tag, got)
		}
	}
}

func TestValidatePrefix(t *testing.T) {
	for _, prefix := range []string{"", "a", "a/", "a/b", ".", "..", "a/.", "a/..", ".hid"} {
		if err := blob.ValidatePrefix(prefix); err != nil {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for _, prefix := range []string{"/", "../", "./", "a//", "a/../", "a\x00"} {
		if err := blob.ValidatePrefix(prefix); !errors.Is(err, blob.ErrInvalidKey) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// A valid key stays inside a directory, has only valid prefixes, and a refusal is one printable line.
func FuzzValidateKey(f *testing.F) {
	for _, key := range []string{"", "a", "control/x", "..", "a/../../b", "a//b", "\x00", "/etc", "a\\b", strings.Repeat("é", 600)} {
		f.Add(key)
	}
	base := filepath.Join(string(os.PathSeparator), "store", "below")
	f.Fuzz(func(t *testing.T, key string) {
		if err := blob.ValidateKey(key); err != nil {
			if !errors.Is(err, blob.ErrInvalidKey) || strings.ContainsAny(err.Error(), "\n\x00") || len(err.Error()) > 10*blob.MaxKey {
				t.Fatalf("%q: %v", key, err)
			}
			return
		}
		path := filepath.Join(base, key)
		if path != base+"/"+key {
			t.Fatalf("%q leads to %q", key, path)
		}
		for i := range key {
			if err := blob.ValidatePrefix(key[:i]); err != nil {
				t.Fatalf("%q is a prefix of the valid %q: %v", key[:i], key, err)
			}
		}
	})
}

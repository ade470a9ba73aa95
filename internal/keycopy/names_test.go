package keycopy

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"pgregory.net/rapid"
)

// What isPath takes goes through a URL, and through what version 2 does to it,
// unchanged; what it refuses does not, or is no text.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"/a", "/", "", "a", "//", "/a/", "/a/../b", "/.", "/..", "/a%2Fb", "/ä?#", "/\xff", "/\x00", "/a;b+c d", "/{x}", "/...", "/_a"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		sent := url.URL{Scheme: "http", Host: "h:1", Path: v2Keys + string(key)}
		came, err := url.Parse(sent.String())
		same := err == nil && len(key) > 1 && key[0] == '/' && utf8.Valid(key) && came.Path == v2Keys+string(key) && path.Clean(came.Path) == came.Path &&
			path.Join("/1", came.Path[len(v2Keys):]) == "/1"+string(key)
		if is := isPath(key); is != same {
			t.Errorf("isPath(%q) is %v", key, is)
		}
		if shown := show(key); strings.ContainsAny(shown, "\x1b\n\x00\r") || len(shown) > 5*exampleLength {
			t.Errorf("show(%q) is %q", key, shown)
		}
	})
}

// anyKeys are keys that meet in the ways that matter: prefixes, neighbours of
// the slash, unclean paths.
var anyKeys = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a", "b", "/", "/", "/", "-", "0", ".", "_", "é", "\xff", "\x00"}), 1, 8).Draw(t, "parts")
	return rapid.SampledFrom([]string{"/", "/a/", "/a", ""}).Draw(t, "start") + strings.Join(parts, "")
}), 0, 40, rapid.ID[string])

// lostToV2 is what version 2 has no place for, by a plain reading of its rules.
func lostToV2(keys map[string]string) map[string]Kind {
	lost := map[string]Kind{}
	for key, value := range keys {
		clean := strings.HasPrefix(key, "/") && utf8.ValidString(key)
		for part := range strings.SplitSeq(strings.TrimPrefix(key, "/"), "/") {
			clean = clean && part != "" && part != "." && part != ".."
		}
		switch {
		case !clean:
			lost[key] = NotAPath
		case !utf8.ValidString(value):
			lost[key] = NotText
		}
	}
	fit := maps.Clone(keys)
	for key := range lost {
		delete(fit, key)
	}
	for key := range fit {
		for other := range fit {
			if strings.HasPrefix(other, key+"/") {
				lost[key] = LeafAndDirectory
			}
		}
	}
	return lost
}

// The tree loses what it has to and nothing else, and carries values as they are,
// also those that it had let go.
func TestTree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := map[string]string{}
		for _, key := range anyKeys.Draw(t, "keys") {
			if key != "" {
				keys[key] = rapid.SampledFrom([]string{"", "text", "\xfe", strings.Repeat("x", mostHeld/2)}).Draw(t, "value")
			}
		}
		lost, carried := map[string]Kind{}, map[string]string{}
		c := carrier{
			to: V2,
			lose: func(k Kind, name []byte) error {
				if k != Hidden {
					lost[string(name)] = k
				}
				return nil
			},
			carry: func(p pair) error { carried[string(p.key)] = string(p.value); return nil },
		}
		tr := tree{c: &c, reread: func(key []byte) (*mvccpb.KeyValue, error) {
			return &mvccpb.KeyValue{Key: key, Value: []byte(keys[string(key)])}, nil
		}}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if err := tr.visit(pair{key: []byte(key), value: []byte(keys[key])}); err != nil {
				t.Fatal(err)
			}
			if tr.held < 0 || tr.held > mostHeld {
				t.Fatalf("%d bytes are held", tr.held)
			}
		}
		if err := tr.flush(nil); err != nil || tr.held != 0 || len(tr.waiting) != 0 {
			t.Fatal(err, tr.held)
		}
		want := lostToV2(keys)
		if diff := cmp.Diff(want, lost); diff != "" {
			t.Fatal("lost: ", diff)
		}
		for key := range want {
			delete(keys, key)
		}
		if !maps.Equal(keys, carried) {
			t.Fatalf("%d keys are carried instead of %d, or others", len(carried), len(keys))
		}
	})
}

// A listing that is not etcd's is an error, and never more than that.
func FuzzListing(f *testing.F) {
	f.Add([]byte(`{"action":"get","node":{"dir":true,"nodes":[{"key":"/d","dir":true,"expiration":"2026-11-21T18:00:00.5Z","ttl":3,"nodes":[{"key":"/d/a","value":"1","modifiedIndex":4,"createdIndex":4}],"modifiedIndex":3,"createdIndex":3}]}}`))
	f.Add([]byte(`{"node":{"nodes":[]}}`))
	f.Add([]byte(`{"node":{"dir":true,"nodes":[{"key":"/x","nodes":[],"expiration":"x"}]}}`))
	f.Fuzz(func(t *testing.T, listing []byte) {
		keys, dirs := 0, 0
		w := v2Walker{list: ended(t), d: json.NewDecoder(bytes.NewReader(listing)), visit: v2Visitor{
			key: func(string, string, int64) error { keys++; return nil },
			dir: func(v2Dir) error { dirs++; return nil },
		}}
		if w.answer(0) == nil && keys+dirs > len(listing) {
			t.Error("more than there can be")
		}
	})
}

// What is not shaped as etcd's listings are is no listing of fewer keys.
func TestListingOfAnotherShape(t *testing.T) {
	t.Parallel()
	const whole = `{"action":"get","node":{"dir":true,"nodes":[{"key":"/d","dir":true,"nodes":[{"key":"/d/a","value":"1"}]}]}}`
	read := func(listing string) error {
		w := v2Walker{list: ended(t), d: json.NewDecoder(strings.NewReader(listing)), visit: v2Visitor{
			key: func(string, string, int64) error { return nil },
			dir: func(v2Dir) error { return nil },
		}}
		return w.answer(0)
	}
	if err := read(whole); err != nil {
		t.Fatal(err)
	}
	for end := range len(whole) {
		if read(whole[:end]) == nil {
			t.Errorf("cut to %s", whole[:end])
		}
	}
	for _, change := range [][2]string{
		{`"/d","dir":true,`, `"/d",`}, {`{"action"`, `["action"`}, {`:{"dir"`, `:["dir"`}, {`[{"key":"/d/a"`, `{{"key":"/d/a"`}, {`}]}]}}`, `}}}]}}`},
		{`"value":"1"`, `"value":1`}, {`"key":"/d"`, `"key":null`}, {`"dir":true,"nodes":[{"key":"/d"`, `"dir":"yes","nodes":[{"key":"/d"`},
		{`"value":"1"`, `"value":"1","expiration":"soon"`}, {`"value":"1"`, `"value":"1","expiration":4`}, {`"value":"1"}]`, `"value":"1"}],"expiration":"2026-11-21T18:00:00Z"`},
	} {
		if other := strings.Replace(whole, change[0], change[1], 1); other == whole || read(other) == nil {
			t.Errorf("%s is read", other)
		}
	}
}

func TestListing(t *testing.T) {
	t.Parallel()
	type leaf struct {
		Value   string
		Expires int64
	}
	got, dirs := map[string]leaf{}, []v2Dir(nil)
	w := v2Walker{list: ended(t), d: json.NewDecoder(strings.NewReader(
		`{"action":"get","node":{"dir":true,"nodes":[{"key":"/d","dir":true,"expiration":"2026-11-21T18:00:00.5Z","ttl":3,"nodes":[
		{"key":"/d/a","value":"1","modifiedIndex":4,"createdIndex":4},
		{"key":"/d/b","value":"2","expiration":"2026-11-21T17:00:00Z","ttl":4},
		{"key":"/d/c","value":"3","expiration":"2026-11-22T17:00:00Z","ttl":9}],"modifiedIndex":3},
		{"key":"/e","dir":true,"nodes":[{"key":"/e/a","value":"1"},{"key":"/e/b","value":"2","expiration":"2026-11-21T17:00:00Z"}]}]}}`)),
		visit: v2Visitor{
			key: func(key, value string, expires int64) error { got[key] = leaf{value, expires}; return nil },
			dir: func(d v2Dir) error { dirs = append(dirs, d); return nil },
		}}
	if err := w.answer(0); err != nil {
		t.Fatal(err)
	}
	const six = 1795284000 // 2026-11-21T18:00:00Z
	if diff := cmp.Diff(map[string]leaf{"/d/a": {"1", six + 1}, "/d/b": {"2", six - 3600}, "/d/c": {"3", six + 1}, "/e/a": {"1", 0}, "/e/b": {"2", six - 3600}}, got); diff != "" {
		t.Error(diff)
	}
	want := []v2Dir{{key: "/d", keys: 3, expires: six + 1, hasTTL: true}, {key: "/e", keys: 2, lasting: 1}}
	if diff := cmp.Diff(want, dirs, cmp.AllowUnexported(v2Dir{})); diff != "" {
		t.Error(diff)
	}
}

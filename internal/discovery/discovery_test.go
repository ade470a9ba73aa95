package discovery

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1":               "10.0.0.1:8000",
		"10.0.0.1:1":             "10.0.0.1:1",
		"Host-A.example.com":     "host-a.example.com:8000",
		"host_a:65535":           "host_a:65535",
		"host.example.com.:3996": "host.example.com:3996",
		"::1":                    "[::1]:8000",
		"[::1]":                  "[::1]:8000",
		"[2001:db8::1]:3996":     "[2001:db8::1]:3996",
		"fe80::1%eth0":           "[fe80::1%eth0]:8000",
		"::ffff:10.0.0.1":        "10.0.0.1:8000",
	} {
		if got, err := ParseEndpoint(in, 8000); err != nil || got != want {
			t.Errorf("%q gave %q, %v; want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":                        "no host",
		":8000":                   "no host",
		"https://host:8000":       "is a URL",
		"host:":                   "not a number",
		"host:0":                  "not a number",
		"host:65536":              "not a number",
		"host:http":               "not a number",
		"host:-1":                 "not a number",
		"[host]:8000":             "not an IPv6",
		"[::1:8000":               "not an IPv6",
		"[10.0.0.1]:8000":         "not an IPv6",
		"a b:8000":                "neither",
		"-a:8000":                 "neither",
		"a..b:8000":               "neither",
		"ä:8000":                  "neither",
		"0.0.0.0:8000":            "no address of one host",
		"[::]:8000":               "no address of one host",
		"224.0.0.1":               "no address of one host",
		strings.Repeat("a.", 150): "longer than 253",
		strings.Repeat("a", 64):   "neither",
		"host\x00:8000":           "neither",
		"user@host:8000":          "neither",
		"host:8000/path":          "not a number",
		"10.0.0.1,10.0.0.2":       "neither",
	} {
		if got, err := ParseEndpoint(in, 8000); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave %q, %v; want an error with %q", in, got, err, want)
		}
	}
	if _, err := ParseEndpoint("host", 0); err == nil || !strings.Contains(err.Error(), "has no port") {
		t.Errorf("without any port: %v", err)
	}
}

func TestStatic(t *testing.T) {
	static, err := ParseStatic([]string{"b=10.0.0.2:8001", "10.0.0.1", " 10.0.0.2:8001", "a=host-a", "=x", "https://c", "10.0.0.1:8000"}, 8000)
	if err == nil || !strings.Contains(err.Error(), "ID is empty") || !strings.Contains(err.Error(), "is a URL") {
		t.Errorf("errors: %v", err)
	}
	want := []Seed{{"", "10.0.0.1:8000"}, {"a", "host-a:8000"}, {"b", "10.0.0.2:8001"}}
	for range 2 {
		got, err := static.Seeds(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v, (-want +got):\n%s", err, diff)
		}
		got[0].Endpoint = "changed" // the caller's copy
	}
}

func TestParseEntry(t *testing.T) {
	for _, test := range []struct {
		name, data string
		want       []Seed
		wantErr    string
	}{
		{name: "a", data: `{"id":"a","endpoints":[{"ip":"10.0.0.1","port":3996}]}`, want: []Seed{{"a", "10.0.0.1:3996"}}},
		{name: "a", data: `{"endpoints":[{"ip":"host-a"}],"more":[1]}`, want: []Seed{{"a", "host-a:8000"}}},
		{name: "proj%2Fvol", data: `{"id":"proj/vol","endpoints":[{"ip":"::1","port":1}]}`, want: []Seed{{"proj/vol", "[::1]:1"}}},
		{name: "a b", data: `{"id":"a b","endpoints":[{"ip":"::1","port":1}]}`, want: []Seed{{"a b", "[::1]:1"}}},
		{name: "a", data: `{"id":"a","endpoints":[{"ip":"","port":1},{"ip":"10.0.0.1","port":70000},{"ip":"10.0.0.2","port":2}]}`, want: []Seed{{"a", "10.0.0.2:2"}}, wantErr: "port 70000"},
		{name: "a", data: ``, wantErr: "half written"},
		{name: "a", data: `{"id":"a","endp`, wantErr: "half written"},
		{name: "a", data: `a note`, wantErr: "not JSON"},
		{name: "a", data: `[]`, wantErr: "not of the form"},
		{name: "a", data: `null`, wantErr: "no endpoint"},
		{name: "a", data: `{"id":7}`, wantErr: "not of the form"},
		{name: "a", data: `{"id":"a","endpoints":[{"ip":"x","port":"1"}]}`, wantErr: "not of the form"},
		{name: "a", data: `{"id":"a"}`, wantErr: "no endpoint"},
		{name: "a.bak", data: `{"id":"a","endpoints":[{"ip":"10.0.0.1","port":3996}]}`, wantErr: `host "a"`},
		{name: strings.Repeat("a", 100), data: `{"endpoints":[]}`, wantErr: "longer than"},
	} {
		got, _, err := parseEntry(test.name, []byte(test.data), 8000)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q with %s (-want +got):\n%s", test.name, test.data, diff)
		}
		if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
			t.Errorf("%q with %s: %v, want %q", test.name, test.data, err, test.wantErr)
		}
	}
	many := `{"id":"a","endpoints":[` + strings.Repeat(`{"ip":"10.0.0.1","port":1},`, 999) + `{"ip":"10.0.0.1","port":1}]}`
	if got, _, err := parseEntry("a", []byte(many), 0); len(got) != maxEndpoints || err == nil {
		t.Errorf("%d seeds, %v", len(got), err)
	}
}

// The exact bytes are the predecessor's format.
func TestFormatEntry(t *testing.T) {
	data, err := formatEntry(Seed{"host-a", "10.0.0.1:3996"}, time.Time{})
	if want := `{"id":"host-a","endpoints":[{"ip":"10.0.0.1","port":3996}]}`; err != nil || string(data) != want {
		t.Errorf("%s, %v", data, err)
	}
	for _, self := range []Seed{{"", "10.0.0.1:1"}, {"a", ""}, {"a", "10.0.0.1"}, {"a\n", "10.0.0.1:1"}, {"a\x7f", "10.0.0.1:1"}, {"\xff", "10.0.0.1:1"}, {strings.Repeat("a", 81), "10.0.0.1:1"}} {
		if data, err := formatEntry(self, time.Time{}); err == nil {
			t.Errorf("%+v gave %s", self, data)
		}
	}
}

// Whatever lies in a directory gives valid seeds of that name's host, or a printable sentence; and what one host writes, the
// others read.
func FuzzParseEntry(f *testing.F) {
	f.Add("a", []byte(`{"id":"a","endpoints":[{"ip":"10.0.0.1","port":3996}]}`))
	f.Add("proj%2Fa", []byte(`{"id":"proj/a","endpoints":[{"ip":"fe80::1%eth0","port":3996},{"ip":"b."}],"timestamp":"2026-11-20T23:08:18Z"}`))
	f.Add("%2E", []byte(`{"id":"."`))
	f.Add("a", []byte(`{"timestamp":"x"}`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		seeds, at, err := parseEntry(name, data, 8000)
		if err != nil && strings.ContainsAny(strings.ReplaceAll(err.Error(), "\n", ""), "\x00\x1b\r") {
			t.Fatalf("not printable: %q", err)
		}
		for _, seed := range seeds {
			if _, _, err := net.SplitHostPort(seed.Endpoint); err != nil {
				t.Fatal(err)
			}
			if again, err := ParseEndpoint(seed.Endpoint, 0); err != nil || again != seed.Endpoint {
				t.Fatalf("%q became %q, %v", seed.Endpoint, again, err)
			}
			if y := at.Year(); y < 0 || y > 9999 {
				continue // JSON cannot hold it, and this host's clock does not say it
			}
			written, err := formatEntry(seed, at)
			if err != nil {
				t.Fatalf("%+v: %v", seed, err)
			}
			if !json.Valid(written) {
				t.Fatalf("%s", written)
			}
			back, _, err := parseEntry(nameOf(seed.ID), written, 0)
			if err != nil || len(back) != 1 || back[0] != seed {
				t.Fatalf("%+v was written as %s in %q and read as %+v, %v", seed, written, nameOf(seed.ID), back, err)
			}
		}
	})
}

func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{"", "a", "a:1", "[::1]:1", "::1", "[", "]", ":", "[]:1", "a:99999", "fe80::1%a:b"} {
		f.Add(s, 8000)
	}
	f.Fuzz(func(t *testing.T, s string, port int) {
		got, err := ParseEndpoint(s, port)
		if err != nil {
			return
		}
		if again, err := ParseEndpoint(got, 0); err != nil || again != got {
			t.Fatalf("%q became %q, then %q, %v", s, got, again, err)
		}
	})
}

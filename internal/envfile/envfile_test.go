package envfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"etcdadm.io/internal/envfile"
)

func TestParse(t *testing.T) {
	const text = "# what we set\n\n  A=1 \r\nETCD_QUOTA_BACKEND_BYTES = 8\nB=\"quoted # and $A\"\n\t# indented\nEMPTY=\nC=a=b\nA=2"
	got, err := envfile.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []envfile.Variable{
		{"A", "2"},
		{"ETCD_QUOTA_BACKEND_BYTES", "8"},
		{"B", `"quoted # and $A"`},
		{"EMPTY", ""},
		{"C", "a=b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseNamesTheLineAndHidesTheValue(t *testing.T) {
	tests := []struct{ text, reason string }{
		{"A=1\nno sign secret", "no ="},
		{"\n=secret", "no name"},
		{"#\nexport A=secret", "not the name"},
		{"A=1\n1A=secret", "not the name"},
		{"A=1\nÄ=secret", "not the name"},
		{"A=1\nthe/secret=", "not the name"}, // the rest of a value that was broken in two
		{"A=1\nB=secret\x00", "NUL"},
		{"A=1\nB=" + strings.Repeat("secret", 40000), "longer than"},
	}
	for _, test := range tests {
		_, err := envfile.Parse(strings.NewReader(test.text))
		syntax, ok := errors.AsType[*envfile.SyntaxError](err)
		if !ok {
			t.Errorf("%.20q: got %v, want a syntax error", test.text, err)
			continue
		}
		if syntax.Line != 2 || !strings.Contains(err.Error(), test.reason) || syntax.Hint() == "" {
			t.Errorf("%.20q: got %v, hint %q; want line 2 and %q", test.text, err, syntax.Hint(), test.reason)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%.20q: the error shows the value: %v", test.text, err)
		}
	}
}

// A name has letters, digits and _, and does not begin with a digit.
func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"_": true, "a": true, "z": true, "A": true, "Z": true, "_0": true, "a9": true, "Az_09": true,
		"0": false, "9": false, "0a": false, "a-b": false, "a.b": false,
		"a`": false, "a{": false, "a@": false, "a[": false, "a/": false, "a:": false, "`a": false, "{a": false, "@a": false, "[a": false,
	} {
		got, err := envfile.Parse(strings.NewReader(name + "=1"))
		if (err == nil) != want || want && !slices.Equal(got, []envfile.Variable{{Name: name, Value: "1"}}) {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.env")
	if _, err := envfile.Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if got, err := envfile.Read(os.DevNull); err != nil || len(got) != 0 {
		t.Errorf("of the null device: %v, %v", got, err)
	}
	long := strings.Repeat("x", 120<<10) // as long as Linux takes, and longer than a scanner does by itself
	if err := os.WriteFile(path, []byte("A="+long+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := envfile.Read(path); err != nil || !slices.Equal(got, []envfile.Variable{{Name: "A", Value: long}}) {
		t.Errorf("a long line: %d variables, %v", len(got), err)
	}
	if err := os.WriteFile(path, []byte("A=1\nwrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := envfile.Read(path); err == nil || !strings.Contains(err.Error(), path+":2:") {
		t.Errorf("got %v, want the place %s:2", err, path)
	}
	if _, err := envfile.Parse(iotest.ErrReader(fs.ErrPermission)); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want the reader's error", err)
	}
}

func TestPassThrough(t *testing.T) {
	got, err := envfile.PassThrough([]string{
		"PATH=/bin", "ETCD_SNAPSHOT_COUNT=5", "ETCD_MANAGER_CERT_DURATION=1d", "ETCDCTL_API=3",
		"ETCD_AUTO_COMPACTION_RETENTION=1", "ETCD_SNAPSHOT_COUNT=10", "ETCD_NAME=", "no sign",
	})
	want := []string{"ETCD_AUTO_COMPACTION_RETENTION=1", "ETCD_SNAPSHOT_COUNT=10"}
	if err != nil || !slices.Equal(got.Environ, want) || got.Withheld != nil {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// TestPassThroughWithholds: what etcd would write into its log for not knowing it
// does not get there where it looks like a secret.
func TestPassThroughWithholds(t *testing.T) {
	withheld := []string{
		"ETCD_APIKEY=x", "ETCD_BACKUP_S3_ACCESS_KEY_ID=x", "ETCD_BUCKET=https://x.example/c?sv=1&Sig=x", "ETCD_DB_CREDS=x",
		"ETCD_PROXY_URL=http://user:word@proxy:1", "ETCD_PWD=x", "ETCD_REGISTRY=https://word@host", "ETCD_ROOT_PASS=x", "ETCD_ROOT_PASSWORD=x",
		"ETCD_S3_SECRET=x", "ETCD_SAS_SIG=x", "ETCD_SIGNING_KEY=x", "ETCD_TLS=-----BEGIN EC PRIVATE KEY-----", "ETCD_WEBHOOK=https://user:wo/rd@host",
		"ETCD_auth_token=x",
	}
	passed := []string{
		"ETCD_AUTH_TOKEN=jwt,sign-method=RS256", "ETCD_AUTH_TOKEN_TTL=300", "ETCD_EXPERIMENTAL_DISTRIBUTED_TRACING_ADDRESS=a:1",
		"ETCD_KEY_FILE=/k", "ETCD_LISTEN_METRICS_URLS=http://[::1]:2381", "ETCD_OF_A_LATER_RELEASE=https://host/a?b=1",
		"ETCD_PEER_CLIENT_CERT_AUTH=true", "ETCD_PEER_CLIENT_KEY_FILE=/k", "ETCD_PEER_KEY_FILE=/k", "ETCD_SELF_SIGNED_CERT_VALIDITY=1", "ETCD_UNSUPPORTED_ARCH=arm64",
		"ETCD_VERIFY=all",
	}
	got, err := envfile.PassThrough(slices.Concat(withheld, passed))
	if err != nil || !slices.Equal(got.Environ, passed) {
		t.Errorf("passed %q, %v, want %q", got.Environ, err, passed)
	}
	var names []string
	for _, w := range withheld {
		name, _, _ := strings.Cut(w, "=")
		names = append(names, name)
	}
	if !slices.Equal(got.Withheld, names) {
		t.Errorf("withheld %q, want %q", got.Withheld, names)
	}
}

func TestPassThroughRefuses(t *testing.T) {
	names := []string{
		"ETCD_CONFIG_FILE", "ETCD_DATA_DIR", "ETCD_DISCOVERY", "ETCD_DISCOVERY_SRV", "ETCD_FORCE_NEW_CLUSTER",
		"ETCD_INITIAL_ADVERTISE_PEER_URLS", "ETCD_INITIAL_CLUSTER", "ETCD_INITIAL_CLUSTER_STATE",
		"ETCD_INITIAL_CLUSTER_TOKEN", "ETCD_INITIAL_ELECTION_TICK_ADVANCE", "ETCD_LISTEN_CLIENT_HTTP_URLS",
		"ETCD_LISTEN_CLIENT_URLS", "ETCD_NAME", "ETCD_STRICT_RECONFIG_CHECK", "ETCD_UNSAFE_NO_FSYNC", "ETCD_WAL_DIR",
	}
	var all []string
	for _, name := range names {
		all = append(all, name+"=secret")
		if passed, err := envfile.PassThrough([]string{"ETCD_X=1", name + "=secret"}); err == nil || passed.Environ != nil {
			t.Errorf("%s got through", name)
		}
	}
	slices.Reverse(all)
	_, err := envfile.PassThrough(all)
	refused, ok := errors.AsType[*envfile.RefusedError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, r := range refused.Refusals {
		got = append(got, r.Name)
		if r.Reason == "" || !strings.Contains(refused.Hint(), r.Name) {
			t.Errorf("%s: reason %q, hint %q", r.Name, r.Reason, refused.Hint())
		}
	}
	if !slices.Equal(got, names) {
		t.Errorf("got %v, want all of them in order", got)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows a value: %v", err)
	}
	if _, err := envfile.PassThrough([]string{"ETCD_NAMESPACE=x", "ETCD_LISTEN_METRICS_URLS=x"}); err != nil {
		t.Errorf("a name that only begins alike: %v", err)
	}
}

// Whatever is accepted reads back the same from what String writes.
func FuzzParse(f *testing.F) {
	f.Add("A=1\n# c\nB=\"x\"\r\n")
	f.Add("export A=1")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := envfile.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		var again strings.Builder
		for _, v := range first {
			again.WriteString(v.String() + "\n")
		}
		second, err := envfile.Parse(strings.NewReader(again.String()))
		if err != nil {
			t.Fatalf("%q does not read back: %v", again.String(), err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatal(diff)
		}
	})
}

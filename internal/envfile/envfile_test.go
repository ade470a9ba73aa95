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
	}, false)
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
	got, err := envfile.PassThrough(slices.Concat(withheld, passed), false)
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
		"ETCD_INITIAL_CLUSTER_TOKEN",
		"ETCD_LISTEN_CLIENT_URLS", "ETCD_NAME", "ETCD_STRICT_RECONFIG_CHECK", "ETCD_UNSAFE_NO_FSYNC", "ETCD_WAL_DIR",
	}
	var all []string
	for _, name := range names {
		all = append(all, name+"=secret")
		if passed, err := envfile.PassThrough([]string{"ETCD_X=1", name + "=secret"}, false); err == nil || passed.Environ != nil {
			t.Errorf("%s got through", name)
		}
	}
	slices.Reverse(all)
	_, err := envfile.PassThrough(all, false)
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
	if _, err := envfile.PassThrough([]string{"ETCD_NAMESPACE=x", "ETCD_LISTEN_METRICS_URLS=http://127.0.0.1:1"}, false); err != nil {
		t.Errorf("a name that only begins alike: %v", err)
	}
}

// TestVariablesOfFlagsThatTheDaemonGives: etcd ends at its start where a flag and its
// variable both say something, so the same value is dropped or stays for the launch to
// weigh, and another one is refused by name (SAFETY.md, rule 24).
func TestVariablesOfFlagsThatTheDaemonGives(t *testing.T) {
	for _, c := range []struct {
		pair string
		tls  bool
		want string // passed, dropped, or a part of the refusal
	}{
		{"ETCD_LOGGER=zap", true, "passed"},
		{"ETCD_LOGGER=zerolog", true, "passed"},
		{"ETCD_LOG_OUTPUTS=stdout", true, "passed"},
		{"ETCD_LISTEN_METRICS_URLS=http://0.0.0.0:8081", true, "passed"},
		{"ETCD_LISTEN_METRICS_URLS=0.0.0.0:8081", true, "passed"},
		{"ETCD_LISTEN_METRICS_URLS=http://metrics:8081", true, "passed"},
		{"ETCD_LISTEN_CLIENT_HTTP_URLS=http://127.0.0.1:4002", true, "passed"},
		{"ETCD_MAX_LEARNERS=2", true, "passed"},
		{"ETCD_MAX_LEARNERS=5", true, "so only 1 or 2 is taken"},
		{"ETCD_CLIENT_CERT_AUTH=1", true, "dropped"},
		{"ETCD_CLIENT_CERT_AUTH=false", true, "so only true is taken"},
		{"ETCD_CLIENT_CERT_AUTH=false", false, "passed"},
		{"ETCD_PEER_CLIENT_CERT_AUTH=TRUE", true, "dropped"},
		{"ETCD_CERT_FILE=/c", true, "etcd ends at its start where a variable says what the daemon says by --cert-file"},
		{"ETCD_CERT_FILE=/c", false, "passed"},
		{"ETCD_TRUSTED_CA_FILE=/c", true, "--trusted-ca-file"},
		{"ETCD_ADVERTISE_CLIENT_URLS=https://a:4001", false, "--client-urls"},
		{"ETCD_STRICT_RECONFIG_CHECK=True", true, "dropped"},
		{"ETCD_STRICT_RECONFIG_CHECK=0", true, "so only true is taken"},
		{"ETCD_STRICT_RECONFIG_CHECK=yes", true, "so only true is taken"},
		{"ETCD_PRE_VOTE=f", true, "so only true is taken"},
		{"ETCD_FORCE_NEW_CLUSTER=F", true, "dropped"},
		{"ETCD_FORCE_NEW_CLUSTER=t", true, "acknowledged writes"},
		{"ETCD_UNSAFE_NO_FSYNC=false", true, "dropped"},
		{"ETCD_PROXY=off", true, "dropped"},
		{"ETCD_PROXY=on", true, "a member is no proxy"},
		{"ETCD_INITIAL_ELECTION_TICK_ADVANCE=false", true, "passed"},
		{"ETCD_INITIAL_CLUSTER_OF_A_LATER_RELEASE=x", true, "the intent"},
		{"ETCD_QUOTA_BACKEND_BYTES=8GiB", true, "passed"},
		{"ETCD_QUOTA_BACKEND_BYTES=-1", true, "passed"},
		{"ETCD_QUOTA_BACKEND_BYTES=8Gi", true, "such as 512MiB"},
		{"ETCD_HEARTBEAT_INTERVAL=100ms", true, "passed"}, // and left out at the launch
		{"ETCD_LOG_LEVEL=INFO", true, "passed"},
		{"ETCD_FEATURE_GATES=InitialCorruptCheck=true,", true, "passed"},
		{"ETCD_ENABLE_V2=no", true, "passed"},
		{"ETCD_METRICS=all", true, "passed"}, // etcd takes it for basic
		{"ETCD_VERSION=3.5.9", true, "dropped"},
		{"ETCD_PORT=tcp://10.0.0.1:2379", true, "dropped"},
		{"ETCD_SERVICE_PORT_PEER_0=2380", true, "dropped"},
		{"ETCD_DISCOVERY_SERVICE_HOST=fd00::1", true, "dropped"},
		{"ETCD_DISCOVERY_PORT_80_TCP_ADDR=10.0.0.1", true, "dropped"},
		{"ETCD_SOCKET_REUSE_PORT=true", true, "passed"},
		{"ETCD_SOCKET_REUSE_PORT=tcp://10.0.0.1:80", true, "dropped"}, // of a Service etcd-socket-reuse
	} {
		name, _, _ := strings.Cut(c.pair, "=")
		got, err := envfile.PassThrough([]string{c.pair}, c.tls)
		switch c.want {
		case "passed", "dropped":
			if err != nil || (len(got.Environ) == 1) != (c.want == "passed") || got.Withheld != nil {
				t.Errorf("%s (TLS: %t): %+v, %v, want it %s", c.pair, c.tls, got, err, c.want)
			}
		default:
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), name+" is refused") {
				t.Errorf("%s (TLS: %t): %+v, %v, want %q", c.pair, c.tls, got, err, c.want)
			}
		}
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

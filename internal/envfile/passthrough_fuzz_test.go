package envfile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/internal/envfile"
)

// FuzzPassThrough: whatever an environment holds, etcd gets nothing but variables of
// its own that are set, once each and as they were written; what is refused or
// withheld is named and not shown; and what came through comes through again.
func FuzzPassThrough(f *testing.F) {
	f.Add("PATH=/bin\nETCD_SNAPSHOT_COUNT=5\nETCD_MANAGER_INTERVAL=1s\nETCDCTL_API=3\nETCD_SNAPSHOT_COUNT=10\nno sign")
	f.Add("ETCD_NAME=x\nETCD_INITIAL_CLUSTER_TOKEN=x\nETCD_FORCE_NEW_CLUSTER=true\nETCD_UNSAFE_NO_FSYNC=")
	f.Add("ETCD_ROOT_PASSWORD=x\nETCD_auth_token=x\nETCD_AUTH_TOKEN=jwt,sign-method=RS256\nETCD_PROXY_URL=http://user:word@proxy:1\nETCD_TLS=-----BEGIN EC PRIVATE KEY-----")
	f.Add("ETCD_BUCKET=https://x.example/c?sv=1&Sig=x\nETCD_==\nETCD_\nETCD_X= \t=\nETCD_MANAGER=1")
	f.Fuzz(func(t *testing.T, text string) {
		environ := strings.Split(text, "\n")
		tls := len(environ)%2 == 0
		got, err := envfile.PassThrough(environ, tls)
		if err != nil {
			refused, ok := errors.AsType[*envfile.RefusedError](err)
			if !ok || len(refused.Refusals) == 0 || got.Environ != nil || got.Withheld != nil {
				t.Fatalf("%q: %v, and %+v all the same", text, err, got)
			}
			return
		}
		last := map[string]string{}
		for _, pair := range environ {
			if name, value, found := strings.Cut(pair, "="); found {
				last[name] = value
			}
		}
		names := make([]string, 0, len(got.Environ))
		for _, pair := range got.Environ {
			name, value, found := strings.Cut(pair, "=")
			if !found || value == "" || last[name] != value || !strings.HasPrefix(name, "ETCD_") || strings.HasPrefix(name, "ETCD_MANAGER_") {
				t.Fatalf("%q lets %q through", text, pair)
			}
			for _, never := range []string{"ETCD_NAME", "ETCD_DATA_DIR", "ETCD_WAL_DIR", "ETCD_CONFIG_FILE", "ETCD_UNSAFE_NO_FSYNC", "ETCD_LISTEN_CLIENT_URLS"} {
				if name == never {
					t.Fatalf("%q lets %s through", text, name)
				}
			}
			for _, never := range []string{"ETCD_INITIAL_CLUSTER", "ETCD_INITIAL_ADVERTISE", "ETCD_FORCE_NEW_CLUSTER", "ETCD_DISCOVERY"} {
				if strings.HasPrefix(name, never) {
					t.Fatalf("%q lets %s through", text, name)
				}
			}
			names = append(names, name)
		}
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Fatalf("%q lets through what is not in order, or twice: %q", text, names)
		}
		for _, name := range got.Withheld {
			if last[name] == "" || slices.Contains(names, name) || strings.Contains(name, "=") {
				t.Fatalf("%q withholds %q", text, name)
			}
		}
		again, err := envfile.PassThrough(got.Environ, tls)
		if err != nil || !slices.Equal(again.Environ, got.Environ) || again.Withheld != nil {
			t.Fatalf("%q became %q, and then %+v, %v", text, got.Environ, again, err)
		}
	})
}

// FuzzPassThroughShowsNoValue: what is refused is told by name, whatever its value is.
func FuzzPassThroughShowsNoValue(f *testing.F) {
	f.Add("NAME", "word")
	f.Add("INITIAL_CLUSTER", "a=http://192.0.2.1:2380")
	f.Add("ROOT_PASSWORD", "p=w\x00")
	f.Fuzz(func(t *testing.T, name, value string) {
		const mark = "\u2603\u2603"
		if strings.Contains(name, mark) || strings.ContainsAny(name, "=\n") {
			return
		}
		got, err := envfile.PassThrough([]string{"ETCD_" + name + "=" + mark + value}, true)
		told := strings.Join(got.Withheld, " ")
		if refused, ok := errors.AsType[*envfile.RefusedError](err); ok {
			told += refused.Error() + refused.Hint()
		}
		if strings.Contains(told, mark) {
			t.Fatalf("the value of %q is told: %s", name, told)
		}
	})
}

package etcdargs_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/host/etcdargs"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/testetcd"
)

// unbound is a launch at an address that no machine has (RFC 5737): etcd reads its
// settings, and then ends at its listeners.
func unbound(version string) (record.Launch, etcdargs.Paths) {
	l := record.Launch{
		Version: cluster.MustVersion(version), Name: "h1", Token: "t", Founding: true,
		URLs: cluster.URLs{
			Peer: []string{"https://203.0.113.1:2380"}, Client: []string{"https://203.0.113.1:4001"}, Quarantine: []string{"https://203.0.113.1:8001"},
		},
		InitialCluster: []cluster.Member{{Name: "h1", PeerURLs: []string{"https://203.0.113.1:2380"}}},
	}
	tls := etcdargs.TLSFiles{Cert: "/none/c", Key: "/none/k", CA: "/none/ca"}
	return l, etcdargs.Paths{Client: tls, Peer: tls, MetricsURLs: []string{"http://203.0.113.1:2381"}}
}

// settled runs etcd with what a daemon with these variables would start, and returns
// what it says where it does not get beyond its settings.
func settled(t *testing.T, r testetcd.Release, l record.Launch, p etcdargs.Paths, environ []string) (complaint string) {
	t.Helper()
	p.DataDir = t.TempDir()
	args, env, _, err := etcdargs.With(l, p, environ)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Etcd, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	cmd.Dir = p.DataDir
	out, _ := cmd.CombinedOutput()
	for _, end := range []string{"cannot assign requested address", "/none/", "bind:"} { // its listeners, and its certificates
		if strings.Contains(string(out), end) && !strings.Contains(string(out), "onflicting environment variable") {
			return ""
		}
	}
	return string(out[max(0, len(out)-1500):])
}

// valueFor is one that etcd takes, and another than its default.
func valueFor(o cluster.Option) string {
	switch {
	case len(o.Same) > 0:
		return o.Same[0]
	case o.Name == "auto-compaction-retention":
		return "1h"
	case o.Name == "auth-token":
		return "simple"
	case o.Name == "cors":
		return "https://a.example:1"
	case o.Name == "log-package-levels":
		return "etcdserver=DEBUG"
	case o.Name == "cipher-suites":
		return "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
	case strings.HasPrefix(o.Name, "log-rotation-config"):
		return `{"maxsize": 100}`
	case o.Name == "log-output" || o.Name == "log-outputs":
		return "stdout"
	case o.Name == "election-timeout":
		return "2000"
	}
	return map[cluster.OptionKind]string{
		cluster.KindText: "/none/text", cluster.KindSwitch: "1", cluster.KindNumber: "5", cluster.KindBytes: "2147483648", cluster.KindMillis: "150", cluster.KindDuration: "5s",
		cluster.KindChoice: strings.Join(o.Choices[max(0, len(o.Choices)-1):], ""), cluster.KindGates: "CompactHashCheck=true",
		cluster.KindURLs: "http://203.0.113.1:2382",
	}[o.Kind]
}

// contradicts are variables that etcd ends at for want of another one, as it would
// without any daemon.
var contradicts = []string{"enable-log-rotation", "enable-lease-checkpoint-persist", "enable-distributed-tracing"}

// TestRealReleasesTakeEveryVariable: whatever variable of the table a host has, by each
// of its names, the daemon refuses it by its name at its own start, or each release
// gets beyond its settings with it.
func TestRealReleasesTakeEveryVariable(t *testing.T) {
	for _, version := range append(testetcd.Versions(), testetcd.V34) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := testetcd.Binary(t, version)
			l, p := unbound(version)
			if said := settled(t, r, l, p, nil); said != "" {
				t.Fatalf("without variables: %s", said)
			}
			base, _, _, _ := etcdargs.With(l, p, nil)
			ran := 0
			for _, o := range cluster.Options() {
				if slices.Contains(contradicts, o.Name) {
					continue
				}
				for _, name := range []string{o.Name, "experimental-" + o.Name} {
					pair := cluster.VariableOf(name) + "=" + valueFor(o)
					passed, err := envfile.PassThrough([]string{pair}, true)
					if err != nil {
						if _, is := errors.AsType[*envfile.RefusedError](err); !is || !strings.Contains(err.Error(), cluster.VariableOf(name)) {
							t.Errorf("%s: %v", pair, err)
						}
						continue
					}
					args, env, left, _ := etcdargs.With(l, p, passed.Environ)
					if flag, known := o.Flag(l.Version); name == flag && known && o.Variable == cluster.VariablePassed && (len(env) != 1 || left != nil) {
						t.Errorf("%s has the flag, and gets %q without %v", pair, env, left)
					}
					if len(env) == 0 && slices.Equal(args, base) {
						continue
					}
					ran++
					if said := settled(t, r, l, p, passed.Environ); said != "" {
						t.Errorf("%s: etcd %s ends at %q: %s", pair, version, env, said)
					}
				}
			}
			if ran < 40 {
				t.Errorf("only %d variables reached etcd", ran)
			}
		})
	}
}

// inManifests are the variables of kOps' documentation, issues and manifests, and of
// images and Kubernetes beside them.
var inManifests = []string{
	"ETCD_LISTEN_METRICS_URLS=http://203.0.113.1:8081", "ETCD_LISTEN_CLIENT_HTTP_URLS=http://203.0.113.1:8082", "ETCD_QUOTA_BACKEND_BYTES=6442450944",
	"ETCD_AUTO_COMPACTION_MODE=periodic", "ETCD_AUTO_COMPACTION_RETENTION=8", "ETCD_HEARTBEAT_INTERVAL=200", "ETCD_ELECTION_TIMEOUT=2500",
	"ETCD_MAX_REQUEST_BYTES=0x180000", "ETCD_METRICS=extensive", "ETCD_ENABLE_V2=false", "ETCD_TLS_MIN_VERSION=TLS1.2", "ETCD_SNAPSHOT_COUNT=10000",
	"ETCD_CIPHER_SUITES=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ETCD_LOGGER=zap", "ETCD_LOG_LEVEL=debug",
	"ETCD_LOG_OUTPUTS=stdout", "ETCD_LOG_OUTPUT=stdout", "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=true", "ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME=240m",
	"ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_ENABLED=true", "ETCD_EXPERIMENTAL_WATCH_PROGRESS_NOTIFY_INTERVAL=5s", "ETCD_SOCKET_REUSE_PORT=true",
	"ETCD_MAX_SNAPSHOTS=5", "ETCD_MAX_WALS=5", "ETCD_STRICT_RECONFIG_CHECK=T", "ETCD_CLIENT_CERT_AUTH=TRUE", "ETCD_PEER_CLIENT_CERT_AUTH=1",
	"ETCD_MAX_LEARNERS=2", "ETCD_PRE_VOTE=t", "ETCD_FORCE_NEW_CLUSTER=false", "ETCD_UNSAFE_NO_FSYNC=0", "ETCD_ENABLE_PPROF=true", "ETCD_DEBUG=true",
	"ETCD_INITIAL_ELECTION_TICK_ADVANCE=false", "ETCD_VERSION=v3.5.9", "ETCD_UNSUPPORTED_ARCH=arm64", "ETCD_DAEMON_ARGS=x",
	"ETCD_PORT=tcp://10.0.0.1:2379", "ETCD_SERVICE_HOST=10.0.0.1", "ETCD_SERVICE_PORT=2379", "ETCD_SERVICE_PORT_CLIENT=2379",
	"ETCD_PORT_2379_TCP=tcp://10.0.0.1:2379", "ETCD_PORT_2379_TCP_PROTO=tcp", "ETCD_PORT_2379_TCP_ADDR=10.0.0.1", "ETCD_PORT_2379_TCP_PORT=2379",
	"ETCD_DISCOVERY_SERVICE_HOST=10.0.0.2", "ETCD_DISCOVERY_PORT=tcp://10.0.0.2:80", "ETCD_SOCKET_REUSE_PORT_80_TCP=tcp://10.0.0.2:80",
}

// TestRealReleasesTakeTheVariablesOfManifests: all of them at once, with and without
// options of the spec that say the same, on the way through a forced snapshot, and in quarantine.
func TestRealReleasesTakeTheVariablesOfManifests(t *testing.T) {
	passed, err := envfile.PassThrough(inManifests, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range append(testetcd.Versions(), testetcd.V34) {
		r := testetcd.Binary(t, version)
		l, p := unbound(version)
		options, _ := etcdargs.Options(map[string]string{
			"snapshot-count": "7", "compaction-batch-limit": "500", "stop-grpc-service-on-defrag": "true", "initial-corrupt-check": "false",
		}, l.Version)
		for name, spoil := range map[string]func(*record.Launch){
			"plain":      func(*record.Launch) {},
			"spec":       func(l *record.Launch) { l.Options = options },
			"cut":        func(l *record.Launch) { l.Cut = true },
			"quarantine": func(l *record.Launch) { l.Quarantined = true },
			"adopted":    func(l *record.Launch) { l.Adopted = true },
		} {
			l := l
			spoil(&l)
			if said := settled(t, r, l, p, passed.Environ); said != "" {
				t.Errorf("etcd %s, %s: %s", version, name, said)
			}
			args, env, _, _ := etcdargs.With(l, p, passed.Environ)
			for _, arg := range args {
				if variable := cluster.VariableOf(strings.TrimLeft(strings.SplitN(arg, "=", 2)[0], "-")); has(env, variable+"=") {
					t.Errorf("etcd %s, %s: %s stands beside %s", version, name, variable, arg)
				}
			}
			if has(env, "ETCD_LISTEN_CLIENT_HTTP_URLS=") == l.Quarantined || !has(env, "ETCD_LISTEN_METRICS_URLS=http://203.0.113.1:8081") {
				t.Errorf("etcd %s, %s: %q", version, name, env)
			}
		}
	}
}

func has(words []string, begin string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, begin) })
}

// What a daemon would start, without etcd: no variable beside its flag, and none that
// lets clients into a quarantined member.
func TestVariablesBesideFlags(t *testing.T) {
	l, p := unbound("3.6.16")
	for _, quarantined := range []bool{false, true} {
		l.Quarantined = quarantined
		args, env, left, err := etcdargs.With(l, p, []string{
			"ETCD_CERT_FILE=/c", "ETCD_LISTEN_CLIENT_HTTP_URLS=http://127.0.0.1:1", "ETCD_LISTEN_METRICS_URLS=http://127.0.0.1:2",
			"ETCD_LOGGER=zap", "ETCD_LOG_OUTPUT=stdout", "ETCD_MAX_LEARNERS=1", "ETCD_SNAPSHOT_COUNT=5",
		})
		want := []string{
			"ETCD_LISTEN_CLIENT_HTTP_URLS=http://127.0.0.1:1", "ETCD_LISTEN_METRICS_URLS=http://127.0.0.1:2", "ETCD_LOGGER=zap",
			"ETCD_LOG_OUTPUTS=stdout", "ETCD_SNAPSHOT_COUNT=5",
		}
		if quarantined {
			want = want[1:]
		}
		if err != nil || !slices.Equal(env, want) || len(left) != 1 || left[0].Name != "ETCD_MAX_LEARNERS" {
			t.Errorf("quarantined %t: %q, left %v, %v", quarantined, env, left, err)
		}
		for _, gone := range []string{"--logger", "--log-outputs", "--listen-metrics-urls"} {
			if has(args, gone) {
				t.Errorf("%s is among %q", gone, args)
			}
		}
		if !has(args, "--cert-file=/none/c") || !has(args, "--max-learners=2") {
			t.Errorf("%q", args)
		}
	}
}

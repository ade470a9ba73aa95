package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFitVariables(t *testing.T) {
	ours := "--logger=zap --log-outputs=stderr"
	for _, c := range []struct {
		version, args, environ string
		want                   string // arguments and variables
		left                   string // what is left, each with a part of its reason
	}{
		{"3.6.16", ours, "", ours, ""},
		{"3.6.16", ours, "ETCD_LOGGER=zap ETCD_X=1", "--log-outputs=stderr ETCD_LOGGER=zap ETCD_X=1", ""},
		{"3.4.25", ours, "ETCD_LOGGER=capnslog", "--log-outputs=stderr ETCD_LOGGER=capnslog", ""},
		{"3.5.35", ours, "ETCD_LOGGER=capnslog", ours, "ETCD_LOGGER it does not take capnslog for --logger"},
		{"3.4.25", ours, "ETCD_LOG_OUTPUT=stderr", "--logger=zap ETCD_LOG_OUTPUTS=stderr", ""}, // 3.4 ends at the same value of both
		{"3.3.27", "--log-output=stderr", "ETCD_LOG_OUTPUT=stdout", "ETCD_LOG_OUTPUT=stdout", ""},
		{"3.6.16", ours, "ETCD_LOG_OUTPUT=stdout ETCD_DEBUG=1", "--logger=zap ETCD_LOG_LEVEL=debug ETCD_LOG_OUTPUTS=stdout", ""},
		{"3.6.16", "--listen-metrics-urls=http://127.0.0.1:1", "ETCD_LISTEN_METRICS_URLS=http://127.0.0.1:2", "ETCD_LISTEN_METRICS_URLS=http://127.0.0.1:2", ""},
		{"3.6.16", "--max-learners=2", "ETCD_MAX_LEARNERS=2", "--max-learners=2", ""},
		{"3.6.16", "--max-learners=2", "ETCD_MAX_LEARNERS=1", "--max-learners=2", "ETCD_MAX_LEARNERS it has to be equal"},
		{"3.5.35", "", "ETCD_MAX_LEARNERS=1", "", ""},
		{"3.6.16", "--cert-file=c", "ETCD_CERT_FILE=d", "--cert-file=c", ""}, // refused before
		{"3.6.16", "--snapshot-count=1", "ETCD_SNAPSHOT_COUNT=5", "--snapshot-count=1", ""},
		{"3.6.16", "--compaction-batch-limit=1", "ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT=5", "--compaction-batch-limit=1", ""},

		{"3.5.35", "", "ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT=5", "ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT=5", ""},
		{"3.7.3", "", "ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT=5", "ETCD_COMPACTION_BATCH_LIMIT=5", ""},
		{"3.7.3", "", "ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT=5 ETCD_COMPACTION_BATCH_LIMIT=6", "ETCD_COMPACTION_BATCH_LIMIT=6", ""},
		{"3.5.35", "", "ETCD_COMPACTION_BATCH_LIMIT=6", "ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT=6", ""},
		{"3.7.3", "", "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=1", "ETCD_FEATURE_GATES=InitialCorruptCheck=true", ""},
		{"3.7.3", "--feature-gates=CompactHashCheck=true,InitialCorruptCheck=false", "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK=true ETCD_FEATURE_GATES=FastLeaseKeepAlive=true,AllAlpha=f",
			"--feature-gates=AllAlpha=false,CompactHashCheck=true,FastLeaseKeepAlive=true,InitialCorruptCheck=false", ""},
		{"3.6.16", "", "ETCD_FEATURE_GATES=FastLeaseKeepAlive=true", "", "ETCD_FEATURE_GATES it has no feature gate FastLeaseKeepAlive"},
		{"3.5.35", "", "ETCD_FEATURE_GATES=CompactHashCheck=true", "", "ETCD_FEATURE_GATES it has no --feature-gates"},
		{"3.7.3", "", "ETCD_ENABLE_V2=true ETCD_EXPERIMENTAL_ENABLE_V2V3=/x", "", "ETCD_ENABLE_V2 it has no --enable-v2; 3.2 to 3.5 has it, ETCD_EXPERIMENTAL_ENABLE_V2V3 it has no"},
		{"3.7.3", "", "ETCD_ENABLE_V2=false ETCD_DEBUG=false", "", ""}, // as it is anyway
		{"3.4.25", "", "ETCD_SOCKET_REUSE_PORT=true", "", "ETCD_SOCKET_REUSE_PORT it has no"},
		{"3.6.16", "", "ETCD_V2_DEPRECATION=not-yet", "", "ETCD_V2_DEPRECATION it does not take not-yet"},
		{"3.6.16", "", "ETCD_QUOTA_BACKEND_BYTES=8GiB", "ETCD_QUOTA_BACKEND_BYTES=8589934592", ""},
		{"3.6.16", "", "ETCD_HEARTBEAT_INTERVAL=500", "", "ETCD_HEARTBEAT_INTERVAL an election-timeout of 1000 ms"},
		{"3.6.16", "--election-timeout=5000", "ETCD_HEARTBEAT_INTERVAL=500", "--election-timeout=5000 ETCD_HEARTBEAT_INTERVAL=500", ""},
		{"3.7.3", "", "ETCD_EXPERIMENTAL_ENABLE_LEASE_CHECKPOINT_PERSIST=true", "", "ETCD_EXPERIMENTAL_ENABLE_LEASE_CHECKPOINT_PERSIST enable-lease-checkpoint-persist needs"},
		{"3.4.25", "", "ETCD_LOG_LEVEL=INFO", "ETCD_LOG_LEVEL=info", ""}, // 3.4 takes no capitals, later releases do
		{"3.6.16", "", "ETCD_LOG_LEVEL=Warning", "ETCD_LOG_LEVEL=warn", ""},
		{"3.6.16", "", "ETCD_FEATURE_GATES=InitialCorruptCheck=true,", "ETCD_FEATURE_GATES=InitialCorruptCheck=true", ""},
		{"3.6.16", "", "ETCD_FEATURE_GATES=,", "", ""},
		{"3.6.16", "--feature-gates=", "ETCD_FEATURE_GATES=InitialCorruptCheck=true", "--feature-gates=InitialCorruptCheck=true", ""},
		{"3.6.16", "", "ETCD_DEBUG=x ETCD_LOG_LEVEL=loud", "", "ETCD_DEBUG its value cannot be read, ETCD_LOG_LEVEL its value cannot be read"},
		{"3.8.1", "", "ETCD_EXPERIMENTAL_COMPACTION_BATCH_LIMIT=5", "ETCD_COMPACTION_BATCH_LIMIT=5", ""},
		{"3.1.20", "--name=a", "ETCD_NAME=b ETCD_SNAPSHOT_COUNT=5", "--name=a ETCD_SNAPSHOT_COUNT=5", ""},
	} {
		environ, args := strings.Fields(c.environ), strings.Fields(c.args)
		before := slices.Concat(environ, args)
		got := FitVariables(environ, args, MustVersion(c.version))
		if all := strings.Join(slices.Concat(got.Args, got.Environ), " "); all != c.want {
			t.Errorf("etcd %s with %s %s: %q, want %q", c.version, c.args, c.environ, all, c.want)
		}
		var reasons []string
		for i, part := range strings.Split(c.left, ", ") {
			if i < len(got.Left) && part != "" && strings.HasPrefix(got.Left[i].Name+" "+got.Left[i].Why, part) {
				reasons = append(reasons, part)
			}
		}
		if strings.Join(reasons, ", ") != c.left || len(reasons) != len(got.Left) {
			t.Errorf("etcd %s with %s: left %+v, want %q", c.version, c.environ, got.Left, c.left)
		}
		if !slices.Equal(before, slices.Concat(environ, args)) {
			t.Error("what was given is changed")
		}
	}
}

// A value that cannot be read keeps a daemon from its start only where etcd without the setting would be open to more
// clients, or would refuse writes.
func TestUnreadableVariables(t *testing.T) {
	for pair, refused := range map[string]bool{
		"ETCD_LOG_LEVEL=INFO": false, "ETCD_LOG_LEVEL=loud": false, "ETCD_FEATURE_GATES=InitialCorruptCheck=true,": false,
		"ETCD_FEATURE_GATES=x": false, "ETCD_SNAPSHOT_COUNT=many": false, "ETCD_LISTEN_METRICS_URLS=here": false,
		"ETCD_QUOTA_BACKEND_BYTES=much": true, "ETCD_TLS_MIN_VERSION=1.3": true, "ETCD_PRE_VOTE=maybe": true,
		"ETCD_FORCE_NEW_CLUSTER=maybe": true, "ETCD_CLIENT_CERT_AUTH=maybe": true,
	} {
		name, value, _ := strings.Cut(pair, "=")
		o, _ := FindVariable(name)
		for _, tls := range []bool{true, false} {
			if why, _ := o.JudgeVariable(value, tls); (why != "") != refused {
				t.Errorf("%s with TLS %t: refused %q, want %t", pair, tls, why, refused)
			}
		}
	}
}

// Whatever passed the start of a daemon: no variable stands beside its flag, none goes
// without a reason, and what is passed on is passed on again.
func TestNoVariableBesideItsFlag(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := Version{3, rapid.IntRange(2, 8).Draw(t, "minor"), 5}
		var environ []string
		for _, o := range rapid.SliceOfN(rapid.SampledFrom(options), 0, 6).Draw(t, "variables") {
			name := VariableOf(rapid.SampledFrom([]string{"", prefix}).Draw(t, "prefix") + o.Name)
			value := rapid.SampledFrom([]string{anyValue(t, o), "1", "false"}).Draw(t, "value")
			if o, found := FindVariable(name); found {
				if refused, drop := o.JudgeVariable(value, true); refused != "" || drop {
					continue
				}
			}
			environ = append(environ, name+"="+value)
		}
		given := map[string]string{}
		for _, o := range rapid.SliceOfN(rapid.SampledFrom(options), 0, 4).Draw(t, "options") {
			given[o.Name] = anyValue(t, o)
		}
		settings, _ := FitOptions(given, v)
		args := []string{"--logger=zap", "--log-outputs=stderr", "--max-learners=2", "--name=a", "--client-cert-auth=true"}
		for _, s := range settings {
			args = append(args, s.String())
		}
		fit := FitVariables(environ, args, v)
		for _, pair := range fit.Environ {
			name, _, _ := strings.Cut(pair, "=")
			for _, arg := range fit.Args {
				if VariableOf(flagOf(arg)) == name {
					t.Fatalf("%s beside %s", pair, arg)
				}
			}
		}
		for _, l := range fit.Left {
			if l.Why == "" || l.Line != fmt.Sprintf("3.%d", v.Minor) || !slices.ContainsFunc(environ, func(p string) bool { return strings.HasPrefix(p, l.Name+"=") }) {
				t.Fatalf("%+v of %q", l, environ)
			}
		}
		again := FitVariables(fit.Environ, fit.Args, v)
		if !slices.Equal(again.Environ, fit.Environ) || !slices.Equal(again.Args, fit.Args) || again.Left != nil {
			t.Fatalf("%+v became %+v", fit, again)
		}
	})
}

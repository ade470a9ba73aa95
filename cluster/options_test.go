package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOptionTable(t *testing.T) {
	names := make([]string, 0, len(options))
	for _, o := range options {
		names = append(names, o.Name)
		switch {
		case strings.HasPrefix(o.Name, prefix):
			t.Errorf("%s: the table has names without %s", o.Name, prefix)
		case o.Plain == Minors{} && o.Prefixed == Minors{}:
			t.Errorf("%s: no release has it", o.Name)
		case o.Kind == KindChoice && len(o.Choices) < 2:
			t.Errorf("%s: there is nothing to choose", o.Name)
		case (o.Kind == KindNumber || o.Kind == KindMillis || o.Kind == KindBytes) && (o.Max <= 0 || o.Min > o.Max):
			t.Errorf("%s: from %d to %d", o.Name, o.Min, o.Max)
		}
		if _, found := FindGate(o.Gate); o.Gate != "" && (!found || o.Kind != KindSwitch) {
			t.Errorf("%s: gate %s is not in the table, or it is no switch", o.Name, o.Gate)
		}
		for _, m := range []Minors{o.Plain, o.Prefixed} {
			if m != (Minors{}) && (m.First < oldestMinor || m.Last > newestMinor || m.First > m.Last) {
				t.Errorf("%s: lines %v", o.Name, m)
			}
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(names)) != len(options) {
		t.Errorf("not sorted, or a name twice: %q", names)
	}
}

// What SAFETY.md, rule 24 names can never be set.
func TestUnsafeOptionsAreRefused(t *testing.T) {
	for _, o := range options {
		unsafe := slices.Contains([]string{"force-new-cluster", "name", "data-dir", "wal-dir", "strict-reconfig-check", "unsafe-no-fsync"}, o.Name) ||
			strings.HasPrefix(o.Name, "initial-") && strings.Contains(o.Name, "cl") || strings.HasPrefix(o.Name, "discovery") || o.Name == "initial-advertise-peer-urls"
		if unsafe && o.Settable() {
			t.Errorf("--%s can be set", o.Name)
		}
	}
}

func TestCheckOptions(t *testing.T) {
	for _, c := range []struct {
		version string
		given   string // space-separated
		want    string // arguments, or after "!" a part of the error
	}{
		{"3.7.3", "", ""},
		{"3.7.3", "quota-backend-bytes=8GiB auto-compaction-retention=1h", "--auto-compaction-retention=1h --quota-backend-bytes=8589934592"},
		{"3.4.25", "quota-backend-bytes=1000", "--quota-backend-bytes=1000"},
		{"3.5.35", "compaction-batch-limit=500", "--experimental-compaction-batch-limit=500"},
		{"3.6.16", "experimental-compaction-batch-limit=500", "--compaction-batch-limit=500"},
		{"3.7.3", "experimental-compaction-batch-limit=500", "--compaction-batch-limit=500"},
		{"3.4.25", "backend-bbolt-freelist-type=map", "--experimental-backend-bbolt-freelist-type=map"},
		{"3.5.35", "initial-corrupt-check=1", "--experimental-initial-corrupt-check=true"},
		{"3.6.16", "initial-corrupt-check=true compact-hash-check-enabled=true", "--feature-gates=CompactHashCheck=true,InitialCorruptCheck=true"},
		{"3.7.3", "initial-corrupt-check=true feature-gates=InitialCorruptCheck=true,FastLeaseKeepAlive=false", "--feature-gates=FastLeaseKeepAlive=false,InitialCorruptCheck=true"},
		{"3.6.16", "watch-progress-notify-interval=90s", "--watch-progress-notify-interval=1m30s"},
		{"3.7.3", "heartbeat-interval=200 election-timeout=2000", "--election-timeout=2000 --heartbeat-interval=200"},
		{"3.7.3", "auto-compaction-mode=revision auto-compaction-retention=1000", "--auto-compaction-mode=revision --auto-compaction-retention=1000"},

		{"3.7.3", "compactionbatchlimit=500", "!is compaction-batch-limit meant?"},
		{"3.7.3", "nonsense=1", "!etcd has no --nonsense"},
		{"3.7.3", "snapshot=1", "!etcd has no --snapshot; is snapshot-catchup-entries meant?"},
		{"3.4.25", "raft-read-timeout=5s", "!etcd 3.4.25 has no --raft-read-timeout; 3.5 to 3.7 has it"},
		{"3.5.35", "warning-unary-request-duration=1s", "!etcd 3.5.35 has no --warning-unary-request-duration"},
		{"3.6.16", "feature-gates=FastLeaseKeepAlive=true", "!etcd 3.6.16 has no feature gate FastLeaseKeepAlive"},
		{"3.7.3", "feature-gates=AllAlpha=true", "!no feature gate \"AllAlpha\""},
		{"3.7.3", "feature-gates=CompactHashCheck", "!it takes a list of"},
		{"3.5.35", "feature-gates=CompactHashCheck=true", "!etcd 3.5.35 has no --feature-gates"},
		{"3.7.3", "initial-corrupt-check=true feature-gates=InitialCorruptCheck=false", "!both turned on and off"},
		{"3.7.3", "force-new-cluster=true", "!it drops acknowledged writes"},
		{"3.7.3", "experimental-force-new-cluster=true", "!it drops acknowledged writes"},
		{"3.7.3", "compaction-batch-limit=5 experimental-compaction-batch-limit=6", "!given twice"},
		{"3.7.3", "election-timeout=50001", "!from 1 to 50000"},
		{"3.7.3", "election-timeout=400", "!less than five times"},
		{"3.7.3", "heartbeat-interval=300", "!less than five times"},
		{"3.7.3", "bcrypt-cost=3", "!from 4 to 31"},
		{"3.7.3", "quota-backend-bytes=-1", "!it takes a size"},
		{"3.7.3", "quota-backend-bytes=9999999TiB", "!it takes a size"},
		{"3.7.3", "quota-backend-bytes=8G", "!such as 512MiB or 8GiB"},
		{"3.7.3", "raft-read-timeout=10ms", "!of 1s or more"},
		{"3.7.3", "compact-hash-check-time=0s", "!above zero"},
		{"3.7.3", "auto-compaction-retention=soon", "!a duration such as 1h"},
		{"3.7.3", "auto-compaction-mode=revision auto-compaction-retention=1h", "!a number of revisions"},
		{"3.7.3", "metrics=all", "!one of a list: basic, extensive"},
		{"3.7.3", "tls-min-version=TLS1.3 tls-max-version=TLS1.2", "!above tls-max-version"},
		{"3.7.3", "tls-min-version=TLS1.3 cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "!cannot be chosen for TLS 1.3"},
		{"3.6.16", "enable-lease-checkpoint-persist=true", "!needs enable-lease-checkpoint"},
		{"3.6.16", "enable-lease-checkpoint-persist=true enable-lease-checkpoint=true", "--feature-gates=LeaseCheckpoint=true,LeaseCheckpointPersist=true"},
		{"3.1.20", "quota-backend-bytes=1000", "!etcd 3.1.20 has no --quota-backend-bytes"},
		{"3.8.0", "quota-backend-bytes=1000", "!etcd 3.8.0 has no --quota-backend-bytes"},
		{"4.0.0", "initial-corrupt-check=true", "!etcd 4.0.0 has no --initial-corrupt-check"},
	} {
		given := map[string]string{}
		for pair := range strings.FieldsSeq(c.given) {
			name, value, _ := strings.Cut(pair, "=")
			given[name] = value
		}
		settings, err := CheckOptions(given, MustVersion(c.version))
		if part, refused := strings.CutPrefix(c.want, "!"); refused {
			if !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), part) {
				t.Errorf("%s with %s: %v, want %q", c.version, c.given, err, part)
			}
			continue
		}
		var args []string
		for _, s := range settings {
			args = append(args, s.String())
		}
		if got := strings.Join(args, " "); err != nil || got != c.want {
			t.Errorf("%s with %s: %s, %v, want %s", c.version, c.given, got, err, c.want)
		}
	}
}

// All that is wrong is said at once.
func TestAllRefusalsAtOnce(t *testing.T) {
	_, err := CheckOptions(map[string]string{"name": "x", "bcrypt-cost": "1", "nothing": "y"}, MustVersion("3.7.3"))
	if n := strings.Count(fmt.Sprint(err), ErrOption.Error()); n != 3 {
		t.Errorf("%d refusals: %v", n, err)
	}
}

// anyValue is sometimes of the option's kind.
func anyValue(t *rapid.T, o Option) string {
	usual := []string{"true", "false", "0", "1", "100", "1000", "5000", "8GiB", "10MB", "1h", "90s", "0s", "-1s", "text", "", "a\nb", "TLS1.3", "map", "CompactHashCheck=true", "LeaseCheckpointPersist=1"}
	return rapid.SampledFrom(append(usual, o.Choices...)).Draw(t, "value of "+o.Name)
}

// Whatever is accepted is accepted again as it was spelled for the release,
// and nothing that cannot be set is ever among the arguments.
func TestAcceptedOptionsAreAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := Version{3, rapid.IntRange(3, 8).Draw(t, "minor"), 5}
		given := map[string]string{}
		for _, o := range rapid.SliceOfN(rapid.SampledFrom(options), 0, 4).Draw(t, "options") {
			given[rapid.SampledFrom([]string{"", prefix}).Draw(t, "prefix")+o.Name] = anyValue(t, o)
		}
		before := maps.Clone(given)
		settings, err := CheckOptions(given, v)
		if !maps.Equal(before, given) {
			t.Fatal("the options were changed")
		}
		if err != nil {
			return
		}
		again := map[string]string{}
		for _, s := range settings {
			o, found := FindOption(s.Flag)
			if flag, known := o.Flag(v); !found || !known || flag != s.Flag || !o.Settable() {
				t.Fatalf("%s is no argument for etcd %s", s, v)
			}
			if strings.ContainsAny(s.Value, "\n\x00") {
				t.Fatalf("%q", s.Value)
			}
			again[s.Flag] = s.Value
		}
		second, err := CheckOptions(again, v)
		if err != nil || !slices.Equal(settings, second) {
			t.Fatalf("%v became %v, %v", settings, second, err)
		}
	})
}

// What a member cannot have is left out, and the rest is what it would be
// without it.
func TestFitOptions(t *testing.T) {
	for _, c := range []struct {
		version, given, want string
		left                 int
	}{
		{"3.7.3", "", "", 0},
		{"3.5.35", "quota-backend-bytes=1GiB nonsense=1 name=x warning-unary-request-duration=1s", "--quota-backend-bytes=1073741824", 3},
		{"3.6.16", "feature-gates=FastLeaseKeepAlive=true,CompactHashCheck=true", "--feature-gates=CompactHashCheck=true", 1},
		{"3.6.16", "feature-gates=FastLeaseKeepAlive=true", "", 1},
		{"3.5.35", "feature-gates=LeaseCheckpoint=true enable-lease-checkpoint-persist=true snapshot-count=5", "--snapshot-count=5", 2},
		{"3.7.3", "heartbeat-interval=300 snapshot-count=5", "--snapshot-count=5", 1},
		{"3.7.3", "feature-gates=LeaseCheckpointPersist=true snapshot-count=5", "--snapshot-count=5", 1},
	} {
		given := map[string]string{}
		for pair := range strings.FieldsSeq(c.given) {
			name, value, _ := strings.Cut(pair, "=")
			given[name] = value
		}
		before := maps.Clone(given)
		settings, left := FitOptions(given, MustVersion(c.version))
		var args []string
		for _, s := range settings {
			args = append(args, s.String())
		}
		if got := strings.Join(args, " "); got != c.want || len(left) != c.left || !maps.Equal(before, given) {
			t.Errorf("%s with %s: %q, left %v", c.version, c.given, got, left)
		}
	}
}

// Whatever is asked for, something comes of it, and what comes of it is taken.
func TestWhatFitsIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := Version{3, rapid.IntRange(3, 8).Draw(t, "minor"), 5}
		given := map[string]string{}
		for _, o := range rapid.SliceOfN(rapid.SampledFrom(options), 0, 6).Draw(t, "options") {
			given[o.Name] = anyValue(t, o)
		}
		settings, left := FitOptions(given, v)
		again := map[string]string{}
		for _, s := range settings {
			again[s.Flag] = s.Value
		}
		if second, err := CheckOptions(again, v); err != nil || !slices.Equal(settings, second) {
			t.Fatalf("%v became %v, %v", settings, second, err)
		}
		if _, err := CheckOptions(given, v); (err == nil) != (len(left) == 0) {
			t.Fatalf("refused: %v, left out: %v", err, left)
		}
	})
}

func TestMeant(t *testing.T) {
	for written, want := range map[string]string{
		"snapshot-coumt": "snapshot-count", "quota_backend_bytes": "quota-backend-bytes", "QuotaBackendBytes": "quota-backend-bytes",
		"electiontimeout": "election-timeout", "heartbeet-intervall": "heartbeat-interval", "xyz": "", "": "",
	} {
		if got := meant(written); want == "" && got != "" || want != "" && got != "; is "+want+" meant?" {
			t.Errorf("%s: %q", written, got)
		}
	}
}

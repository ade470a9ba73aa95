package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// reserved are the flags that this tool sets by itself, or that break what it
// promises (SAFETY.md, rule 24), with the reason.
var reserved = map[string]string{
	"name":                        "a member is named after its host",
	"data-dir":                    "the host chooses the data directory",
	"wal-dir":                     "the log lies in the data directory, where the host looks for it",
	"config-file":                 "it would take the place of every other flag",
	"force-new-cluster":           "it drops acknowledged writes; use etcdadm's recovery",
	"unsafe-no-fsync":             "it loses acknowledged writes in a power cut",
	"strict-reconfig-check":       "membership changes rely on it",
	"max-learners":                "it has to be equal on all members; the host sets it",
	"listen-peer-urls":            "the host sets it from its URLs",
	"listen-client-urls":          "the host sets it from its URLs",
	"listen-client-http-urls":     "it would open a door that quarantine does not close",
	"advertise-client-urls":       "the host sets it from its URLs",
	"initial-cluster":             "the intent or the member list says who is in it",
	"initial-cluster-state":       "the host sets it",
	"initial-cluster-token":       "the intent fixes it",
	"initial-advertise-peer-urls": "the host sets it from its URLs",
	"logger":                      "the host sets it",
	"log-outputs":                 "the log goes where the daemon follows it",
}

// CheckOption refuses an etcd flag that the host sets by itself or that must
// not be set, in a sentence. The name is without dashes.
func CheckOption(name string) error {
	if reason, ok := reserved[name]; ok {
		return fmt.Errorf("%w: --%s cannot be set: %s", ErrArgs, name, reason)
	}
	if strings.HasPrefix(name, "discovery") {
		return fmt.Errorf("%w: --%s cannot be set: etcd's discovery is not used", ErrArgs, name)
	}
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || name[0] == '-' {
		return fmt.Errorf("%w: %q is not the name of a flag", ErrArgs, name)
	}
	return nil
}

// optionName is the flag's name in an argument.
func optionName(arg string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	return name
}

// graduated are flags that 3.4 and 3.5 know as --experimental-NAME only, that
// 3.6 knows by both names, and 3.7 without the prefix only. The value is the
// first minor release of 3 that has the flag at all. Source: --help of 3.4.25,
// 3.5.35, 3.6.16, 3.7.3.
var graduated = map[string]int{
	"bootstrap-defrag-threshold-megabytes": 5,
	"compact-hash-check-time":              5,
	"compaction-batch-limit":               4,
	"compaction-sleep-interval":            5,
	"corrupt-check-time":                   4,
	"distributed-tracing-address":          5,
	"distributed-tracing-instance-id":      5,
	"distributed-tracing-sampling-rate":    5,
	"distributed-tracing-service-name":     5,
	"downgrade-check-time":                 5,
	"enable-distributed-tracing":           5,
	"memory-mlock":                         5,
	"peer-skip-client-san-verification":    4,
	"snapshot-catchup-entries":             5,
	"warning-apply-duration":               4,
	"warning-unary-request-duration":       6,
	"watch-progress-notify-interval":       4,
}

// gates are switches that 3.4 and 3.5 know as --experimental-NAME and 3.6 and
// later as a feature gate.
var gates = map[string]struct {
	gate  string
	since int
}{
	"compact-hash-check-enabled":        {"CompactHashCheck", 5},
	"enable-lease-checkpoint":           {"LeaseCheckpoint", 4},
	"enable-lease-checkpoint-persist":   {"LeaseCheckpointPersist", 4},
	"initial-corrupt-check":             {"InitialCorruptCheck", 4},
	"stop-grpc-service-on-defrag":       {"StopGRPCServiceOnDefrag", 5},
	"txn-mode-write-with-shared-buffer": {"TxnModeWriteWithSharedBuffer", 5},
}

const experimental = "experimental-"

// OptionArgs turns the options of a spec into arguments for a release, sorted.
// A name may be written with or without "experimental-"; it is spelled as the
// release wants it. Flags that are not in these tables are passed as they are.
func OptionArgs(options map[string]string, v cluster.Version) ([]string, error) {
	var args, features []string
	for _, given := range slices.Sorted(maps.Keys(options)) {
		value := options[given]
		name := strings.TrimPrefix(given, experimental)
		if err := CheckOption(name); err != nil {
			return nil, err
		}
		if strings.ContainsAny(value, "\n\x00") {
			return nil, fmt.Errorf("%w: the value of --%s holds a line break", ErrArgs, name)
		}
		since, moved := graduated[name]
		gate, isGate := gates[name]
		switch {
		case name == "feature-gates":
			features = append(features, strings.Split(value, ",")...)
		case isGate && !v.AtLeast(3, gate.since), moved && !v.AtLeast(3, since):
			return nil, fmt.Errorf("%w: etcd %s has no --%s", ErrArgs, v, name)
		case isGate && v.AtLeast(3, 6):
			features = append(features, gate.gate+"="+value)
		case (isGate || moved) && !v.AtLeast(3, 6), name == "backend-bbolt-freelist-type" && !v.AtLeast(3, 5):
			args = append(args, "--"+experimental+name+"="+value)
		case isGate || moved:
			args = append(args, "--"+name+"="+value)
		default:
			args = append(args, "--"+given+"="+value)
		}
	}
	if len(features) > 0 {
		if !v.AtLeast(3, 6) {
			return nil, fmt.Errorf("%w: etcd %s has no --feature-gates", ErrArgs, v)
		}
		slices.Sort(features)
		args = append(args, "--feature-gates="+strings.Join(slices.Compact(features), ","))
	}
	slices.Sort(args)
	return args, nil
}

package cluster

import "math"

// Reasons for options that a spec cannot set.
const (
	ownURLs   = "the host sets it from --client-urls, --peer-urls and --etcd-address"
	ownTLS    = "the host issues the certificates and names them"
	ownLog    = "the log goes where the daemon follows it, in the form that it reads"
	noFinding = "etcd's own discovery is not used: the intent or the member list says who is in the cluster"
	noProxy   = "a member is no proxy"
	lockOut   = "it could lock the members or the daemons out"
	perMember = "it differs from member to member, and a spec is for all of them"
	goneV2    = "it is about keys of version 2 of the API, which no release from 3.6 on starts with"
)

// gate is a switch that 3.3 to 3.5 bring as --experimental-NAME and 3.6 and
// later as a feature gate; 3.6 knows both.
func gate(name, gate string, first int) Option {
	return Option{Name: name, Kind: KindSwitch, Prefixed: Minors{first, 6}, Gate: gate}
}

// graduated is a flag that 3.3 to 3.5 know by its experimental name only, 3.6
// by both, and 3.7 without the prefix only.
func graduated(o Option, first int) Option {
	o.Plain, o.Prefixed = onward(6), Minors{first, 6}
	return o
}

// refused is a flag that a spec cannot set.
func refused(name string, lines Minors, why string) Option {
	return Option{Name: name, Kind: KindText, Plain: lines, Refused: why}
}

const (
	maxUint32 = math.MaxUint32
	maxInt64  = math.MaxInt64
	second    = 1e9 // nanoseconds
	mixedTime = "members with a shorter election time-out stand for election earlier than the others"
)

// options is sorted by name. It has every flag that etcd --help names in the
// releases below, and flags that only the source names. Flags that etcd takes
// and ignores are not in it, so they are refused as unknown. Settings come in by
// a spec's options and by a host's ETCD_ variables; both go by this table.
//
// Source: etcd --help, and the flags that the binary itself takes, of 3.2.24,
// 3.3.27, 3.4.25, 3.5.35, 3.6.16 and 3.7.3; bounds from Validate in embed/config.go and from
// where the value is used. Older patches of a line may lack a flag that was
// brought to the line later. Held against real releases by
// TestOptionsAreEtcds.
var options = []Option{
	refused("advertise-client-urls", onward(2), ownURLs).given(),
	{Name: "auth-token", Kind: KindText, Plain: onward(2), Mixed: "a token of one member is not taken by a member of the other kind; clients log in again"},
	{Name: "auth-token-ttl", Kind: KindNumber, Min: 1, Max: maxUint32, Plain: onward(3)},
	{Name: "auto-compaction-mode", Kind: KindChoice, Choices: []string{"periodic", "revision"}, Plain: onward(3)},
	{Name: "auto-compaction-retention", Kind: KindText, Plain: onward(2)},
	refused("auto-tls", onward(2), ownTLS).of(KindSwitch).vital(),
	{Name: "backend-batch-interval", Kind: KindDuration, Plain: onward(4)},
	{Name: "backend-batch-limit", Kind: KindNumber, Max: maxInt64, Plain: onward(4)},
	{Name: "backend-bbolt-freelist-type", Kind: KindChoice, Choices: []string{"array", "map"}, Plain: onward(5), Prefixed: Minors{4, 4}},
	{Name: "bcrypt-cost", Kind: KindNumber, Min: 4, Max: 31, Plain: onward(4)},
	graduated(Option{Name: "bootstrap-defrag-threshold-megabytes", Kind: KindNumber, Max: maxUint32}, 5),
	refused("ca-file", Minors{2, 3}, ownTLS).givenWithTLS(),
	refused("cert-file", onward(2), ownTLS).givenWithTLS(),
	{Name: "cipher-suites", Kind: KindText, Plain: onward(2)},
	refused("client-cert-allowed-hostname", onward(4), lockOut),
	refused("client-cert-auth", onward(2), ownTLS).of(KindSwitch).givenWithTLS("true").vital(),
	refused("client-cert-file", onward(5), ownTLS),
	refused("client-crl-file", onward(3), ownTLS),
	refused("client-key-file", onward(5), ownTLS),
	gate("compact-hash-check-enabled", "CompactHashCheck", 5),
	graduated(Option{Name: "compact-hash-check-time", Kind: KindDuration, Min: 1}, 5),
	graduated(Option{Name: "compaction-batch-limit", Kind: KindNumber, Min: 1, Max: maxInt64}, 4),
	graduated(Option{Name: "compaction-sleep-interval", Kind: KindDuration}, 5),
	refused("config-file", onward(2), "it would take the place of every other flag").never(),
	graduated(Option{Name: "corrupt-check-time", Kind: KindDuration}, 3),
	{Name: "cors", Kind: KindText, Plain: onward(2)},
	refused("data-dir", onward(2), "the host chooses the data directory").never(),
	refused("debug", Minors{2, 4}, "log-level says it, also in later releases").of(KindSwitch).followedBy("log-level"),
	refused("discovery", Minors{2, 6}, noFinding).never(),
	refused("discovery-cacert", onward(6), noFinding).never(),
	refused("discovery-cert", onward(6), noFinding).never(),
	refused("discovery-dial-timeout", onward(6), noFinding).never(),
	refused("discovery-endpoints", onward(6), noFinding).never(),
	refused("discovery-fallback", onward(2), noFinding).never(),
	refused("discovery-insecure-skip-tls-verify", onward(6), noFinding).never(),
	refused("discovery-insecure-transport", onward(6), noFinding).never(),
	refused("discovery-keepalive-time", onward(6), noFinding).never(),
	refused("discovery-keepalive-timeout", onward(6), noFinding).never(),
	refused("discovery-key", onward(6), noFinding).never(),
	refused("discovery-password", onward(6), noFinding).never(),
	refused("discovery-proxy", Minors{2, 6}, noFinding).never(),
	refused("discovery-request-timeout", onward(6), noFinding).never(),
	refused("discovery-srv", onward(2), noFinding).never(),
	refused("discovery-srv-name", onward(4), noFinding).never(),
	refused("discovery-token", onward(6), noFinding).never(),
	refused("discovery-user", onward(6), noFinding).never(),
	graduated(Option{Name: "distributed-tracing-address", Kind: KindText}, 5),
	graduated(Option{Name: "distributed-tracing-instance-id", Kind: KindText, Refused: perMember}, 5),
	graduated(Option{Name: "distributed-tracing-sampling-rate", Kind: KindNumber, Max: 1_000_000}, 5),
	graduated(Option{Name: "distributed-tracing-service-name", Kind: KindText}, 5),
	graduated(Option{Name: "downgrade-check-time", Kind: KindDuration, Min: 1}, 5),
	{Name: "election-timeout", Kind: KindMillis, Min: 1, Max: 50_000, Plain: onward(2), Mixed: mixedTime},
	graduated(Option{Name: "enable-distributed-tracing", Kind: KindSwitch}, 5),
	{Name: "enable-grpc-gateway", Kind: KindSwitch, Plain: onward(4)},
	gate("enable-lease-checkpoint", "LeaseCheckpoint", 4),
	gate("enable-lease-checkpoint-persist", "LeaseCheckpointPersist", 4),
	refused("enable-log-rotation", onward(5), ownLog).of(KindSwitch),
	{Name: "enable-pprof", Kind: KindSwitch, Plain: onward(2)},
	refused("enable-v2", Minors{2, 5}, goneV2).of(KindSwitch),
	{Name: "enable-v2v3", Kind: KindText, Prefixed: Minors{3, 5}, Refused: goneV2},
	{Name: gatesFlag, Kind: KindGates, Plain: onward(6)},
	refused("force-new-cluster", onward(2), "it drops acknowledged writes; etcdadm recover is the way back from a lost quorum").
		of(KindSwitch).never("false"),
	{Name: "grpc-keepalive-interval", Kind: KindDuration, Plain: onward(2)},
	{Name: "grpc-keepalive-min-time", Kind: KindDuration, Plain: onward(2)},
	{Name: "grpc-keepalive-timeout", Kind: KindDuration, Plain: onward(2)},
	{Name: "heartbeat-interval", Kind: KindMillis, Min: 1, Max: 10_000, Plain: onward(2), Mixed: mixedTime},
	{Name: "host-whitelist", Kind: KindText, Plain: onward(4)},
	refused("initial-advertise-peer-urls", onward(2), ownURLs).never(),
	refused("initial-cluster", onward(2), "the intent or the member list says who is in it").never(),
	refused("initial-cluster-state", onward(2), "the host sets it").never(),
	refused("initial-cluster-token", onward(2), "the intent fixes it").never(),
	gate("initial-corrupt-check", "InitialCorruptCheck", 3),
	{Name: "initial-election-tick-advance", Kind: KindSwitch, Plain: onward(2)},
	refused("key-file", onward(2), ownTLS).givenWithTLS(),
	refused("listen-client-http-urls", onward(4), "its addresses differ from member to member").of(KindURLs).notInQuarantine(),
	refused("listen-client-urls", onward(2), ownURLs).given(),
	refused("listen-metrics-urls", onward(3), "the daemon's own --listen-metrics-urls sets it").of(KindURLs).goesFirst(),
	refused("listen-peer-urls", onward(2), ownURLs).given(),
	refused("log-format", onward(6), ownLog).of(KindChoice, "console", "json"),
	{Name: "log-level", Kind: KindChoice, Choices: []string{"debug", "info", "warn", "error"}, Plain: onward(4)},
	refused("log-output", Minors{2, 4}, ownLog).goesFirst().followedBy("log-outputs"),
	refused("log-outputs", onward(4), ownLog).goesFirst(),
	refused("log-package-levels", Minors{2, 4}, ownLog),
	refused("log-rotation-config-json", onward(5), ownLog),
	refused("logger", onward(4), ownLog).of(KindChoice, "capnslog", "zap").goesFirst(),
	{Name: "max-concurrent-streams", Kind: KindNumber, Min: 1, Max: maxUint32, Plain: onward(4)},
	refused("max-learners", onward(6), "it has to be equal on all members; the host sets it").of(KindNumber).given("1", "2"),
	{Name: "max-request-bytes", Kind: KindBytes, Min: 1, Max: maxUint32, Plain: onward(2), Mixed: "a large request is taken or refused depending on the member that it is sent to"},
	{Name: "max-snapshots", Kind: KindNumber, Max: maxUint32, Plain: onward(2)},
	{Name: "max-txn-ops", Kind: KindNumber, Min: 1, Max: maxUint32, Plain: onward(3), Mixed: "a large transaction is taken or refused depending on the member that it is sent to"},
	{Name: "max-wals", Kind: KindNumber, Max: maxUint32, Plain: onward(2)},
	graduated(Option{Name: "memory-mlock", Kind: KindSwitch}, 5),
	{Name: "metrics", Kind: KindChoice, Choices: []string{"basic", "extensive"}, Plain: onward(2)},
	refused("name", onward(2), "a member is named after its host").never(),
	refused("peer-auto-tls", onward(2), ownTLS).of(KindSwitch).vital(),
	refused("peer-ca-file", Minors{2, 3}, ownTLS).givenWithTLS(),
	refused("peer-cert-allowed-cn", onward(3), lockOut),
	refused("peer-cert-allowed-hostname", onward(4), lockOut),
	refused("peer-cert-file", onward(2), ownTLS).givenWithTLS(),
	refused("peer-client-cert-auth", onward(2), ownTLS).of(KindSwitch).givenWithTLS("true").vital(),
	refused("peer-client-cert-file", onward(5), ownTLS),
	refused("peer-client-key-file", onward(5), ownTLS),
	refused("peer-crl-file", onward(3), ownTLS),
	refused("peer-key-file", onward(2), ownTLS).givenWithTLS(),
	graduated(Option{Name: "peer-skip-client-san-verification", Kind: KindSwitch}, 3),
	refused("peer-trusted-ca-file", onward(2), ownTLS).givenWithTLS(),
	refused("pre-vote", onward(4), "the host turns it on: without it a member that comes back ends the leader's term").
		of(KindSwitch).given("true"),
	refused("proxy", Minors{2, 5}, noProxy).never("off"),
	refused("proxy-dial-timeout", Minors{2, 5}, noProxy).of(KindNumber),
	refused("proxy-failure-wait", Minors{2, 5}, noProxy).of(KindNumber),
	refused("proxy-read-timeout", Minors{2, 5}, noProxy).of(KindNumber),
	refused("proxy-refresh-interval", Minors{2, 5}, noProxy).of(KindNumber),
	refused("proxy-write-timeout", Minors{2, 5}, noProxy).of(KindNumber),
	{Name: "quota-backend-bytes", Vital: true, Kind: KindBytes, Max: maxInt64, Plain: onward(2), Mixed: "the smallest quota of all members raises the alarm NOSPACE for all of them"},
	{Name: "raft-read-timeout", Kind: KindDuration, Min: second, Plain: onward(5)},
	{Name: "raft-write-timeout", Kind: KindDuration, Min: second, Plain: onward(5)},
	refused("self-signed-cert-validity", onward(5), ownTLS).of(KindNumber),
	graduated(Option{Name: "snapshot-catchup-entries", Kind: KindNumber, Min: 1, Max: maxInt64}, 5),
	{Name: "snapshot-count", Kind: KindNumber, Min: 1, Max: maxInt64, Plain: onward(2)},
	{Name: "socket-reuse-address", Kind: KindSwitch, Plain: onward(5)},
	refused("socket-reuse-port", onward(5), "two processes could serve at one address").of(KindSwitch),
	gate("stop-grpc-service-on-defrag", "StopGRPCServiceOnDefrag", 5),
	refused("strict-reconfig-check", onward(2), "membership changes rely on it").of(KindSwitch).given("true"),
	{Name: "tls-max-version", Kind: KindChoice, Choices: []string{"TLS1.2", "TLS1.3"}, Plain: onward(4)},
	{Name: "tls-min-version", Vital: true, Kind: KindChoice, Choices: []string{"TLS1.2", "TLS1.3"}, Plain: onward(4)},
	refused("trusted-ca-file", onward(2), ownTLS).givenWithTLS(),
	gate("txn-mode-write-with-shared-buffer", "TxnModeWriteWithSharedBuffer", 5),
	refused("unsafe-no-fsync", onward(4), "it loses acknowledged writes in a power cut").of(KindSwitch).never("false"),
	refused("v2-deprecation", onward(5), "what becomes of data of version 2 of the API is decided when the version changes").
		of(KindChoice, "not-yet", "write-only", "write-only-skip-check", "write-only-drop-data", "gone"),
	refused("wal-dir", onward(2), "the log lies in the data directory, where the host looks for it").never(),
	graduated(Option{Name: "warning-apply-duration", Kind: KindDuration}, 4),
	graduated(Option{Name: "warning-unary-request-duration", Kind: KindDuration}, 6),
	graduated(Option{Name: "watch-progress-notify-interval", Kind: KindDuration, Min: 1}, 4),
}

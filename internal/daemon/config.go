// Package daemon assembles one daemon out of its parts and runs it: the state
// directory's lock, certificates, the backup store, the host, the peers'
// port, the manager and the metrics port, in this order, and down again in
// the reverse one. It decides nothing about clusters; that is plan's.
package daemon

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/advice"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/discovery"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/pki"
)

// SigtermAction says what becomes of etcd when the daemon gets SIGTERM.
type SigtermAction string

const (
	// SigtermStop ends etcd with the daemon, as SIGINT does.
	SigtermStop SigtermAction = "stop"
	// SigtermLeave lets etcd run on; the next daemon adopts it.
	SigtermLeave SigtermAction = "leave"
)

// Where etcd's log goes.
const (
	EtcdLogFile   = "file"
	EtcdLogStdout = "stdout"
)

// Config is a daemon's configuration, as its flags give it.
type Config struct {
	ClusterName string
	HostID      cluster.HostID // empty: what is in the data directory, or a new one
	Address     string         // own address, as the other daemons reach it
	GRPCPort    int
	DataDir     string
	BackupStore string // URL; empty: there are no backups
	// ControlStore is the URL of the store that has the control record; empty: the backup store has it.
	ControlStore string

	EtcdAddress       string // bind address of etcd's listeners
	PeerURLs          []string
	ClientURLs        []string
	QuarantineURLs    []string
	ListenMetricsURLs string
	EtcdInsecure      bool
	EtcdUser          string // with EtcdPasswordFile, for an etcd with auth on and no TLS
	EtcdPasswordFile  string

	Insecure bool   // no TLS between daemons
	PKIDir   string // holds the three authorities
	// LeavesDir holds them without their keys, and this host's certificates, all of which somebody else renews; empty: the
	// host makes its certificates, or has them signed, and PKIDir holds the authorities.
	LeavesDir string
	// KeyAlgorithm is the kind of the keys that etcd is given: auto, ecdsa or rsa;
	// empty: auto, which goes by the cipher suites that etcd is given.
	KeyAlgorithm string

	DiscoveryPollInterval time.Duration
	Discovery             []string // further seeds: host:port, file:///dir, dns://name
	DNSSuffix             string
	HostsFile             string
	NetworkCIDR           string

	EnvFile      string
	StaticConfig string // JSON
	ReleaseDirs  []string
	Root         string // where the host's root is mounted; /rootfs when containerized

	VolumeProvider string
	VolumeTags     []string
	VolumeNameTag  string

	MetricsPort    int    // 0: off
	MetricsAddress string // where it listens; empty: on Address
	BackupInterval time.Duration
	DrillInterval  time.Duration // between tries of the newest backup; 0: none by itself
	Backups        backupstore.Choices
	OnSigterm      SigtermAction
	DeadAfter      time.Duration // 0: the spec's, or the default
	// PruneAfter is how long what was set aside of a removed member is kept at
	// least (SAFETY.md, rule 22); 0: until a person removes it.
	PruneAfter time.Duration
	// AutoRecoverAfter: recover from a survivor without a person after the
	// quorum was gone for so long; 0: never.
	AutoRecoverAfter time.Duration
	// Upkeep is what is done about etcd's own ills.
	Upkeep    cluster.Upkeep
	LogFormat string // text, json
	// EtcdLog is where etcd's log goes: file, which is logs/etcd.log in DataDir, or stdout, where its lines go as well.
	EtcdLog  string
	LogLevel int // klog's -v; 0 says decisions and changes
}

// Default is the configuration that the flags start from.
func Default() Config {
	return Config{
		Address: "127.0.0.1", GRPCPort: 8000, EtcdAddress: "0.0.0.0",
		PeerURLs:              []string{"https://__address__:2380"},
		ClientURLs:            []string{"https://__address__:4001"},
		QuarantineURLs:        []string{"https://__address__:8001"},
		PKIDir:                "/etc/kubernetes/pki/etcd-manager",
		DiscoveryPollInterval: time.Minute,
		BackupInterval:        15 * time.Minute,
		PruneAfter:            24 * time.Hour, // so that a person who looks the next day still finds it
		HostsFile:             "/etc/hosts",
		Upkeep:                cluster.Upkeep{DefragThreshold: 50, HashInterval: 6 * time.Hour},
		OnSigterm:             SigtermStop,
		LogFormat:             "text",
		EtcdLog:               EtcdLogFile,
	}
}

// Error is a mistake in the configuration or the surroundings, for people.
type Error = advice.Error

func mistake(hint, format string, args ...any) error {
	return &Error{Problem: fmt.Sprintf(format, args...), Advice: hint}
}

// RecordStore is the URL of the store that has the control record.
func (c *Config) RecordStore() string { return cmp.Or(c.ControlStore, c.BackupStore) }

// backupsElsewhere is the URL of a store that has the backups and not the record; empty: there is none.
func (c *Config) backupsElsewhere() string {
	if c.BackupStore == c.RecordStore() {
		return ""
	}
	return c.BackupStore
}

// announces tells whether the hosts say in the store where they are: not in Kubernetes, which has names for that.
func (c *Config) announces() bool { return !open.InKubernetes(c.RecordStore()) }

// keptElsewhere tells whether the store is what the hosts keep, of another data directory than this daemon's.
func (c *Config) keptElsewhere() bool {
	dir, ok := kept.DataDir(c.BackupStore)
	return ok && filepath.Clean(dir) != filepath.Clean(c.DataDir)
}

// Validate checks what can be checked without touching anything.
func (c *Config) Validate() error {
	switch {
	case c.ClusterName == "":
		return mistake("it names the cluster in every call between daemons, such as --cluster-name=etcd", "--cluster-name is required")
	case c.RecordStore() == "" && c.StaticConfig == "":
		return mistake("name a directory or object store, such as --backup-store=file:///var/backups/etcd", "--backup-store is required")
	case c.ControlStore != "" && (strings.HasPrefix(c.ControlStore, kept.Scheme+":") || strings.HasPrefix(c.BackupStore, kept.Scheme+":")):
		return mistake("leave --control-store out: hosts without a store keep the record and the backups", "--control-store names a shared store, and so has --backup-store to")
	case open.InKubernetes(c.BackupStore):
		return mistake("give it as --control-store, and an object store for the backups as --backup-store, or none", "--backup-store=%s: a ConfigMap has no room for backups", c.BackupStore)
	case c.keptElsewhere():
		return mistake("give --backup-store="+kept.URL(c.DataDir), "--backup-store=%s names another data directory than --data-dir=%s", c.BackupStore, c.DataDir)
	case c.AutoRecoverAfter > 0 && strings.HasPrefix(c.BackupStore, kept.Scheme+":"):
		return mistake("leave --auto-recover-after out, and recover by hand: etcdadm recover", "--auto-recover-after needs a shared store: without one two halves of a cluster could each recover")
	case c.RecordStore() == "":
		return mistake("the record of the cluster's founding is kept in it, with a static configuration too", "--backup-store is required")
	case c.DataDir == "" && c.VolumeProvider == "":
		return mistake("name a directory of this host's own disk, such as --data-dir=/var/lib/etcdadm", "--data-dir is required")
	case c.DataDir != "" && !filepath.IsAbs(c.DataDir):
		return mistake("a daemon outlives the directory that it was started in", "--data-dir=%s is not an absolute path", c.DataDir)
	case c.EtcdLog != EtcdLogFile && c.EtcdLog != EtcdLogStdout:
		return mistake("file keeps etcd's log in logs/etcd.log of the data directory, stdout copies it to standard output too", "--etcd-log=%s: want file or stdout", c.EtcdLog)
	case c.OnSigterm != SigtermStop && c.OnSigterm != SigtermLeave:
		return mistake("stop ends etcd with the daemon, leave lets it run on for the next daemon", "--on-sigterm=%s: want stop or leave", c.OnSigterm)
	case c.Upkeep.DefragThreshold < 0 || c.Upkeep.DefragThreshold > 99:
		return mistake("such as --defrag-threshold=50, or 0 for never", "--defrag-threshold=%d is no share of a file in percent", c.Upkeep.DefragThreshold)
	case c.Upkeep.HashInterval < 0:
		return mistake("such as --hashkv-interval=6h, or 0 for never", "--hashkv-interval=%s is negative", c.Upkeep.HashInterval)
	case c.DeadAfter < 0:
		return mistake("such as --dead-after=2m", "--dead-after=%s is negative", c.DeadAfter)
	}
	if _, err := pki.ParseKeyAlgorithm(c.KeyAlgorithm); err != nil {
		return &Error{Problem: "--key-algorithm", Err: err, Advice: "leave it out, and etcd's cipher suites decide"}
	}
	for name, port := range map[string]int{"--grpc-port": c.GRPCPort, "--etcd-manager-metrics-port": c.MetricsPort} {
		if port < 0 || port > 65535 || port == 0 && name == "--grpc-port" {
			return mistake("a port is a number from 1 to 65535", "%s=%d is no port", name, port)
		}
	}
	if ip := net.ParseIP(c.EtcdAddress); ip == nil {
		return mistake("it is the address that etcd listens on, such as 0.0.0.0", "--etcd-address=%s is no IP address", c.EtcdAddress)
	}
	if c.Address == "" || strings.ContainsAny(c.Address, " /") {
		return mistake("give this host's own IP address or name", "--address=%q is no address", c.Address)
	}
	if err := c.validateDiscovery(); err != nil {
		return err
	}
	if err := validateBackups(c.Backups); err != nil {
		return err
	}
	return c.validateURLs()
}

func validateBackups(c backupstore.Choices) error {
	if _, err := c.Packing(); err != nil {
		return &Error{Problem: "how backups are packed", Err: err, Advice: "--backup-compression is gzip, zstd or none; --backup-recipient a public key of age, which begins with age1"}
	}
	if c.KeepLast < 0 {
		return mistake("such as --backup-keep-last=10", "--backup-keep-last=%d is negative", c.KeepLast)
	}
	return nil
}

func (c *Config) validateDiscovery() error {
	const advice = "host:port, file:///directory or dns://name"
	for _, text := range c.Discovery {
		u, err := url.Parse(text)
		switch {
		case err == nil && u.Scheme == "file":
			if u.Host != "" || !filepath.IsAbs(u.Path) {
				return mistake("such as file:///var/lib/etcd-seeds", "--discovery=%s names no absolute directory", text)
			}
		case err == nil && u.Scheme == "dns":
			if u.Host == "" {
				return mistake("such as dns://etcd.example.com", "--discovery=%s names no host", text)
			}
		default:
			if _, err := discovery.ParseStatic([]string{text}, c.GRPCPort); err != nil {
				return &Error{Problem: "--discovery", Err: err, Advice: advice}
			}
		}
	}
	return nil
}

func (c *Config) validateURLs() error {
	seen := map[string]string{}
	for _, set := range []struct {
		flag string
		urls []string
	}{{"--peer-urls", c.PeerURLs}, {"--client-urls", c.ClientURLs}, {"--quarantine-client-urls", c.QuarantineURLs}} {
		if len(set.urls) == 0 {
			return mistake("such as https://__address__:2380; leave the flag out for the default", "%s is empty", set.flag)
		}
		for _, raw := range set.urls {
			u, err := url.Parse(raw)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" {
				return mistake("such as https://__address__:2380", "%s: %q is no URL of a listener", set.flag, raw)
			}
			if p, err := strconv.Atoi(u.Port()); err != nil || p < 1 || p > 65535 {
				return mistake("such as https://__address__:2380", "%s: %q has no port", set.flag, raw)
			}
			if other, taken := seen[u.Host]; taken {
				return mistake("peers, clients and quarantined clients each need a port of their own", "%s and %s both name %s", other, set.flag, u.Host)
			}
			seen[u.Host] = set.flag
		}
	}
	return nil
}

// Endpoint is where the daemon's own port is reached.
func (c *Config) Endpoint() string { return net.JoinHostPort(c.Address, strconv.Itoa(c.GRPCPort)) }

// pollEvery is how often other daemons are looked for and told where this one is: not
// more often than is of use, which costs a store, and as by default where it is not said.
func (c *Config) pollEvery() time.Duration {
	if c.DiscoveryPollInterval <= 0 {
		return Default().DiscoveryPollInterval
	}
	return max(c.DiscoveryPollInterval, announceLeast)
}

// intervals are how often the manager does things, which the kind of the store decides: a Kubernetes cluster has an API server for
// thousands of ours, and its etcd keeps each write.
func (c *Config) intervals() manager.Intervals {
	i := manager.Intervals{Discovery: c.pollEvery()}
	if open.InKubernetes(c.RecordStore()) {
		i.Status, i.RecordCalm = 10*time.Second, time.Minute
	}
	return i
}

// AuthoritiesDir holds the three authorities.
func (c *Config) AuthoritiesDir() string { return cmp.Or(c.LeavesDir, c.PKIDir) }

// HostName is the host's name in URLs: its ID with the DNS suffix.
func (c *Config) HostName(id cluster.HostID) string { return string(id) + c.DNSSuffix }

// URLs are the member's URLs of this host, with __address__ and __name__
// filled in, and without TLS when etcd runs insecure.
func (c *Config) URLs(id cluster.HostID) cluster.URLs {
	fill := func(in []string) []string {
		out := make([]string, 0, len(in))
		for _, u := range in {
			u = strings.ReplaceAll(u, "__address__", bracket(c.Address))
			u = strings.ReplaceAll(u, "__name__", c.HostName(id))
			u = strings.TrimSuffix(u, "/")
			if c.EtcdInsecure {
				u = "http" + strings.TrimPrefix(strings.TrimPrefix(u, "https"), "http")
			}
			out = append(out, u)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return cluster.URLs{Peer: fill(c.PeerURLs), Client: fill(c.ClientURLs), Quarantine: fill(c.QuarantineURLs)}
}

// bracket puts an IPv6 address into the brackets that a URL wants.
func bracket(address string) string {
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		return "[" + address + "]"
	}
	return address
}

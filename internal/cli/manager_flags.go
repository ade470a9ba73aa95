package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/daemon"
)

// anything is a flag that takes any value, or none, and does nothing.
type anything struct{}

func (anything) String() string   { return "" }
func (anything) Set(string) error { return nil }
func (anything) IsBoolFlag() bool { return true }

// ManagerFlags defines etcd-manager's flags over a configuration.
func ManagerFlags(fs *flag.FlagSet, c *daemon.Config) {
	list := func(p *[]string, name, usage string) { fs.Var(&listFlag{values: p}, name, usage) }
	fs.StringVar(&c.Address, "address", c.Address, "this host's own address")
	fs.Func("backup-interval", "how often to take a backup; 0: no periodic backups (default 15m)", durationInto(&c.BackupInterval))
	fs.Func("backup-drill-interval", "how often the newest backup is restored into an etcd that is thrown away and compared, on one host; 0: never (default 0)", durationInto(&c.DrillInterval))
	fs.StringVar(&c.Backups.Compression, "backup-compression", c.Backups.Compression, "how backups are packed: gzip, zstd or none; etcd-manager reads only gzip (default gzip)")
	list(&c.Backups.Recipients, "backup-recipient", "public key of age that backups are encrypted to; may be repeated. etcd-manager cannot read them then")
	fs.IntVar(&c.Backups.KeepLast, "backup-keep-last", c.Backups.KeepLast, "keep the newest so many backups, however old")
	fs.StringVar(&c.Backups.IdentityFile, "backup-identity-file", c.Backups.IdentityFile, "file with the secret keys of encrypted backups, needed on one host while such a one is restored or tried out; it may be put there just then")
	fs.StringVar(&c.BackupStore, "backup-store", c.BackupStore, "URL of the store that holds backups and the cluster's spec")
	fs.StringVar(&c.ControlStore, "control-store", c.ControlStore, "URL of another store that holds the cluster's spec, queue and record, such as kubernetes://NAMESPACE/CLUSTER; then --backup-store holds backups only, and may be left out")
	list(&c.ClientURLs, "client-urls", "where clients reach the member")
	list(&c.QuarantineURLs, "quarantine-client-urls", "where clients reach the member in quarantine")
	list(&c.PeerURLs, "peer-urls", "where other members reach the member")
	fs.StringVar(&c.ClusterName, "cluster-name", c.ClusterName, "name of the cluster")
	fs.BoolFunc("containerized", "the host's root is mounted at /rootfs", func(s string) error {
		c.Root = ""
		if s == "true" || s == "1" || s == "t" {
			c.Root = "/rootfs"
		}
		return nil
	})
	fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "directory of this host's state and etcd's data")
	fs.Func("discovery-poll-interval", "how often other daemons are looked for (default 60s)", durationInto(&c.DiscoveryPollInterval))
	fs.StringVar(&c.DNSSuffix, "dns-suffix", c.DNSSuffix, "suffix of host names; turns on the managed block in the hosts file")
	fs.StringVar(&c.EnvFile, "env-file", c.EnvFile, "file of KEY=VALUE lines, taken as environment; etcdadm auto takes its flags from it too")
	fs.StringVar(&c.EtcdAddress, "etcd-address", c.EtcdAddress, "address that etcd's listeners bind to")
	fs.BoolVar(&c.EtcdInsecure, "etcd-insecure", c.EtcdInsecure, "no TLS for etcd")
	fs.BoolVar(&c.Insecure, "insecure", c.Insecure, "no TLS between daemons")
	fs.IntVar(&c.MetricsPort, "etcd-manager-metrics-port", c.MetricsPort, "port of metrics, health and status; 0 is off")
	fs.StringVar(&c.MetricsAddress, "metrics-address", c.MetricsAddress, "address that the port of metrics, health and status is on; default: --address")
	fs.IntVar(&c.GRPCPort, "grpc-port", c.GRPCPort, "port on which daemons talk to each other")
	fs.StringVar(&c.ListenMetricsURLs, "listen-metrics-urls", c.ListenMetricsURLs, "passed to etcd")
	fs.StringVar(&c.NetworkCIDR, "network-cidr", c.NetworkCIDR, "network of the hosts, for openstack")
	fs.StringVar(&c.PKIDir, "pki-dir", c.PKIDir, "directory of the three certificate authorities")
	fs.StringVar(&c.LeavesDir, "leaves-dir", c.LeavesDir, "directory of this host's certificates and of the three authorities without their keys, which somebody else renews; in place of --pki-dir")
	fs.StringVar(&c.KeyAlgorithm, "key-algorithm", c.KeyAlgorithm, "kind of the keys that are made for etcd: ecdsa, rsa, or auto, which is rsa where etcd's cipher suites are for RSA keys only, and else ecdsa (default auto)")
	fs.StringVar(&c.StaticConfig, "static-config", c.StaticConfig, "JSON that names the hosts and the version, in place of discovery and spec")
	fs.StringVar(&c.VolumeProvider, "volume-provider", c.VolumeProvider, "where the data volume comes from: external")
	list(&c.VolumeTags, "volume-tag", "tag of the data volume; may be repeated")
	fs.StringVar(&c.VolumeNameTag, "volume-name-tag", c.VolumeNameTag, "tag that holds the volume's name")

	list(&c.ReleaseDirs, "release-dir", "directories that hold etcd releases; also $ETCDADM_RELEASES")
	list(&c.Discovery, "discovery", "further daemons: host:port, file:///directory, dns://name")
	fs.Func("on-sigterm", "what SIGTERM does to etcd: stop or leave (default stop)", func(s string) error {
		c.OnSigterm = daemon.SigtermAction(s)
		return nil
	})
	fs.Func("auto-recover-after", "recover from the furthest survivor automatically once the quorum has been lost for this long, giving up unreachable hosts; writes that only they had may be lost. 0: never (default 0)", durationInto(&c.AutoRecoverAfter))
	fs.Func("dead-after", "how long a member may be silent before it is replaced (default 2m)", durationInto(&c.DeadAfter))
	fs.Func("prune-after", "keep a removed member's data at least this long before it is removed automatically, which also needs every voter up and a newer proven backup. 0: until a person removes it (default 1d)", durationInto(&c.PruneAfter))
	fs.IntVar(&c.Upkeep.DefragThreshold, "defrag-threshold", c.Upkeep.DefragThreshold, "defragment a member when this percentage of its database file, and at least 32 MiB, is free; one member at a time, with all voters up. The member serves nothing meanwhile (seconds to a minute per gigabyte). 0: only to cure NOSPACE")
	fs.Func("hashkv-interval", "how often the keys of the voters are compared; a member whose keys are not those of the majority is replaced. Each member in turn applies no writes meanwhile (about a second a gigabyte). 0: only when etcd says that they differ (default 6h)", durationInto(&c.Upkeep.HashInterval))
	fs.BoolFunc("auto-compact-on-nospace", "compact old revisions when etcd's database is full: first those older than 5 min, then all; watchers that lag must list again. Keys are never deleted. false: leave it to a person (default true)", func(s string) error {
		on, err := strconv.ParseBool(s)
		c.Upkeep.KeepHistory = !on
		return err
	})
	fs.StringVar(&c.EtcdLog, "etcd-log", c.EtcdLog, "file: etcd's log is logs/etcd.log in the data directory; stdout: its lines go to the daemon's standard output as well")
	fs.StringVar(&c.LogFormat, "log-format", c.LogFormat, "text or json")
	fs.Func("host-id", "this host's ID; the default is kept in the data directory", func(s string) error {
		c.HostID = cluster.HostID(s)
		return nil
	})
	fs.StringVar(&c.EtcdUser, "etcd-user", c.EtcdUser, "user with the root role, when etcd's authentication is on and no certificate says who the daemon is")
	fs.StringVar(&c.EtcdPasswordFile, "etcd-password-file", c.EtcdPasswordFile, "file with that user's password")
	fs.StringVar(&c.HostsFile, "hosts-file", c.HostsFile, "the hosts file that --dns-suffix manages a block in")
	fs.IntVar(&c.LogLevel, "v", c.LogLevel, "how much is logged; 8 and more is for debugging")
	ignoreKlog(fs)
}

// ParseManager reads etcd-manager's command line and, for what that does not say, an environment of NAME=VALUE. The
// warnings are for the log.
func ParseManager(args, env []string) (daemon.Config, []string, error) {
	c := daemon.Default()
	fs := flag.NewFlagSet("etcd-manager", flag.ContinueOnError)
	ManagerFlags(fs, &c)
	words, warnings, err := parseGoFlags(fs, args, false)
	if err != nil {
		return c, nil, flagsRefused(err)
	}
	for _, w := range words {
		warnings = append(warnings, "the word "+w+" is ignored: etcd-manager takes flags only")
	}
	said, err := flagsFromEnvironment(fs, env)
	if err != nil {
		return c, nil, err
	}
	warnings = append(warnings, said...)
	if c.Root == "/rootfs" && c.HostsFile == "/etc/hosts" {
		c.HostsFile = filepath.Join(c.Root, "etc/hosts")
	}
	if dirs := os.Getenv("ETCDADM_RELEASES"); dirs != "" {
		c.ReleaseDirs = append(c.ReleaseDirs, filepath.SplitList(dirs)...)
	}
	return c, warnings, c.Validate()
}

package daemon

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/duration"
)

// common are the choices that ought to be the same on every host, sorted by flag. The
// public keys that backups are encrypted to are no secrets.
func (c *Config) common(compression backup.Compression, policy backup.Policy) []cluster.HostSetting {
	recipients := slices.Compact(slices.Sorted(slices.Values(c.Backups.Recipients)))
	every := func(name string, d time.Duration) cluster.HostSetting {
		return cluster.HostSetting{Flag: name, Value: duration.Format(d)}
	}
	out := []cluster.HostSetting{
		{Flag: "--backup-compression", Value: string(compression)},
		{Flag: "--backup-recipient", Value: strings.Join(recipients, " ")},
		{Flag: "--backup-keep-last", Value: strconv.Itoa(policy.Last)},
		every("$"+backupstore.EnvHourly, policy.Hourly),
		every("$"+backupstore.EnvDaily, policy.Daily),
		every("--backup-interval", c.BackupInterval),
		every("--backup-drill-interval", c.DrillInterval),
		every("--dead-after", cmp.Or(c.DeadAfter, cluster.DefaultDeadAfter)), // where the spec has none
		every("--auto-recover-after", c.AutoRecoverAfter),
		every("--prune-after", c.PruneAfter),
		{Flag: "--defrag-threshold", Value: strconv.Itoa(c.Upkeep.DefragThreshold)},
		every("--hashkv-interval", c.Upkeep.HashInterval),
		{Flag: "--auto-compact-on-nospace", Value: strconv.FormatBool(!c.Upkeep.KeepHistory)},
	}
	slices.SortFunc(out, func(a, b cluster.HostSetting) int { return strings.Compare(a.Flag, b.Flag) })
	return out
}

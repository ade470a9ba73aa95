package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
)

// What two hosts mean alike is one value, in whatever way it was said, and what they
// do not is another.
func TestCommonSettings(t *testing.T) {
	of := func(change func(c *Config)) []cluster.HostSetting {
		c := Default()
		change(&c)
		packing, err := c.Backups.Packing()
		if err != nil && len(c.Backups.Recipients) == 0 {
			t.Fatal(err)
		}
		policy, err := c.Backups.Policy(func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		if packing.Compression == "" {
			packing.Compression = backup.Gzip
		}
		return c.common(packing.Compression, policy)
	}
	plain := of(func(*Config) {})
	if !slices.IsSortedFunc(plain, func(a, b cluster.HostSetting) int { return strings.Compare(a.Flag, b.Flag) }) {
		t.Errorf("%+v is not sorted by flag", plain)
	}
	if same := of(func(c *Config) { c.Backups.Compression = "gzip" }); !slices.Equal(plain, same) {
		t.Errorf("gzip said and not said: %+v, %+v", plain, same)
	}
	if same := of(func(c *Config) { c.DeadAfter = cluster.DefaultDeadAfter }); !slices.Equal(plain, same) {
		t.Errorf("the default of --dead-after said and not said: %+v, %+v", plain, same)
	}
	one := of(func(c *Config) { c.Backups.Recipients = []string{"age1b", "age1a"} })
	if other := of(func(c *Config) { c.Backups.Recipients = []string{"age1a", "age1b", "age1a"} }); !slices.Equal(one, other) {
		t.Errorf("the order of recipients: %+v, %+v", one, other)
	}
	for flag, change := range map[string]func(c *Config){
		"--backup-recipient":        func(c *Config) { c.Backups.Recipients = []string{"age1a"} },
		"--backup-compression":      func(c *Config) { c.Backups.Compression = "zstd" },
		"--backup-keep-last":        func(c *Config) { c.Backups.KeepLast = 3 },
		"--backup-interval":         func(c *Config) { c.BackupInterval = time.Hour },
		"--backup-drill-interval":   func(c *Config) { c.DrillInterval = time.Hour },
		"--dead-after":              func(c *Config) { c.DeadAfter = time.Hour },
		"--auto-recover-after":      func(c *Config) { c.AutoRecoverAfter = time.Hour },
		"--prune-after":             func(c *Config) { c.PruneAfter = 0 },
		"--defrag-threshold":        func(c *Config) { c.Upkeep.DefragThreshold = 10 },
		"--hashkv-interval":         func(c *Config) { c.Upkeep.HashInterval = 0 },
		"--auto-compact-on-nospace": func(c *Config) { c.Upkeep.KeepHistory = true },
	} {
		var names []string
		for i, s := range of(change) {
			if s != plain[i] {
				names = append(names, s.Flag)
			}
		}
		if !slices.Equal(names, []string{flag}) {
			t.Errorf("%s: differ %q", flag, names)
		}
	}
}

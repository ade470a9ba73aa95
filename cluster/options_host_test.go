package cluster_test

import (
	"slices"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/etcdargs"
)

// What hosts refuse, the table refuses; and what the table takes, hosts spell
// in the same way.
func TestHostsAgreeWithTheTable(t *testing.T) {
	for _, text := range []string{"3.4.25", "3.5.35", "3.6.16", "3.7.3"} {
		v := cluster.MustVersion(text)
		for _, o := range cluster.Options() {
			if etcdargs.CheckOption(o.Name) != nil && o.Settable() {
				t.Errorf("hosts refuse --%s and the table takes it", o.Name)
			}
			given := map[string]string{o.Name: sample(o)}
			if o.Name == "auto-compaction-retention" {
				given[o.Name] = "1h"
			}
			if o.Name == "election-timeout" {
				given[o.Name] = "2000"
			}
			settings, err := cluster.CheckOptions(given, v)
			if err != nil {
				continue // hosts may be asked by older specs, which nobody checked
			}
			var args []string
			for _, s := range settings {
				args = append(args, s.String())
			}
			if spelled, left := etcdargs.Options(given, v); left != nil || !slices.Equal(spelled, args) {
				t.Errorf("etcd %s: the table has %q, hosts have %q, %v", v, args, spelled, left)
			}
		}
	}
}

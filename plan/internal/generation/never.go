package generation

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
)

// Never ends a command that nothing could ever come of: a host that nobody has
// heard of, a directory that its host has not set aside, a release that does not
// read the data. Those behind it in the queue would wait for it for ever.
func Never(v *step.View, c *cluster.Command) *decision.Decision {
	reject := func(format string, args ...any) *decision.Decision {
		return decision.EndCommand(c.Name, decision.CommandRejected, fmt.Sprintf(format, args...))
	}
	if c.Kind == cluster.CommandRestore && c.Found != nil {
		wrote := c.Found.Version
		if _, known := wrote.Line(); !known && !wrote.IsZero() && !runs(v, wrote) {
			return reject("etcd %s is said to have written backup %s, and neither this release of etcdadm nor a host in sight knows etcd %d.%d: look at its meta; etcdadm backup list prints the others", wrote, c.Backup, wrote.Major, wrote.Minor)
		}
		if c.Version.IsZero() {
			return nil
		}
		if why := RestoresTo(c.Found.Version, c.Version); why != "" {
			return reject("%s", why)
		}
		return nil
	}
	if c.Kind != cluster.CommandRecover && c.Kind != cluster.CommandUndo {
		return nil
	}
	h, inSight := v.Obs.Host(c.Host)
	switch {
	case !inSight && !sight.HeardOf(v.Sight, c.Host):
		return reject("no host %s is known; etcdadm status lists those that are", c.Host)
	case slices.Contains(c.Lost, c.Host):
		return reject("host %s cannot be lost and be what the cluster goes on from", c.Host)
	case inSight && c.Kind == cluster.CommandUndo && v.Intent != nil && h.UnderFence && sight.Problem(h) == "" &&
		!slices.ContainsFunc(h.SetAside, func(a cluster.SetAside) bool { return a.Name() == c.Dir }):
		return reject("host %s has set nothing aside as %s; etcdadm status lists what it has", c.Host, c.Dir)
	}
	return nil
}

// runs: a host in sight has a release of that line.
func runs(v *step.View, line cluster.Version) bool {
	return slices.ContainsFunc(v.Obs.Hosts, func(h cluster.HostReport) bool { return slices.ContainsFunc(h.Releases, line.SameMinor) })
}

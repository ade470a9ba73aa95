package path

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// start is the lowest and the highest version that runs, or why there is no
// way from there at all.
func (c Change) start() (lo, hi cluster.Version, problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if err := c.Target.Runnable(); err != nil {
		say("%v", err)
	}
	if len(c.Servers) == 0 || slices.ContainsFunc(c.Servers, cluster.Version.IsZero) {
		say("it is not known what every member runs")
		return lo, hi, problems
	}
	lo, hi = slices.MinFunc(c.Servers, cluster.Version.Compare), slices.MaxFunc(c.Servers, cluster.Version.Compare)
	for _, v := range slices.Compact([]cluster.Version{lo, hi}) {
		if _, known := v.Line(); !known {
			say("members run etcd %s, of which no rules are known", v)
		}
	}
	if len(problems) > 0 {
		return lo, hi, problems
	}
	if below, _ := hi.Below(); !lo.SameMinor(hi) && (below.Release(lo.Patch) != lo || lo.Major != hi.Major) {
		say("members run etcd %s and %s, which are further apart than two neighbouring minor versions; etcd does not say what becomes of such a cluster", lo, hi)
	}
	if !c.Cluster.IsZero() && c.Cluster.Compare(lo) > 0 && !c.Cluster.SameMinor(lo) {
		say("the cluster version is %d.%d and a member runs %s; such a member does not start again", c.Cluster.Major, c.Cluster.Minor, lo)
	}
	if !c.Downgrade.IsZero() && !lo.SameMinor(hi) && !hi.Has(cluster.DowngradeAPI) {
		say("etcd says that a downgrade to %d.%d is under way, which %s does not carry out; etcdctl downgrade cancel ends it", c.Downgrade.Major, c.Downgrade.Minor, hi)
	}
	if below, _ := hi.Below(); !c.Downgrade.IsZero() && !c.Downgrade.SameMinor(lo) && (below.Major != c.Downgrade.Major || below.Minor != c.Downgrade.Minor) {
		say("etcd says that a downgrade to %d.%d is under way, and the members run %s to %s", c.Downgrade.Major, c.Downgrade.Minor, lo, hi)
	}
	return lo, hi, problems
}

// Everywhere are the releases that every host has, newest first.
func (c Change) Everywhere() []cluster.Version {
	var all []cluster.Version
	for _, h := range c.Hosts {
		for _, v := range h.Releases {
			if len(c.Lacking(v).Hosts) == 0 {
				all = append(all, v)
			}
		}
	}
	return newestFirst(all)
}

func (c Change) Lacking(v cluster.Version) MissingRelease {
	m := MissingRelease{Version: v}
	for _, h := range c.Hosts {
		if !slices.Contains(h.Releases, v) {
			m.Hosts = append(m.Hosts, h.Host)
		}
	}
	slices.Sort(m.Hosts)
	m.Hosts = slices.Compact(m.Hosts)
	return m
}

// nodes are the versions that the way may touch. A downgrade that is under way
// is finished to a release of its line that is there.
func (c Change) nodes(lo cluster.Version, everywhere []cluster.Version) []cluster.Version {
	nodes := []cluster.Version{lo}
	for _, v := range everywhere {
		if v.Runnable() == nil {
			nodes = append(nodes, v)
		}
	}
	return newestFirst(nodes)
}

func newestFirst(v []cluster.Version) []cluster.Version {
	slices.SortFunc(v, func(a, b cluster.Version) int { return b.Compare(a) })
	return slices.Compact(v)
}

// shortest is Dijkstra's algorithm over versions, the target among them. Of
// two ways that are equal but for it, one over what is installed is taken. Where
// there is none at all it is empty.
func (c Change) shortest(from cluster.Version, nodes, installed []cluster.Version) []Hop {
	nodes = newestFirst(append(slices.Clone(nodes), c.Target))
	const unreached = 1 << 30
	cost, done, by := make([]int, len(nodes)), make([]bool, len(nodes)), make([]int, len(nodes))
	for i, v := range nodes {
		if cost[i] = unreached; v == from {
			cost[i] = 0
		}
	}
	for {
		at := -1
		for i := range nodes {
			if !done[i] && cost[i] < unreached && (at < 0 || cost[i] < cost[at]) {
				at = i
			}
		}
		if at < 0 || nodes[at] == c.Target {
			break
		}
		done[at] = true
		for i := range nodes {
			_, price := c.edge(from, nodes[at], nodes[i])
			if !slices.Contains(installed, nodes[i]) {
				price += min(price, priceMissing)
			}
			if price > 0 && cost[at]+price < cost[i] {
				cost[i], by[i] = cost[at]+price, at
			}
		}
	}
	var hops []Hop
	i := slices.Index(nodes, c.Target)
	if cost[i] == unreached {
		return nil
	}
	for ; nodes[i] != from; i = by[i] {
		kind, _ := c.edge(from, nodes[by[i]], nodes[i])
		hops = append(hops, c.hop(kind, nodes[by[i]], nodes[i]))
	}
	slices.Reverse(hops)
	return hops
}

// Prices of hops: any number of those before is better than one of the next.
const (
	priceMissing  = 1 // on top of another
	priceRoll     = 50
	priceOutage   = 5_000
	priceLossOfV2 = 500_000
	priceLoss     = 5_000_000
)

// edge says how to get from one version to another in one hop, and its price;
// 0 is not at all. start is the version that runs now, to which alone belongs
// what was observed of the data.
func (c Change) edge(start, from, to cluster.Version) (HopKind, int) {
	if from == to || to.Runnable() != nil {
		return "", 0
	}
	// A release does not start on data that a later line has marked.
	marked := from == start && !c.Storage.IsZero() && !c.Storage.SameMinor(to) && c.Storage.Compare(to) > 0 && to.Compare(from) > 0
	rolls := cluster.Rolls(from, to) == nil && !marked
	for _, need := range cluster.RollNeeds(from, to) {
		if need == cluster.NeedNoAuth && c.Auth == Yes || need == cluster.NeedNoV2Data && c.V2Data == Yes {
			rolls = false
		}
	}
	switch {
	case rolls && from.SameMinor(to):
		return RollPatch, priceRoll
	case rolls && to.Compare(from) > 0:
		return RollUp, priceRoll
	case rolls:
		return RollDown, priceRoll
	case from.SameMinor(to):
		return "", 0
	case !to.ReadsSnapshot(from):
		return Logical, priceLoss
	case c.V2Data == Yes:
		return Physical, priceLossOfV2
	}
	return Physical, priceOutage
}

// resume begins the way where the members are: some of them may have gone a
// part of it already, and a downgrade may be enabled.
func (c Change) resume(lo, hi cluster.Version, hops []Hop) []Hop {
	quarantine := len(hops) > 0 && !hops[0].Kind.Rolls()
	switch {
	case quarantine:
		return hops
	case !c.Downgrade.IsZero() && c.Downgrade.SameMinor(lo) && !hi.SameMinor(lo):
		if len(hops) > 0 && hops[0].Kind == RollUp {
			return slices.Insert(hops, 0, c.hop(CancelDowngrade, lo, lo))
		}
		return c.finish(RollDown, lo, hi, hops)
	case !c.Downgrade.IsZero() && !c.Downgrade.SameMinor(lo): // enabled, no member changed yet
		if len(hops) > 0 && hops[0].Kind == RollDown {
			return hops
		}
		return slices.Insert(hops, 0, c.hop(CancelDowngrade, hi, hi))
	case !hi.SameMinor(lo):
		if len(hops) > 0 && hops[0].Kind == RollUp {
			return hops
		}
		return c.finish(RollBack, lo, hi, hops)
	case hi != lo && len(hops) == 0:
		hops = []Hop{c.hop(RollPatch, hi, lo)}
	}
	if !c.Downgrade.IsZero() && len(hops) > 0 {
		hops[0].Checks = append(hops[0].Checks, "etcd's downgrade has ended, which takes a few seconds after its last member was restarted")
	}
	return hops
}

// finish takes the members that are above to the line of the others first.
func (c Change) finish(kind HopKind, lo, hi cluster.Version, hops []Hop) []Hop {
	if len(hops) > 0 && hops[0].Kind == RollPatch { // one hop instead of two
		hops[0] = c.hop(kind, hi, hops[0].To)
		return hops
	}
	return slices.Insert(hops, 0, c.hop(kind, hi, lo))
}

package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/path"
)

// TestPaths runs the scenarios of ways from one version to another. Regenerate
// with -rewrite and read the difference. Each block is one change:
//
//	path from=V to=V [servers=(V,…)] [installed=(V,…)] [a=(V,…)] [b=(V,…)] …
//
// Members run from, or servers where they differ. Three hosts a, b and c have
// what is installed, and from; a, b and c say it of one host. Host b has the variables.
func TestPaths(t *testing.T) {
	datadriven.RunTest(t, "testdata/paths/paths.txt", func(t *testing.T, d *datadriven.TestData) string {
		return path.FindPath(changeOf(t, d)).String()
	})
}

func changeOf(t *testing.T, d *datadriven.TestData) path.Change {
	t.Helper()
	versions := map[string][]cluster.Version{}
	var c path.Change
	var variables []string // of host b
	for _, arg := range d.CmdArgs {
		for i, v := range arg.Vals {
			switch arg.Key {
			case "variable":
				variables = append(variables, strings.Replace(v, ":", "=", 1))
			case "option":
				name, value, _ := strings.Cut(v, ":")
				c.Options = map[string]string{name: value}
			case "auth":
				c.Auth = path.Answer(v)
			case "v2data":
				c.V2Data = path.Answer(v)
			case "unportable":
				c.Unportable = path.Answer(v)
			case "accept-loss":
				c.AcceptLoss = v == "yes"
			default:
				var parsed cluster.Version
				if v != "unknown" {
					var err error
					if parsed, err = cluster.ParseVersion(v); err != nil {
						d.Fatalf(t, "%s: value %d: %v", arg.Key, i, err)
					}
				}
				versions[arg.Key] = append(versions[arg.Key], parsed)
			}
		}
	}
	one := func(key string) (v cluster.Version) {
		if len(versions[key]) == 1 {
			v = versions[key][0]
		}
		return v
	}
	c.Target, c.Cluster, c.Storage, c.Downgrade = one("to"), one("cluster"), one("storage"), one("downgrade")
	if c.Servers = versions["servers"]; len(c.Servers) == 0 {
		c.Servers = []cluster.Version{one("from"), one("from"), one("from")}
	}
	for _, host := range []string{"a", "b", "c"} {
		has := append(slices.Clone(versions["installed"]), c.Servers...)
		if own, given := versions[host]; given {
			has = own
		}
		c.Hosts = append(c.Hosts, path.HostReleases{Host: cluster.HostID(host), Releases: has})
	}
	c.Hosts[1].LeftVariables = cluster.LeftVariables(variables)
	return c
}

// anyRelease is near the edges of the rules.
var anyRelease = rapid.Custom(func(t *rapid.T) cluster.Version {
	return cluster.MustVersion(rapid.SampledFrom([]string{
		"2.3.8", "3.0.17", "3.1.20", "3.2.24", "3.3.27", "3.4.25", "3.5.1", "3.5.20", "3.5.26", "3.5.35", "3.6.0", "3.6.10", "3.6.11", "3.6.16", "3.7.0", "3.7.3",
	}).Draw(t, "version"))
})

func anyChange(t *rapid.T) path.Change {
	c := path.Change{Target: anyRelease.Draw(t, "target")}
	from := anyRelease.Draw(t, "from")
	c.Servers = []cluster.Version{from, from, from}
	answer := rapid.SampledFrom([]path.Answer{"", path.Yes, path.No})
	c.Auth, c.V2Data = answer.Draw(t, "auth"), answer.Draw(t, "v2 data")
	c.Unportable = answer.Draw(t, "unportable")
	c.AcceptLoss = rapid.Bool().Draw(t, "accept loss")
	if rapid.Bool().Draw(t, "mixed") {
		c.Servers[1] = anyRelease.Draw(t, "other server")
	}
	if rapid.Bool().Draw(t, "downgrade") {
		c.Downgrade = anyRelease.Draw(t, "downgrade to")
	}
	installed := rapid.SliceOfN(anyRelease, 0, 6).Draw(t, "installed")
	for _, h := range []cluster.HostID{"a", "b", "c"} {
		has := append(slices.Clone(installed), c.Servers...)
		if rapid.Bool().Draw(t, "lacks one") && len(has) > 1 {
			has = has[1:]
		}
		c.Hosts = append(c.Hosts, path.HostReleases{Host: h, Releases: has})
	}
	return c
}

// legal says again, in other words than the tables, what etcd takes.
func legal(h path.Hop, c path.Change) bool {
	if v := h.To; v.Major == 3 && v.Minor == 5 && v.Patch < 3 {
		return h.Kind == path.CancelDowngrade
	}
	step := h.To.Minor - h.From.Minor
	three := h.From.Major == 3 && h.To.Major == 3
	switch h.Kind {
	case path.RollPatch:
		return h.From.Major == h.To.Major && step == 0 && h.From != h.To
	case path.RollBack:
		return three && (step == -1 || step == 0)
	case path.RollDown:
		return three && step == -1 && h.From.Minor >= 6
	case path.RollUp:
		floor := map[int]int{6: 26, 7: 11}[h.To.Minor]
		stopped := h.To.Minor == 5 && c.Auth == path.Yes || h.To.Minor == 6 && c.V2Data == path.Yes
		return three && step == 1 && h.From.Patch >= floor && !stopped
	case path.Physical:
		return three && step != 0 && h.From.Minor >= 4 && h.To.Minor >= 4
	case path.Logical:
		return (h.From.Major != h.To.Major || step != 0)
	case path.CancelDowngrade:
		return h.From == h.To && !c.Downgrade.IsZero()
	}
	return false
}

func TestPathsAreLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyChange(t)
		p := path.FindPath(c)
		mixed := slices.ContainsFunc(c.Servers, func(v cluster.Version) bool { return v != c.Servers[0] })
		if len(p.Hops) == 0 {
			if p.Ready() && (mixed || c.Servers[0] != c.Target) {
				t.Fatalf("no way and no reason: %+v", c)
			}
			return
		}
		for i, h := range p.Hops {
			if !legal(h, c) {
				t.Fatalf("etcd does not take %s %s → %s in\n%s", h.Kind, h.From, h.To, p)
			}
			if i > 0 && p.Hops[i-1].To != h.From && p.Hops[i-1].Kind != path.CancelDowngrade {
				t.Fatalf("hop %d does not begin where the one before ends:\n%s", i+1, p)
			}
			if len(c.Lacking(h.To).Hosts) > 0 && p.Ready() {
				t.Fatalf("%s is not everywhere, and the way is ready:\n%s", h.To, p)
			}
			if h.Why == "" || h.Clients == "" || h.Backup == "" && h.Kind != path.CancelDowngrade {
				t.Fatalf("hop %d says too little:\n%s", i+1, p)
			}
		}
		if last := p.Hops[len(p.Hops)-1]; last.To != c.Target && last.Kind != path.CancelDowngrade {
			t.Fatalf("it ends at %s, not at %s:\n%s", last.To, c.Target, p)
		}
		if p.Ready() && len(p.Loss(c.Unportable)) > 0 && !c.AcceptLoss {
			t.Fatalf("losses that nobody accepted:\n%s", p)
		}
	})
}

// priceOf a hop, by what a user gives up.
func priceOf(h path.Hop, c path.Change) int {
	switch {
	case h.Kind.Rolls():
		return 1
	case h.Kind == path.Physical && c.V2Data != path.Yes:
		return 100
	case h.Kind == path.Physical:
		return 10_000
	}
	return 100_000
}

// No other way over the same releases is better: all of them are tried.
func TestPathsAreMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyChange(t)
		c.Servers, c.Downgrade = c.Servers[:1], cluster.Version{}
		p := path.FindPath(c)
		nodes := append(c.Everywhere(), c.Servers[0])
		if len(p.Hops) == 0 || !slices.Contains(nodes, c.Target) {
			return
		}
		got := 0
		for _, h := range p.Hops {
			got += priceOf(h, c)
		}
		best := got
		var walk func(at cluster.Version, seen []cluster.Version, price int)
		walk = func(at cluster.Version, seen []cluster.Version, price int) {
			if at == c.Target {
				best = min(best, price)
			}
			if price >= best || len(seen) > 5 {
				return
			}
			for _, to := range nodes {
				for _, kind := range []path.HopKind{path.RollPatch, path.RollUp, path.RollDown, path.Physical, path.Logical} {
					h := path.Hop{Kind: kind, From: at, To: to}
					if legal(h, c) && !slices.Contains(seen, to) {
						walk(to, append(slices.Clone(seen), to), price+priceOf(h, c))
					}
				}
			}
		}
		walk(c.Servers[0], c.Servers, 0)
		if best < got {
			t.Fatalf("there is a way for %d, and this is for %d:\n%s", best, got, p)
		}
	})
}

// The order in which hosts, releases and members are told does not matter, and
// nothing that was given is changed.
func TestPathsDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyChange(t)
		first := path.FindPath(c).String()
		slices.Reverse(c.Hosts)
		slices.Reverse(c.Servers)
		for i := range c.Hosts {
			c.Hosts[i].Releases = slices.Clone(c.Hosts[i].Releases)
			slices.Reverse(c.Hosts[i].Releases)
		}
		if second := path.FindPath(c).String(); second != first {
			t.Fatalf("%s\nand in another order\n%s", first, second)
		}
	})
}

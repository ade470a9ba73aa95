package path

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/words"
)

// Change is a change of version that is wished for, and what bears on the way
// there. It is data from an observation; [FindPath] is pure.
type Change struct {
	Target cluster.Version `json:"target"`
	// Servers is what each member runs. A zero version is one that could not
	// be seen.
	Servers []cluster.Version `json:"servers"`
	// Cluster is the cluster version that etcd tells; only its line counts.
	// Zero: not known.
	Cluster cluster.Version `json:"cluster,omitzero"`
	// Storage is the highest storage version of any member; zero: not known, or
	// the members tell none.
	Storage cluster.Version `json:"storage,omitzero"`
	// Downgrade is the target of a downgrade that is enabled in etcd; zero: none.
	Downgrade cluster.Version `json:"downgrade,omitzero"`
	// Hosts are those that carry members, and what they can run.
	Hosts []HostReleases `json:"hosts"`
	// Auth: authentication is on. V2Data: there are keys of version 2 of the
	// API. Unknown leaves them to be looked at before the hop that they matter to.
	Auth   Answer `json:"auth,omitempty"`
	V2Data Answer `json:"v2Data,omitempty"`
	// Unportable: a look at the keys found some that cannot be carried over by
	// a Logical hop. Unknown leaves that look for later.
	Unportable Answer `json:"unportable,omitempty"`
	// Size is that of the largest database, in bytes; zero: not known.
	Size int64 `json:"size,omitempty"`
	// Options are those of the spec, which every release on the way is run with
	// as far as it has them.
	Options map[string]string `json:"options,omitempty"`
	// AcceptLoss: a person has read what cannot be carried over.
	AcceptLoss bool `json:"acceptLoss,omitempty"`
}

// HostReleases is what one host can run.
type HostReleases struct {
	Host     cluster.HostID    `json:"host"`
	Releases []cluster.Version `json:"releases"`
	// LeftVariables are those of its environment that a release line is run without.
	LeftVariables []cluster.LeftVariable `json:"leftVariables,omitempty"`
}

// Answer is yes, no, or not known.
type Answer string

// Answers. The zero value is not known.
const (
	Yes Answer = "yes"
	No  Answer = "no"
)

// HopKind says how members get from one version to the next.
type HopKind string

// Kinds of hops.
const (
	RollPatch       HopKind = "roll-patch"       // within a release line
	RollUp          HopKind = "roll-up"          // to the line above
	RollDown        HopKind = "roll-down"        // to the line below, by etcd's Downgrade API
	RollBack        HopKind = "roll-back"        // undoes a RollUp that never finished
	CancelDowngrade HopKind = "cancel-downgrade" // of a RollDown that never finished
	Physical        HopKind = "quarantine-physical"
	Logical         HopKind = "quarantine-logical"
)

// Rolls reports whether members change one at a time, without an outage.
func (k HopKind) Rolls() bool { return k != Physical && k != Logical }

// Hop is one part of the way: afterwards all members run To.
type Hop struct {
	Kind HopKind         `json:"kind"`
	From cluster.Version `json:"from"`
	To   cluster.Version `json:"to"`
	Why  string          `json:"why"`
	// Checks are what has to hold before the first member changes, beyond what
	// every restart needs (SAFETY.md, rule 1).
	Checks []string `json:"checks,omitempty"`
	// Backup says which backup is taken; Clients what clients notice.
	Backup  string `json:"backup,omitempty"`
	Clients string `json:"clients"`
	// Outage is about how long clients are not served; zero: they are, or it is a
	// Logical hop, of which only its rehearsal tells.
	Outage time.Duration `json:"outage,omitempty"`
	// Loss is what is given up for certain; MayLose what is given up if there
	// is any of it. Words, not sentences.
	Loss    []string `json:"loss,omitempty"`
	MayLose []string `json:"mayLose,omitempty"`
}

// MissingRelease is a release that the way needs and hosts have not got.
type MissingRelease struct {
	Version cluster.Version  `json:"version"`
	Hosts   []cluster.HostID `json:"hosts"`
}

func (m MissingRelease) String() string {
	has := "have"
	if len(m.Hosts) == 1 {
		has = "has"
	}
	return fmt.Sprintf("%s %s no etcd %s", words.AnyHosts(m.Hosts), has, m.Version)
}

// Path is the way from what runs to what is wanted. It may be taken when there
// are no Problems and nothing is Missing; a way that lacks releases is shown all
// the same.
type Path struct {
	Hops     []Hop            `json:"hops"`
	Missing  []MissingRelease `json:"missing,omitempty"`
	Problems []string         `json:"problems,omitempty"` // sentences
	Warnings []string         `json:"warnings,omitempty"` // sentences
}

// Ready reports whether the way can be taken as it is.
func (p Path) Ready() bool { return len(p.Problems) == 0 && len(p.Missing) == 0 }

// FindPath finds the way: of all that etcd allows the one that gives up least,
// that is without loss before one with, without an outage before one with, and
// then the one with the fewest hops, over the newest patches that are there.
func FindPath(c Change) Path {
	lo, hi, problems := c.start()
	if len(problems) > 0 {
		return Path{Problems: problems}
	}
	everywhere := c.Everywhere()
	nodes := c.nodes(lo, everywhere)
	var p Path
	var hops []Hop
	if !slices.Contains(nodes, c.Target) { // it has to wait for a release anyway
		hops = c.ideal(lo, nodes, everywhere)
	} else if hops = c.shortest(lo, nodes, everywhere); slices.ContainsFunc(hops, Hop.outage) {
		p.Warnings = c.wouldRoll(c.ideal(lo, nodes, everywhere), everywhere)
	}
	if len(hops) == 0 && lo != c.Target {
		return Path{Problems: []string{fmt.Sprintf("there is no way from etcd %s to %s: data in the format of etcd %s is started by neither", lo, c.Target, words.VersionWords(c.Storage))}}
	}
	p.Hops = c.resume(lo, hi, hops)
	for _, h := range p.Hops {
		if m := c.Lacking(h.To); len(m.Hosts) > 0 {
			p.Missing = append(p.Missing, m)
		}
	}
	p.Warnings = append(append(p.Warnings, c.leftOut(p.Hops)...), c.leftVariables(p.Hops)...)
	p.Warnings = append(p.Warnings, c.Target.Warnings()...)
	if loss := p.Loss(c.Unportable); len(loss) > 0 && !c.AcceptLoss {
		p.Problems = append(p.Problems, "not everything can be carried over ("+strings.Join(loss, "; ")+"); --accept-loss takes that")
	}
	return p
}

// ideal is the way that there were if the hosts had every release.
func (c Change) ideal(lo cluster.Version, nodes, everywhere []cluster.Version) []Hop {
	all := slices.Clone(nodes)
	for _, l := range cluster.Lines() {
		all = append(all, l.Release(l.Newest))
	}
	return c.shortest(lo, all, everywhere)
}

func (h Hop) outage() bool { return !h.Kind.Rolls() }

// leftOut are the options that a release on the way is run without, and the one
// before it was not.
func (c Change) leftOut(hops []Hop) (warnings []string) {
	if len(c.Options) == 0 {
		return nil
	}
	for _, h := range hops {
		had := optionsWithout(c.Options, h.From)
		for _, why := range optionsWithout(c.Options, h.To) {
			if !slices.Contains(had, why) {
				warnings = append(warnings, fmt.Sprintf("members of etcd %s are run without an option of the spec: %s", h.To, why))
			}
		}
	}
	return warnings
}

// leftVariables are the variables that hosts run a release on the way without, and the
// one before it not.
func (c Change) leftVariables(hops []Hop) (warnings []string) {
	for _, h := range hops {
		had := c.variablesWithout(h.From)
		lost := c.variablesWithout(h.To)
		for _, what := range slices.Sorted(maps.Keys(lost)) {
			if had[what] == nil {
				warnings = append(warnings, fmt.Sprintf("%s: etcd %s is run without the variable %s", words.AnyHosts(lost[what]), h.To, what))
			}
		}
	}
	return warnings
}

// variablesWithout are the hosts that run a release without a variable, by its name with
// the reason.
func (c Change) variablesWithout(v cluster.Version) map[string][]cluster.HostID {
	out := map[string][]cluster.HostID{}
	for _, h := range c.Hosts {
		for _, left := range h.LeftVariables {
			if left.Line == fmt.Sprintf("%d.%d", v.Major, v.Minor) {
				what := left.Name + " (" + left.Why + ")"
				out[what] = append(out[what], h.Host)
			}
		}
	}
	return out
}

func optionsWithout(options map[string]string, v cluster.Version) (why []string) {
	_, left := cluster.FitOptions(options, v)
	for _, err := range left {
		why = append(why, strings.TrimPrefix(err.Error(), cluster.ErrOption.Error()+": "))
	}
	return why
}

// Loss is what a person has to accept.
func (p Path) Loss(unportable Answer) []string {
	var all []string
	for _, h := range p.Hops {
		all = append(all, h.Loss...)
		if unportable == Yes {
			all = append(all, h.MayLose...)
		}
	}
	return all
}

// wouldRoll says which releases would spare an outage or a loss, where the better way
// has none.
func (c Change) wouldRoll(better []Hop, everywhere []cluster.Version) []string {
	if slices.ContainsFunc(better, Hop.outage) {
		return nil
	}
	var lack []string
	for _, h := range better {
		if !slices.Contains(everywhere, h.To) {
			lack = append(lack, c.Lacking(h.To).String())
		}
	}
	return []string{"members could change one at a time, without an outage, but " + strings.Join(lack, ", and ")}
}

// Barred says whether the way cannot be begun as it is: something on it is missing, or
// etcd does not go it.
func (p Path) Barred() bool { return len(p.Missing)+len(p.Problems) > 0 }

// String is the way as a person reads it, one line a hop and what belongs to it.
func (p Path) String() string {
	var b strings.Builder
	if len(p.Hops) == 0 && !p.Barred() {
		b.WriteString("nothing to do\n")
	}
	for i, h := range p.Hops {
		fmt.Fprintf(&b, "%d. %s %s → %s: %s\n", i+1, h.Kind, h.From, h.To, h.Why)
		for _, check := range h.Checks {
			fmt.Fprintf(&b, "   check: %s\n", check)
		}
		fmt.Fprintf(&b, "   backup: %s\n   clients: %s\n", cmp.Or(h.Backup, "none"), h.Clients)
		switch {
		case h.Outage > 0:
			fmt.Fprintf(&b, "   outage: about %s\n", h.Outage)
		case h.Kind == Logical:
			fmt.Fprintf(&b, "   outage: as long as every key is copied, at most %s; how long that takes is seen when it is tried out\n", MostOutage)
		}
		for _, loss := range h.Loss {
			fmt.Fprintf(&b, "   lost: %s\n", loss)
		}
		for _, loss := range h.MayLose {
			fmt.Fprintf(&b, "   lost if there are any: %s\n", loss)
		}
	}
	for _, m := range p.Missing {
		fmt.Fprintf(&b, "missing: %s\n", m)
	}
	for _, s := range p.Problems {
		fmt.Fprintf(&b, "problem: %s\n", s)
	}
	for _, s := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", s)
	}
	return b.String()
}

const (
	// haltMost is how long a halt may last in all. It grows with the data, and
	// whoever consented was told about how long it takes.
	MostOutage = 15 * time.Minute
)

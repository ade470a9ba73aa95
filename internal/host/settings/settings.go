// Package settings is what a member of this host would be started with now.
package settings

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/etcdargs"
	"etcdadm.io/internal/host/record"
)

// Settings are what a member started now would get, and what it was seen not to start with
// since this daemon started.
type Settings struct {
	host  cluster.HostID
	urls  cluster.URLs // where a member of this host listens, as it advertises them
	given func(cluster.Version) []string
	// variables are those of the daemon's environment for etcd, and left those
	// that a release line is run without.
	variables []string
	left      []cluster.LeftVariable

	memory *record.Memory
	keeper *record.Keeper

	mu      sync.Mutex
	options *record.Ran     // what the member did not start with; nil: nothing
	release cluster.Version // what a leader gave up on; zero: nothing
}

// New makes the settings of a host. given lists the etcd arguments beyond ours for a
// release; nil: those of the spec. variables are the daemon's for etcd.
func New(
	host cluster.HostID, urls cluster.URLs, given func(cluster.Version) []string, variables []string, memory *record.Memory, keeper *record.Keeper,
) *Settings {
	return &Settings{
		host: host, urls: urls, given: given, variables: variables, left: cluster.LeftVariables(variables),
		memory: memory, keeper: keeper,
	}
}

// LeftVariables are the variables of this host that a release line is run without.
func (g *Settings) LeftVariables() []cluster.LeftVariable { return slices.Clone(g.left) }

// VariableProblems says which variables of this host the launch of its member is without.
func (g *Settings) VariableProblems(l record.Launch) []cluster.Problem {
	var why []string
	for _, v := range etcdargs.Left(l, g.variables) {
		why = append(why, v.Name+" ("+v.Why+")")
	}
	if len(why) == 0 {
		return nil
	}
	return []cluster.Problem{{
		Code:     "variables-left-out",
		Sentence: fmt.Sprintf("host %s runs etcd %s without variables of its environment: %s", g.host, l.Version, strings.Join(why, "; ")),
		Hint:     "remove them from the daemon's environment or env-file, or set what they were for with etcdadm config set",
	}}
}

// wanted are the arguments beyond ours that the spec asks for, and why some of
// what it asks for is not among them.
func (g *Settings) wanted(v cluster.Version) (args []string, left []error) {
	if g.given != nil {
		return slices.Sorted(slices.Values(g.given(v))), nil
	}
	options, told := g.memory.AskedOptions()
	if !told || v.IsZero() {
		return nil, nil
	}
	return etcdargs.Options(options, v)
}

// Options are the arguments beyond ours that a member started now would get:
// what the spec asks for, but nothing that it was seen not to start with. That
// is the second value then.
func (g *Settings) Options(v cluster.Version) (args, failed []string) {
	args, _ = g.wanted(v)
	l := g.keeper.Now().Launch
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.options
	if f == nil || l == nil || f.Version != v || l.Version != v || !slices.Equal(f.Options, args) {
		return args, nil
	}
	return slices.Clone(l.Options), args
}

// LeftOut is the problem that a member runs without some of what the spec asks for.
func (g *Settings) LeftOut(v cluster.Version) (p cluster.Problem, is bool) {
	_, left := g.wanted(v)
	if len(left) == 0 {
		return cluster.Problem{}, false
	}
	var why []string
	for _, err := range left {
		why = append(why, strings.TrimPrefix(err.Error(), cluster.ErrOption.Error()+": "))
	}
	return cluster.Problem{
		Code:     "options-left-out",
		Sentence: fmt.Sprintf("host %[2]s runs etcd %[1]s without some options of the spec: %[3]s", v, g.host, strings.Join(why, "; ")),
		Hint:     "run etcdadm config unset OPTION, or upgrade to an etcd version that has it",
	}, true
}

// NextURLs are those that a member that listened at was is started with now. TLS
// for its peers is turned on on a leader's word only, because the others have to be
// able to follow, and never off.
func (g *Settings) NextURLs(was cluster.URLs, told bool) cluster.URLs {
	next := record.CopyURLs(g.urls)
	if !told && (cluster.TurnsTLSOn(was.Peer, next.Peer) || cluster.TurnsTLSOn(next.Peer, was.Peer)) {
		next.Peer = slices.Clone(was.Peer)
	}
	return next
}

// FailOptions remembers options that the member does not start with: they are not tried here
// again before the spec asks for others.
func (g *Settings) FailOptions(r record.Ran) {
	g.mu.Lock()
	g.options = &r
	g.mu.Unlock()
}

// FailRelease remembers a release that a leader gave up on.
func (g *Settings) FailRelease(v cluster.Version) {
	g.mu.Lock()
	g.release = v
	g.mu.Unlock()
}

// FailedRelease is what a leader gave up on; zero: nothing.
func (g *Settings) FailedRelease() cluster.Version {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.release
}

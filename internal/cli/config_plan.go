package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// releasesOf are the releases that the options have to fit: the wanted one, and
// those that the members run.
func releasesOf(spec *cluster.Spec, o *cluster.Observation) []cluster.Version {
	out := []cluster.Version{spec.EtcdVersion}
	if o != nil {
		roster, _ := o.Roster()
		for _, s := range roster.Seats {
			if v := s.Release(); !v.IsZero() {
				out = append(out, v)
			}
		}
	}
	slices.SortFunc(out, cluster.Version.Compare)
	return slices.Compact(out)
}

// refuseOptions refuses what is wrong after a change and was not before, so that
// what somebody else wrote keeps nobody from mending the rest.
func refuseOptions(asked optionChange, now, after map[string]string, releases []cluster.Version) error {
	var refusals []string
	for _, v := range releases {
		_, before := cluster.CheckOptions(now, v)
		_, err := cluster.CheckOptions(after, v)
		old := sentences(before)
		for _, s := range sentences(err) {
			if !slices.Contains(old, s) && !slices.Contains(refusals, s) {
				refusals = append(refusals, s)
			}
		}
	}
	if len(refusals) == 0 {
		return nil
	}
	advice := "etcdadm config list prints what can be set"
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(asked.set)) {
		if _, found := cluster.FindOption(name); !found {
			unknown = append(unknown, "ETCD_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		}
	}
	if len(unknown) > 0 {
		advice += "; what it does not know can be given to each daemon, in its environment or its --env-file, as " + strings.Join(unknown, ", ")
	}
	return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("nothing was changed: %s", strings.Join(refusals, "; ")), Advice: advice}
}

// sentences are the refusals in an error of cluster.CheckOptions.
func sentences(err error) []string {
	var out []string
	if err != nil {
		for s := range strings.SplitSeq(err.Error(), "\n") {
			out = append(out, strings.TrimPrefix(s, cluster.ErrOption.Error()+": "))
		}
	}
	return out
}

// optionPlan is what a change of options does.
type optionPlan struct {
	Changes []changedOption `json:"changes"`
	// Restarts are the hosts whose members are restarted, in the order of today's
	// roles; Unseen: nobody was asked who that is.
	Restarts []cluster.HostID `json:"restarts,omitempty"`
	Unseen   bool             `json:"unseen,omitempty"`
	// Leader is the one of them that hands raft's leadership over before.
	Leader cluster.HostID `json:"leader,omitempty"`
}

type changedOption struct {
	Name string `json:"name"`
	From string `json:"from,omitempty"` // empty: etcd's default
	To   string `json:"to,omitempty"`
	// Mixed is what clients notice while members differ.
	Mixed string `json:"mixed,omitempty"`
}

func planOptions(now, after map[string]string, o *cluster.Observation) optionPlan {
	p := optionPlan{Changes: []changedOption{}, Unseen: o == nil}
	names := slices.Sorted(maps.Keys(now))
	names = append(names, slices.Sorted(maps.Keys(after))...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if now[name] != after[name] {
			option, _ := cluster.FindOption(name)
			p.Changes = append(p.Changes, changedOption{Name: name, From: now[name], To: after[name], Mixed: mixed(option, after[name]+","+now[name])})
		}
	}
	if o == nil {
		return p
	}
	roster, _ := o.Roster()
	for _, leads := range []bool{false, true} {
		for _, s := range roster.Seats {
			if s.RaftLeader != leads || s.Host == nil || s.Host.Local.State != cluster.MemberStarted || !differs(s.Host, after) {
				continue
			}
			p.Restarts = append(p.Restarts, s.HostID)
			if leads && len(roster.Voters()) > 1 {
				p.Leader = s.HostID
			}
		}
	}
	return p
}

// mixed is what clients notice of an option, or of the feature gates in a value.
func mixed(o cluster.Option, values string) string {
	if o.Mixed != "" {
		return o.Mixed
	}
	for pair := range strings.SplitSeq(values, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if o.Gate != "" {
			name = o.Gate
		}
		if g, found := cluster.FindGate(name); found && g.Mixed != "" {
			return g.Mixed
		}
	}
	return ""
}

// differs reports whether the host's member runs with other options than these.
func differs(h *cluster.HostReport, options map[string]string) bool {
	settings, _ := cluster.FitOptions(options, h.Local.Version)
	var args []string
	for _, s := range settings {
		args = append(args, s.String())
	}
	slices.Sort(args)
	return !slices.Equal(args, h.Local.Options)
}

func (p optionPlan) table(w io.Writer) {
	word := func(s string) string {
		if s == "" {
			return "etcd's default"
		}
		return s
	}
	if len(p.Changes) == 0 {
		fmt.Fprintln(w, "no change: already set")
	}
	for _, c := range p.Changes {
		fmt.Fprintf(w, "%s: %s (was %s)\n", c.Name, word(c.To), word(c.From))
		if c.Mixed != "" {
			fmt.Fprintf(w, "  while members differ: %s\n", c.Mixed)
		}
	}
	if p.Unseen {
		fmt.Fprintln(w, "the daemons restart the members one after the other")
		return
	}
	for i, h := range p.Restarts {
		note := ""
		if h == p.Leader {
			note = ", after it handed raft's leadership over"
		}
		fmt.Fprintf(w, "restart %d of %d: the member of %s%s\n", i+1, len(p.Restarts), h, note)
	}
}

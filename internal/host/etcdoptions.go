package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// CheckOption refuses an etcd flag that the host sets by itself or that must
// not be set (SAFETY.md, rule 24), in a sentence. The name is without dashes. A
// flag that the table of options does not know is none of these.
func CheckOption(name string) error {
	if o, found := cluster.FindOption(name); found && !o.Settable() {
		return fmt.Errorf("%w: --%s cannot be set: %s", ErrArgs, o.Name, o.Refused)
	}
	if strings.HasPrefix(name, "discovery") {
		return fmt.Errorf("%w: --%s cannot be set: etcd's discovery is not used", ErrArgs, name)
	}
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || name[0] == '-' {
		return fmt.Errorf("%w: %q is not the name of a flag", ErrArgs, name)
	}
	return nil
}

// optionName is the flag's name in an argument.
func optionName(arg string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	return name
}

// OptionArgs turns the options of a spec into arguments for a release, sorted,
// spelled as cluster.FitOptions has it. What the release has not got, and what
// must not be set, is left out, since a member runs better without an option
// than not at all; the errors say what and why.
func OptionArgs(options map[string]string, v cluster.Version) (args []string, left []error) {
	settings, left := cluster.FitOptions(options, v)
	for _, s := range settings {
		args = append(args, s.String())
	}
	slices.Sort(args)
	return args, left
}

// wanted are the arguments beyond ours that the spec asks for, and why some of
// what it asks for is not among them.
func (h *Host) wanted(v cluster.Version) (args []string, left []error) {
	if h.o.Options != nil {
		return slices.Sorted(slices.Values(h.o.Options(v))), nil
	}
	options, told := h.askedOptions()
	if !told || v.IsZero() {
		return nil, nil
	}
	return OptionArgs(options, v)
}

// options are the arguments beyond ours that a member started now would get:
// what the spec asks for, but nothing that it was seen not to start with. That
// is the second value then.
func (h *Host) options(v cluster.Version) (args, failed []string) {
	args, _ = h.wanted(v)
	h.mu.Lock()
	defer h.mu.Unlock()
	f, l := h.failedOptions, h.state.Launch
	if f == nil || l == nil || f.Version != v || l.Version != v || !slices.Equal(f.Options, args) {
		return args, nil
	}
	return slices.Clone(l.Options), args
}

// leftOut is the problem that a member runs without some of what the spec asks for.
func (h *Host) leftOut(v cluster.Version) (p cluster.Problem, is bool) {
	_, left := h.wanted(v)
	if len(left) == 0 {
		return cluster.Problem{}, false
	}
	var why []string
	for _, err := range left {
		why = append(why, strings.TrimPrefix(err.Error(), cluster.ErrOption.Error()+": "))
	}
	return cluster.Problem{
		Code:     "options-left-out",
		Sentence: fmt.Sprintf("a member of etcd %s on host %s is run without some options of the spec: %s", v, h.o.ID, strings.Join(why, "; ")),
		Hint:     "etcdadm config unset OPTION, or ask for an etcd version that has it",
	}, true
}

// Ran are the options that a member ran with, as arguments of a release.
type Ran struct {
	Version cluster.Version `json:"version"`
	Options []string        `json:"options,omitempty"`
}

// keepBefore remembers what the member ran before it gets other options. It is
// there until the member has answered with the new ones; a second change before
// that leaves it as it is.
func (s *State) keepBefore(next Launch) {
	if now := s.Launch; s.Before == nil && now != nil && !slices.Equal(now.Options, next.Options) {
		s.Before = &Ran{Version: now.Version, Options: slices.Clone(now.Options)}
	}
}

// settleOptions drops the memory of the options before, once the process that
// has the new ones has answered. s and p are from before it was asked; an op that
// is under way may be putting another process in its place.
func (h *Host) settleOptions(s State, p cluster.Process) {
	if s.Before == nil || s.Launch == nil || h.busy() != nil || h.o.Process.Status().PID != p.PID {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	_ = h.save(ctx, func(now *State) { // done again at the next answer
		if now.Launch != nil && now.Launch.Nonce == s.Launch.Nonce {
			now.Before = nil
		}
	})
}

// optionsBefore gives a launch that does not start the options back that the
// member ran before, where they are of the same release; false: there are none.
func optionsBefore(s State, launch *Launch) bool {
	b := s.Before
	if b == nil || b.Version != launch.Version || slices.Equal(b.Options, launch.Options) {
		return false
	}
	launch.Options = slices.Clone(b.Options)
	return true
}

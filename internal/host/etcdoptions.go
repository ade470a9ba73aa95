package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/etcdargs"
	"etcdadm.io/internal/host/record"
)

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
	return etcdargs.Options(options, v)
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

// settleOptions drops the memory of the options before, once the process that
// has the new ones has answered. s and p are from before it was asked; an op that
// is under way may be putting another process in its place.
func (h *Host) settleOptions(s record.State, p cluster.Process) {
	if s.Before == nil || s.Launch == nil || h.busy() != nil || h.o.Process.Status().PID != p.PID {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	_ = h.save(ctx, func(now *record.State) { // done again at the next answer
		if now.Launch != nil && now.Launch.Nonce == s.Launch.Nonce {
			now.Before = nil
		}
	})
}

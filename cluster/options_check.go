package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrOption is in the chain of every error about an option of etcd.
var ErrOption = errors.New("refused etcd option")

// Setting is one argument of etcd, spelled for a release, with the value as
// etcd reads it. An option that became a feature gate is part of the one
// Setting "feature-gates".
type Setting struct {
	Flag  string // without dashes
	Value string
}

func (s Setting) String() string { return "--" + s.Flag + "=" + s.Value }

// CheckOptions turns the options of a spec into the settings of a release,
// sorted. Names may be written with or without "experimental-". It refuses, in
// a sentence each, what the table does not know, what a spec cannot set, what
// the release has not got, values out of bounds, and values that contradict
// each other as etcd's own Validate has it; all of it at once, so that a
// person need not ask again and again.
func CheckOptions(given map[string]string, v Version) ([]Setting, error) {
	settings, refusals := spellOptions(given, v)
	var errs []error
	for _, r := range refusals {
		errs = append(errs, r.err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return settings, nil
}

// FitOptions is CheckOptions for a member that is to run whatever the options
// say: what is refused is left out, and of feature gates only those that are.
// The errors say why, one for each.
func FitOptions(given map[string]string, v Version) (settings []Setting, left []error) {
	fit := maps.Clone(given)
	for _, written := range slices.Sorted(maps.Keys(fit)) {
		if o, _ := FindOption(written); o.Kind == KindGates && o.Plain.Has(v) {
			var pairs []string
			for pair := range strings.SplitSeq(fit[written], ",") {
				if _, err := parseGates(pair, v); err != nil {
					left = append(left, err)
					continue
				}
				pairs = append(pairs, pair)
			}
			if fit[written] = strings.Join(pairs, ","); len(pairs) == 0 {
				delete(fit, written)
			}
		}
	}
	for {
		settings, refusals := spellOptions(fit, v)
		if len(refusals) == 0 {
			return settings, left
		}
		for _, r := range refusals { // each takes out at least one option
			left = append(left, r.err)
			for _, name := range r.names {
				delete(fit, name)
			}
		}
	}
}

// refusal is why options are refused; the names are as they were written.
type refusal struct {
	names []string
	err   error
}

// spellOptions is what CheckOptions and FitOptions share. With refusals the
// settings are worth nothing.
func spellOptions(given map[string]string, v Version) ([]Setting, []refusal) {
	var settings []Setting
	var switches []string
	var refusals []refusal
	var gated []string                             // as written
	checked := make(map[string]string, len(given)) // by the option's name
	words := make(map[string]string, len(given))   // as written, by the option's name
	for _, written := range slices.Sorted(maps.Keys(given)) {
		o, value, err := checkOption(written, given[written], v)
		if _, twice := checked[o.Name]; twice && err == nil {
			err = refuse("--%s is given twice, with and without %q", o.Name, prefix)
		}
		if err != nil {
			refusals = append(refusals, refusal{[]string{written}, err})
			continue
		}
		checked[o.Name], words[o.Name] = value, written
		switch flag, _ := o.Flag(v); {
		case o.Kind == KindGates:
			switches, gated = append(switches, strings.Split(value, ",")...), append(gated, written)
		case flag == gatesFlag:
			switches, gated = append(switches, o.Gate+"="+value), append(gated, written)
		default:
			settings = append(settings, Setting{Flag: flag, Value: value})
		}
	}
	slices.Sort(switches)
	switches = slices.Compact(switches)
	for i := 1; i < len(switches); i++ {
		if a, _, _ := strings.Cut(switches[i-1], "="); strings.HasPrefix(switches[i], a+"=") {
			refusals = append(refusals, refusal{gated, refuse("the feature gate %s is both turned on and off", a)})
		}
	}
	if len(switches) > 0 {
		settings = append(settings, Setting{Flag: gatesFlag, Value: strings.Join(switches, ",")})
	}
	for _, r := range contradictions(checked, switches) {
		var names []string
		for _, name := range r.names {
			if w, is := words[name]; is {
				names = append(names, w)
			}
		}
		refusals = append(refusals, refusal{names, r.err})
	}
	slices.SortFunc(settings, func(a, b Setting) int { return cmp.Compare(a.Flag, b.Flag) })
	return settings, refusals
}

// checkOption is CheckOptions for one; the value is as etcd reads it.
func checkOption(written, value string, v Version) (Option, string, error) {
	o, found := FindOption(written)
	_, known := o.Flag(v)
	switch {
	case !found:
		return o, "", refuse("etcd has no --%s%s", written, meant(written))
	case !o.Settable():
		return o, "", refuse("--%s cannot be set: %s", o.Name, o.Refused)
	case !known:
		return o, "", refuse("etcd %s has no --%s; %s has it", v, o.Name, o.Lines())
	}
	read, err := o.Parse(value, v)
	return o, read, err
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrOption, fmt.Errorf(format, args...))
}

// Parse reads a value as a person writes it and gives it as etcd reads it: a
// size with a unit becomes bytes.
func (o Option) Parse(value string, v Version) (string, error) {
	wrong := func() error {
		return refuse("--%s=%s: it takes %s%s", o.Name, shown(value), o.Kind, o.bounds())
	}
	switch o.Kind {
	case KindSwitch:
		on, err := strconv.ParseBool(value)
		if err != nil {
			return "", wrong()
		}
		return strconv.FormatBool(on), nil
	case KindNumber, KindMillis:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < o.Min || n > o.Max {
			return "", wrong()
		}
		return strconv.FormatInt(n, 10), nil
	case KindBytes:
		n, err := parseBytes(value)
		if err != nil || n < o.Min || n > o.Max {
			return "", wrong()
		}
		return strconv.FormatInt(n, 10), nil
	case KindDuration:
		d, err := time.ParseDuration(value)
		if err != nil || int64(d) < o.Min {
			return "", wrong()
		}
		return d.String(), nil
	case KindChoice:
		if !slices.Contains(o.Choices, value) {
			return "", wrong()
		}
		return value, nil
	case KindGates:
		return parseGates(value, v)
	}
	if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", refuse("--%s: its value is empty or holds a line break", o.Name)
	}
	return value, nil
}

// bounds are the words behind "it takes a whole number".
func (o Option) bounds() string {
	switch {
	case o.Kind == KindChoice:
		return ": " + strings.Join(o.Choices, ", ")
	case o.Kind == KindDuration && o.Min > 1:
		return fmt.Sprintf(" of %s or more, such as 1m30s", time.Duration(o.Min))
	case o.Kind == KindDuration && o.Min > 0:
		return " above zero, such as 1m30s"
	case o.Kind == KindDuration:
		return ", such as 1m30s"
	case o.Kind == KindBytes:
		return fmt.Sprintf(" from %d to %d, such as 512MiB or 8GiB", o.Min, o.Max)
	case o.Max > 0:
		return fmt.Sprintf(" from %d to %d", o.Min, o.Max)
	}
	return ""
}

// shown is a value in an error: short, and without what could be a secret
// behind a line break.
func shown(value string) string {
	if len(value) > 40 {
		value = value[:40] + "…"
	}
	return strconv.Quote(value)
}

// units of sizes, longest first.
var units = []struct {
	name string
	size int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// parseBytes reads 8GiB, 512MB or 1048576.
func parseBytes(s string) (int64, error) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.ParseInt(s[:digits], 10, 64)
	if err != nil {
		return 0, err
	}
	for _, u := range units {
		if strings.TrimSpace(s[digits:]) == u.name {
			if n > math.MaxInt64/u.size {
				return 0, strconv.ErrRange
			}
			return n * u.size, nil
		}
	}
	return 0, strconv.ErrSyntax
}

func parseGates(value string, v Version) (string, error) {
	var out []string
	for pair := range strings.SplitSeq(value, ",") {
		name, on, ok := strings.Cut(strings.TrimSpace(pair), "=")
		b, err := strconv.ParseBool(on)
		g, found := FindGate(name)
		switch {
		case !ok || err != nil:
			return "", refuse("--%s=%s: it takes %s", gatesFlag, shown(value), KindGates)
		case !found:
			return "", refuse("etcd has no feature gate %s that may be set", shown(name))
		case !g.Lines.Has(v):
			return "", refuse("etcd %s has no feature gate %s", v, name)
		}
		out = append(out, name+"="+strconv.FormatBool(b))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ","), nil
}

// contradictions are the rules between options in etcd's Validate
// (embed/config.go), on values that are each in bounds. What is not given has
// etcd's default.
func contradictions(given map[string]string, gates []string) []refusal {
	var out []refusal
	no := func(format string, args []any, names ...string) {
		out = append(out, refusal{names, refuse(format, args...)})
	}
	beat, election := number(given["heartbeat-interval"], 100), number(given["election-timeout"], 1000)
	if 5*beat > election {
		no("an election-timeout of %d ms is less than five times the heartbeat-interval of %d ms", []any{election, beat}, "election-timeout", "heartbeat-interval")
	}
	if r, is := given["auto-compaction-retention"]; is {
		_, err := strconv.ParseUint(r, 10, 31)
		d, derr := time.ParseDuration(r)
		switch revision := given["auto-compaction-mode"] == "revision"; {
		case revision && err != nil:
			no("auto-compaction-retention=%s: by revision it takes a number of revisions", []any{shown(r)}, "auto-compaction-retention", "auto-compaction-mode")
		case err != nil && (derr != nil || d < 0):
			no("auto-compaction-retention=%s: it takes a duration such as 1h, or a number of hours", []any{shown(r)}, "auto-compaction-retention")
		}
	}
	if given["tls-min-version"] == "TLS1.3" {
		if given["tls-max-version"] == "TLS1.2" {
			no("tls-min-version is above tls-max-version", nil, "tls-min-version", "tls-max-version")
		}
		if given["cipher-suites"] != "" {
			no("cipher-suites cannot be chosen for TLS 1.3", nil, "cipher-suites")
		}
	}
	persist := slices.Contains(gates, "LeaseCheckpointPersist=true") || given["enable-lease-checkpoint-persist"] == "true"
	if persist && !slices.Contains(gates, "LeaseCheckpoint=true") && given["enable-lease-checkpoint"] != "true" {
		name := "enable-lease-checkpoint-persist"
		if given[name] != "true" {
			name = gatesFlag
		}
		no("enable-lease-checkpoint-persist needs enable-lease-checkpoint", nil, name)
	}
	return out
}

func number(s string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	return otherwise
}

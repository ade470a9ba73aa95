package cluster

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// VariableUse says what becomes of the variable of a flag (SAFETY.md, rule 24).
// etcd ends at its start where a flag and its variable both say something, so a
// variable is never passed beside the daemon's own flag.
type VariableUse int

// Uses of variables.
const (
	// VariablePassed reaches etcd, spelled for its release, unless the spec has the option.
	VariablePassed VariableUse = iota
	// VariableFirst takes the place of the daemon's flag, on which nothing relies.
	VariableFirst
	// VariableGiven names a flag that the daemon gives: the same value is dropped, another one refused.
	VariableGiven
	// VariableGivenWithTLS is VariableGiven where members have TLS, and VariablePassed elsewhere.
	VariableGivenWithTLS
	// VariableRefused would break a promise.
	VariableRefused
)

func (o Option) use(u VariableUse, same []string) Option {
	o.Variable, o.Same = u, same
	return o
}

func (o Option) never(same ...string) Option        { return o.use(VariableRefused, same) }
func (o Option) given(same ...string) Option        { return o.use(VariableGiven, same) }
func (o Option) givenWithTLS(same ...string) Option { return o.use(VariableGivenWithTLS, same) }
func (o Option) goesFirst() Option                  { return o.use(VariableFirst, nil) }

func (o Option) followedBy(name string) Option {
	o.Successor = name
	return o
}

func (o Option) vital() Option {
	o.Vital = true
	return o
}

func (o Option) notInQuarantine() Option {
	o.Closed = true
	return o
}

// of sets how the variable is read of an option that a spec cannot set.
func (o Option) of(kind OptionKind, choices ...string) Option {
	o.Kind, o.Choices = kind, choices
	if kind == KindNumber {
		o.Max = maxUint32
	}
	return o
}

const (
	variablePrefix = "ETCD_"
	variableGates  = "ETCD_FEATURE_GATES"
)

// VariableOf is the variable of a flag, by the rule of etcd's pkg/flags (FlagToEnv).
func VariableOf(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FindVariable returns the option that a variable sets, by the name that any release
// has for it. etcd knows a variable in capitals only.
func FindVariable(name string) (Option, bool) {
	flag, is := strings.CutPrefix(name, variablePrefix)
	if !is || name != strings.ToUpper(name) || strings.Contains(flag, "-") {
		return Option{}, false
	}
	flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-"))
	o, found := FindOption(flag)
	if !found || o.Name != flag && o.Prefixed == (Minors{}) {
		return Option{}, false
	}
	return o, true
}

// JudgeVariable says at a daemon's start what keeps a variable from etcd: refused is
// the reason as a clause, and drop reports that a member does what it says anyway.
// Whether the release has the flag is FitVariables' to see. FitVariables also leaves out
// a value that cannot be read, because a reading stricter than etcd's would keep every
// daemon of a cluster down. Exception: that of a vital setting is refused.
func (o Option) JudgeVariable(value string, tls bool) (refused string, drop bool) {
	read, unreadable := o.readVariable(value)
	same := unreadable == "" && slices.Contains(o.Same, read)
	switch {
	case o.Variable == VariableRefused && same:
		return "", true
	case o.Variable == VariableRefused:
		return o.Refused, false
	case o.daemonGives(tls) && same:
		return "", len(o.Same) == 1 // which of several values the daemon gives is known at the launch
	case o.daemonGives(tls):
		const shadowed = "%s; etcd ends at its start where a variable says what the daemon says by --%s"
		refused = fmt.Sprintf(shadowed, o.Refused, o.Name)
		if len(o.Same) > 0 {
			refused += ", so only " + strings.Join(o.Same, " or ") + " is taken"
		}
		return refused, false
	case o.Vital:
		return unreadable, false
	}
	return "", false
}

func (o Option) daemonGives(tls bool) bool {
	return o.Variable == VariableGiven || o.Variable == VariableGivenWithTLS && tls
}

// readVariable returns a value in a form that every release takes: a size with a unit
// becomes bytes, as for a spec. unreadable says what is expected instead. Bounds that
// etcd does not have are no reason, because the variable may have worked for years.
func (o Option) readVariable(value string) (read, unreadable string) {
	number := func(lowest, highest int64) bool {
		n, err := strconv.ParseInt(value, 0, 64) // as package flag reads it
		return err == nil && n >= lowest && n <= highest
	}
	ok := true
	switch o.Kind {
	case KindSwitch:
		on, err := strconv.ParseBool(value)
		value, ok = strconv.FormatBool(on), err == nil
	case KindNumber:
		ok = number(0, max(o.Max, maxUint32))
	case KindMillis:
		ok = number(o.Min, o.Max)
	case KindBytes:
		if !number(-maxInt64, maxInt64) {
			n, err := parseBytes(value)
			value, ok = strconv.FormatInt(n, 10), err == nil
		}
	case KindDuration:
		_, err := time.ParseDuration(value)
		ok = err == nil
	case KindChoice:
		if o.Name == "log-level" {
			value = logLevel(value)
		}
		ok = slices.Contains(o.Choices, value) || slices.Contains(freeChoices, o.Name) ||
			o.Name == "log-level" && slices.Contains([]string{"dpanic", "panic", "fatal"}, value)
	case KindGates:
		pairs := splitGates(value)
		ok = !slices.ContainsFunc(pairs, func(pair string) bool {
			name, on, _ := strings.Cut(pair, "=")
			_, err := strconv.ParseBool(strings.TrimSpace(on))
			return strings.TrimSpace(name) == "" || err != nil
		})
		value = strings.Join(pairs, ",")
	case KindURLs:
		ok = !slices.ContainsFunc(strings.Split(value, ","), func(u string) bool { return !listensAt(u) })
	}
	if !ok {
		const sentence = "its value cannot be read: expected %s%s"
		return "", fmt.Sprintf(sentence, o.Kind, o.bounds())
	}
	return value, ""
}

// logLevel spells a level as 3.4 does, which takes small letters only and no "warning".
// Source: ConvertToZapLevel of etcd 3.4 to 3.7; UnmarshalText of zap 1.17 and 1.27.1.
func logLevel(value string) string {
	if value = strings.ToLower(value); value == "warning" {
		return "warn"
	}
	return value
}

// splitGates returns the parts of a list of feature gates. It skips empty ones, as
// featuregate.Set of etcd does.
func splitGates(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(pair string) bool { return strings.TrimSpace(pair) == "" })
}

// freeChoices take any value: etcd goes by its default at one that it does not know.
var freeChoices = []string{"metrics", "backend-bbolt-freelist-type"}

// listensAt reports whether etcd takes a URL to listen at (types.NewURLs and
// checkBindURLs of etcd).
func listensAt(raw string) bool {
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return false
	case u.Scheme == "unix" || u.Scheme == "unixs":
		return true
	case u.Scheme != "http" && u.Scheme != "https" || u.Path != "":
		return false
	}
	_, notIP := netip.ParseAddr(u.Hostname())
	return u.Port() != "" && (u.Hostname() == "localhost" || notIP == nil)
}

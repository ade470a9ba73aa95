package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// LeftVariable is a variable that a release is run without.
type LeftVariable struct {
	Name string `json:"name"`
	Line string `json:"line"` // such as 3.7
	Why  string `json:"why"`  // a clause; never the value, which may be a secret
}

// FittedVariables is what a release is started with.
type FittedVariables struct {
	Environ []string // NAME=VALUE, sorted
	Args    []string // as given, but for those that a variable goes before
	Left    []LeftVariable
}

// FitVariables spells variables for a release as CheckOptions spells the options of
// a spec, beside the arguments that the daemon gives. No name in Environ is that of an
// argument (SAFETY.md, rule 24). A variable that the release has no flag for is left
// out with its reason; one that etcd never had a flag for stays, and etcd warns of it.
// environ passed JudgeVariable.
func FitVariables(environ, args []string, v Version) FittedVariables {
	f := fitting{
		release: v, table: tabled(v), values: map[string]string{}, from: map[string]string{},
		gates: map[string]string{}, gateFrom: map[string]string{}, out: FittedVariables{Args: slices.Clone(args)},
	}
	environ = slices.Clone(environ)
	slices.SortStableFunc(environ, func(a, b string) int { return cmp.Compare(plainness(a), plainness(b)) })
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if o, found := FindVariable(name); !found || f.table.IsZero() {
			f.out.Environ = append(f.out.Environ, pair)
		} else if value != "" {
			f.take(o, name, value)
		}
	}
	f.dropContradictions()
	f.spell()
	f.spellGates()
	f.out.Environ = slices.DeleteFunc(f.out.Environ, func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.ContainsFunc(f.out.Args, func(arg string) bool { return VariableOf(flagOf(arg)) == name })
	})
	slices.Sort(f.out.Environ)
	slices.SortFunc(f.out.Left, func(a, b LeftVariable) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Why, b.Why))
	})
	return f.out
}

// LeftVariables are the variables that releases of any line are run without, whatever
// else they are started with.
func LeftVariables(environ []string) (left []LeftVariable) {
	for _, l := range Lines() {
		left = append(left, FitVariables(environ, nil, l.Release(l.Newest)).Left...)
	}
	return left
}

// tabled is the release by whose flags variables are spelled: of lines after the
// table's end, its last one; zero: one from before its begin, which gets them as they are.
func tabled(v Version) Version {
	switch {
	case v.Major != 3 || v.Minor < oldestMinor:
		return Version{}
	case v.Minor > newestMinor:
		return Version{3, newestMinor, 0}
	}
	return v
}

// plainness has a setting that two variables give decided by the one without
// EXPERIMENTAL_, as etcd does, and gates by ETCD_FEATURE_GATES: the last counts.
func plainness(pair string) int {
	name, _, _ := strings.Cut(pair, "=")
	switch {
	case name == variableGates:
		return 2
	case strings.HasPrefix(name, VariableOf(prefix)):
		return 0
	}
	return 1
}

func flagOf(arg string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name
}

const leasesPersist = "LeaseCheckpointPersist"

// fitting is FitVariables under way. values and from are by the option's name: what
// is passed on, and the variable that said it.
type fitting struct {
	release, table Version
	values, from   map[string]string
	// gates are true or false by gate, and gateFrom the variables that said it.
	gates, gateFrom map[string]string
	out             FittedVariables
}

func (f *fitting) leave(name, format string, args ...any) {
	line := fmt.Sprintf("%d.%d", f.release.Major, f.release.Minor)
	f.out.Left = append(f.out.Left, LeftVariable{Name: name, Line: line, Why: fmt.Sprintf(format, args...)})
}

// arg is the argument that sets an option, by any of its spellings.
func (f *fitting) arg(o Option) (value string, given bool) {
	for _, a := range f.out.Args {
		if flag := flagOf(a); flag == o.Name || flag == prefix+o.Name && o.Prefixed != (Minors{}) {
			_, value, _ = strings.Cut(a, "=")
			return value, true
		}
	}
	return "", false
}

// take decides about one variable, but for what others say.
func (f *fitting) take(o Option, name, value string) {
	read, unreadable := o.readVariable(value)
	if unreadable != "" {
		f.leave(name, "%s", unreadable)
		return
	}
	if next, found := FindOption(o.Successor); found {
		if _, known := next.Flag(f.table); known {
			if o.Kind == KindSwitch && read != "true" {
				return // it is the default
			} else if o.Kind == KindSwitch {
				read = "debug"
			}
			o = next
		}
	}
	flag, known := o.Flag(f.table)
	said, given := f.arg(o)
	switch {
	case o.Kind == KindGates && known:
		f.takeGates(name, read)
	case flag == gatesFlag && known:
		f.gates[o.Gate], f.gateFrom[o.Gate] = read, name
	case given && o.Variable != VariableFirst:
		if o.Variable == VariableGiven && said != read {
			f.leave(name, "%s, and the daemon gives etcd --%s=%s", o.Refused, o.Name, said)
		}
	case !known && (o.Variable == VariableGiven || f.gone(o, read)):
	case !known:
		f.leave(name, "it has no --%s; %s has it", o.Name, o.Lines())
	case !choiceOf(o, read, f.table):
		f.leave(name, "it does not take %s for --%s", read, o.Name)
	default:
		f.values[o.Name], f.from[o.Name] = read, name
	}
}

// gone reports that a switch is off and that the release has dropped what it switches on.
func (f *fitting) gone(o Option, read string) bool {
	return o.Kind == KindSwitch && read == "false" && f.table.Minor > max(o.Plain.Last, o.Prefixed.Last)
}

// choiceOf reports whether a release takes a value that others take. Source:
// embed/config_logging.go and etcdmain/config.go of 3.4 to 3.7.
func choiceOf(o Option, value string, v Version) bool {
	switch o.Name {
	case "logger":
		return value != "capnslog" || v.Minor == 4
	case "v2-deprecation":
		return value != "not-yet" || v.Minor == 5
	}
	return true
}

// takeGates takes of a list of gates those that the release has. AllAlpha and AllBeta
// are the host's to choose; a spec cannot set them.
func (f *fitting) takeGates(name, list string) {
	for _, pair := range splitGates(list) {
		gate, on, _ := strings.Cut(pair, "=")
		gate = strings.TrimSpace(gate)
		b, _ := strconv.ParseBool(strings.TrimSpace(on)) // it was read
		if g, found := FindGate(gate); found && g.Lines.Has(f.table) || gate == "AllAlpha" || gate == "AllBeta" {
			f.gates[gate], f.gateFrom[gate] = strconv.FormatBool(b), name
			continue
		}
		f.leave(name, "it has no feature gate %s", gate)
	}
}

// dropContradictions leaves out variables at whose values together etcd would end.
func (f *fitting) dropContradictions() {
	all := maps.Clone(f.values)
	for _, a := range f.out.Args {
		if o, found := FindOption(flagOf(a)); found {
			_, all[o.Name], _ = strings.Cut(a, "=")
		}
	}
	gates := strings.Split(all[gatesFlag], ",")
	for gate, on := range f.gates { // any order: it is only searched
		gates = append(gates, gate+"="+on)
	}
	for _, r := range contradictions(all, gates) {
		why := strings.TrimPrefix(r.err.Error(), ErrOption.Error()+": ")
		for _, option := range r.names {
			if variable, is := f.from[option]; is {
				f.leave(variable, "%s", why)
				delete(f.values, option)
				delete(f.from, option)
			}
			if variable, is := f.gateFrom[leasesPersist]; is && option == gatesFlag {
				f.leave(variable, "%s", why)
				delete(f.gates, leasesPersist)
			}
		}
	}
}

// spell passes on what was taken, in place of an argument that it goes before.
func (f *fitting) spell() {
	for option, value := range f.values { // any order: FitVariables sorts
		o, _ := FindOption(option)
		flag, _ := o.Flag(f.table)
		f.out.Args = slices.DeleteFunc(f.out.Args, func(arg string) bool {
			return o.Variable == VariableFirst && flagOf(arg) == flag
		})
		f.out.Environ = append(f.out.Environ, VariableOf(flag)+"="+value)
	}
}

// spellGates passes gates on: in the argument where the spec has gates, whose values
// go before.
func (f *fitting) spellGates() {
	if len(f.gates) == 0 {
		return
	}
	at := slices.IndexFunc(f.out.Args, func(arg string) bool { return flagOf(arg) == gatesFlag })
	if at >= 0 {
		_, list, _ := strings.Cut(f.out.Args[at], "=")
		for _, pair := range splitGates(list) {
			gate, on, _ := strings.Cut(pair, "=")
			f.gates[gate] = on
		}
	}
	var pairs []string
	for _, gate := range slices.Sorted(maps.Keys(f.gates)) {
		pairs = append(pairs, gate+"="+f.gates[gate])
	}
	if list := strings.Join(pairs, ","); at >= 0 {
		f.out.Args[at] = "--" + gatesFlag + "=" + list
	} else {
		f.out.Environ = append(f.out.Environ, variableGates+"="+list)
	}
}

package etcdargs

import (
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

// Options turns the options of a spec into arguments for a release, sorted,
// spelled as cluster.FitOptions has it. What the release has not got, and what
// must not be set, is left out, since a member runs better without an option
// than not at all; the errors say what and why.
func Options(options map[string]string, v cluster.Version) (args []string, left []error) {
	settings, left := cluster.FitOptions(options, v)
	for _, s := range settings {
		args = append(args, s.String())
	}
	slices.Sort(args)
	return args, left
}

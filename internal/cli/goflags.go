package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// parseGoFlags parses flags as Go's flag package does (-x, --x, --x=y), before
// or after words, and does not fail on flags that it does not know: a daemon
// that is started with a newer release's flags must not stay down for that.
// One that is nearly a flag of its own is a slip of a person's, and fails: what
// it would have set, such as whom backups are encrypted to, is lost else.
// It returns the words, and a warning for each unknown flag. With words nil
// allowed, the value behind an unknown flag without = is taken to be its own.
func parseGoFlags(fs *flag.FlagSet, args []string, wordsAllowed bool) (words, warnings []string, err error) {
	fs.SetOutput(io.Discard)
	var slip error
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			return append(words, args[1:]...), warnings, slip
		}
		if len(arg) < 2 || arg[0] != '-' {
			words, args = append(words, arg), args[1:]
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		f := fs.Lookup(name)
		if f == nil && name != "h" && name != "help" {
			if slips(fs, name) {
				if slip == nil {
					slip = unknownFlag(fs, name) // the rest is read: it says where a refusal is kept
				}
				args = args[1:]
				continue
			}
			warnings = append(warnings, fmt.Sprintf("unknown flag --%s is ignored", name))
			args = args[1:]
			if !hasValue && !wordsAllowed && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				args = args[1:]
			}
			continue
		}
		n := 1
		if f != nil && !hasValue && !isBool(f) {
			n = min(2, len(args))
		}
		if err := fs.Parse(args[:n]); err != nil {
			return nil, nil, cmp.Or(slip, err)
		}
		args = args[n:]
	}
	return words, warnings, slip
}

// knownFlags fails on the first word that is no flag of fs, or no flag at all. It is
// for the faces of the program that no script of the predecessor's users calls.
func knownFlags(fs *flag.FlagSet, args []string) error {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		if len(args[i]) < 2 || args[i][0] != '-' {
			return usage("see --help", "do not know what %q means", args[i])
		}
		name, _, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(args[i], "-"), "-"), "=")
		f := fs.Lookup(name)
		if f == nil && name != "h" && name != "help" {
			return unknownFlag(fs, name)
		}
		if f != nil && !hasValue && !isBool(f) {
			i++ // its value
		}
	}
	return nil
}

// unknownFlag says which flag there is not, and which may have been meant.
func unknownFlag(fs *flag.FlagSet, name string) error {
	hint := "see --help"
	if near := meantWords(flagNames(fs), name); len(near) > 0 {
		hint = "is --" + strings.Join(near, " or --") + " meant? " + hint
	}
	return usage(hint, "unknown flag: --%s", name)
}

// flagsRefused is what parseGoFlags fails with, for people.
func flagsRefused(err error) error {
	if failure := (*Failure)(nil); errors.As(err, &failure) {
		return err // it has a hint of its own
	}
	return usage("see --help", "%w", err)
}

// slips reports whether a name is within closeEnough letters of a flag's. Names
// that are hardly longer than that, such as v, are near everything.
func slips(fs *flag.FlagSet, name string) bool {
	return slices.ContainsFunc(meantWords(flagNames(fs), name), func(own string) bool {
		return len(own) > 2*closeEnough && len(own)-len(name) <= closeEnough // else it only begins so
	})
}

func flagNames(fs *flag.FlagSet) (names []string) {
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// listFlag is a flag that may be repeated, or hold a comma list.
type listFlag struct {
	values *[]string
	set    bool
}

func (l *listFlag) String() string {
	if l.values == nil {
		return ""
	}
	return strings.Join(*l.values, ",")
}

func (l *listFlag) Set(s string) error {
	if !l.set {
		*l.values, l.set = nil, true // the default gives way to what is said
	}
	for _, v := range strings.Split(s, ",") {
		if v = strings.TrimSpace(v); v != "" {
			*l.values = append(*l.values, v)
		}
	}
	return nil
}

// ignored is a flag that takes one value and does nothing with it. It is not
// a switch: the word behind "-x value" is the value, and no command.
type ignored struct{}

func (ignored) String() string   { return "" }
func (ignored) Set(string) error { return nil }

// klogValues are klog's flags that take a value, klogSwitches those that need
// none. They are accepted because deployments and scripts pass them.
var (
	klogValues   = []string{"log_backtrace_at", "log_dir", "log_file", "log_file_max_size", "stderrthreshold", "vmodule"}
	klogSwitches = []string{"add_dir_header", "alsologtostderr", "legacy_stderr_threshold_behavior", "logtostderr", "one_output", "skip_headers", "skip_log_headers"}
)

// ignoreKlog defines klog's flags but for -v, which says something to a daemon.
func ignoreKlog(fs *flag.FlagSet) {
	const usage = "accepted, without effect"
	for _, name := range klogValues {
		fs.Var(ignored{}, name, usage)
	}
	for _, name := range klogSwitches {
		fs.Var(anything{}, name, usage)
	}
}

// ignoreLogging defines all of klog's flags, for a program that has no log.
func ignoreLogging(fs *flag.FlagSet) {
	ignoreKlog(fs)
	fs.Var(ignored{}, "v", "accepted, without effect")
}

// alsoNamed takes a flag under a second name, too, which help does not show: etcdctl says
// --endpoints, and whoever types one must not have to know which command says which.
func alsoNamed(f *pflag.FlagSet, name, also string) {
	f.AddFlag(&pflag.Flag{Name: also, Usage: "the same as --" + name, Value: f.Lookup(name).Value, Hidden: true})
}

// rawFlags are the values of the flags that were given, as they were typed.
func rawFlags(known *flag.FlagSet, args []string) map[string][]string {
	out := map[string][]string{}
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		if len(args[i]) < 2 || args[i][0] != '-' {
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(args[i], "-"), "-"), "=")
		f := known.Lookup(name)
		switch {
		case f == nil:
			continue
		case hasValue:
		case isBool(f):
			value = "true"
		case i+1 < len(args):
			i++
			value = args[i]
		}
		if _, list := f.Value.(*listFlag); !list {
			out[name] = nil // the last one counts
		}
		out[name] = append(out[name], value)
	}
	return out
}

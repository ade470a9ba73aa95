package cli

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// parseGoFlags parses flags as Go's flag package does (-x, --x, --x=y), before
// or after words, and does not fail on flags that it does not know: a daemon
// that is started with a newer release's flags must not stay down for that.
// It returns the words, and a warning for each unknown flag. With words nil
// allowed, the value behind an unknown flag without = is taken to be its own.
func parseGoFlags(fs *flag.FlagSet, args []string, wordsAllowed bool) (words, warnings []string, err error) {
	fs.SetOutput(io.Discard)
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			return append(words, args[1:]...), warnings, nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			words, args = append(words, arg), args[1:]
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		f := fs.Lookup(name)
		if f == nil && name != "h" && name != "help" {
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
			return nil, nil, err
		}
		args = args[n:]
	}
	return words, warnings, nil
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

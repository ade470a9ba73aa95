package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is one line of "go test -json".
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build output and failures
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

type verdict int

// In the order in which a later run overrides an earlier one.
const (
	unknown verdict = iota
	skipped
	passed
	failed
)

// mostAgain is how many tests of one run may be tried again: where more fail, it
// is not for the moment that they failed in.
const mostAgain = 4

// name of a test; Test is empty for what a package does outside of its tests
// (it does not build, TestMain fails, it is killed by a time-out).
type name struct{ Package, Test string }

func (n name) String() string {
	if n.Test == "" {
		return n.Package
	}
	return n.Package + " " + n.Test
}

type report struct {
	live     io.Writer // nil: only collect
	verdicts map[name]verdict
	reasons  map[name]string   // of skipped tests
	output   map[name][]string // of tests that run, and after that of those that failed
	failures map[string]int    // of tests, by package and run
	certain  map[name]bool     // failed by a data race or a panic, which no second try takes back
	again    *report           // what became of tests that were tried again; nil: nothing was
}

func newReport() *report {
	return &report{
		verdicts: map[name]verdict{},
		reasons:  map[name]string{},
		output:   map[name][]string{},
		failures: map[string]int{},
		certain:  map[name]bool{},
	}
}

// read takes in one run. A line that is not JSON is shown as it is.
func (r *report) read(in io.Reader) error {
	clear(r.failures)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.take(e)
			} else {
				r.print("%s", line)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) take(e event) {
	n := name{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.print("%s", e.Output)
	case "build-fail":
		r.settle(name{Package: e.ImportPath}, failed)
	case "output":
		r.output[n] = append(r.output[n], e.Output)
	case "pass", "skip", "fail":
		r.end(n, e)
	}
}

// panicked: a line that begins with it, indented in a log or not. Tests also speak
// of panics, such as those that they expect of an etcd.
var panicked = regexp.MustCompile(`(?m)^\s*panic: `)

// end settles a test or a package.
func (r *report) end(n name, e event) {
	switch {
	case e.Action == "skip" && n.Test != "":
		r.settle(n, skipped)
		r.reasons[n] = reason(r.output[n])
	case e.Action == "pass" && n.Test != "":
		r.settle(n, passed)
	case e.Action == "fail" && n.Test != "":
		r.settle(n, failed)
		r.failures[n.Package]++
		said := strings.Join(r.output[n], "")
		r.certain[n] = strings.Contains(said, "DATA RACE") || panicked.MatchString(said)
		r.print("--- FAIL: %s\n%s", n, strings.Join(r.output[n], ""))
	case e.Action == "fail" && e.FailedBuild != "":
		r.settle(name{Package: e.FailedBuild}, failed)
	case e.Action == "fail" && r.failures[n.Package] == 0: // no test says why
		r.settle(n, failed)
		r.print("--- FAIL: %s\n%s", n, r.everything(n.Package))
	}
	if n.Test == "" && e.Action != "skip" {
		r.print("%-5s %7.1f s  %s\n", e.Action, e.Elapsed, n.Package)
	}
	delete(r.output, n)
}

// everything that the tests of a package, cut off in the middle, had said.
func (r *report) everything(pkg string) string {
	var b strings.Builder
	for _, n := range r.names() {
		if n.Package == pkg {
			b.WriteString(strings.Join(r.output[n], ""))
			delete(r.output, n)
		}
	}
	return b.String()
}

func (r *report) names() []name {
	var all []name
	for n := range r.output {
		all = append(all, n)
	}
	return order(all)
}

func order(names []name) []name {
	slices.SortFunc(names, func(a, b name) int { return strings.Compare(a.String(), b.String()) })
	return names
}

func (r *report) settle(n name, v verdict) { r.verdicts[n] = max(r.verdicts[n], v) }

func (r *report) print(format string, args ...any) {
	if r.live != nil {
		fmt.Fprintf(r.live, format, args...)
	}
}

func (r *report) count(v verdict) int {
	n := 0
	for _, got := range r.verdicts {
		if got == v {
			n++
		}
	}
	return n
}

// top is the test that a subtest belongs to.
func (n name) top() name {
	n.Test, _, _ = strings.Cut(n.Test, "/")
	return n
}

// worthAnother is what failed in packages whose tests wait for real processes,
// as arguments of go test by package; nil where anything failed that a second try
// cannot take back, or too much.
func (r *report) worthAnother(pkgs *regexp.Regexp) map[string]string {
	tests := map[string][]string{}
	count := 0
	for n, v := range r.verdicts {
		switch {
		case v != failed:
		case n.Test == "" || r.certain[n] || !pkgs.MatchString(n.Package):
			return nil
		case !slices.Contains(tests[n.Package], n.top().Test):
			tests[n.Package] = append(tests[n.Package], n.top().Test)
			count++
		}
	}
	if count > mostAgain {
		return nil
	}
	out := map[string]string{}
	for pkg, of := range tests {
		out[pkg] = exactly(of)
	}
	return out
}

// whole are the tests in these packages that passed with all that is in them.
func (r *report) whole(pkgs *regexp.Regexp) []string {
	tests := map[string]bool{}
	for n, v := range r.verdicts {
		if n.Test != "" && pkgs.MatchString(n.Package) {
			test := n.top().Test
			was, known := tests[test]
			tests[test] = v == passed && (was || !known)
		}
	}
	maps.DeleteFunc(tests, func(_ string, whole bool) bool { return !whole })
	return slices.Collect(maps.Keys(tests))
}

// exactly is what go test takes for these tests and no others.
func exactly(tests []string) string {
	slices.Sort(tests)
	return "^(" + strings.Join(tests, "|") + ")$"
}

// unsteady are the failed tests that passed when they were tried again.
func (r *report) unsteady() []name {
	var out []name
	for n, v := range r.verdicts {
		if v == failed && n.Test != "" && !r.certain[n] && r.again != nil && r.again.verdicts[n.top()] == passed {
			out = append(out, n)
		}
	}
	return order(out)
}

// failures that stand.
func (r *report) standing() int { return r.count(failed) - len(r.unsteady()) }

func (r *report) closingLine() string {
	line := fmt.Sprintf("%d passed, %d failed, %d skipped", r.count(passed), r.standing(), r.count(skipped))
	if n := len(r.unsteady()); n > 0 {
		line += fmt.Sprintf(", %d failed and passed when tried again", n)
	}
	return line
}

// summary lists what failed and, by reason, what was skipped.
func (r *report) summary(w io.Writer) {
	var broken []name
	unsteady := r.unsteady()
	for _, n := range unsteady {
		fmt.Fprintf(w, "UNSTEADY %s (failed, and passed when tried again: look at what it said)\n", n)
	}
	byReason := map[string][]name{}
	for n, v := range r.verdicts {
		switch v {
		case failed:
			if !slices.Contains(unsteady, n) {
				broken = append(broken, n)
			}
		case skipped:
			byReason[r.reasons[n]] = append(byReason[r.reasons[n]], n)
		}
	}
	for _, n := range order(broken) {
		fmt.Fprintf(w, "FAILED  %s\n", n)
	}
	reasons := make([]string, 0, len(byReason))
	for text := range byReason {
		reasons = append(reasons, text)
	}
	slices.Sort(reasons)
	for _, text := range reasons {
		fmt.Fprintf(w, "SKIPPED %s\n", text)
		for _, n := range order(byReason[text]) {
			fmt.Fprintf(w, "        %s\n", n)
		}
	}
	fmt.Fprintln(w, r.closingLine())
}

// place is the file and line before what a test logs.
var place = regexp.MustCompile(`^\s+[\w.-]+\.go:\d+: `)

// reason is the last thing that a test said before it was skipped.
func reason(output []string) string {
	text := ""
	for line := range strings.SplitSeq(strings.Join(output, ""), "\n") {
		switch {
		case place.MatchString(line):
			text = place.ReplaceAllString(line, "")
		case strings.HasPrefix(line, "        ") && text != "": // the message's next line
			text += " " + strings.TrimSpace(line)
		}
	}
	if text == "" {
		return "(no reason given)"
	}
	return text
}

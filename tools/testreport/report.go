package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
}

func newReport() *report {
	return &report{
		verdicts: map[name]verdict{},
		reasons:  map[name]string{},
		output:   map[name][]string{},
		failures: map[string]int{},
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

func (r *report) closingLine() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", r.count(passed), r.count(failed), r.count(skipped))
}

// summary lists what failed and, by reason, what was skipped.
func (r *report) summary(w io.Writer) {
	var broken []name
	byReason := map[string][]name{}
	for n, v := range r.verdicts {
		switch v {
		case failed:
			broken = append(broken, n)
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

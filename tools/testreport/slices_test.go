package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// plan is what .ci/run says that the commit of a number would run, by step.
func plan(t *testing.T, number int, all string, steps ...string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../.ci/run", append([]string{"plan"}, steps...)...)
	cmd.Env = append(os.Environ(), fmt.Sprint("ETCDADM_CI_SLICE=", number), "ETCDADM_CI_ALL="+all)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	planned := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^ *\d+ s  ([a-z0-9-]+)(?:: (.*))?$`).FindAllStringSubmatch(string(out), -1) {
		planned[line[1]] = line[2]
	}
	return planned
}

// The slices of commits in a row have every package, test and seed once.
func TestSlicesAreEverything(t *testing.T) {
	whole := map[string][]string{}
	list, err := exec.CommandContext(t.Context(), "go", "-C", "../..", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	excluded := regexp.MustCompile(`/internal/floors$|/internal/testetcd|/e2e(/|$)|/bench(/|$)|/internal/sim(/seeds)?$`) // as .ci/race-excludes
	for pkg := range strings.FieldsSeq(string(list)) {
		short := strings.TrimPrefix(pkg, "etcdadm.io/")
		if strings.HasPrefix(short, "e2e/") {
			whole["e2e"] = append(whole["e2e"], short)
		}
		if !excluded.MatchString(pkg) {
			whole["race"] = append(whole["race"], short)
		}
	}
	whole["schedules"] = tests(t, "../../internal/sim", "AtEveryPoint|TestRecord")
	whole["old-releases"] = tests(t, "../../e2e/old", "TestOld")

	most := 1 // slices of any step
	of := regexp.MustCompile(`(\d+) of (\d+)(?:: (.*))?$`)
	had := map[string][]string{}
	turns, seeds := 0, ""
	for number := 0; number < most; number++ {
		for step, part := range plan(t, number, "", "race", "e2e", "schedules", "old-releases", "faults", "simulator", "scenarios") {
			m := of.FindStringSubmatch(part)
			switch {
			case step == "race-seeds" || step == "scenarios":
				if step == "scenarios" && number < 3 {
					turns++
				}
				continue
			case m == nil:
				t.Fatalf("%s: no slice in %q", step, part)
			}
			var at, n int
			fmt.Sscan(m[1], &at)
			fmt.Sscan(m[2], &n)
			most = max(most, n)
			if at != number%n+1 {
				t.Errorf("commit %d: %s has slice %d of %d", number, step, at, n)
			}
			if number < n { // the first time round
				had[step] = append(had[step], strings.Fields(m[3])...)
			}
			if step == "simulator" && number < n {
				seeds += part + "; "
			}
		}
	}
	for step, want := range whole {
		got := had[step]
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the slices have\n%q, want\n%q", step, got, want)
		}
	}
	if want := "seeds 1 to 333, 1 of 3; seeds 334 to 666, 2 of 3; seeds 667 to 1000, 3 of 3; "; seeds != want {
		t.Errorf("the slices of seeds are %s, want %s", seeds, want)
	}
	if turns != 1 {
		t.Errorf("the scenarios run in %d of three commits, want 1", turns)
	}
	for step, part := range plan(t, 0, "1") {
		if part != "" {
			t.Errorf("ETCDADM_CI_ALL=1: %s has a part only: %s", step, part)
		}
	}
}

// tests are the names of those in a directory that match.
func tests(t *testing.T, dir, match string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(dir + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w*)\(`).FindAllSubmatch(text, -1) {
			if regexp.MustCompile(match).Match(m[1]) {
				names = append(names, string(bytes.Clone(m[1])))
			}
		}
	}
	return names
}

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

const plain = `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"p","Test":"TestGood","Elapsed":0.1}
{"Action":"output","Package":"p","Test":"TestRoot","Output":"    p_test.go:9: needs root,\n"}
{"Action":"output","Package":"p","Test":"TestRoot","Output":"        and this is not\n"}
{"Action":"output","Package":"p","Test":"TestRoot","Output":"--- SKIP: TestRoot (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestRoot","Elapsed":0}
{"Action":"skip","Package":"p","Test":"TestLater","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestBad","Output":"    p_test.go:3: broken\n"}
{"Action":"fail","Package":"p","Test":"TestBad","Elapsed":0}
{"Action":"fail","Package":"p","Elapsed":1.5}
{"Action":"skip","Package":"without-tests","Elapsed":0}
{"ImportPath":"q","Action":"build-output","Output":"q.go:1: no such thing\n"}
{"ImportPath":"q","Action":"build-fail"}
{"Action":"fail","Package":"q","Elapsed":0,"FailedBuild":"q"}
{"Action":"output","Package":"hangs","Test":"TestHang","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"hangs","Elapsed":600}
go: a line of its own
`

// In the second run the skipped test could be done.
const second = `{"Action":"pass","Package":"p","Test":"TestLater","Elapsed":0}
{"Action":"pass","Package":"p","Test":"TestBad","Elapsed":0}
`

func TestReport(t *testing.T) {
	r := newReport()
	var live strings.Builder
	r.live = &live
	for _, run := range []string{plain, second} {
		if err := r.read(strings.NewReader(run)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"p_test.go:3: broken", "q.go:1: no such thing", "panic: test timed out", "go: a line of its own", "fail      1.5 s  p\n"} {
		if !strings.Contains(live.String(), want) {
			t.Errorf("the live report lacks %q:\n%s", want, &live)
		}
	}
	var sum strings.Builder
	r.summary(&sum)
	const want = `FAILED  hangs
FAILED  p TestBad
FAILED  q
SKIPPED needs root, and this is not
        p TestRoot
2 passed, 3 failed, 1 skipped
`
	if sum.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &sum, want)
	}
}

// Only what waits for real processes is tried again, only a little of it, and
// nothing that no second try takes back; what passed then is listed all the same.
func TestAgain(t *testing.T) {
	fail := func(pkg, test, said string) string {
		return fmt.Sprintf(`{"Action":"output","Package":%q,"Test":%q,"Output":%q}`+"\n", pkg, test, said) +
			fmt.Sprintf(`{"Action":"fail","Package":%q,"Test":%q}`+"\n", pkg, test)
	}
	slow := fail("m/e2e", "TestSlow/one", "not within 1m0s\n") + fail("m/e2e", "TestSlow", "")
	var many strings.Builder
	for i := range mostAgain {
		many.WriteString(fail("m/e2e", fmt.Sprintf("TestNumber%d", i), ""))
	}
	for what, c := range map[string]struct {
		run  string
		want map[string]string
	}{
		"one":       {slow, map[string]string{"m/e2e": "^(TestSlow)$"}},
		"two":       {slow + fail("m/e2e", "TestOther", ""), map[string]string{"m/e2e": "^(TestOther|TestSlow)$"}},
		"too many":  {slow + many.String(), nil},
		"logic too": {slow + fail("m/plan", "TestLaws", ""), nil},
		"a word of": {fail("m/e2e", "TestSlow", "          expected: exits: panic: the log was lost\n"), map[string]string{"m/e2e": "^(TestSlow)$"}},
		"a panic":   {fail("m/e2e", "TestSlow", "        panic: runtime error\n"), nil},
		"a race":    {fail("m/e2e", "TestSlow", "WARNING: DATA RACE\n"), nil},
		"a time-out": {`{"Action":"output","Package":"m/e2e","Test":"TestSlow","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"m/e2e"}
`, nil},
	} {
		r := newReport()
		if err := r.read(strings.NewReader(c.run)); err != nil {
			t.Fatal(err)
		}
		if got := r.worthAnother(regexp.MustCompile("/e2e$")); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	r := newReport()
	r.again = newReport()
	if err := r.read(strings.NewReader(slow + fail("m/e2e", "TestBroken", ""))); err != nil {
		t.Fatal(err)
	}
	if err := r.again.read(strings.NewReader(`{"Action":"pass","Package":"m/e2e","Test":"TestSlow"}
` + fail("m/e2e", "TestBroken", ""))); err != nil {
		t.Fatal(err)
	}
	var sum strings.Builder
	r.summary(&sum)
	const want = `UNSTEADY m/e2e TestSlow (failed, and passed when tried again: look at what it said)
UNSTEADY m/e2e TestSlow/one (failed, and passed when tried again: look at what it said)
FAILED  m/e2e TestBroken
0 passed, 1 failed, 0 skipped, 2 failed and passed when tried again
`
	if sum.String() != want || r.standing() != 1 {
		t.Errorf("got\n%s\nwant\n%s", &sum, want)
	}
}

// Only what passed with every subtest need not be run again where more is run.
func TestWhole(t *testing.T) {
	line := func(action, pkg, test string) string {
		return fmt.Sprintf(`{"Action":%q,"Package":%q,"Test":%q}`+"\n", action, pkg, test)
	}
	r := newReport()
	if err := r.read(strings.NewReader(line("pass", "m/e2e", "TestAll/one") + line("pass", "m/e2e", "TestAll") +
		line("skip", "m/e2e", "TestSome/one") + line("pass", "m/e2e", "TestSome/two") + line("pass", "m/e2e", "TestSome") +
		line("skip", "m/e2e", "TestNone") + line("fail", "m/e2e", "TestBroken") + line("pass", "m/e2e", "TestAlone") +
		line("pass", "m/plan", "TestLaws"))); err != nil {
		t.Fatal(err)
	}
	if got, want := exactly(r.whole(regexp.MustCompile("/e2e$"))), "^(TestAll|TestAlone)$"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

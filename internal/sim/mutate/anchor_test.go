package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// writeTree makes a directory with these files.
func writeTree(t *testing.T, files map[string]string) *tree {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return newTree(root)
}

func mutationOf(t *testing.T, edits string) mutation {
	t.Helper()
	m, err := parse("m", "rule: 1\nwhy: it breaks\ntest: ./p\n"+edits)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAnchorOutlivesARefactoring: a function that moves to another file, a comment,
// and other line breaks leave the place where it was.
func TestAnchorOutlivesARefactoring(t *testing.T) {
	const before = "package p\n\nfunc (v *view) ready(a, b int) bool {\n\treturn v.fits(a, b) && a < b\n}\n"
	const moved = "//go:build linux && !linux\n\npackage p\n\nvar other = 1\n\n// ready is here now.\nfunc (w *view) idle() bool { return true }\n\nfunc (v *view) ready(a, b int) bool {\n" +
		"\treturn v.fits( // it has to\n\t\ta,\n\t\tb, /* both */\n\t) &&\n\t\ta < b\n}\n"
	m := mutationOf(t, "== p view.ready\n-- old\nv.fits(a, b) && a < b\n-- new\nfalse\n")
	for name, files := range map[string]map[string]string{
		"before":                {"p/a.go": before},
		"moved and reformatted": {"p/a.go": "package p\n", "p/b_windows.go": moved},
	} {
		changed, err := writeTree(t, files).apply(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for path, text := range changed {
			if !strings.Contains(string(text), "return false\n}") || strings.Contains(string(text), "fits") {
				t.Errorf("%s: %s became\n%s", name, path, text)
			}
		}
		if len(changed) != 1 {
			t.Errorf("%s: %d files changed", name, len(changed))
		}
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		what, text, old string
		want            []string
	}{
		{"tokens, not letters", "aa + a", "a", []string{"a"}},
		{"spaces and comments", "f( a /* x */ ,b )", "f(a, b)", []string{"f( a /* x */ ,b )"}},
		{"a comma that a line break wants", "f(\n\ta,\n\tb,\n)", "f(a, b)", []string{"f(\n\ta,\n\tb,\n)"}},
		{"one that the anchor has", "f(a, b)", "f(\n\ta,\n\tb,\n)", []string{"f(a, b)"}},
		{"a last element", "f(\n\ta,\n\tb,\n)", "b,", []string{"b,"}},
		{"the ends of lines", "a()\n\n\nb()", "a()\nb()", []string{"a()\n\n\nb()"}},
		{"a string is one token", `say("a b")`, `say("a  b")`, nil},
		{"a part of a string", `"a b"`, "a", nil},
		{"a raw string", "say(`a\n`)", "`a\n`", []string{"`a\n`"}},
		{"twice", "a; a", "a", []string{"a", "a"}},
		{"twice, one over the other", "a+a+a", "a+a", []string{"a+a", "a+a"}},
		{"past the end", "a(", "a(b", nil},
	} {
		spans, err := find([]byte(c.text), []byte(c.old))
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		var got []string
		for _, s := range spans {
			got = append(got, c.text[s.start:s.end])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: found %q, want %q", c.what, got, c.want)
		}
	}
}

// TestDeclarations: each kind of declaration has its name, and holds only its own text.
func TestDeclarations(t *testing.T) {
	files := map[string]string{
		"p/a.go": "package p\n\nconst alone = 1\n\nconst (\n\tone = 1\n\ttwo, three = 1, 1\n)\n\nvar v = 1\n\ntype (\n\tT struct{ x [1]int }\n\tU[K any] []K\n)\n\n" +
			"func f() int { return 1 }\n\nfunc (t *T) f() int { return 1 }\n\nfunc (u U[K]) f() int { return 1 }\n",
		"p/a_test.go": "package p\n\nfunc testf() int { return 1 }\n",
		"p/run.sh":    "sleep 1\n",
	}
	const from, to = "1", "2"
	for head, want := range map[string]string{
		"p const alone":    "const alone = 2",
		"p const one":      "one = 2",
		"p var v":          "var v = 2",
		"p type T":         "[2]int",
		"p f":              "func f() int { return 2 }",
		"p T.f":            "(t *T) f() int { return 2 }",
		"p U.f":            "(u U[K]) f() int { return 2 }",
		"p testf in tests": "testf() int { return 2 }",
		"p/run.sh":         "sleep 2",
	} {
		changed, err := writeTree(t, files).apply(mutationOf(t, "== "+head+"\n-- old\n"+from+"\n-- new\n"+to+"\n"))
		if err != nil {
			t.Errorf("%s: %v", head, err)
		}
		for path, text := range changed {
			if !strings.Contains(string(text), want) || strings.Count(string(text), "2") != 1 {
				t.Errorf("%s: %s became\n%s", head, path, text)
			}
		}
	}
}

// TestWhatDoesNotApply: the message says what was looked for, where, and how often
// it was found.
func TestWhatDoesNotApply(t *testing.T) {
	files := map[string]string{
		"p/a.go":      "package p\n\nfunc f() int { return 1 + 1 }\n\nfunc g() int { return 3 }\n\nconst two, three = 2, 2\n",
		"p/l.go":      "//go:build linux\n\npackage p\n\nfunc twin() int { return 4 }\n",
		"p/w.go":      "//go:build windows\n\npackage p\n\nfunc twin() int { return 4 }\n",
		"p/a_test.go": "package p\n\nfunc h() int { return 5 }\n",
		"p/run.sh":    "sleep 1\nsleep 1\n",
	}
	for _, c := range []struct{ edits, want string }{
		{"== p f\n-- old\n1\n-- new\n2\n", "p f: declared 1 times, with the old text 2 times"},
		{"== p f\n-- old\n7\n-- new\n2\n", "p f: declared 1 times, with the old text 0 times"},
		{"== p f\n-- old\n3\n-- new\n2\n", "p f: declared 1 times, with the old text 0 times; the package has it in g (a.go)"},
		{"== p gone\n-- old\nreturn 3\n-- new\nreturn 2\n", "p gone: the package declares it 0 times; the package has it in g (a.go)"},
		{"== p twin\n-- old\n4\n-- new\n2\n", "p twin: declared 2 times, with the old text 2 times"},
		{"== p h\n-- old\n5\n-- new\n2\n", "p h: the package declares it 0 times; the package has it in h (a_test.go)"},
		{"== p f in tests\n-- old\n1 + 1\n-- new\n2\n", "p f in tests: the package declares it 0 times"},
		{"== p f\n-- old\n// no code\n-- new\n2\n", "p f: the old text is empty"},
		{"== p f\n-- old\n\"\n-- new\n2\n", "p f: the old text is not made of Go tokens"},
		{"== p f\n-- old\n1 + 1\n-- new\n1 +\n", "p f: the changed file does not parse"},
		{"== p f\n-- old\n1 + 1\n-- new\n1 +  1 // as before\n", "p f: the new text says the same"},
		{"== p f\n-- old\n1 + 1\n-- new\n7\n== p f\n-- old\n1 + 1\n-- new\n8\n", "p f: declared 1 times, with the old text 0 times"},
		{"== p/run.sh\n-- old\nsleep 1\n-- new\nsleep 2\n", "p/run.sh: the file has the old text 2 times"},
		{"== q f\n-- old\n1\n-- new\n2\n", "q f: "},
	} {
		changed, err := writeTree(t, files).apply(mutationOf(t, c.edits))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: changed %d files, %v; want an error that begins with %q", c.edits, len(changed), err, c.want)
		}
	}
}

// TestTwoEdits: a later edit sees what an earlier one made of the same file.
func TestTwoEdits(t *testing.T) {
	files := map[string]string{"p/a.go": "package p\n\nfunc f() int { return 1 }\n\nfunc g() int { return 1 }\n"}
	changed, err := writeTree(t, files).apply(mutationOf(t, "== p f\n-- old\n1\n-- new\n1 + 20\n== p g\n-- old\n1\n-- new\n3\n== p f\n-- old\n20\n-- new\n2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "package p\n\nfunc f() int { return 1 + 2 }\n\nfunc g() int { return 3 }\n"; string(changed["p/a.go"]) != want {
		t.Errorf("it became\n%s", changed["p/a.go"])
	}
}

// TestSlice: the commit alone decides the order, which takes every mutation once.
func TestSlice(t *testing.T) {
	order := func(commit string, backwards bool) []string {
		var all []mutation
		for i := range 50 {
			all = append(all, mutation{name: fmt.Sprint(i)})
		}
		if backwards {
			slices.Reverse(all)
		}
		shuffle(all, commit)
		var names []string
		for _, m := range all {
			names = append(names, m.name)
		}
		return names
	}
	one := order("one", false)
	if !slices.Equal(one, order("one", true)) {
		t.Error("the order that the mutations come in counts")
	}
	if slices.Equal(one, order("another", false)) {
		t.Error("two commits have the same order")
	}
	slices.Sort(one)
	if len(slices.Compact(one)) != 50 {
		t.Error("a mutation is left out")
	}
}

func TestTooLate(t *testing.T) {
	for _, c := range []struct {
		tried        int
		most, passed time.Duration
		want         bool
	}{
		{0, time.Minute, time.Hour, false}, // one is always run
		{1, time.Minute, time.Minute - 1, false},
		{1, time.Minute, time.Minute, true},
		{700, 0, time.Hour, false},
	} {
		if got := tooLate(c.tried, c.most, c.passed); got != c.want {
			t.Errorf("after %d and %s of %s: %t", c.tried, c.passed, c.most, got)
		}
	}
}

func TestSummary(t *testing.T) {
	for want, got := range map[string]string{
		"6 of 7 mutations were caught":                                              summary(7, 1, 7, ""),
		"5 of 5 mutations were caught; 2 of 7 were not run":                         summary(5, 0, 7, ""),
		"4 of 5 mutations were caught; slice 0123456789ab of 628, 623 were not run": summary(5, 1, 628, "0123456789abcdef"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

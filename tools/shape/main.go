// Command shape measures how tangled the code is. It prints figures of the programs in
// cmd and of what they import of this module, tests left out: the lines of each package, the
// types with the most methods, the largest circle of files of a package, and the longest
// functions.
//
//	shape [-top N] [-of PATTERN] [DIRECTORY]
//
// A circle is a largest set of files of one package in which each reaches every other by
// what it names. A reader has to know all of them to know one.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
)

func main() {
	top := flag.Int("top", 5, "how many of each kind to print")
	of := flag.String("of", "./cmd/...", "the packages to begin with")
	flag.Parse()
	dir := "."
	if flag.NArg() > 0 {
		dir = flag.Arg(0)
	}
	packages, err := load(dir, *of)
	if err == nil {
		err = print(os.Stdout, packages, *top)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

func print(out io.Writer, packages []figures, top int) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	lines := 0
	var types, functions []counted
	for _, p := range packages {
		lines += p.lines
		types = append(types, p.types...)
		functions = append(functions, p.functions...)
	}
	fmt.Fprintf(w, "lines that ship\t%d\n", lines)
	table(w, "package", "lines", packages, top, func(p figures) (int, string) { return p.lines, p.path })
	table(w, "type", "methods", types, top, func(c counted) (int, string) { return c.count, c.name })
	table(w, "function", "lines", functions, top, func(c counted) (int, string) { return c.count, c.name })
	circular := slices.DeleteFunc(slices.Clone(packages), func(p figures) bool { return p.circle < 2 })
	table(w, "package", "files in a circle", circular, top, func(p figures) (int, string) {
		return p.circle, fmt.Sprintf("%s, of %d files", p.path, p.files)
	})
	return w.Flush()
}

// table prints the rows with the highest counts, those first.
func table[T any](w io.Writer, what, unit string, rows []T, top int, row func(T) (count int, name string)) {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b T) int {
		of, _ := row(a)
		than, _ := row(b)
		return than - of
	})
	fmt.Fprintf(w, "\n%s\t%s\n", unit, what)
	for _, r := range rows[:min(top, len(rows))] {
		count, name := row(r)
		fmt.Fprintf(w, "%d\t%s\n", count, name)
	}
}

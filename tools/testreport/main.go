// Command testreport reads what "go test -json" prints and says it in few lines.
//
//	go test -json ./... | testreport -save FILE    follow a run: a line per package, and the words of what failed
//	testreport -failed FILE -of PATTERN            the tests to try again, "PACKAGE ARGUMENT" a line, if any may be
//	testreport -passed FILE -of PATTERN            the tests of which all passed and nothing was skipped, as a regular expression
//	testreport -total FILE... [-again FILE...]     sum up: failures, skipped tests and why, a closing line
//
// A test that several runs had (plain, race detector) counts once: failed if it
// failed in one of them, skipped if no run could do it, else passed. One that
// failed, and passed when it was tried again, is listed as unsteady.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
)

func main() {
	save := flag.String("save", "", "follow standard input and write it to this file too")
	retry := flag.String("failed", "", "say which tests of this run may be tried again")
	whole := flag.String("passed", "", "say which tests of this run passed and skipped nothing")
	of := flag.String("of", "", "with -failed and -passed: the packages whose tests are meant, as a regular expression")
	total := flag.Bool("total", false, "sum up the files")
	flag.Parse()
	if err := run(*save, *retry, *whole, *of, *total, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

func run(save, retry, whole, of string, total bool, files []string) error {
	switch {
	case total && len(files) > 0:
		return sumUp(files)
	case retry != "" && of != "":
		return tryAgain(retry, of)
	case whole != "" && of != "":
		return passedWhole(whole, of)
	case save != "":
		return follow(save)
	}
	flag.Usage()
	return fmt.Errorf("nothing to do")
}

func follow(save string) error {
	out, err := os.Create(save)
	if err != nil {
		return err
	}
	r := newReport()
	r.live = os.Stdout
	if err := r.read(io.TeeReader(os.Stdin, out)); err != nil {
		return err
	}
	fmt.Println(r.closingLine())
	return out.Close()
}

func tryAgain(file, of string) error {
	r, pkgs, err := readOne(file, of)
	if err != nil {
		return err
	}
	tests := r.worthAnother(pkgs)
	for _, pkg := range slices.Sorted(maps.Keys(tests)) {
		fmt.Println(pkg, tests[pkg])
	}
	return nil
}

func passedWhole(file, of string) error {
	r, pkgs, err := readOne(file, of)
	if err != nil {
		return err
	}
	if tests := r.whole(pkgs); len(tests) > 0 {
		fmt.Println(exactly(tests))
	}
	return nil
}

// readOne reads the run of a file, and the expression for packages.
func readOne(file, of string) (*report, *regexp.Regexp, error) {
	pkgs, err := regexp.Compile(of)
	if err != nil {
		return nil, nil, err
	}
	r := newReport()
	return r, pkgs, r.readFiles(file)
}

func sumUp(files []string) error {
	first, second := files, []string(nil)
	if i := slices.Index(files, "-again"); i >= 0 {
		first, second = files[:i], files[i+1:]
	}
	r := newReport()
	if err := r.readFiles(first...); err != nil {
		return err
	}
	r.again = newReport()
	if err := r.again.readFiles(second...); err != nil {
		return err
	}
	r.summary(os.Stdout)
	if n := r.standing(); n > 0 {
		return fmt.Errorf("%d tests failed", n)
	}
	return nil
}

func (r *report) readFiles(names ...string) error {
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = r.read(bufio.NewReader(f))
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

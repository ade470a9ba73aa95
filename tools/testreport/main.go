// Command testreport reads what "go test -json" prints and says it in few lines.
//
//	go test -json ./... | testreport -save FILE    follow a run: a line per package, and the words of what failed
//	testreport -total FILE...                      sum up: failures, skipped tests and why, a closing line
//
// A test that several runs had (plain, race detector) counts once: failed if it
// failed in one of them, skipped if no run could do it, else passed.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	save := flag.String("save", "", "follow standard input and write it to this file too")
	total := flag.Bool("total", false, "sum up the files")
	flag.Parse()
	if err := run(*save, *total, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

func run(save string, total bool, files []string) error {
	switch {
	case total && len(files) > 0:
		return sumUp(files)
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

func sumUp(files []string) error {
	r := newReport()
	for _, name := range files {
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
	r.summary(os.Stdout)
	if r.count(failed) > 0 {
		return fmt.Errorf("%d tests failed", r.count(failed))
	}
	return nil
}

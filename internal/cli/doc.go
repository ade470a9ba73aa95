// Package cli is the command lines of etcdadm, etcd-manager and
// etcd-manager-ctl: flags, output formats and exit codes. What a command does
// is done by the packages below; a command here reads flags, calls one of
// them and prints.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Failure is an error for people: a sentence, what to do, and the exit code.
type Failure struct {
	Code   int
	Err    error
	Advice string
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Hint is the way out, or empty.
func (f *Failure) Hint() string { return f.Advice }

// usage is a mistake in how a command was called.
func usage(hint, format string, args ...any) error {
	return &Failure{Code: ExitUsage, Err: fmt.Errorf(format, args...), Advice: hint}
}

// Report prints an error for people and returns the exit code.
func Report(w io.Writer, program string, err error) int {
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(w, "%s: %v\n", program, err)
	if hint := hintOf(err); hint != "" {
		fmt.Fprintf(w, "  hint: %s\n", hint)
	}
	var f *Failure
	switch {
	case errors.As(err, &f):
		return f.Code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	}
	return ExitError
}

// hintOf is the way out, where an error of ours knows one.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Command go-runner runs a program and keeps what it prints in a file, as the first process of a container:
//
//	go-runner --log-file=FILE [--also-stdout] [--redirect-stderr=false] PROGRAM [ARGUMENT…]
//
// It passes SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 on to the program, waits for its end, and ends with its exit
// code; 128 and the signal's number where a signal ended it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	code, err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-runner:", err)
	}
	os.Exit(code)
}

// closeWithin is how long a grandchild may hold the output open once the program has ended.
const closeWithin = 2 * time.Second

func run(args []string, stdout, stderr io.Writer) (int, error) {
	flags := flag.NewFlagSet("go-runner", flag.ContinueOnError)
	flags.SetOutput(stderr)
	path := flags.String("log-file", "", "`file` that the program's output is added to")
	also := flags.Bool("also-stdout", false, "print it, too")
	both := flags.Bool("redirect-stderr", true, "standard error goes the same way")
	if err := flags.Parse(args); err != nil {
		return 2, nil // it has been said
	}
	if flags.NArg() == 0 {
		return 2, errors.New("name the program to run")
	}
	out, errs := stdout, stderr
	if *path != "" {
		log, err := os.OpenFile(*path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return 1, err
		}
		defer log.Close()
		out = log
		if *also {
			out = io.MultiWriter(log, stdout)
		}
	}
	if *both {
		errs = out
	}
	// Before the program starts, so that none is lost between.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)

	cmd := exec.Command(flags.Arg(0), flags.Args()[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = os.Stdin, out, errs, closeWithin
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s) // it may have ended
		case err := <-ended:
			return exitCode(cmd, err)
		}
	}
}

func exitCode(cmd *exec.Cmd, err error) (int, error) {
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && !errors.Is(err, exec.ErrWaitDelay) {
		return 1, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

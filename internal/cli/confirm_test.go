package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

func TestOnlyYesIsAYes(t *testing.T) {
	for answer, want := range map[string]int{"y\n": ExitOK, "yes\n": ExitOK, "n\n": ExitUnsafe, "\n": ExitUnsafe, "": ExitUnsafe, "yesterday\n": ExitUnsafe} {
		var out bytes.Buffer
		err := asked(t.Context(), strings.NewReader(answer), &out, "Go on?")
		if code := Report(io.Discard, "etcdadm", err); code != want || out.String() != "Go on? [y/N] " {
			t.Errorf("%q: exit code %d with %v after %q, want %d", answer, code, err, out.String(), want)
		}
	}
}

// Who is asked and types Ctrl-C has said no, although nothing calls off the reading of
// a terminal.
func TestAnInterruptedQuestionIsANo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terminal, typed := io.Pipe()
		defer typed.Close() // ends the reading
		ctx, interrupt := context.WithCancel(t.Context())
		said := make(chan error, 1)
		go func() { said <- asked(ctx, terminal, io.Discard, "Go on?") }()
		synctest.Wait()
		interrupt()
		synctest.Wait()
		select {
		case err := <-said:
			var f *Failure
			if !errors.As(err, &f) || f.Code != ExitInterrupted {
				t.Errorf("got %v, want exit code %d", err, ExitInterrupted)
			}
		default:
			t.Error("the question still waits for an answer")
		}
	})
}

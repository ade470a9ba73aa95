package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// confirm asks a person before a step, and is nil for a yes.
func confirm(c *cobra.Command, question string) error {
	return asked(c.Context(), c.InOrStdin(), c.ErrOrStderr(), question)
}

// asked waits for the answer until the context ends. Nothing calls off the reading of
// a terminal: what is still read then ends with the program.
func asked(ctx context.Context, in io.Reader, out io.Writer, question string) error {
	answer, err := answered(ctx, in, out, question+" [y/N] ")
	switch {
	case err != nil:
		return err
	case answer == "y", answer == "yes":
		return nil
	}
	return &Failure{Code: ExitUnsafe, Err: errors.New("not confirmed; nothing was changed"), Advice: "add --yes to skip the question"}
}

// confirmName has a person type a name, and is nil where it is the one.
func confirmName(c *cobra.Command, question, name string) error {
	answer, err := answered(c.Context(), c.InOrStdin(), c.ErrOrStderr(), question+" ")
	if err == nil && answer != name {
		err = &Failure{Code: ExitUnsafe, Err: errors.New("not confirmed; nothing was changed"), Advice: "scripts name it by --yes-destroy"}
	}
	return err
}

func answered(ctx context.Context, in io.Reader, out io.Writer, question string) (string, error) {
	fmt.Fprint(out, question)
	answers := make(chan string, 1)
	go func() {
		var answer string
		_, _ = fmt.Fscanln(in, &answer) // no answer is a no
		answers <- answer
	}()
	answer := ""
	select {
	case <-ctx.Done():
	case answer = <-answers:
	}
	if ctx.Err() != nil {
		fmt.Fprintln(out) // the question's line
		return "", &Failure{Code: ExitInterrupted, Err: errors.New("interrupted at the question; nothing was changed")}
	}
	return answer, nil
}

package cli

import (
	"errors"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// words makes a wrong number of arguments, or a command that there is not, a
// mistake in the usage.
func words(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		err := check(c, args)
		switch {
		case err == nil:
			return nil
		case len(args) > 0 && c.HasAvailableSubCommands():
			path := c.CommandPath() + ": "
			if !c.HasParent() {
				path = "" // every error begins with it
			}
			return usage(meantCommand(c, args[0]), "%sunknown command %q", path, args[0])
		}
		return usage("it is called as: "+c.UseLine(), "%s: %w", c.CommandPath(), err)
	}
}

// closeEnough is how many letters a word may be away from what was meant.
const closeEnough = 2

// meantCommand says which command may have been meant, or which there are.
func meantCommand(c *cobra.Command, typed string) string {
	c.SuggestionsMinimumDistance = closeEnough
	if near := c.SuggestionsFor(typed); len(near) > 0 {
		return "is " + c.CommandPath() + " " + strings.Join(near, ", or "+c.CommandPath()+" ") + " meant?"
	}
	var all, below []string
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		all = append(all, sub.Name())
		for _, s := range sub.Commands() {
			if s.IsAvailableCommand() && s.Name() == typed {
				below = append(below, s.CommandPath())
			}
		}
	}
	if len(below) > 0 {
		return "is " + strings.Join(below, ", or ") + " meant?"
	}
	return "its commands are " + strings.Join(all, ", ")
}

// numbers are how Go says that a flag's value is of another kind.
var numbers = []struct {
	said *regexp.Regexp
	want string
}{
	{regexp.MustCompile(`strconv\.ParseU?[iI]nt: .*$`), "a whole number is wanted"},
	{regexp.MustCompile(`strconv\.ParseFloat: .*$`), "a number is wanted"},
	{regexp.MustCompile(`strconv\.ParseBool: .*$`), "true or false is wanted"},
	{regexp.MustCompile(`time: .*$`), "a time is wanted, such as 90s, 15m or 24h"},
}

// flagMistake is what pflag says of a flag, for people.
func flagMistake(c *cobra.Command, err error) error {
	said, hint := err.Error(), "see "+c.CommandPath()+" --help"
	for _, n := range numbers {
		said = n.said.ReplaceAllString(said, n.want)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && len(unknown.GetSpecifiedName()) > 1 {
		if near := meantFlags(c, unknown.GetSpecifiedName()); len(near) > 0 {
			hint = "is " + strings.Join(near, " or ") + " meant? " + hint
		}
	}
	return usage(hint, "%s", said)
}

// meantFlags are the flags that may have been meant.
func meantFlags(c *cobra.Command, typed string) []string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	near := meantWords(names, typed)
	for i := range near {
		near[i] = "--" + near[i]
	}
	return near
}

// meantWords are those that are near what was typed, or begin with it: cobra's
// suggestions, which are for commands.
func meantWords(names []string, typed string) []string {
	all := &cobra.Command{SuggestionsMinimumDistance: closeEnough}
	for _, name := range names {
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return all.SuggestionsFor(typed)
}

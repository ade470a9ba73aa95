package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/daemon"
	"github.com/spf13/cobra"
)

// eachCommand calls do for every command that people see, with its path without the program.
func eachCommand(root *cobra.Command, do func(path string, c *cobra.Command)) {
	var walk func(path string, c *cobra.Command)
	walk = func(path string, c *cobra.Command) {
		do(path, c)
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				walk(strings.TrimSpace(path+" "+sub.Name()), sub)
			}
		}
	}
	walk("", root)
}

// Help is in groups, and shows how each command is used.
func TestEveryCommandHasAGroupAndAnExample(t *testing.T) {
	root := tree(daemon.Program{})
	var all []string
	eachCommand(root, func(path string, c *cobra.Command) {
		all = append(all, path)
		if c.Parent() == root && c.GroupID == "" {
			t.Errorf("etcdadm %s is in no group: put it into helpGroups in internal/cli/help.go", path)
		}
		if c.HasAvailableSubCommands() {
			return
		}
		if c.Example == "" {
			t.Errorf("etcdadm %s has no example", path)
		}
		for line := range strings.Lines(c.Example) {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("etcdadm %s: its example is not indented by two: %q", path, line)
			}
		}
	})
	for path := range examples {
		if !slices.Contains(all, path) {
			t.Errorf("examples has %q, and no such command exists", path)
		}
	}
	for _, g := range helpGroups {
		for _, name := range g.commands {
			if !slices.Contains(all, name) {
				t.Errorf("group %s has %q, and no such command exists", g.id, name)
			}
		}
	}
	code, out, _ := runEtcdadm("--help")
	at := -1
	for _, g := range helpGroups {
		i := strings.Index(out, g.title)
		if code != ExitOK || i <= at {
			t.Errorf("%d, %q is missing or out of order in\n%s", code, g.title, out)
		}
		at = i
	}
}

// The flags of every example exist: what is pasted is taken as it stands, up to the names.
func TestExamplesHaveKnownFlags(t *testing.T) {
	root := tree(daemon.Program{})
	eachCommand(root, func(path string, c *cobra.Command) {
		if c.DisableFlagParsing {
			return
		}
		for line := range strings.Lines(strings.ReplaceAll(c.Example, "\\\n", " ")) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			words := strings.Fields(line)
			if len(words) == 0 || words[0] != "etcdadm" {
				t.Errorf("etcdadm %s: the example %q is no command line of etcdadm", path, line)
				continue
			}
			found, rest, err := tree(daemon.Program{}).Find(words[1:])
			if err == nil {
				err = found.ParseFlags(rest)
			}
			if err != nil || !strings.HasPrefix(found.CommandPath(), c.CommandPath()) {
				t.Errorf("etcdadm %s: the example %q: %v", path, line, err)
			}
		}
	})
}

// Help is there at once: what the commands are is not worked out by asking anybody.
func TestHelpIsQuick(t *testing.T) {
	best := time.Hour
	for range 5 { // a busy machine is slow now and then
		began := time.Now()
		runEtcdadm("--help")
		best = min(best, time.Since(began))
	}
	if best > 20*time.Millisecond {
		t.Errorf("help took %s", best)
	}
}

func TestUnknownCommandNamesTheNearest(t *testing.T) {
	for typed, want := range map[string]string{
		"statu":      "is etcdadm status meant?",
		"memebr":     "is etcdadm member meant?",
		"promote":    "is etcdadm member promote meant?",
		"verify":     "is etcdadm backup verify meant?",
		"frobnicate": "its commands are adopt, alarm,",
	} {
		code, _, errs := runEtcdadm(typed)
		if code != ExitUsage || !strings.Contains(errs, want) || strings.Contains(errs, "etcdadm: etcdadm:") {
			t.Errorf("%s: %d %s, want %q", typed, code, errs, want)
		}
	}
}

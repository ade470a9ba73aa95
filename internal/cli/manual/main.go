// Command manual writes etcdadm's manual pages into a directory, a page for each command:
//
//	go run ./internal/cli/manual DIR
//
// They come from the commands themselves, so that help and manual cannot differ. The month
// in their footer is that of SOURCE_DATE_EPOCH, in seconds since 1970, or of now; all else
// is the same each time. It is no part of a program that is shipped: what renders the pages
// is not needed there.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/version"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// section is that of commands for administrators.
const section = "8"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(cli.ExitError)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("it is called as: go run ./internal/cli/manual DIR")
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	for _, p := range pages() {
		text, err := p.roff()
		if err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
		if err := os.WriteFile(filepath.Join(args[0], p.file), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// page is the page of a command.
type page struct {
	file    string
	command *cobra.Command
}

// pages are those of all commands that people see.
func pages() (all []page) {
	for _, pair := range os.Environ() { // who makes the pages has settings, which are no defaults
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "ETCDADM_") {
			_ = os.Unsetenv(name) // the name comes from the environment
		}
	}
	root := cli.Commands()
	root.DisableAutoGenTag = true
	root.InitDefaultHelpCmd()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, page{strings.ReplaceAll(c.CommandPath(), " ", "-") + "." + section, c})
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	walk(root)
	return all
}

// roff is the page as man reads it.
func (p page) roff() ([]byte, error) {
	defer escape(p.command)()
	var b bytes.Buffer
	header := &doc.GenManHeader{Title: strings.ToUpper(strings.TrimSuffix(p.file, "."+section)), Section: section, Source: "etcdadm " + version.Release, Manual: "etcdadm"}
	if err := doc.GenMan(p.command, header, &b); err != nil {
		return nil, err
	}
	more := exitStatus()
	if !p.command.HasParent() {
		more = environment + files + more
	}
	if p.command.DisableFlagParsing { // it takes the flags of etcd-manager
		more = agentFlags() + more
	}
	more = commands(p.command) + more
	text := b.String()
	if i := strings.Index(text, ".SH SEE ALSO\n"); i >= 0 {
		return []byte(text[:i] + more + text[i:]), nil
	}
	return []byte(text + more), nil
}

// markdown are characters which the renderer takes for markup, and that stand for themselves
// in a help text.
var markdown = strings.NewReplacer(`\`, `\\`, "<", `\<`, ">", `\>`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`)

// escape has a command's description taken as it stands. What it returns puts it back.
func escape(c *cobra.Command) (back func()) {
	long, short := c.Long, c.Short
	c.Long, c.Short = markdown.Replace(long), markdown.Replace(short)
	return func() { c.Long, c.Short = long, short }
}

// commands are those below a command, in their groups.
func commands(c *cobra.Command) string {
	var b strings.Builder
	list := func(title, group string) {
		for _, sub := range c.Commands() {
			if !sub.IsAvailableCommand() || sub.Name() == "help" || sub.GroupID != group {
				continue
			}
			if title != "" {
				fmt.Fprintf(&b, ".SS %s\n", literal(strings.TrimSuffix(title, ":")))
				title = ""
			}
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s.\n", literal(sub.CommandPath()), literal(sub.Short))
		}
	}
	for _, g := range c.Groups() {
		list(g.Title, g.ID)
	}
	list("", "")
	if b.Len() == 0 {
		return ""
	}
	return ".SH COMMANDS\n" + b.String()
}

// agentFlags are the flags of the daemon that have an effect.
func agentFlags() string {
	var b strings.Builder
	b.WriteString(".SH FLAGS\n")
	c := daemon.Default()
	fs := flag.NewFlagSet("etcdadm auto", flag.ContinueOnError)
	cli.ManagerFlags(fs, &c)
	for _, f := range cli.InEffect(fs) {
		usual := ""
		if f.DefValue != "" && !strings.Contains(f.Usage, "(default") {
			usual = " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s%s.\n", literal("--"+f.Name), literal(f.Usage), literal(usual))
	}
	return b.String()
}

// exitStatus is the table of exit codes, which are the same for all commands.
func exitStatus() string {
	var b strings.Builder
	b.WriteString(".SH EXIT STATUS\n")
	for _, e := range cli.ExitCodes() {
		fmt.Fprintf(&b, ".TP\n\\fB%d\\fP\n%s.\n", e.Code, literal(e.Means))
	}
	return b.String()
}

// literal is a text of which roff takes nothing for a command of its own.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, "-", `\-`).Replace(text)
}

const environment = `.SH ENVIRONMENT
.TP
\fBETCDADM_DATA_DIR\fP
Data directory of a daemon on this host, as \-\-data\-dir.
.TP
\fBETCDADM_STORE\fP
URL of the backup store, as \-\-store.
.TP
\fBETCDADM_TOKEN\fP
Join token, as \-\-token of etcdadm join.
.TP
\fBETCDADM_RELEASES\fP
Directories with further releases of etcd, separated by colons.
`

const files = `.SH FILES
.TP
\fI/etc/etcdadm/agent.env\fP
Settings of the agent, as etcdadm init and etcdadm join write them.
.TP
\fI/etc/systemd/system/etcdadm.service\fP
The agent's unit. Keep changes in a drop\-in.
.TP
\fI/etc/kubernetes/manifests/etcdadm.yaml\fP
With \-\-static\-pod: the manifest by which the kubelet runs the agent.
.TP
\fI/etc/etcd/etcdctl.env\fP
What a shell reads before etcdctl.
.TP
\fI/var/lib/etcdadm\fP
Data directory.
`

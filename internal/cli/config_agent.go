package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/setup"
	"github.com/spf13/cobra"
)

// agentConfig is where the settings of a daemon come from.
type agentConfig struct {
	reach
	paths       setup.Paths
	file        string
	environment bool
	all         bool
}

// Where a setting comes from, the one that goes before the others first.
const (
	fromFlag        = "flag"
	fromEnvironment = "environment"
	fromFile        = "file"
	fromDefault     = "default"
)

// agentSetting is a setting of a daemon for programs.
type agentSetting struct {
	Flag     string `json:"flag"`
	Variable string `json:"variable"`
	Value    string `json:"value"`
	From     string `json:"from"`
}

// agentSettings are all settings of a daemon.
type agentSettings struct {
	File     string         `json:"file,omitempty"`
	Settings []agentSetting `json:"settings"`
	// Others are variables of the file that are no flag's, such as credentials of the store:
	// their names alone.
	Others   []string `json:"others,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Valid    bool     `json:"valid"`
	Problem  string   `json:"problem,omitempty"`
}

func (a *agentConfig) flags(c *cobra.Command) {
	a.outputFlag(c)
	rootFlag(c, &a.paths)
	c.Flags().StringVar(&a.file, "file", "", "file with settings; default: that of the agent which init or join set up here, if there is one")
	c.Flags().BoolVar(&a.environment, "environment", false, "also this shell's environment, as for an etcdadm auto that is started here")
}

func configPrintCommand() *cobra.Command {
	var a agentConfig
	c := &cobra.Command{
		Use:   "print [-- FLAGS]",
		Short: "Print the agent's own settings, and where each comes from",
		Long: `print shows the settings of this host's agent as it takes them when it starts: from its
file (` + "/etc/etcdadm/agent.env" + `), with --environment from this shell's environment, and from the
flags behind --. A flag goes before the environment, and that before the file. Secrets
are not shown.`,
		Example: `  etcdadm config print
  etcdadm config print --all -o json
  etcdadm config print --file ./agent.env -- --grpc-port=9000`,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.read(args)
			if err != nil {
				return err
			}
			return a.print(c.OutOrStdout(), s, func(w io.Writer) { printAgentSettings(w, s) })
		},
	}
	a.flags(c)
	c.Flags().BoolVar(&a.all, "all", false, "also those that are at their default")
	return c
}

func configValidateCommand() *cobra.Command {
	var a agentConfig
	c := &cobra.Command{
		Use:   "validate [-- FLAGS]",
		Short: "Check the agent's own settings without starting it",
		Long: `validate reads settings as the agent does when it starts, and says what it would refuse
(exit code 2) or ignore. Whether the store and the hosts answer is not tried.`,
		Example: `  etcdadm config validate
  etcdadm config validate --file ./agent.env
  etcdadm config validate -- --cluster-name=etcd --backup-store=file:///var/backups/etcd --data-dir=/var/lib/etcdadm`,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.read(args)
			if err != nil {
				return err
			}
			for _, w := range s.Warnings {
				fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
			}
			if !s.Valid && a.output == "table" {
				return usage("etcdadm config print shows where each setting comes from", "%s", s.Problem)
			}
			if err := a.print(c.OutOrStdout(), s, func(w io.Writer) {
				fmt.Fprintf(w, "the settings are valid: %d are set\n", len(s.Settings))
			}); err != nil || s.Valid {
				return err
			}
			return exitCode(ExitUsage)
		},
	}
	a.flags(c)
	return c
}

// read takes the settings together, as a daemon does.
func (a *agentConfig) read(args []string) (agentSettings, error) {
	var s agentSettings
	file, err := a.fileSettings()
	if err != nil {
		return s, err
	}
	if len(file) > 0 {
		s.File = cmp.Or(a.file, a.paths.Settings())
	}
	shell := map[string]string{}
	if a.environment {
		for _, pair := range os.Environ() {
			if name, value, _ := strings.Cut(pair, "="); value != "" {
				shell[name] = value
			}
		}
	}
	if len(args) == 0 && len(file) == 0 && !a.environment {
		return s, &Failure{Code: ExitNoCluster, Err: errors.New("no settings: " + a.paths.Settings() + " does not exist"), Advice: "name a file with --file, flags behind --, or --environment"}
	}
	both := maps.Clone(file)
	maps.Copy(both, shell)
	var env []string
	for _, name := range slices.Sorted(maps.Keys(both)) {
		env = append(env, name+"="+both[name])
	}
	_, warnings, wrong := ParseManager(args, env)
	if s.Valid = wrong == nil; wrong != nil {
		s.Problem = wrong.Error()
	}
	s.Warnings = warnings
	s.Settings, s.Others = settingsFrom(args, shell, file, a.all)
	return s, nil
}

// fileSettings are those of the file, by the names of the variables; none: there is no file,
// and none was named.
func (a *agentConfig) fileSettings() (map[string]string, error) {
	out := map[string]string{}
	vars, err := envfile.Read(cmp.Or(a.file, a.paths.Settings()))
	switch {
	case a.file == "" && errors.Is(err, fs.ErrNotExist):
		return out, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, &Failure{Code: ExitError, Err: fmt.Errorf("read the settings: %w", err), Advice: "run it as root"}
	case err != nil:
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	for _, v := range vars {
		if v.Value != "" {
			out[v.Name] = v.Value
		}
	}
	return out, nil
}

// defaultIn is the default of a flag whose value has no text, as its usage has it.
var defaultIn = regexp.MustCompile(`\(default ([^)]+)\)`)

// settingsFrom are the settings that are set, or all, and the names of the file's other
// variables.
func settingsFrom(args []string, shell, file map[string]string, all bool) (out []agentSetting, others []string) {
	c := daemon.Default()
	known := flag.NewFlagSet("etcdadm auto", flag.ContinueOnError)
	ManagerFlags(known, &c)
	given := rawFlags(known, args)
	out = []agentSetting{}
	variables := map[string]bool{}
	known.VisitAll(func(f *flag.Flag) {
		if without(f) {
			return
		}
		s := agentSetting{Flag: "--" + f.Name, Variable: envfile.OfFlag(f.Name), From: fromDefault, Value: f.DefValue}
		variables[s.Variable] = true
		if m := defaultIn.FindStringSubmatch(f.Usage); s.Value == "" && m != nil {
			s.Value = m[1]
		}
		switch words, ok := given[f.Name]; {
		case ok:
			s.From, s.Value = fromFlag, strings.Join(words, ",")
		case shell[s.Variable] != "":
			s.From, s.Value = fromEnvironment, shell[s.Variable]
		case file[s.Variable] != "":
			s.From, s.Value = fromFile, file[s.Variable]
		}
		if strings.Contains(s.Value, "://") { // a URL may hold a credential
			s.Value = shownURLs(s.Value)
		}
		if s.From != fromDefault || all {
			out = append(out, s)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(file)) {
		if !variables[name] {
			others = append(others, name)
		}
	}
	return out, others
}

// shownURLs is a comma list of URLs as people may see it.
func shownURLs(list string) string {
	var parts []string
	for _, p := range strings.Split(list, ",") {
		if n := len(parts); n > 0 && strings.Contains(parts[n-1], "://") && !strings.Contains(p, "://") {
			parts[n-1] += "," + p // of its password, say
			continue
		}
		parts = append(parts, p)
	}
	for i, p := range parts {
		if strings.Contains(p, "://") {
			parts[i] = cmp.Or(daemon.ShownURL(p), "…")
		}
	}
	return strings.Join(parts, ",")
}

func printAgentSettings(w io.Writer, s agentSettings) {
	if s.File != "" {
		fmt.Fprintf(w, "file: %s\n", s.File)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FLAG\tVALUE\tFROM")
	for _, one := range s.Settings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", one.Flag, one.Value, one.From)
	}
	_ = t.Flush()
	if len(s.Others) > 0 {
		fmt.Fprintf(w, "variables without a flag, values not shown: %s\n", strings.Join(s.Others, ", "))
	}
	for _, warning := range s.Warnings {
		fmt.Fprintln(w, "warning:", warning)
	}
	if !s.Valid {
		fmt.Fprintf(w, "! the agent would not start with them: %s\n", s.Problem)
	}
}

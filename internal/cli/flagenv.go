package cli

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/internal/envfile"
)

// otherVariables are ours and no flag's.
var otherVariables = []string{"ETCDADM_RELEASES", "ETCDADM_STORE", "ETCDADM_TOKEN", "ETCDADM_SPAWN"}

// flagsFromEnvironment sets the flags that were not given and have a variable with a value. The warnings name
// variables that look like a flag's and are none.
func flagsFromEnvironment(fs *flag.FlagSet, env []string) (warnings []string, err error) {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	flagOf := map[string]*flag.Flag{}
	var names []string
	fs.VisitAll(func(f *flag.Flag) {
		if without(f) {
			return
		}
		names = append(names, envfile.OfFlag(f.Name))
		flagOf[envfile.OfFlag(f.Name)] = f
	})
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		f := flagOf[name]
		switch {
		case !envfile.IsFlag(name) || value == "" || envfile.ServiceLink(name, value):
		case f == nil && slices.Contains(otherVariables, name), strings.HasPrefix(name, "ETCDADM_TEST_"), strings.HasPrefix(name, "ETCDADM_CI_"):
		case f == nil:
			warning := fmt.Sprintf("the variable %s is no flag's and is ignored", name)
			if near := meantWords(names, name); len(near) > 0 {
				warning += "; is " + strings.Join(near, " or ") + " meant?"
			}
			warnings = append(warnings, warning)
		case given[f.Name]:
		default:
			if wrong := fs.Set(f.Name, value); wrong != nil && err == nil { // the rest says where a refusal is kept
				err = usage("see etcdadm auto --help", "invalid value %q for $%s: %w", value, name, wrong)
			}
		}
	}
	slices.Sort(warnings)
	return warnings, err
}

// withEnvFile adds the variables of an environment file to an environment: of the last one that was named, or of the
// one that the environment names. What the environment has goes before them. The daemon reads the file again, for what
// is no flag's.
func withEnvFile(env, named []string) ([]string, error) {
	path := valueIn(env, envfile.OfFlag("env-file"))
	if len(named) > 0 {
		path = named[len(named)-1]
	}
	if path == "" {
		return env, nil
	}
	vars, err := envfile.Read(path)
	if err != nil {
		return nil, usage("name a file of NAME=VALUE lines that this user can read", "--env-file: %w", err)
	}
	out := slices.Clone(env)
	for _, v := range vars {
		if had := valueIn(env, v.Name); envfile.IsFlag(v.Name) && (had == "" || envfile.ServiceLink(v.Name, had)) {
			out = append(out, v.String())
		}
	}
	return out, nil
}

// valueIn is the value of a variable; empty: it has none. The last of several counts, as for os.Getenv's callers.
func valueIn(env []string, name string) (value string) {
	for _, pair := range env {
		if is, has, _ := strings.Cut(pair, "="); is == name {
			value = has
		}
	}
	return value
}

// InEffect are the flags that are not only accepted, by name.
func InEffect(fs *flag.FlagSet) (out []*flag.Flag) {
	fs.VisitAll(func(f *flag.Flag) {
		if !without(f) {
			out = append(out, f)
		}
	})
	return out
}

// without tells whether a flag is accepted only, and has no effect.
func without(f *flag.Flag) bool {
	switch f.Value.(type) {
	case ignored, anything:
		return true
	}
	return false
}

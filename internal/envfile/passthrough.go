package envfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Variables that etcd reads begin with prefixEtcd; etcd-manager's own settings,
// which are not for etcd, with prefixManager.
const (
	prefixEtcd    = "ETCD_"
	prefixManager = "ETCD_MANAGER_"
)

// refused are the variables that never reach etcd: by name, or with a * at the
// end by prefix, each with what it would do.
var refused = []struct{ pattern, reason string }{
	{"ETCD_FORCE_NEW_CLUSTER*", "it would make the member forget the others and drop writes that were acknowledged"},
	{"ETCD_INITIAL_*", "which cluster a member founds or joins is fixed by the intent, not by a host's environment"},
	{"ETCD_DISCOVERY*", "which cluster a member founds or joins is fixed by the intent, not by a discovery service"},
	{"ETCD_NAME", "the member's name is the host's ID, and its identity is checked by it"},
	{"ETCD_DATA_DIR", "where the data lies is recorded by the host; elsewhere etcd would start as an empty member"},
	{"ETCD_WAL_DIR", "a log outside of the data directory is not seen by the checks that guard a start, and not moved with the data"},
	{"ETCD_STRICT_RECONFIG_CHECK", "without that check etcd accepts membership changes that cost the quorum"},
	{"ETCD_UNSAFE_NO_FSYNC", "a member would acknowledge writes that a power failure takes back"},
	// Not named by rule 24, refused in its spirit.
	{"ETCD_CONFIG_FILE", "with a configuration file etcd ignores all flags, so that it could say anything of the above"},
	{"ETCD_LISTEN_CLIENT_*", "a member in quarantine would be open to ordinary clients; set --client-urls and --etcd-address instead"},
}

// Refusal is one variable that is not passed on, with the reason as a clause.
type Refusal struct {
	Name, Reason string
}

func (r Refusal) String() string { return r.Name + " is refused: " + r.Reason }

// RefusedError lists every variable that was refused, by name.
type RefusedError struct {
	Refusals []Refusal
}

func (e *RefusedError) Error() string {
	sentences := make([]string, 0, len(e.Refusals))
	for _, r := range e.Refusals {
		sentences = append(sentences, r.String())
	}
	return "pass environment to etcd: " + strings.Join(sentences, "; ")
}

// Hint says what a person can do about it.
func (e *RefusedError) Hint() string {
	names := make([]string, 0, len(e.Refusals))
	for _, r := range e.Refusals {
		names = append(names, r.Name)
	}
	return fmt.Sprintf("remove %s from the daemon's environment or env-file", strings.Join(names, ", "))
}

// PassThrough chooses from an environment of NAME=VALUE strings what etcd gets:
// ETCD_*, but not ETCD_MANAGER_*. Of a name that stands twice the last one
// counts, as for os/exec; one with an empty value is left out, for etcd takes it
// as not set. The result is sorted by name. When a variable is among those that
// are refused the error is a *RefusedError that lists all of them.
func PassThrough(environ []string) ([]string, error) {
	values := map[string]string{}
	for _, pair := range environ {
		name, value, found := strings.Cut(pair, "=")
		if found && strings.HasPrefix(name, prefixEtcd) && !strings.HasPrefix(name, prefixManager) {
			values[name] = value
		}
	}
	var passed []Variable
	var refusals []Refusal
	for name, value := range values {
		if value == "" {
			continue
		}
		if reason := whyRefused(name); reason != "" {
			refusals = append(refusals, Refusal{Name: name, Reason: reason})
			continue
		}
		passed = append(passed, Variable{Name: name, Value: value})
	}
	if len(refusals) > 0 {
		slices.SortFunc(refusals, func(a, b Refusal) int { return cmp.Compare(a.Name, b.Name) })
		return nil, &RefusedError{Refusals: refusals}
	}
	slices.SortFunc(passed, func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) })
	pairs := make([]string, 0, len(passed))
	for _, v := range passed {
		pairs = append(pairs, v.String())
	}
	return pairs, nil
}

// whyRefused is empty for a variable that may pass.
func whyRefused(name string) string {
	for _, r := range refused {
		prefix, isPrefix := strings.CutSuffix(r.pattern, "*")
		if name == prefix || isPrefix && strings.HasPrefix(name, prefix) {
			return r.reason
		}
	}
	return ""
}

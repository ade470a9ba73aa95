package envfile

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"etcdadm.io/cluster"
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

// Passed is what of an environment is for etcd.
type Passed struct {
	Environ  []string // NAME=VALUE, sorted by name
	Withheld []string // names that look like a secret's and are none of etcd's, sorted
}

// PassThrough chooses from an environment of NAME=VALUE strings what etcd gets:
// ETCD_*, but not ETCD_MANAGER_*. Of a name that stands twice the last one
// counts, as for os/exec; one with an empty value is left out, for etcd takes it
// as not set. What etcd has no flag for and looks like a secret is withheld: etcd
// writes such a variable into its log, value and all (pkg/flags of etcd). When a
// variable is among those that are refused the error is a *RefusedError that
// lists all of them.
func PassThrough(environ []string) (Passed, error) {
	values := map[string]string{}
	for _, pair := range environ {
		name, value, found := strings.Cut(pair, "=")
		if found && strings.HasPrefix(name, prefixEtcd) && !strings.HasPrefix(name, prefixManager) {
			values[name] = value
		}
	}
	var passed []Variable
	var out Passed
	var refusals []Refusal
	for name, value := range values {
		if value == "" {
			continue
		}
		if reason := whyRefused(name); reason != "" {
			refusals = append(refusals, Refusal{Name: name, Reason: reason})
			continue
		}
		if secret(name, value) {
			out.Withheld = append(out.Withheld, name)
			continue
		}
		passed = append(passed, Variable{Name: name, Value: value})
	}
	if len(refusals) > 0 {
		slices.SortFunc(refusals, func(a, b Refusal) int { return cmp.Compare(a.Name, b.Name) })
		return Passed{}, &RefusedError{Refusals: refusals}
	}
	slices.Sort(out.Withheld)
	slices.SortFunc(passed, func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) })
	for _, v := range passed {
		out.Environ = append(out.Environ, v.String())
	}
	return out, nil
}

// Names and values that secrets have, such as ETCD_ROOT_PASSWORD, which a common
// image of etcd takes, and URLs with a user, or with a parameter of such a name.
// They are wide: withholding what is none costs a line in the daemon's log, and a
// password may have any character in it.
const secretWord = `(?:key|secret|token|pass|pwd|sig|cred|auth|private)`

var (
	secretName  = regexp.MustCompile(`(?i)` + secretWord)
	secretValue = regexp.MustCompile(`(?i)://\S*@|[?&;][^=&;\s]*` + secretWord + `[^=&;\s]*=|-----BEGIN [A-Z ]*PRIVATE KEY`)
)

// secret tells what looks like one. A flag of etcd takes none: its keys and
// passwords are names of files. A flag's variable is in capitals; etcd does not
// know another spelling.
func secret(name, value string) bool {
	flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefixEtcd)), "_", "-")
	if _, known := cluster.FindOption(flag); known && name == strings.ToUpper(name) {
		return false
	}
	return secretName.MatchString(name) || secretValue.MatchString(value)
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

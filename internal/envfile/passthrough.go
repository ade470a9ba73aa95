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

// variableVersion is of images and scripts. For etcd it would be the flag --version:
// 3.4.25 ends at any value that is not true or false, later releases ignore it.
const variableVersion = "ETCD_VERSION"

// refused begin names that no release in the table of options has a flag for, and that a
// later one may have for what the table refuses.
var refused = []struct{ prefix, reason string }{
	{"ETCD_FORCE_NEW_CLUSTER", "it would make the member forget the others and drop writes that were acknowledged"},
	{"ETCD_INITIAL_CLUSTER", "the intent or the member list has the cluster's members"},
	{"ETCD_INITIAL_ADVERTISE", "the host sets its URLs"},
	{"ETCD_DISCOVERY", "etcd's own discovery is not used: the intent or the member list has the members"},
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

// PassThrough chooses etcd's variables from an environment of NAME=VALUE strings:
// ETCD_*, but not ETCD_MANAGER_*. Of a name that stands twice the last one counts, as
// for os/exec. It leaves out empty values, which etcd takes as not set, Kubernetes'
// service links, and ETCD_VERSION. It withholds variables that look like a secret and
// that etcd has no flag for: etcd writes those into its log, value and all (pkg/flags
// of etcd). tls says that members have TLS. The table of options says which values are
// refused (SAFETY.md, rule 24); the error is then a *RefusedError that lists all of them.
func PassThrough(environ []string, tls bool) (Passed, error) {
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
		if value == "" || name == variableVersion || ServiceLink(name, value) {
			continue
		}
		reason, drop := judge(name, value, tls)
		if reason != "" {
			refusals = append(refusals, Refusal{Name: name, Reason: reason})
			continue
		}
		if drop {
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
// passwords are names of files.
func secret(name, value string) bool {
	if _, known := cluster.FindVariable(name); known {
		return false
	}
	return secretName.MatchString(name) || secretValue.MatchString(value)
}

// judge gives the reason where a variable is refused. drop: a member does what it says anyway.
func judge(name, value string, tls bool) (reason string, drop bool) {
	if o, found := cluster.FindVariable(name); found {
		return o.JudgeVariable(value, tls)
	}
	for _, r := range refused {
		if strings.HasPrefix(name, r.prefix) {
			return r.reason, false
		}
	}
	return "", false
}

// linked are the ends of the names that Kubernetes gives to the variables of a service's
// address, by default in every container of its namespace: a Service named etcd makes
// ETCD_PORT=tcp://10.0.0.1:2379. Source: FromServices of the kubelet's envvars.
var linked = regexp.MustCompile(
	`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

var linkValue = regexp.MustCompile(`^(tcp|udp|sctp)://|^[0-9]+$|^(tcp|udp|sctp)$|^[0-9a-fA-F.:]+$`)

// ServiceLink reports whether a variable is a Service's address, which Kubernetes puts
// into containers. It is no setting, whatever its name begins with.
func ServiceLink(name, value string) bool {
	end := linked.FindString(name)
	if end == "_PORT" { // a flag's name may end like that
		return strings.Contains(value, "://") && linkValue.MatchString(value)
	}
	return end != "" && linkValue.MatchString(value)
}

// Package setup makes a fresh machine a host of a cluster, as `etcdadm init` and `etcdadm join` do: it checks
// everything first, and then takes steps that leave
//
//	/etc/etcdadm/pki/                      the three authorities
//	/etc/etcdadm/agent.env                 the agent's settings, which systemd gives it as its environment
//	/etc/systemd/system/etcdadm.service    the unit (package unit); or
//	/etc/kubernetes/manifests/etcdadm.yaml the static pod (package staticpod)
//	/etc/etcd/etcdctl.env                  how etcdctl reaches etcd
//	/opt/bin/etcdctl.sh                    etcdctl with that
//	/var/lib/etcdadm/                      the data directory, which is the agent's from then on
//	/etc/etcdadm/installed.json            what of all this was made here, for who takes it away again
//
// What must always hold:
//
//   - Each step can be repeated, and after an interruption at any moment the command is run again and comes to the
//     same end. The settings are written when everything that they name is there.
//   - Nothing that exists is overwritten or deleted but what was made here, by what is made here again: a machine
//     that belongs to another cluster, or files that somebody else has put there, are refused with the way out.
//   - Secrets lie in files for root only, and appear in no error, sentence or result but the token in Initialised.
//   - Every wait has a bound, and is told.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/advice"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/bounded"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/moving"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/unit"
)

// Paths are where things lie, below a root, which is / but in tests.
type Paths struct{ Root string }

func (p Paths) at(elem ...string) string {
	return filepath.Join(append([]string{"/", p.Root}, elem...)...)
}

// Settings is the file with the agent's settings.
func (p Paths) Settings() string { return p.at("etc/etcdadm/agent.env") }

// PKI is the directory of the authorities.
func (p Paths) PKI() string { return p.at("etc/etcdadm/pki") }

// Data is the data directory.
func (p Paths) Data() string { return p.at("var/lib/etcdadm") }

// Unit is the unit's file.
func (p Paths) Unit() string { return p.at("etc/systemd/system", unit.Name) }

// Etcdctl is the file that a shell reads before etcdctl.
func (p Paths) Etcdctl() string { return p.at("etc/etcd/etcdctl.env") }

// EtcdctlScript is etcdctl with that file, where etcdadm of kubernetes-sigs had it.
func (p Paths) EtcdctlScript() string { return p.at("opt/bin/etcdctl.sh") }

// begun says that this machine has begun the cluster, and that its member count is a person's from then on.
func (p Paths) begun() string { return p.at("etc/etcdadm/cluster-begun") }

// try is the number by which a join that was interrupted is known again.
func (p Paths) try() string { return p.at("etc/etcdadm/join-try") }

// Notes are small files that init and join keep for themselves.
func (p Paths) Notes() []string { return []string{p.begun(), p.try()} }

// Reset is the file that says how far a reset of this machine has come. While it is there nothing is set up.
func (p Paths) Reset() string { return p.at("etc/etcdadm/reset.json") }

// Aside is the directory for the settings and keys of what was reset, by the time of that.
func (p Paths) Aside(stamp string) string { return p.at("etc/etcdadm", AsidePrefix+stamp) }

// AsidePrefix begins the names of directories with what was set aside, by a reset or to make room for a new cluster.
const AsidePrefix = "reset-"

// Machine is the one that is set up.
type Machine struct {
	Paths   Paths
	Service Service
	Binary  string       // the program, which the unit starts
	Build   string       // its release
	Environ []string     // NAME=VALUE; what the store is asked with is taken from it
	Say     func(string) // told what is done and waited for; nil: nobody

	pod   *Pod  // nil: the agent runs by a unit
	words Words // empty: those of the unit; see speak
}

// speak is how people speak of the agent's service.
func (m *Machine) speak() Words {
	if m.words == (Words{}) {
		return unitWords
	}
	return m.words
}

func (m *Machine) say(format string, args ...any) {
	if m.Say != nil {
		m.Say(fmt.Sprintf(format, args...))
	}
}

// Error is what keeps a machine from being set up, for people.
type Error = advice.Error

// Errors that callers decide by.
var (
	// ErrOther says that the machine, or the store, belongs to another cluster.
	ErrOther = errors.New("it belongs to another cluster")
	// ErrSetUp says that the machine is a host already, as another one than is asked for.
	ErrSetUp = errors.New("it is a host already")
	// ErrNotSetUp says that the machine is no host of a cluster.
	ErrNotSetUp = errors.New("this machine is no host of a cluster")
	// ErrHalfReset says that a reset of the machine was interrupted.
	ErrHalfReset = errors.New("a reset of this machine was interrupted")
	// ErrWaiting says that the machine is set up, and that its member is not there within the time that was given.
	ErrWaiting = errors.New("the time to wait is up")
)

// Settings are the agent's, by the names of the variables.
type Settings map[string]string

// Flag is the value of a flag; empty: it is not set.
func (s Settings) Flag(name string) string { return s[envfile.OfFlag(name)] }

func (s Settings) setFlag(name, value string) { s[envfile.OfFlag(name)] = value }

// Cluster is the name of the cluster.
func (s Settings) Cluster() string { return s.Flag("cluster-name") }

// Store is the URL of the backup store. It may hold a secret.
func (s Settings) Store() string { return s.Flag("backup-store") }

// HostID is this host's.
func (s Settings) HostID() cluster.HostID { return cluster.HostID(s.Flag("host-id")) }

// Environment sets the variables that the store is reached by, for this process, where they are not set.
func (s Settings) Environment() error {
	for name, value := range s {
		if envfile.IsFlag(name) || strings.HasPrefix(name, "ETCD_") || os.Getenv(name) != "" { // the latter are etcd's
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// notHalfReset refuses a machine whose reset was interrupted: what it still is, is not decided.
func (p Paths) notHalfReset() error {
	switch _, err := os.Lstat(p.Reset()); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &Error{Problem: "look for " + p.Reset(), Err: err, Advice: "run it as root"}
	}
	return &Error{Problem: p.Reset() + " exists", Err: ErrHalfReset, Advice: "finish it with etcdadm reset, and run the command again"}
}

// ReadSettings are those of this machine. Where there are none the error is ErrNotSetUp.
func ReadSettings(p Paths) (Settings, error) {
	vars, err := envfile.Read(p.Settings())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Problem: p.Settings() + " does not exist", Err: ErrNotSetUp, Advice: "run etcdadm init for a new cluster, or etcdadm join for one that exists"}
	case errors.Is(err, fs.ErrPermission):
		return nil, &Error{Problem: "read the agent's settings", Err: err, Advice: "run it as root"}
	case err != nil:
		return nil, &Error{Problem: "read the agent's settings", Err: err}
	}
	s := Settings{}
	for _, v := range vars {
		s[v.Name] = v.Value
	}
	if s.Cluster() == "" || s.Store() == "" {
		return nil, &Error{Problem: fmt.Sprintf("%s names no cluster or no store", p.Settings()), Advice: "mend it, or move it away and run etcdadm init or join again"}
	}
	return s, s.placed()
}

// notesTimeout bounds the look at the data directory that the settings name.
const notesTimeout = 2 * time.Second

// placed has the settings say where the record was moved to, as the agent goes by.
func (s Settings) placed() error {
	dir := s.Flag("data-dir")
	n, err := bounded.Do(context.Background(), dir, notesTimeout, func() (moving.Notes, error) { return moving.ReadNotes(dir) })
	switch {
	case err != nil:
		return &Error{Problem: "where the cluster's record is", Err: err, Advice: "run it as root"}
	case n.Place == nil || n.Place.URL == s.Store():
		return nil
	case n.Place.AtHosts():
		s.setFlag("backup-store", kept.URL(dir))
		return nil
	}
	s.setFlag("backup-store", n.Place.URL)
	maps.DeleteFunc(s, func(name, _ string) bool { return open.Variable(name) && !strings.HasSuffix(name, "_PROXY") })
	maps.Copy(s, n.Place.Variables)
	return nil
}

// unwritable is why systemd and we would not read a value alike; empty: both take it as it stands.
func unwritable(value string) string {
	switch {
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "it has a control character"
	case strings.ContainsRune(value, '\\'):
		return "it has a backslash"
	case strings.HasPrefix(value, "'"), strings.HasPrefix(value, `"`):
		return "it begins with a quote"
	case strings.TrimSpace(value) != value:
		return "it begins or ends with a blank"
	}
	return ""
}

// text is the file of the settings, which the agent takes by a command. Errors show no value.
func (s Settings) text(reload string) ([]byte, error) {
	var b strings.Builder
	b.WriteString("# Settings of etcdadm's agent, as its flags: ETCDADM_FOO_BAR for --foo-bar; see etcdadm auto --help.\n" +
		"# The agent reads them when it starts: " + reload + " takes a change.\n")
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if why := unwritable(s[name]); why != "" {
			return nil, fmt.Errorf("the value of %s cannot be kept in a file for systemd: %s", name, why)
		}
		fmt.Fprintf(&b, "%s=%s\n", name, s[name])
	}
	return []byte(b.String()), nil
}

// Modes of what is written.
const (
	modeDir    = 0o755
	modeSecret = 0o600
	modePublic = 0o644
	modeScript = 0o755
	modeData   = 0o700
)

// put makes a file hold data, where it does not already. ours tells whether what is there may be replaced.
func put(path string, data []byte, mode fs.FileMode, ours func([]byte) bool) error {
	had, err := regular.Read(path, regular.SmallSize)
	switch {
	case err == nil && string(had) == string(data):
		return nil
	case err == nil && !ours(had):
		return &Error{Problem: fmt.Sprintf("%s exists and was not made by etcdadm", path), Advice: "move it away, and run the command again"}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return &Error{Problem: "read " + path, Err: err}
	}
	if err := durable.MakeDir(filepath.Dir(path), modeDir); err != nil {
		return &Error{Problem: "make " + filepath.Dir(path), Err: err}
	}
	if err := durable.Replace(path, data, mode); err != nil {
		return &Error{Problem: "write " + path, Err: err}
	}
	return nil
}

// step is one part of the work. It is repeated without harm.
type step struct {
	what string // a sentence without its end, as "write the agent's settings to …"
	do   func(context.Context) error
}

func whats(steps []step) []string {
	var out []string
	for _, s := range steps {
		out = append(out, s.what)
	}
	return out
}

func run(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w; run the command again to go on", s.what, err)
		}
		if err := s.do(ctx); err != nil {
			if told, ok := errors.AsType[*Error](err); ok {
				return told
			}
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// Endpoint is where the agent of this host is reached.
func (s Settings) Endpoint() string {
	return net.JoinHostPort(s.Flag("address"), cmp.Or(s.Flag("grpc-port"), usualPort))
}

// DefaultCluster is the name where nothing is said.
const DefaultCluster = "etcd"

// usualPort is the agents' where nothing is said.
const usualPort = "8000"

// PKI is the directory of the authorities.
func (s Settings) PKI(p Paths) string { return cmp.Or(s.Flag("pki-dir"), p.PKI()) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

package adoption

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
)

// Flag is one setting of the etcd that is taken over, without its dashes.
type Flag struct {
	Name, Value string
	Env         bool   // by the environment
	File        string // by etcd's --config-file; empty: not
}

// String is the setting as etcd takes it, as words of a shell, and without a value that
// may be a secret.
func (f Flag) String() string {
	s := "--" + f.Name
	switch {
	case f.File != "":
		s = f.File + " " + f.Name
	case f.Env:
		s = "ETCD_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
	}
	switch {
	case f.Value == "":
		return s
	case f.secret():
		return s + "=… (not shown)"
	}
	return s + "=" + cluster.ShellWord(f.Value)
}

// secret tells whether the value may be one. Those of etcd's own flags are none, keys
// being names of files, but for what its discovery logs in with and for URLs with a user or
// a parameter. Of a name that etcd does not have, such as ETCD_ROOT_PASS of an image's
// script, nobody knows.
func (f Flag) secret() bool {
	_, known := cluster.FindOption(f.Name)
	return !known || discoverySecrets[f.Name] || strings.ContainsAny(f.Value, "@?")
}

// discoverySecrets have a secret as their value; that of discovery is a URL that ends with
// the token.
var discoverySecrets = map[string]bool{"discovery": true, "discovery-user": true, "discovery-password": true, "discovery-token": true}

// ParseFlags reads a process's command line, program first, and its environment. A flag
// wins over a variable of the same name, and of two the last, as etcd has it (source:
// pkg/flags of etcd).
func ParseFlags(line, environ []string) []Flag {
	out := []Flag{}
	set := func(f Flag) {
		out = slices.DeleteFunc(out, func(had Flag) bool { return had.Name == f.Name })
		out = append(out, f)
	}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if name, is := strings.CutPrefix(name, "ETCD_"); is && value != "" && name == strings.ToUpper(name) && isSetting(name) {
			set(Flag{Name: strings.ToLower(strings.ReplaceAll(name, "_", "-")), Value: value, Env: true})
		}
	}
	for i := 1; i < len(line); i++ {
		name, value, joined := strings.Cut(strings.TrimLeft(line[i], "-"), "=")
		if !strings.HasPrefix(line[i], "-") || name == "" {
			continue
		}
		if !joined && i+1 < len(line) && (!strings.HasPrefix(line[i+1], "-") || discoverySecrets[name]) { // a password may begin with a dash
			i++
			value = line[i]
		}
		set(Flag{Name: name, Value: value})
	}
	slices.SortFunc(out, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// isSetting keeps out what an image's scripts read, a root password for one: etcd has no
// such flag, and its value is nobody's to see.
func isSetting(name string) bool {
	for _, word := range []string{"PASSWORD", "PASSWD", "SECRET", "VERSION", "VER", "ON_ARM", "UNSUPPORTED_ARCH"} {
		if name == word || strings.HasSuffix(name, "_"+word) {
			return false
		}
	}
	return true
}

// Kept is what an earlier run has read of the etcd that was stopped since.
type Kept struct {
	MetricsURLs string   `json:"listenMetricsURLs,omitempty"`
	LeftOut     []string `json:"leftOut,omitempty"` // the settings that are not carried over
	Quota       int64    `json:"quota,omitempty"`   // of the database, in bytes, where it is not etcd's default
	// Unit and Manifest are what ran it: the one, the other, or neither.
	Unit     string `json:"unit,omitempty"`
	Manifest string `json:"manifest,omitempty"`
}

// keptFile lies in the daemon's data directory, which the daemon does not read it from.
const keptFile = "adopted-settings.json"

// Begun tells whether a member was prepared to be taken over into a data directory.
func Begun(dataDir string) bool {
	_, err := os.Lstat(filepath.Join(dataDir, keptFile))
	return err == nil
}

// readFlags sorts the old etcd's settings into those that our daemon keeps, and the rest,
// each with how a person keeps it.
func (p *Plan) readFlags() {
	r := p.request
	switch {
	case r.Flags == nil:
		data, err := regular.Read(filepath.Join(r.DataDir, keptFile), regular.SmallSize)
		if err == nil && json.Unmarshal(data, &p.Kept) == nil {
			return
		}
		why := "it does not run"
		if r.FlagsUnknown != nil {
			why = r.FlagsUnknown.Error()
		}
		if !errors.Is(err, fs.ErrNotExist) && err != nil {
			why = err.Error()
		}
		p.Kept = Kept{LeftOut: []string{"with which flags etcd was run is not known (" + why + "): compare them with the daemon's command line by hand, --listen-metrics-urls first"}}
	default:
		p.Kept.Quota, p.Kept.Unit, p.Kept.Manifest = r.Quota, r.Unit, r.Manifest
		var before Kept
		if had, err := regular.Read(filepath.Join(r.DataDir, keptFile), regular.SmallSize); err == nil && r.Manifest == "" && json.Unmarshal(had, &before) == nil {
			p.Kept.Manifest = before.Manifest // which an earlier run had moved away when it was interrupted
		}
		for _, f := range r.Flags {
			if f.Name == "listen-metrics-urls" && !f.secret() {
				p.Kept.MetricsURLs = f.Value
			} else if why, carried := p.carries(f); !carried {
				p.Kept.LeftOut = append(p.Kept.LeftOut, f.String()+why)
			}
		}
	}
}

func (p *Plan) keepFlags() error {
	if p.request.Flags == nil {
		return nil
	}
	data, err := json.MarshalIndent(p.Kept, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(p.request.DataDir, keptFile), append(data, '\n'), 0o600)
}

// carries tells whether the member has the same once our daemon runs it, and else what
// can be done.
func (p *Plan) carries(f Flag) (why string, carried bool) {
	files := map[string]string{
		"trusted-ca-file": "ca.crt", "cert-file": pki.ServerNames.Cert, "key-file": pki.ServerNames.Key,
		"peer-trusted-ca-file": "ca.crt", "peer-cert-file": "peer.crt", "peer-key-file": "peer.key",
	}
	switch f.Name {
	case "name", "data-dir", "initial-cluster", "initial-cluster-state", "initial-cluster-token", "initial-advertise-peer-urls", "advertise-client-urls":
		return "", true // data, state file and member list say it
	case "client-cert-auth", "peer-client-cert-auth", "strict-reconfig-check", "pre-vote":
		return "; our daemon sets it to true", f.Value == "" || f.Value == "true"
	case "logger":
		return "; our daemon sets it to zap", f.Value == "zap"
	case "log-outputs", "log-output":
		return "; our daemon writes etcd's log into logs/ of its data directory", f.Value == "stderr" || f.Value == "default"
	case "listen-peer-urls":
		return p.listens(f.Value, p.URLs.Peer)
	case "listen-client-urls":
		return p.listens(f.Value, p.URLs.Client)
	case quotaOption:
		bytes, err := strconv.ParseInt(f.Value, 10, 64)
		if err == nil && (bytes == 0 || bytes == cluster.DefaultQuota || bytes == p.request.Quota) {
			return "", true
		}
	case "listen-metrics-urls":
		return "; to keep it, start our daemon with the same --listen-metrics-urls", false
	case "config-file":
		return "; our daemon runs no member with it; its settings are those named here, since etcd ignores flags and ETCD_ variables beside it", false
	case "wal-dir":
		return "; our daemon runs no member with it", false
	}
	if name, is := files[f.Name]; is {
		path := filepath.Join(p.request.CertsDir, name)
		return "; " + path + " is used in its place", p.request.CertsDir != "" && filepath.Clean(f.Value) == path
	}
	if p.settable(f) {
		value := cluster.ShellWord(f.Value)
		if f.secret() {
			value = "VALUE"
		}
		return fmt.Sprintf("; to keep it, once the spec is in the store: etcdadm config set %s=%s", f.Name, value), false
	}
	return "; our daemon has no such setting", false
}

// settable reports whether a spec takes a setting for the member's release. Whether it
// fits the other settings is for the person who sets them.
func (p *Plan) settable(f Flag) bool {
	version, err := cluster.ParseVersion(p.state.Version)
	o, found := cluster.FindOption(f.Name)
	if _, known := o.Flag(version); err != nil || !found || !known || !o.Settable() {
		return false
	}
	_, err = o.Parse(f.Value, version)
	return err == nil
}

// listens: our daemon listens at the ports that the member has in the list, and at no
// other ones.
func (p *Plan) listens(was string, urls []string) (why string, carried bool) {
	port := func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			return raw
		}
		return u.Port()
	}
	for _, u := range strings.Split(was, ",") {
		if !slices.ContainsFunc(urls, func(own string) bool { return port(own) == port(u) }) {
			return "; our daemon listens at the ports of " + strings.Join(urls, ",") + " only", false
		}
	}
	return "", true
}

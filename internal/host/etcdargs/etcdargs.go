package etcdargs

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// TLSFiles are the files of one side of a member. The zero value is no TLS.
type TLSFiles struct {
	Cert, Key, CA string
}

// Paths is what shapes a member's arguments beside its Launch: where things
// are on this machine. None of it is a setting of the cluster.
type Paths struct {
	DataDir string // absolute; etcd's own directory for the launch's token
	// BindAddress is what etcd listens on, with the ports of the URLs. Empty:
	// the host of each URL, which has to be an IP address or localhost then.
	BindAddress string
	Client      TLSFiles
	Peer        TLSFiles
	// MetricsURLs are passed on as they are.
	MetricsURLs []string
}

// ErrArgs is in the chain of every error of For and Options.
var ErrArgs = errors.New("refused etcd arguments")

// For are the arguments of etcd for a launch: a pure function, so that equal
// launches have equal command lines. The data directory is named as one
// argument, by which a running process is known again.
//
// A launch without InitialCluster is a restart. It says "existing" and names no
// initial cluster, so that etcd on an empty directory finds nobody to join and
// ends, instead of founding a cluster of its own.
func For(l record.Launch, p Paths) ([]string, error) {
	if !l.Version.Known() && !l.Version.AtLeast(3, 8) || l.Version.AtLeast(4, 0) {
		return nil, fmt.Errorf("%w: etcd %s is not one of the release lines %s", ErrArgs, l.Version, cluster.KnownLines)
	}
	clientURLs := l.URLs.Client
	if l.Quarantined {
		clientURLs = l.URLs.Quarantine
	}
	listenPeer, err := listen("peer", l.URLs.Peer, p.BindAddress, p.Peer)
	if err != nil {
		return nil, err
	}
	listenClient, err := listen("client", clientURLs, p.BindAddress, p.Client)
	if err != nil {
		return nil, err
	}
	for _, o := range l.Options {
		if err := CheckOption(optionName(o)); err != nil {
			return nil, err
		}
	}
	args := []string{
		"--name=" + string(l.Name),
		"--data-dir=" + p.DataDir,
		"--listen-peer-urls=" + listenPeer,
		"--initial-advertise-peer-urls=" + strings.Join(l.URLs.Peer, ","),
		"--listen-client-urls=" + listenClient,
		"--advertise-client-urls=" + strings.Join(clientURLs, ","),
	}
	first, err := initialCluster(l)
	if err != nil {
		return nil, err
	}
	args = append(args, first...)
	args = append(args, tlsArgs("", p.Client)...)
	args = append(args, tlsArgs("peer-", p.Peer)...)
	if len(p.MetricsURLs) > 0 && l.Version.Has(cluster.MetricsURLs) { // older ones serve them to clients only
		args = append(args, "--listen-metrics-urls="+strings.Join(p.MetricsURLs, ","))
	}
	args = append(args, releaseArgs(l.Version, l.Adopted)...)
	args = append(args, l.Options...)
	if l.Cut {
		args = append(args, "--snapshot-count=1") // of a flag that is given twice, etcd takes the last
	}
	return args, nil
}

// With are the arguments and the variables of etcd for a launch on a host whose
// environment has variables for etcd. left are those that the launch is without.
func With(l record.Launch, p Paths, environ []string) (args, env []string, left []cluster.LeftVariable, err error) {
	args, err = For(l, p)
	if err != nil {
		return nil, nil, nil, err
	}
	if l.Quarantined {
		environ = slices.DeleteFunc(slices.Clone(environ), func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			o, found := cluster.FindVariable(name)
			return found && o.Closed
		})
	}
	fit := cluster.FitVariables(environ, args, l.Version)
	return fit.Args, fit.Environ, fit.Left, nil
}

// Left are the variables that a launch is without.
func Left(l record.Launch, environ []string) []cluster.LeftVariable {
	return cluster.FitVariables(environ, slices.Concat(releaseArgs(l.Version, l.Adopted), l.Options), l.Version).Left
}

// releaseArgs are ours for one release line. Source: embed/config.go and
// etcdmain/help.go of 2.3.8, 3.2.24, 3.3.27, 3.4.25, 3.5.35, 3.6.16 and 3.7.3.
func releaseArgs(v cluster.Version, adopted bool) []string {
	var args []string
	switch {
	case v.Has(cluster.ZapLogger):
		args = append(args, "--logger=zap", "--log-outputs=stderr")
	case v.Has(cluster.LogOutput):
		args = append(args, "--log-output=stderr") // else the journal, as a child of process 1
	}
	if !v.Has(cluster.StrictByDefault) {
		args = append(args, "--strict-reconfig-check=true")
	}
	if v.SameMinor(cluster.Version{Major: 3, Minor: 4}) {
		args = append(args, "--pre-vote=true") // the default from 3.5 on
	}
	if n := v.MaxLearners(); v.AtLeast(3, 6) { // has to be equal on all members
		if adopted {
			n = 1 // etcd's own, with which the others were started
		}
		args = append(args, fmt.Sprintf("--max-learners=%d", n))
	}
	return args
}

func initialCluster(l record.Launch) ([]string, error) {
	state := "existing"
	if l.Founding {
		state = "new"
	}
	args := []string{"--initial-cluster-state=" + state, "--initial-cluster-token=" + l.Token}
	if len(l.InitialCluster) == 0 {
		if l.Founding {
			return nil, fmt.Errorf("%w: a founding without founders", ErrArgs)
		}
		return args, nil
	}
	var pairs []string
	own := false
	for _, m := range l.InitialCluster {
		if m.Name == "" || strings.ContainsAny(m.Name, "=,") || len(m.PeerURLs) == 0 {
			return nil, fmt.Errorf("%w: member %s of the initial cluster has no usable name or no peer URL", ErrArgs, m.ID)
		}
		own = own || m.Name == string(l.Name)
		for _, u := range m.PeerURLs {
			pairs = append(pairs, m.Name+"="+u)
		}
	}
	if !own {
		return nil, fmt.Errorf("%w: the initial cluster does not name %s", ErrArgs, l.Name)
	}
	slices.Sort(pairs)
	return append(args, "--initial-cluster="+strings.Join(pairs, ",")), nil
}

func tlsArgs(side string, f TLSFiles) []string {
	if f == (TLSFiles{}) {
		return nil
	}
	return []string{
		"--" + side + "client-cert-auth=true",
		"--" + side + "trusted-ca-file=" + f.CA,
		"--" + side + "cert-file=" + f.Cert,
		"--" + side + "key-file=" + f.Key,
	}
}

// listen turns the URLs that are advertised into those that are listened on:
// etcd binds to IP addresses and localhost only (checkBindURLs in
// embed/config.go).
func listen(what string, urls []string, bind string, f TLSFiles) (string, error) {
	if len(urls) == 0 {
		return "", fmt.Errorf("%w: there are no %s URLs", ErrArgs, what)
	}
	var out []string
	for _, raw := range urls {
		u, err := url.Parse(raw)
		switch {
		case err != nil:
			return "", fmt.Errorf("%w: %s URL: %w", ErrArgs, what, err)
		case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.Port() == "":
			return "", fmt.Errorf("%w: %s URL %q is not http or https with host and port", ErrArgs, what, raw)
		case u.Scheme == "https" && f == (TLSFiles{}):
			return "", fmt.Errorf("%w: %s URL %q asks for TLS, and there is no certificate", ErrArgs, what, raw)
		}
		host := bind
		if host == "" {
			host = u.Hostname()
			if host != "localhost" && net.ParseIP(host) == nil {
				return "", fmt.Errorf("%w: etcd listens on addresses, and %q names a host; give an address to bind to", ErrArgs, raw)
			}
		}
		out = append(out, u.Scheme+"://"+net.JoinHostPort(host, u.Port()))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ","), nil
}

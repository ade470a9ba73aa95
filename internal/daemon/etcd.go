package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/cores"
	"etcdadm.io/internal/envfile"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/etcdargs"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/runtime"
)

// etcdEnvironment is what the daemon's environment and the environment file
// pass on to etcd; tls says that members have TLS. A variable that breaks a promise, or that
// says what the daemon says by a flag, is an error with its sentence. The
// file's variables become the daemon's own, too: some are for it, such as
// those of certificates and stores. Own is what the environment had of their names before.
func etcdEnvironment(file string, tls bool) (passed envfile.Passed, read, own map[string]string, err error) {
	if file == "" {
		passed, err = envfile.PassThrough(os.Environ(), tls)
		return passed, nil, nil, err
	}
	vars, err := envfile.Read(file)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return passed, nil, nil, &Error{Problem: "--env-file", Err: err, Advice: "name a file of NAME=VALUE lines that this user can read"}
	}
	if err != nil {
		return passed, nil, nil, err
	}
	own = map[string]string{}
	for _, v := range vars {
		if value, is := os.LookupEnv(v.Name); is {
			own[v.Name] = value
		}
		if err := os.Setenv(v.Name, v.Value); err != nil {
			return passed, nil, nil, &Error{Problem: "--env-file: " + v.Name, Err: err, Advice: "name a file of NAME=VALUE lines"}
		}
	}
	passed, err = envfile.PassThrough(os.Environ(), tls)
	return passed, byName(vars), own, err
}

// spec turns a launch into a program with arguments.
func (d *daemon) spec(l record.Launch) (runtime.Spec, error) {
	ctx, cancel := context.WithTimeout(context.Background(), releasesTimeout)
	defer cancel()
	r, err := d.releases.finder.Find(ctx, l.Version.String())
	if err != nil {
		return runtime.Spec{}, err
	}
	if err := d.certs.forLaunch(l); err != nil {
		return runtime.Spec{}, err
	}
	actual, err := cluster.ParseVersion(r.Version)
	if err != nil {
		return runtime.Spec{}, err
	}
	dataDir := d.disk.DataDir(l.Token)
	run := l
	run.Version = actual // a directory of a lower patch may hold a newer one
	args, env, left, err := etcdargs.With(run, d.paths(l.Token, dataDir), d.etcdEnv)
	if err != nil {
		return runtime.Spec{}, err
	}
	d.sayLeft(actual, left)
	logs := filepath.Join(d.cfg.DataDir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return runtime.Spec{}, err
	}
	return runtime.Spec{
		Path: r.Etcd, Args: append(append([]string{}, r.Args...), args...), DataDir: dataDir,
		Env:     slices.Concat([]string{"PATH=" + os.Getenv("PATH")}, cores.Environment(), env),
		LogFile: filepath.Join(logs, "etcd.log"), Dir: d.cfg.DataDir,
	}, nil
}

// sayLeft logs once for a release which variables its etcd does not get.
func (d *daemon) sayLeft(v cluster.Version, left []cluster.LeftVariable) {
	if was := d.leftSaid.Swap(&v); was != nil && *was == v {
		return
	}
	for _, l := range left {
		d.log.Warn("not passed on to etcd", "variable", l.Name, "version", v, "because", l.Why)
	}
}

// paths are where etcd finds its files on this machine.
func (d *daemon) paths(token, dataDir string) etcdargs.Paths {
	p := etcdargs.Paths{DataDir: dataDir, BindAddress: d.cfg.EtcdAddress}
	if d.cfg.ListenMetricsURLs != "" {
		p.MetricsURLs = strings.Split(d.cfg.ListenMetricsURLs, ",")
	}
	if d.certs.etcdTLS {
		p.Peer = tlsFiles(d.certs.pair(leafPeer, token))
		p.Client = tlsFiles(d.certs.pair(leafServer, token))
	}
	return p
}

func tlsFiles(p pair) etcdargs.TLSFiles {
	return etcdargs.TLSFiles{Cert: p.file(p.names.Cert), Key: p.file(p.names.Key), CA: p.file(p.names.CA)}
}

// member is the driver of the member that is launched like this.
func (d *daemon) member(l record.Launch) (member.Member, error) {
	if !l.Version.Has(cluster.V3API) {
		return etcd.NewV2(d.etcdConfig(l))
	}
	return d.etcdClient(l)
}

// etcdClient reaches the member that is launched like this. The caller closes it.
func (d *daemon) etcdClient(l record.Launch) (*etcd.Client, error) {
	if !l.Version.Has(cluster.V3API) {
		return nil, fmt.Errorf("etcd %s has no version 3 of the API", l.Version)
	}
	return etcd.New(d.etcdConfig(l))
}

func (d *daemon) etcdConfig(l record.Launch) etcd.Config {
	urls := l.URLs.Client
	if l.Quarantined {
		urls = l.URLs.Quarantine
	}
	return etcd.Config{
		Endpoints: d.nearby(urls), TLS: d.certs.etcdClient(l.Token), ServerName: d.certs.serverName(l.Token, urls), Credential: d.credential(),
		Peer: d.nearby(l.URLs.Peer), PeerTLS: d.certs.etcdPeer(l), Quota: quotaOf(l.Options, cluster.FitVariables(d.etcdEnv, l.Options, l.Version).Environ),
		Voters: func(ctx context.Context) ([]string, error) {
			return etcd.VoterURLs(ctx, d.nearby(l.URLs.Peer), d.certs.etcdPeer(l))
		},
	}
}

// nearby are the URLs as this host reaches its own listeners: names need not resolve
// here. What the certificate has to name is another thing (certs.serverName).
func (d *daemon) nearby(urls []string) []string {
	address := d.cfg.EtcdAddress
	if ip := net.ParseIP(address); ip == nil || ip.IsUnspecified() {
		address = "127.0.0.1"
	}
	var out []string
	for _, raw := range urls {
		if u, err := url.Parse(raw); err == nil {
			u.Host = net.JoinHostPort(address, u.Port())
			out = append(out, u.String())
		}
	}
	return out
}

// credential reads user and password from files, when auth is on and no
// certificate says who we are.
func (d *daemon) credential() func(context.Context) (string, string, error) {
	if d.cfg.EtcdPasswordFile == "" {
		return nil
	}
	return func(context.Context) (string, string, error) {
		data, err := regular.Read(d.cfg.EtcdPasswordFile, regular.SmallSize)
		if err != nil {
			return "", "", fmt.Errorf("read etcd's password: %w", err)
		}
		return d.cfg.EtcdUser, strings.TrimRight(string(data), "\r\n"), nil
	}
}

// memberIDs works out what etcd will call the founders.
func memberIDs(token string, founders []cluster.Founder) ([]cluster.MemberID, cluster.ClusterID, error) {
	var members []cluster.Member
	for _, f := range founders {
		members = append(members, cluster.Member{Name: string(f.Host), PeerURLs: f.URLs.Peer})
	}
	ids, id := etcd.MemberIDs(token, members)
	return ids, id, nil
}

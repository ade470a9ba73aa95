package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/etcd"
	"github.com/spf13/cobra"
)

// etcdFlags are how a command reaches etcd itself: by what a daemon left for
// people, or by what is said.
type etcdFlags struct {
	*reach
	urls               []string
	access             console.EtcdAccess
	user, passwordFile string
	password           password
}

func (e *etcdFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&e.dataDir, "data-dir", os.Getenv("ETCDADM_DATA_DIR"), "data directory of a daemon on this host, where the rest is read from ($ETCDADM_DATA_DIR)")
	f.StringSliceVar(&e.urls, "etcd-endpoints", nil, "client URLs of members, in place of --data-dir")
	alsoNamed(f, "etcd-endpoints", "etcd-endpoint")
	f.StringVar(&e.access.CA, "cacert", "", "certificate of the authority that etcd's is checked against")
	f.StringVar(&e.access.Cert, "cert", "", "client certificate to show to etcd")
	f.StringVar(&e.access.Key, "key", "", "its key")
	f.StringVar(&e.user, "etcd-user", "", "user with the root role, when etcd's authentication is on")
	f.StringVar(&e.passwordFile, "etcd-password-file", "", "file with that user's password")
}

// member is one etcd, as a command is connected with it.
type member struct {
	url    string
	client *etcd.Client
	status cluster.MemberStatus
}

// find fills in what a daemon left, where nothing was said.
func (e *etcdFlags) find() error {
	if len(e.urls) > 0 {
		e.access.Endpoints = e.urls
		return nil
	}
	if e.dataDir == "" {
		return usage("--data-dir names a daemon's data directory on this host, --etcd-endpoints members anywhere", "say which etcd")
	}
	a, err := console.ReadAccess(e.dataDir)
	if err != nil {
		return &Failure{Code: ExitNoCluster, Err: err, Advice: "is it the --data-dir of a daemon that has run?"}
	}
	e.access = a.Etcd
	return nil
}

// pick connects with the best member that answers: a follower with a quorum
// before the leader of raft, and that before one without a quorum.
func (e *etcdFlags) pick(ctx context.Context) (member, error) {
	if err := e.find(); err != nil {
		return member{}, err
	}
	secure, err := e.access.CommandTLS(ctx)
	if err != nil {
		return member{}, fmt.Errorf("read the certificates for etcd: %w", err)
	}
	credential, err := e.password.given(ctx, "--etcd-", e.user, e.passwordFile)
	if err != nil {
		return member{}, err
	}
	var best member
	var failed []error
	rank := 0
	for _, url := range e.access.Endpoints {
		m, err := connect(ctx, etcd.Config{Endpoints: []string{url}, TLS: secure, Credential: credential})
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", url, err))
			continue
		}
		r := 1
		if m.status.Healthy || m.status.Auth {
			if r = 3; m.status.Leader == m.status.Member {
				r = 2
			}
		}
		if r <= rank {
			m.client.Close()
			continue
		}
		if best.client != nil {
			best.client.Close()
		}
		best, rank = m, r
	}
	if rank == 0 {
		return member{}, &Failure{Code: ExitNoCluster, Err: fmt.Errorf("no etcd answers: %w", errors.Join(failed...)), Advice: "check --etcd-endpoints and the certificates"}
	}
	return best, nil
}

func connect(ctx context.Context, config etcd.Config) (member, error) {
	c, err := etcd.New(config)
	if err != nil {
		return member{}, err
	}
	st, err := c.Status(ctx)
	if err != nil {
		c.Close()
		return member{}, err
	}
	return member{url: config.Endpoints[0], client: c, status: st}, nil
}

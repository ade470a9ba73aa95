package handover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/etcd"
)

// What the members of the etcd tell of it: who they are, and whether one may be away.

// endpoints are its client URLs, as this machine reaches them.
func (e *Etcd) endpoints() (out []string) {
	if len(e.opt.Endpoints) > 0 {
		return e.opt.Endpoints
	}
	for _, raw := range strings.Split(cmp.Or(e.flag("advertise-client-urls"), e.flag("listen-client-urls"), "http://localhost:2379"), ",") {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
			u.Host = net.JoinHostPort("localhost", u.Port())
		}
		out = append(out, u.String())
	}
	return out
}

// accesses are the certificates that it may be asked with, in the order in which they are tried: those of a person, then what
// kubeadm and etcdadm of kubernetes-sigs leave beside it.
func (e *Etcd) accesses() (out []console.EtcdAccess) {
	if e.opt.Access.CA != "" || e.request.CertsDir == "" {
		return []console.EtcdAccess{e.opt.Access}
	}
	dir := e.request.CertsDir
	for _, name := range []string{"etcdctl-etcd-client", "healthcheck-client", "server", "peer"} {
		cert := filepath.Join(dir, name+".crt")
		if _, err := os.Stat(cert); err == nil {
			out = append(out, console.EtcdAccess{CA: filepath.Join(dir, "ca.crt"), Cert: cert, Key: filepath.Join(dir, name+".key")})
		}
	}
	return out
}

// ask fills in what its members say.
func (e *Etcd) ask(ctx context.Context) error {
	var failed []error
	for _, access := range e.accesses() {
		secure, err := access.TLS()
		if err != nil {
			failed = append(failed, err)
			continue
		}
		e.config = etcd.Config{TLS: secure}
		view, err := e.view(ctx)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		e.request.Members = &view
		return e.askOwn(ctx, view)
	}
	return fmt.Errorf("no member answers: %w", errors.Join(failed...))
}

func (e *Etcd) view(ctx context.Context) (cluster.MemberView, error) {
	config := e.config
	config.Endpoints = e.endpoints()
	c, err := etcd.New(config)
	if err != nil {
		return cluster.MemberView{}, err
	}
	defer c.Close()
	for try := 1; ; try++ {
		v, err := c.View(ctx, true)
		if err == nil || !errors.Is(err, etcd.ErrNoAnswer) || try == viewTries {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-time.After(viewAgain):
		}
	}
}

// askOwn asks this host's member for its release, and all for the quota of their database.
func (e *Etcd) askOwn(ctx context.Context, view cluster.MemberView) error {
	own, err := adoption.OwnMember(e.request)
	if err != nil {
		return err
	}
	for _, m := range view.Members {
		st, at, err := e.status(ctx, m)
		if err != nil {
			continue // it is down, which the check of the voters says
		}
		if !adoption.TellsQuota(st.Version) {
			config := e.config
			config.Endpoints = []string{at}
			if st.Quota, err = etcd.MeasuredQuota(ctx, config); err != nil && m.ID == own {
				e.request.QuotaUnknown = adoption.UnknownQuota(m.Name, err)
			}
		}
		e.request.Quota = max(e.request.Quota, adoption.QuotaOf(st))
		if m.ID == own {
			e.request.Version = st.Version
		}
	}
	return nil
}

// status asks a member, and returns the URL at which it answered.
func (e *Etcd) status(ctx context.Context, m cluster.Member) (st cluster.MemberStatus, at string, err error) {
	st, at, err = adoption.AskMember(m, e.endpoints(), func(endpoint string) (cluster.MemberStatus, error) {
		config := e.config
		config.Endpoints = []string{endpoint}
		c, err := etcd.New(config)
		if err != nil {
			return cluster.MemberStatus{}, err
		}
		defer c.Close()
		return c.Status(ctx)
	})
	if err == nil && st.Leader == 0 {
		err = errors.New("it sees no leader")
	}
	return st, at, err
}

// obstacle is why it may not be stopped: another voter is not up. Empty: none, or it does not run.
func (e *Etcd) obstacle(ctx context.Context) string {
	if e.runs == "" {
		return ""
	}
	view, err := e.view(ctx)
	if err != nil {
		return fmt.Sprintf("the members cannot be asked: %v", err)
	}
	for _, m := range view.Members {
		if _, _, err := e.status(ctx, m); m.ID != e.plan.Member && err != nil {
			return fmt.Sprintf("member %s (%s) is not up: %v", m.ID, m.Name, err)
		}
	}
	return ""
}

package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
)

// known takes from the daemon of this host what it was started with and was not said: a host that joins has one, which waits.
// said tells of a flag whether a person gave it.
func (a *adoptFlags) known(said func(flag string) bool) error {
	r := &a.request
	r.DataDir = cmp.Or(r.DataDir, os.Getenv("ETCDADM_DATA_DIR"), r.From)
	named := ""
	if said("cluster-name") {
		named = a.name
	}
	left, err := console.Here(r.DataDir, named)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.As(err, new(*console.StartError)):
		a.unstarted = true // or none that could: what is said is all there is
		return nil
	case err != nil:
		return &Failure{Code: ExitNoCluster, Err: err, Advice: hintOf(err)}
	case left.Settings == nil:
		return nil // an earlier release's
	}
	s := left.Settings
	if s.Secret && (a.store == "" || a.control == "" && s.ControlStore != "") {
		return usage("name the store by --store, and that of the record by --control-store where there is one", "the URL of the store that this host's daemon has holds a credential, which it tells nobody")
	}
	a.name = left.Cluster
	if a.store == "" {
		a.store = s.Store
	}
	if a.control == "" {
		a.control = s.ControlStore
	}
	u := &a.join.urls
	for _, f := range []struct {
		flag string
		to   *[]string
		its  []string
	}{
		{"peer-urls", &u.Peer, s.URLs.Peer}, {"client-urls", &u.Client, s.URLs.Client}, {"quarantine-client-urls", &u.Quarantine, s.URLs.Quarantine},
		{"release-dir", &a.join.releaseDirs, s.Releases}, {"backup-recipient", &a.join.recipients, s.Recipients},
	} {
		if !said(f.flag) {
			*f.to = f.its
		}
	}
	if !said("pki-dir") && s.PKI != "" {
		r.PKIDir = s.PKI
	}
	if !said("pki-dir") && !said("certs-dir") {
		a.join.leaves = s.Leaves
	}
	if !said("cacert") && !said("cert") && !said("key") {
		a.access.CA, a.access.Cert, a.access.Key = left.Etcd.CA, left.Etcd.Cert, left.Etcd.Key
	}
	a.join.daemon = "the same as before: what it was started with lies in " + r.DataDir
	return nil
}

// clusterID is what --cluster-id says; zero: nothing.
func (j *joinFlags) clusterID() (cluster.ClusterID, error) {
	if j.id == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(j.id, 16, 64)
	if err != nil || n == 0 {
		return 0, usage("it is as etcdctl prints it with --hex, such as cdf818194e3a8c32", "--cluster-id=%s is no ID of a cluster", j.id)
	}
	return cluster.ClusterID(n), nil
}

// spec is what is asked for beside what the members have: a release, zero where none is named, and settings by their names.
func (j *joinFlags) spec() (release cluster.Version, options map[string]string, err error) {
	if j.release != "" {
		if release, err = cluster.ParseVersion(j.release); err != nil {
			return release, nil, usage("as in --etcd-version=3.6.16", "--etcd-version: %w", err)
		}
	}
	for _, o := range j.options {
		name, value, is := strings.Cut(o, "=")
		if !is || name == "" {
			return release, nil, usage("as in --option=quota-backend-bytes=8589934592", "--option=%s is no setting with its value", o)
		}
		if options == nil {
			options = map[string]string{}
		}
		options[name] = value
	}
	return release, options, nil
}

// errInput is that whoever started the command is gone, as where kubectl exec was ended.
var errInput = errors.New("standard input has ended, and with it this command (--while-input)")

// whileInput runs the command until its input ends: nobody who could end it otherwise hears of it any more.
func (a *adoptFlags) whileInput(ctx context.Context, in io.Reader, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := bufio.NewReader(in)
	if a.join.passwordFile == "/dev/stdin" {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return &Failure{Code: ExitError, Err: fmt.Errorf("read the password: %w", err), Advice: "nothing was done"}
		}
		a.join.password.piped = line
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		cancel(errInput)
	}()
	err := run(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errInput) {
		return &Failure{Code: ExitError, Err: errInput, Advice: "what was done stands; run the same again"}
	}
	return err
}

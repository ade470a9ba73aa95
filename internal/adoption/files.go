package adoption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
)

// findData is where member lies: where its former owner has it, or where an
// earlier run has moved it; empty: nowhere.
func (p *Plan) findData() (string, error) {
	from := filepath.Join(p.request.From, "member")
	info, err := os.Lstat(from)
	switch {
	case err == nil && info.IsDir():
		if p.request.Held != nil {
			p.Stop = p.request.Held(p.request.From)
		}
		return from, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("look at etcd's data: %w", err)
	}
	moved, err := filepath.Glob(filepath.Join(p.request.DataDir, "data", "adopted-*", "member"))
	if err != nil || len(moved) != 1 {
		return "", err
	}
	p.moved = true
	return moved[0], nil
}

func readState(dataDir string) (*record.PredecessorState, error) {
	data, err := regular.Read(filepath.Join(dataDir, "state"), regular.SmallSize)
	if err != nil {
		return nil, err
	}
	return datadir.ParsePredecessor(data)
}

// The files of CertsDir, and where a daemon wants each.
var certificates = []struct{ from, side, to string }{
	{"ca.crt", "peers", pki.PeerNames.CA}, {"peer.crt", "peers", pki.PeerNames.Cert}, {"peer.key", "peers", pki.PeerNames.Key},
	{"ca.crt", "clients", pki.ServerNames.CA}, {"server.crt", "clients", pki.ServerNames.Cert}, {"server.key", "clients", pki.ServerNames.Key},
}

func (p *Plan) lookAtCertificates() {
	r := p.request
	for _, u := range append(append([]string{}, p.URLs.Peer...), p.URLs.Client...) {
		if secure := len(u) > 5 && u[:6] == "https:"; secure != (r.CertsDir != "") {
			p.missing("its member is at %s, and --certs-dir is %q: it names the directory of ca.crt, server.{crt,key} and peer.{crt,key} exactly where etcd speaks TLS", u, r.CertsDir)
			return
		}
	}
	if r.CertsDir == "" {
		return
	}
	for _, c := range certificates {
		if _, err := os.Stat(filepath.Join(r.CertsDir, c.from)); err != nil {
			p.missing("a certificate cannot be read: %v", err)
		}
	}
	if _, err := pki.Load(r.PKIDir, time.Now()); err == nil || r.PKIGiven {
		return
	}
	if _, err := pki.LoadAuthorityFiles("etcd's authority", filepath.Join(r.CertsDir, "ca.crt"), filepath.Join(r.CertsDir, "ca.key"), time.Now()); err != nil {
		p.missing("etcd's authority cannot be used: %v", err)
	} else if _, err := os.Stat(filepath.Join(r.CertsDir, "ca.key")); err != nil {
		p.missing("the key of etcd's authority is needed once, for the daemon's own certificate as a client: %v; copy it there, or make the three authorities in %s by hand", err, r.PKIDir)
	}
}

// Prepare takes every step that may be taken while etcd runs. The store comes
// first: without a marker no daemon takes anything over.
func (p *Plan) Prepare(ctx context.Context, f *control.Folder) error {
	if err := p.Mark(ctx, f); err != nil {
		return err
	}
	return p.PrepareHost()
}

// Mark makes the store one of a cluster that something else founded, with a spec that
// says what is there.
func (p *Plan) Mark(ctx context.Context, f *control.Folder) error {
	if len(p.Missing) > 0 {
		return errors.New("prepare adoption: something is missing")
	}
	spec, err := p.Spec()
	if err != nil {
		return fmt.Errorf("prepare adoption: %w", err)
	}
	if err := markForeign(ctx, f, spec); err != nil {
		return fmt.Errorf("prepare adoption: %w", err)
	}
	if err := KeepQuota(ctx, f, p.request.Quota); err != nil {
		return fmt.Errorf("prepare adoption: %w", err)
	}
	return nil
}

// Spec is what is there. Errors: there is no such spec, as with an even number of members.
func (p *Plan) Spec() (cluster.Spec, error) {
	version, err := cluster.ParseVersion(p.state.Version)
	if err != nil {
		return cluster.Spec{}, err
	}
	spec := cluster.Spec{MemberCount: len(p.state.Nodes), EtcdVersion: version}
	return spec, spec.Validate()
}

// PrepareHost writes what the daemon needs beside the data.
func (p *Plan) PrepareHost() error {
	if len(p.Missing) > 0 {
		return errors.New("prepare adoption: something is missing")
	}
	r := p.request
	if err := os.MkdirAll(filepath.Join(r.DataDir, "data", p.Token), 0o700); err != nil {
		return fmt.Errorf("prepare adoption: %w", err)
	}
	if err := keep(filepath.Join(r.DataDir, "myid"), []byte(p.Host), 0o644); err != nil {
		return fmt.Errorf("prepare adoption: %w", err)
	}
	if err := durable.Replace(filepath.Join(r.DataDir, "state"), datadir.FormatPredecessor(p.state), 0o600); err != nil {
		return fmt.Errorf("prepare adoption: %w", err)
	}
	if err := p.keepFlags(); err != nil {
		return fmt.Errorf("prepare adoption: %w", err)
	}
	if r.CertsDir == "" {
		return nil
	}
	return p.copyCertificates()
}

func (p *Plan) copyCertificates() error {
	r := p.request
	for _, c := range certificates {
		content, err := regular.Read(filepath.Join(r.CertsDir, c.from), regular.SmallSize)
		if err != nil {
			return fmt.Errorf("copy certificates: %w", err)
		}
		to := filepath.Join(r.DataDir, "pki", p.Token, c.side)
		if err := durable.MakeDir(to, 0o700); err != nil {
			return fmt.Errorf("copy certificates: %w", err)
		}
		if err := keep(filepath.Join(to, c.to), content, modeOf(c.to)); err != nil {
			return fmt.Errorf("copy certificates: %w", err)
		}
	}
	return CopyAuthorities(r.CertsDir, r.PKIDir)
}

// CopyAuthorities makes etcd's authority that of members, clients and daemons, where
// these have none. One of which there is a file already is left as it is, but for
// what an earlier run had no time to copy.
func CopyAuthorities(certsDir, pkiDir string) error {
	if err := durable.MakeDir(pkiDir, 0o700); err != nil {
		return fmt.Errorf("copy authorities: %w", err)
	}
	for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
		if err := copyAuthority(certsDir, filepath.Join(pkiDir, name)); err != nil {
			return fmt.Errorf("copy authorities: %w", err)
		}
	}
	return nil
}

// copyAuthority copies the key, and then the certificate: one that is there without
// its key is somebody's who keeps the key elsewhere, and a key of another authority
// gets no certificate of this one.
func copyAuthority(certsDir, to string) error {
	if _, err := os.Stat(to + ".crt"); err == nil {
		return nil
	}
	key, err := regular.Read(filepath.Join(certsDir, "ca.key"), regular.SmallSize)
	if err != nil {
		return err
	}
	certificate, err := regular.Read(filepath.Join(certsDir, "ca.crt"), regular.SmallSize)
	if err != nil {
		return err
	}
	switch had, err := regular.Read(to+".key", regular.SmallSize); {
	case errors.Is(err, fs.ErrNotExist):
		if err := durable.Create(to+".key", key, modeOf(".key")); err != nil {
			return err
		}
	case err != nil:
		return err
	case !bytes.Equal(had, key):
		return nil
	}
	return durable.Create(to+".crt", certificate, modeOf(".crt"))
}

func modeOf(name string) os.FileMode {
	if filepath.Ext(name) == ".key" {
		return 0o600
	}
	return 0o644
}

// keep writes a file that is not there, and refuses to change one that is.
func keep(path string, content []byte, mode os.FileMode) error {
	had, err := regular.Read(path, regular.SmallSize)
	switch {
	case err == nil && bytes.Equal(bytes.TrimSpace(had), bytes.TrimSpace(content)):
		return nil
	case err == nil:
		return fmt.Errorf("%s holds something else already", path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return durable.Create(path, content, mode)
}

// guardText is what lies where the data was. etcd ends at its start where member
// is a file. Source: etcd makes the directories member/snap and member/wal first.
const guardText = "The data of this member was taken over by etcdadm and moved to\n%s\n\nThis file keeps another etcd from starting on an empty directory in its place,\nwhich could lose writes. To go back: stop the daemon with its etcd, move this file\naway, and move the directory back here.\n"

// Moved is that the data lies where the daemon takes it over.
func (p *Plan) Moved() bool { return p.moved }

// Version is the release that the member runs, or ran when an earlier look asked it;
// empty: not known.
func (p *Plan) Version() string { return p.state.Version }

// Move moves the data where the daemon takes it over. Nothing may run on it. The
// guard and the data change places in one step where the file system can do that.
func (p *Plan) Move() error {
	if p.moved {
		return nil
	}
	r := p.request
	if r.Held != nil {
		if err := r.Held(r.From); err != nil {
			return fmt.Errorf("move etcd's data: %w", err)
		}
	}
	from, to := filepath.Join(r.From, "member"), p.memberDir()
	if err := durable.Replace(to, fmt.Appendf(nil, guardText, to), 0o600); err != nil {
		return fmt.Errorf("move etcd's data: %w", err)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE); err != nil {
		return fmt.Errorf("move etcd's data from %s to %s: %w (both have to be on one file system)", from, to, err)
	}
	for _, dir := range []string{filepath.Dir(to), r.From} {
		if err := durable.SyncDir(dir); err != nil {
			return fmt.Errorf("move etcd's data: %w", err)
		}
	}
	p.moved = true
	return nil
}

// OwnMember is whose data lies on this host, before or after it was moved.
func OwnMember(r Request) (cluster.MemberID, error) {
	p := Plan{request: r}
	dir, err := p.findData()
	if err != nil || dir == "" {
		return 0, errors.Join(err, fs.ErrNotExist)
	}
	_, m, err := datadir.LogOwner(filepath.Join(dir, "wal"))
	return m, err
}

package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
)

// rotating are hosts with the same authorities, each on a disk of its own, that follow one record.
type rotating struct {
	t     *testing.T
	hosts map[string]*certs
	dirs  map[string]string
	now   *cluster.Rotation
}

func newRotating(t *testing.T) *rotating {
	t.Helper()
	x := &rotating{t: t, hosts: map[string]*certs{}, dirs: map[string]string{}}
	first := filepath.Join(t.TempDir(), "pki")
	if _, err := pki.Create(first, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		dir := filepath.Join(t.TempDir(), "pki")
		if err := os.CopyFS(dir, os.DirFS(first)); err != nil {
			t.Fatal(err)
		}
		k, err := newCerts(&Config{ClusterName: "c", DataDir: t.TempDir(), PKIDir: dir, Address: "192.0.2.1"}, cluster.HostID(id), nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		k.follows = rotation{
			kept: func() *cluster.Rotation { return x.now }, redial: func() {}, noticed: func() {},
			ask: func(_ context.Context, first cluster.HostID, r peer.AuthorityRequest, take func([]byte) error) error {
				return x.give(first, r, take)
			},
		}
		x.hosts[id], x.dirs[id] = k, dir
	}
	return x
}

// give is the other host's answer.
func (x *rotating) give(from cluster.HostID, r peer.AuthorityRequest, take func([]byte) error) error {
	for _, c := range x.now.Authorities {
		if c.Name != r.Name || r.Rotation != x.now.ID {
			continue
		}
		change, err := changeOf(x.now, c)
		if err != nil {
			return err
		}
		key, err := change.KeyOf(x.dirs[string(from)], change.Next)
		if err != nil || key == nil {
			return errors.Join(err, errors.New("it has no such key"))
		}
		return take(key)
	}
	return errors.New("it knows no such rotation")
}

// begin is what the leader's executor does, on host a.
func (x *rotating) begin() {
	x.t.Helper()
	var of []cluster.AuthorityChange
	for _, a := range x.hosts["a"].told().All {
		of = append(of, cluster.AuthorityChange{Name: a.Name, Old: cluster.AuthorityCertificate{SHA256: a.Signs}})
	}
	next, err := x.hosts["a"].makeNext("r1", of)
	if err != nil {
		x.t.Fatal(err)
	}
	x.now = &cluster.Rotation{ID: "r1", Phase: cluster.RotateTrust, By: "a", Authorities: next}
}

// goes writes another state of the record and has the hosts follow.
func (x *rotating) goes(phase cluster.RotationPhase, undo bool, hosts ...string) {
	r := *x.now
	r.Phase, r.Undo = phase, undo
	x.now = &r
	for _, id := range hosts {
		x.hosts[id].follow(context.Background())
	}
}

// is holds what a host tells against what it is to be: whom it trusts, and who signed its leaves.
func (x *rotating) is(id string, trusts, leaves func(cluster.AuthorityChange) []string) {
	x.t.Helper()
	told := x.hosts[id].told()
	if !told.Followed(x.now) || told.Problem != "" {
		x.t.Errorf("host %s in %s: %+v", id, x.now.Phase, told)
	}
	for _, c := range x.now.Authorities {
		a, _ := told.Of(c.Name)
		if want := slices.Sorted(slices.Values(trusts(c))); !slices.Equal(a.Trusts, want) || c.Name != pki.PeersCA && !slices.Equal(a.Leaves, leaves(c)) {
			x.t.Errorf("host %s in %s: %+v", id, x.now.Phase, a)
		}
	}
}

func oldOne(c cluster.AuthorityChange) []string  { return []string{c.Old.SHA256} }
func nextOne(c cluster.AuthorityChange) []string { return []string{c.Next.SHA256} }
func bothOnes(c cluster.AuthorityChange) []string {
	return []string{c.Old.SHA256, c.Next.SHA256}
}

func TestFollowsARotation(t *testing.T) {
	x := newRotating(t)
	x.begin()
	for _, step := range []struct {
		phase          cluster.RotationPhase
		undo           bool
		trusts, leaves func(cluster.AuthorityChange) []string
	}{
		{cluster.RotateTrust, false, bothOnes, oldOne},
		{cluster.RotateSign, false, bothOnes, nextOne},
		{cluster.RotateSign, true, bothOnes, oldOne},
		{cluster.RotateSign, false, bothOnes, nextOne},
		{cluster.RotateDrop, false, nextOne, nextOne},
		{cluster.RotateDone, false, nextOne, nextOne},
	} {
		x.goes(step.phase, step.undo, "a", "b")
		x.is("a", step.trusts, step.leaves)
		x.is("b", step.trusts, step.leaves)
	}
	for _, one := range x.hosts["a"].list() {
		if strings.Contains(one.Name, "[") {
			t.Errorf("%s is still told of", one.Name)
		}
	}
	// A daemon that starts anew finds everything on the disk.
	k := x.hosts["b"]
	again, err := newCerts(&Config{ClusterName: "c", DataDir: k.dataDir, PKIDir: k.pkiDir, Address: "192.0.2.1"}, "b", nil, k.log)
	if err != nil {
		t.Fatal(err)
	}
	if a, _ := again.told().Of(pki.ClientsCA); a.Signs != x.now.Authorities[slices.IndexFunc(x.now.Authorities, func(c cluster.AuthorityChange) bool { return c.Name == pki.ClientsCA })].Next.SHA256 {
		t.Errorf("%+v", a)
	}
	// What was dropped and is put back is dropped again.
	put := filepath.Join(k.pkiDir, pki.ClientsCA+".crt")
	was, err := os.ReadFile(put)
	if err != nil {
		t.Fatal(err)
	}
	var old string
	for _, c := range x.now.Authorities {
		if c.Name == pki.ClientsCA {
			old = c.Old.PEM
		}
	}
	if err := os.WriteFile(put, append(was, old...), 0o644); err != nil {
		t.Fatal(err)
	}
	k.follows.tried = nil
	k.follow(context.Background())
	if now, err := os.ReadFile(put); err != nil || string(now) != string(was) {
		t.Errorf("an authority that was dropped is trusted again (%v)", err)
	}
}

// Without the next key a host is not ready, and says so; the bundle is kept until each leaf is of what signs.
func TestFollowsInOrder(t *testing.T) {
	x := newRotating(t)
	x.begin()
	b := x.hosts["b"]
	ask := b.follows.ask
	b.follows.ask = func(context.Context, cluster.HostID, peer.AuthorityRequest, func([]byte) error) error {
		return errors.New("nobody answers")
	}
	x.goes(cluster.RotateTrust, false, "a", "b")
	if told := b.told(); told.Followed(x.now) || !strings.Contains(told.Problem, "nobody answers") {
		t.Errorf("%+v", told)
	}
	b.follows.ask, b.follows.tried = ask, nil
	x.goes(cluster.RotateSign, false, "a", "b")
	x.is("b", bothOnes, nextOne)

	// A leaf of the old one, of a launch that could not be renewed: nothing is dropped.
	self, err := pki.ClientRequest("root", b.life)
	if err != nil {
		t.Fatal(err)
	}
	var change pki.Change
	for _, c := range x.now.Authorities {
		if c.Name == pki.ClientsCA {
			if change, err = changeOf(x.now, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	aside := t.TempDir()
	key, err := change.KeyOf(b.pkiDir, change.Old)
	if err != nil || key == nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{"x.crt": []byte(pki.CertificatePEM(change.Old)), "x.key": key} {
		if err := os.WriteFile(filepath.Join(aside, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old, err := pki.LoadAuthorityFiles(pki.ClientsCA, filepath.Join(aside, "x.crt"), filepath.Join(aside, "x.key"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	stale, err := old.Issue(self, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.leaves["etcd-server"] = stale.Leaf() // which no renewal looks at without a launch
	b.tell()
	x.goes(cluster.RotateDrop, false, "b")
	if told := b.told(); told.Followed(x.now) || told.Problem == "" {
		t.Errorf("%+v", told)
	}
	for _, c := range x.now.Authorities {
		if a, _ := b.told().Of(c.Name); len(a.Trusts) != 2 {
			t.Errorf("it dropped %s beside a leaf of the old authority", c.Name)
		}
	}
	delete(b.leaves, "etcd-server")
	b.tell()
	b.follows.tried = nil
	x.goes(cluster.RotateDrop, false, "b")
	x.is("b", nextOne, nextOne)
}

// What etcd trusts is what lay in its files when it was started.
func TestTrustedBy(t *testing.T) {
	dir := t.TempDir()
	all, err := pki.Create(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--name=a", "--trusted-ca-file=" + filepath.Join(dir, pki.ClientsCA+".crt"), "--peer-trusted-ca-file=" + filepath.Join(dir, pki.PeersCA+".crt")}
	want := slices.Sorted(slices.Values([]string{pki.Fingerprint(all.Clients.Signing()), pki.Fingerprint(all.Peers.Signing())}))
	if got := trustedBy(args); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := trustedBy(append(args, "--trusted-ca-file="+filepath.Join(dir, "none"))); got != nil {
		t.Errorf("of a file that cannot be read: %q", got)
	}
}

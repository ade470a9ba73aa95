package daemon

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/pki"
)

// renewer is whoever renews a directory of leaves, as a volume of a Secret is renewed: the new files are complete before one link
// makes them the current ones.
type renewer struct {
	t   *testing.T
	dir string // that the daemon reads
	cas *pki.Authorities
	n   int
	ago time.Duration // that they are made
}

func newRenewer(t *testing.T) *renewer {
	t.Helper()
	r := &renewer{t: t, dir: t.TempDir()}
	r.authorities()
	return r
}

func (r *renewer) authorities() {
	r.t.Helper()
	dir := r.t.TempDir()
	var err error
	if _, err = pki.Create(dir, time.Now().Add(-5*time.Hour)); err == nil {
		r.cas, err = pki.Load(dir, time.Now())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// put makes files for a host of the authorities that sign now; more are trusted beside those.
func (r *renewer) put(cluster, host string, life time.Duration, more ...*pki.Authorities) {
	r.t.Helper()
	r.n++
	made := filepath.Join(r.dir, "..made", string(rune('a'+r.n)))
	if err := os.MkdirAll(made, 0o700); err != nil {
		r.t.Fatal(err)
	}
	bundle := map[string][]byte{}
	for _, all := range append([]*pki.Authorities{r.cas}, more...) {
		for _, a := range all.All() {
			bundle[a.Name()+".crt"] = append(bundle[a.Name()+".crt"], a.BundlePEM()...)
		}
	}
	for name, text := range bundle {
		r.write(filepath.Join(made, name), text)
	}
	l := pki.Lifetime{Duration: life, MinTimeLeft: time.Minute}
	daemon, err1 := pki.HostRequest(pki.Identity{Cluster: cluster, Role: pki.RoleHost, ID: host}, []string{"192.0.2.1"}, l)
	operator, err2 := pki.CallerRequest(pki.Identity{Cluster: cluster, Role: pki.RoleOperator, ID: "operator"}, l)
	peer, err3 := pki.PeerRequest(host, []string{"https://192.0.2.1:2380"}, nil, l)
	server, err4 := pki.ServerRequest(host, []string{"https://192.0.2.1:2379"}, nil, l)
	client, err5 := pki.ClientRequest("root", l)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		r.t.Fatal(err)
	}
	for name, x := range map[string]struct {
		of *pki.Authority
		as pki.Request
	}{"daemon": {r.cas.Manager, daemon}, "operator": {r.cas.Manager, operator}, "peer": {r.cas.Peers, peer}, "server": {r.cas.Clients, server}, "client": {r.cas.Clients, client}} {
		at := r.t.TempDir()
		if _, err := pki.Ensure(at, pki.PeerNames, x.of, x.as, time.Now().Add(-r.ago)); err != nil {
			r.t.Fatal(err)
		}
		for from, to := range map[string]string{pki.PeerNames.Cert: name + ".crt", pki.PeerNames.Key: name + ".key"} {
			text, err := os.ReadFile(filepath.Join(at, from))
			if err != nil {
				r.t.Fatal(err)
			}
			r.write(filepath.Join(made, to), text)
		}
	}
	next := filepath.Join(r.dir, "..next")
	if err := errors.Join(os.Symlink(made, next), os.Rename(next, filepath.Join(r.dir, "..data"))); err != nil {
		r.t.Fatal(err)
	}
	files, err := os.ReadDir(made)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Symlink(filepath.Join("..data", f.Name()), filepath.Join(r.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrExist) {
			r.t.Fatal(err)
		}
	}
}

func (r *renewer) write(path string, text []byte) {
	r.t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *renewer) daemon(redialled, noticed *int) *certs {
	r.t.Helper()
	k, err := newCerts(&Config{ClusterName: "c", DataDir: r.t.TempDir(), LeavesDir: r.dir, Address: "192.0.2.1"}, "a", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	k.follows = rotation{redial: func() { *redialled++ }, noticed: func() { *noticed++ }}
	return k
}

// What somebody else renews is used at the next look, nothing is issued and no key is written; other authorities have connections made anew.
func TestLeavesThatSomebodyElseRenews(t *testing.T) {
	r := newRenewer(t)
	r.put("c", "a", time.Hour)
	var redialled, noticed int
	k := r.daemon(&redialled, &noticed)
	if keys := k.holdsKeys(); keys != nil {
		t.Errorf("it says whether it holds keys: %v", *keys)
	}
	if err := k.forLaunch(record.Launch{Token: "one", URLs: cluster.URLs{Peer: []string{"https://192.0.2.1:2380"}}}); err != nil {
		t.Fatal(err)
	}
	if made, err := filepath.Glob(filepath.Join(k.dataDir, "*", "*")); err != nil || len(made) > 0 {
		t.Errorf("written into the data directory: %v %v", made, err)
	}
	if own := tlsFiles(k.pair(leafPeer, "one")); own.Cert != filepath.Join(r.dir, "peer.crt") || own.CA != filepath.Join(r.dir, "etcd-peers-ca.crt") {
		t.Errorf("etcd is given %+v", own)
	}
	if p := k.problems(); len(p) > 0 {
		t.Errorf("%+v", p)
	}
	was := k.leaves[leafDaemon]
	r.put("c", "a", 2*time.Hour)
	if err := k.look(t.Context()); err != nil || k.leaves[leafDaemon].Equal(was) || redialled > 0 {
		t.Errorf("%v; %d connections made anew for a leaf", err, redialled)
	}

	before, epoch := *k.told(), k.epoch.Load()
	old := r.cas
	r.authorities()
	next := r.cas
	r.cas = old
	r.put("c", "a", time.Hour, next) // both are trusted
	if err := k.look(t.Context()); err != nil || redialled != 1 || noticed == 0 || k.epoch.Load() == epoch {
		t.Errorf("%v; redialled %d, noticed %d", err, redialled, noticed)
	}
	if a, _ := k.told().Of(pki.PeersCA); len(a.Trusts) != 2 || k.told().Equal(&before) {
		t.Errorf("told: %+v", k.told())
	}
	if trusts := trustedBy([]string{"--peer-trusted-ca-file=" + k.pair(leafPeer, "").file("etcd-peers-ca.crt")}); len(trusts) != 2 {
		t.Errorf("an etcd that starts now trusts %v", trusts)
	}
}

// A pair that cannot be used is told by its file, and what was read before goes on.
func TestLeavesThatCannotBeUsed(t *testing.T) {
	for name, x := range map[string]struct {
		spoil func(r *renewer)
		says  string
	}{
		"another host":    {func(r *renewer) { r.put("c", "b", time.Hour) }, "daemon.crt is not for etcdadm://c/host/a"},
		"another cluster": {func(r *renewer) { r.put("d", "a", time.Hour) }, "daemon.crt is not for etcdadm://c/host/a"},
		"another authority": {func(r *renewer) {
			r.authorities()
			made := filepath.Join(r.dir, "..data")
			for _, a := range r.cas.All() {
				r.write(filepath.Join(made, a.Name()+".crt"), a.BundlePEM())
			}
		}, "is not of the etcd-manager-ca that lies beside it"},
		"half a pair": {func(r *renewer) {
			if err := os.Remove(filepath.Join(r.dir, "..data", "daemon.key")); err != nil {
				t.Fatal(err)
			}
		}, "daemon.key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRenewer(t)
			r.t = t
			r.put("c", "a", time.Hour)
			var n int
			k := r.daemon(&n, &n)
			was := k.leaves[leafDaemon]
			x.spoil(r)
			if err := k.look(t.Context()); err != nil {
				t.Errorf("it does not go on: %v", err)
			}
			p := k.problems()
			if len(p) != 1 || p[0].Code != "leaves-unusable" || !strings.Contains(p[0].Sentence, x.says) || p[0].Hint == "" {
				t.Errorf("%+v, want %q", p, x.says)
			}
			if !k.leaves[leafDaemon].Equal(was) {
				t.Error("it was taken all the same")
			}
			if _, err := newCerts(&Config{ClusterName: "c", DataDir: t.TempDir(), LeavesDir: r.dir, Address: "192.0.2.1"}, "a", nil, slog.New(slog.DiscardHandler)); err == nil {
				t.Error("a daemon that knows none before starts with it")
			}
		})
	}
}

// One that nobody renewed is told in time, and used to its end and beyond: a member that is there is started.
func TestLeavesThatNobodyRenews(t *testing.T) {
	r := newRenewer(t)
	r.put("c", "a", time.Hour)
	var n int
	k := r.daemon(&n, &n)
	told := func(at time.Time) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return slices.ContainsFunc(k.givenProblems(at), func(p cluster.Problem) bool {
			return p.Code == "not-renewed" && strings.Contains(p.Sentence, "--leaves-dir")
		})
	}
	if now := k.leaves[leafDaemon].NotBefore.Add(6 * time.Minute); told(now) || told(now.Add(30*time.Minute)) || !told(now.Add(45*time.Minute)) || !told(now.Add(2*time.Hour)) {
		t.Error("it is told too early, or too late")
	}
	r.ago = 3 * time.Hour
	r.put("c", "a", time.Hour)
	if err := k.forLaunch(record.Launch{Token: "one"}); err != nil {
		t.Errorf("with certificates that have ended: %v", err)
	}
}

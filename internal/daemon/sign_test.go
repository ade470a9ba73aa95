package daemon

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/signing"
	"etcdadm.io/internal/token"
)

// keyHolder is a daemon of cluster c on host a, with the keys of the authorities, that is not started.
func keyHolder(t *testing.T) (*daemon, *signer) {
	t.Helper()
	dir := t.TempDir()
	if _, err := pki.Create(dir, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	cfg := Default()
	cfg.ClusterName, cfg.DataDir, cfg.PKIDir, cfg.Address, cfg.ClientURLs = "c", t.TempDir(), dir, "192.0.2.1", []string{"https://__address__:2379", "https://etcd.example.com:2379", "https://192.0.2.1:2379"}
	k, err := newCerts(&cfg, "a", nil, log)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{cfg: cfg, id: "a", certs: k, log: log, folder: control.New(memory.New(), "c"), host: host.New(host.Options{ID: "a", Log: log})}
	return d, &signer{d: d}
}

// aLeafOf is the certificate of another host's daemon.
func aLeafOf(t *testing.T, d *daemon, id, address string) *x509.Certificate {
	t.Helper()
	r, err := pki.HostRequest(pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: id}, []string{address}, pki.DefaultLifetime())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := d.certs.cas.Manager.Issue(r, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf()
}

func aRequest(t *testing.T, cn string, addresses ...string) (request []byte, key *pki.Keypair) {
	t.Helper()
	key, err := pki.Candidate(t.TempDir(), pki.PeerNames, pki.KeyAny)
	if err != nil {
		t.Fatal(err)
	}
	r, err := pki.PeerRequest(cn, nil, addresses, pki.DefaultLifetime())
	if err != nil {
		t.Fatal(err)
	}
	if request, err = key.SigningRequest(r); err != nil {
		t.Fatal(err)
	}
	return request, key
}

// A host that shows its certificate gets its own names and no other's, and not without end.
func TestSignsAHostsOwn(t *testing.T) {
	d, s := keyHolder(t)
	from := peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "b"}, Verified: true, Leaf: aLeafOf(t, d, "b", "192.0.2.2")}
	ask := func(kind signing.Kind, cn string, addresses ...string) error {
		request, _ := aRequest(t, cn, addresses...)
		reply, err := s.Sign(t.Context(), from, peer.SignRequest{Kind: string(kind), Request: request})
		if (err == nil) != (len(reply.Certificate) > 0) {
			t.Errorf("%d bytes, %v", len(reply.Certificate), err)
		}
		return err
	}
	for name, err := range map[string]error{
		"its address":          ask(signing.Peer, "b", "192.0.2.2", "127.0.0.1"),
		"what all serve under": ask(signing.Server, "b", "192.0.2.2", "etcd.example.com", "localhost"),
		"a client of etcd":     ask(signing.Client, "root"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"the signing host's address":       ask(signing.Peer, "b", "192.0.2.1"),
		"the same, as one that all have":   ask(signing.Server, "b", "192.0.2.1"),
		"the name of another host":         ask(signing.Peer, "a", "192.0.2.2"),
		"an address that it did not have":  ask(signing.Daemon, "b", "192.0.2.3"),
		"another user of etcd than root's": ask(signing.Client, "kube-apiserver-etcd-client"),
	} {
		if !errors.Is(err, signing.ErrName) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var last error
	for range 2 * signsAnHour {
		if last = ask(signing.Client, "root"); last != nil {
			break
		}
	}
	if last == nil || !strings.Contains(last.Error(), "within this hour") {
		t.Errorf("it is signed without end: %v", last)
	}
}

// A host without the keys says so, and signs nothing.
func TestSignsNothingWithoutKeys(t *testing.T) {
	d, s := keyHolder(t)
	leaf := aLeafOf(t, d, "b", "192.0.2.2")
	withoutKeys(t, d.cfg.PKIDir)
	if err := d.certs.look(t.Context()); err == nil || d.certs.cas.CanIssue() { // the operator's certificate is good still
		t.Log(err)
	}
	request, _ := aRequest(t, "b", "192.0.2.2")
	_, err := s.Sign(t.Context(), peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "b"}, Leaf: leaf}, peer.SignRequest{Kind: string(signing.Peer), Request: request})
	if !errors.Is(err, errNoKeys) {
		t.Errorf("%v", err)
	}
}

func withoutKeys(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
		if err := os.Remove(filepath.Join(dir, name+".key")); err != nil {
			t.Fatal(err)
		}
	}
}

// made puts a token into the store as somebody writes it there.
func made(t *testing.T, d *daemon, sealed bool, change func(*token.Record)) token.Token {
	t.Helper()
	tok, err := token.Mint(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	r := token.Record{ID: tok.ID, Hash: tok.Hash(), Created: now, Expires: now.Add(time.Hour), LeafOnly: true}
	if sealed {
		if r.Seal, err = d.certs.cas.Manager.Seal(r.Statement("c")); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(&r)
	}
	if err := d.folder.Tokens().Add(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return tok
}

// Whoever can write the store, as a host without keys can, makes no token that is taken, and turns none into another.
func TestTokensThatNobodySealed(t *testing.T) {
	d, _ := keyHolder(t)
	join := func(tok token.Token, host, address string) (peer.JoinReply, error) {
		request, _ := aRequest(t, host)
		return admitter{d}.Join(t.Context(), "192.0.2.9", peer.JoinRequest{Token: tok.Reveal(), Host: cluster.HostID(host), Address: address, Clock: time.Now(), Leaf: request})
	}
	for name, c := range map[string]struct {
		sealed bool
		change func(*token.Record)
		want   error
	}{
		"not sealed":       {false, nil, token.ErrUnsealed},
		"with keys":        {true, func(r *token.Record) { r.LeafOnly = false }, token.ErrUnsealed},
		"for longer":       {true, func(r *token.Record) { r.Expires = r.Expires.Add(time.Hour) }, token.ErrUnsealed},
		"for another host": {true, func(r *token.Record) { r.Host = "b" }, token.ErrUnsealed},
		"a stranger's seal": {true, func(r *token.Record) {
			other, err := pki.Create(t.TempDir(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if r.Seal, err = other.Manager.Seal(r.Statement("c")); err != nil {
				t.Fatal(err)
			}
		}, token.ErrUnsealed},
		"another cluster's": {true, func(r *token.Record) {
			var err error
			if r.Seal, err = d.certs.cas.Manager.Seal(r.Statement("c2")); err != nil {
				t.Fatal(err)
			}
		}, token.ErrUnsealed},
	} {
		reply, err := join(made(t, d, c.sealed, c.change), "b", "192.0.2.2")
		if !errors.Is(err, c.want) || len(reply.Authorities) > 0 || len(reply.Leaf) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	reply, err := join(made(t, d, true, nil), "b", "192.0.2.2")
	if err != nil || len(reply.Leaf) == 0 || len(reply.Authorities) != 3 {
		t.Fatalf("%d files, %v", len(reply.Authorities), err)
	}
	for name := range reply.Authorities {
		if strings.HasSuffix(name, ".key") {
			t.Errorf("%s is given", name)
		}
	}
	leaf, err := x509.ParseCertificate(reply.Leaf)
	if err != nil || leaf.IsCA || leaf.Subject.CommonName != "b" {
		t.Errorf("%v, %v", leaf, err)
	}
}

// A joiner gets the name of no host that the cluster knows, but for that host itself, which has the key.
func TestAJoinerIsNoOtherHost(t *testing.T) {
	d, _ := keyHolder(t)
	tok := made(t, d, true, nil)
	request, _ := aRequest(t, "a")
	former, err := func() (*x509.Certificate, error) {
		r, err := pki.HostRequest(pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "a"}, []string{"192.0.2.1"}, pki.Lifetime{Duration: time.Hour})
		if err != nil {
			return nil, err
		}
		public, err := signing.Proven(request)
		if err != nil {
			return nil, err
		}
		return d.certs.cas.Manager.Certify(public, r, time.Now().Add(-30*time.Minute))
	}()
	if err != nil {
		t.Fatal(err)
	}
	strangers, _ := aRequest(t, "a")
	b, _ := aRequest(t, "b")
	join := func(change func(*peer.JoinRequest)) error {
		r := peer.JoinRequest{Token: tok.Reveal(), Host: "a", Address: "192.0.2.1", Clock: time.Now(), Leaf: request}
		change(&r)
		reply, err := admitter{d}.Join(t.Context(), "192.0.2.9", r)
		if (err == nil) != (len(reply.Leaf) > 0) {
			t.Errorf("%d bytes, %v", len(reply.Leaf), err)
		}
		return err
	}
	for name, c := range map[string]struct {
		change func(*peer.JoinRequest)
		says   string // empty: it is let in
	}{
		"the name of a host":               {func(*peer.JoinRequest) {}, "knows a host a"},
		"the certificate of a host":        {func(r *peer.JoinRequest) { r.Former, r.Leaf = former.Raw, strangers }, "knows a host a"},
		"a certificate that is none":       {func(r *peer.JoinRequest) { r.Former = []byte("x") }, "knows a host a"},
		"that host itself":                 {func(r *peer.JoinRequest) { r.Former = former.Raw }, ""},
		"the address of a host":            {func(r *peer.JoinRequest) { r.Host, r.Leaf, r.Address = "b", b, "192.0.2.1" }, "is that of host a"},
		"the same, spelled otherwise":      {func(r *peer.JoinRequest) { r.Host, r.Leaf, r.Address = "b", b, "::ffff:192.0.2.1" }, "is a name of host a"},
		"that host's proof, another name":  {func(r *peer.JoinRequest) { r.Host, r.Leaf, r.Former, r.Address = "b", b, former.Raw, "192.0.2.1" }, "is that of host a"},
		"an address for a name":            {func(r *peer.JoinRequest) { r.Host, r.Leaf, r.Address = "192.0.2.7", b, "192.0.2.2" }, "is an address"},
		"no request":                       {func(r *peer.JoinRequest) { r.Host, r.Address, r.Leaf = "b", "192.0.2.2", nil }, "asked for no certificate"},
		"a request of another common name": {func(r *peer.JoinRequest) { r.Host, r.Address = "b", "192.0.2.2" }, "common name"},
		"a huge request":                   {func(r *peer.JoinRequest) { r.Host, r.Address, r.Leaf = "b", "192.0.2.2", make([]byte, 9<<10) }, "bytes"},
	} {
		err := join(c.change)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// A host without keys starts its member with what lies there although nobody signs, asks once it can, and takes nothing
// that it has not asked for. A launch with a new token needs nobody.
func TestAHostWithoutKeysAsks(t *testing.T) {
	d, s := keyHolder(t)
	dir, data := t.TempDir(), t.TempDir()
	for _, one := range d.certs.cas.All() {
		if err := os.WriteFile(filepath.Join(dir, one.Name()+".crt"), one.BundlePEM(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{ClusterName: "c", DataDir: data, PKIDir: dir, Address: "192.0.2.2"}
	log := slog.New(slog.DiscardHandler)
	if _, err := newCerts(&cfg, "b", nil, log); !errors.Is(err, errNotAsked) {
		t.Fatalf("a host without keys and certificates starts: %v", err)
	}
	r, err := pki.HostRequest(pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "b"}, []string{"192.0.2.2"}, pki.DefaultLifetime())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Ensure(filepath.Join(data, "etcdadm/pki/daemon"), pki.PeerNames, d.certs.cas.Manager, r, time.Now()); err != nil {
		t.Fatal(err)
	}
	k, err := newCerts(&cfg, "b", nil, log)
	if err != nil || *k.holdsKeys() {
		t.Fatal(err)
	}
	launch := func(token string) record.Launch {
		return record.Launch{Token: token, URLs: cluster.URLs{Peer: []string{"https://192.0.2.2:2380"}, Client: []string{"https://192.0.2.2:2379"}}}
	}
	if err := k.forLaunch(launch("one")); !errors.Is(err, errNotAsked) {
		t.Errorf("%v", err)
	}
	asked := 0
	var lie func([]byte) []byte
	holder := func(ctx context.Context, kind signing.Kind, request []byte) ([]byte, error) {
		asked++
		reply, err := s.Sign(ctx, peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "b"}, Verified: true, Leaf: k.leaves["daemon"]}, peer.SignRequest{Kind: string(kind), Request: request})
		if lie != nil && err == nil {
			return lie(reply.Certificate), nil
		}
		return reply.Certificate, err
	}
	k.mayAsk(holder)
	foreign, _ := aRequest(t, signing.OperatorName)
	strangers, err := certify(d, signing.Operator, foreign, signing.Who{Cluster: "c", Host: "b"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	lie = func([]byte) []byte { return strangers }
	if err := k.look(t.Context()); !errors.Is(err, pki.ErrNotAsked) {
		t.Errorf("a certificate for another key: %v", err)
	}
	lie = func([]byte) []byte { return d.certs.cas.Manager.Pool().Subjects()[0] } //nolint:staticcheck // any bytes
	if err := k.look(t.Context()); err == nil {
		t.Error("noise was taken for a certificate")
	}
	lie = nil
	if err := errors.Join(k.look(t.Context()), k.forLaunch(launch("one"))); err != nil {
		t.Fatal(err)
	}
	if asked != 2+5 { // operator, etcdctl, and three of the member
		t.Errorf("%d certificates were asked for", asked)
	}
	k.mayAsk(func(context.Context, signing.Kind, []byte) ([]byte, error) { return nil, errors.New("nobody is there") })
	if err := errors.Join(k.forLaunch(launch("two")), k.look(t.Context())); err != nil {
		t.Errorf("a launch with a new token waits for others: %v", err)
	}
	one, err1 := pki.LoadKeypair(k.peersDir("one"), pki.PeerNames)
	two, err2 := pki.LoadKeypair(k.peersDir("two"), pki.PeerNames)
	if err := errors.Join(err1, err2); err != nil || !one.Leaf().Equal(two.Leaf()) {
		t.Errorf("%v", err)
	}
	if p := k.problems(); len(p) != 0 {
		t.Errorf("%+v", p)
	}
	_, life := pki.Life(k.leaves["etcd-peer"])
	late := *k.leaves["etcd-peer"]
	late.NotAfter = time.Now().Add(life / 4)
	late.NotBefore = late.NotAfter.Add(-life)
	k.leaves["etcd-peer"] = &late
	if p := k.problems(); len(p) != 1 || p[0].Code != "not-renewed" || !strings.Contains(p[0].Sentence, "etcd-peer ends in") || p[0].Hint == "" {
		t.Errorf("%+v", p)
	}
}

// During a rotation a host without the keys is given none of the next ones: its certificate is a host's all the same.
func TestNextKeysAreForHolders(t *testing.T) {
	d, _ := keyHolder(t)
	h := handler{d}
	from := peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "b"}, Verified: true}
	r := peer.AuthorityRequest{Rotation: "r", Name: pki.PeersCA}
	seal := func(statement []byte) []byte {
		s, err := d.certs.cas.Manager.Seal(statement)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, s := range map[string][]byte{"none": nil, "another host's": seal(r.Statement("c", "a")), "a token's": seal(token.Record{}.Statement("c"))} {
		r.Seal = s
		if reply, err := h.Authority(t.Context(), from, r); err == nil || len(reply.Key) > 0 {
			t.Errorf("a seal that is %s: %v", name, err)
		}
	}
	r.Seal = seal(r.Statement("c", "b"))
	if _, err := h.Authority(t.Context(), from, r); err != nil && strings.Contains(err.Error(), "does not hold") {
		t.Errorf("%v", err)
	}
}

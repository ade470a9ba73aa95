package machines

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
)

// leafToken makes a token on a host that holds the keys; whoever joins by it gets none.
func (m *machine) leafToken(t *testing.T, n setup.NewToken) string {
	t.Helper()
	settings, err := setup.ReadSettings(m.Paths)
	if err != nil {
		t.Fatal(err)
	}
	n.LeafOnly = true
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		made, err := setup.MakeToken(t.Context(), settings, n)
		if err == nil {
			return made.Token.Reveal()
		}
		if time.Now().After(deadline) { // a host that was just started may not keep the record again yet
			t.Fatal(err)
		}
	}
}

// hasKeys tells how many of the authorities' keys lie on a machine.
func (m *machine) hasKeys() (n int) {
	for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
		if _, err := os.Lstat(filepath.Join(m.Paths.PKI(), name+".key")); !errors.Is(err, os.ErrNotExist) {
			n++
		}
	}
	return n
}

// leaf is a certificate of a machine's agent.
func (m *machine) leaf(t *testing.T, name string) *pki.Keypair {
	t.Helper()
	pair, err := pki.LoadKeypair(filepath.Join(m.Paths.Data(), "etcdadm/pki", name), pki.PeerNames)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// A host joins without the authorities' keys, votes, and goes on while nobody can sign: restarted, without the hosts that
// hold the keys, and as the one survivor that the cluster is recovered from.
func TestLeafOnlyHosts(t *testing.T) {
	t.Parallel()
	all, store := newMachines(t, 3)
	first := all[0].begin(t, store)
	for _, m := range all[1:] {
		began := time.Now()
		done, err := m.tryJoin(t, first, all[0].leafToken(t, setup.NewToken{Uses: 1, Host: m.id}))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("join took %s", time.Since(began).Round(time.Millisecond))
		if !done.LeafOnly || m.hasKeys() != 0 {
			t.Errorf("%+v, with %d keys", done, m.hasKeys())
		}
		if until := m.leaf(t, "daemon").Leaf().NotAfter; time.Until(until) > 366*24*time.Hour {
			t.Errorf("its certificate is good until %s", until)
		}
	}
	all[0].voters(t, 3)
	all[1].voters(t, 3)

	// The only holder goes; a host without keys is killed and starts its member again by itself.
	all[0].direct.stop(syscall.SIGTERM)
	all[1].direct.stop(syscall.SIGTERM)
	if err := all[1].direct.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	all[2].up(t, 2)
	if out, _, _ := ran(t, filepath.Join(rig.Programs, "etcdadm"), "status", "--data-dir="+all[2].Paths.Data()); !strings.Contains(out, "no host in sight holds the authorities' keys") {
		t.Errorf("status does not tell who holds the keys:\n%s", out)
	}
	all[2].direct.stop(syscall.SIGTERM)
	all[1].up(t, 0) // else the recovery is refused: the cluster has a quorum
	all[1].etcdadm(t, "recover", "--from="+all[1].id, "--lost="+all[0].id, "--lost="+all[2].id, "--members=1", "--yes", "--store="+store, "--data-dir="+all[1].Paths.Data(), "--cluster-name="+first.Cluster)
	all[1].voters(t, 1)
}

// up waits until so many voters are up, of however many.
func (m *machine) up(t *testing.T, want int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		voters, up := m.count(t)
		if up == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d voters are up, want %d", up, voters, want)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// renewed waits until a machine has another certificate.
func (m *machine) renewed(t *testing.T, than *pki.Keypair, within time.Duration) *pki.Keypair {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		now := m.leaf(t, "daemon")
		if now.Leaf().SerialNumber.Cmp(than.Leaf().SerialNumber) != 0 {
			return now
		}
		if time.Now().After(deadline) {
			t.Fatalf("the certificate of %s is the same after %s; it ends at %s", m.id, within, now.Leaf().NotAfter)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Certificates that others sign are renewed in time, without the hosts that hold the keys nothing breaks until they end,
// and a host whose certificates have ended comes back with its data and its name.
func TestLeafOnlyHostsAreRenewed(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("waits until certificates end: -e2e.long")
	}
	all, _ := newMachines(t, 3)
	v, short := version(t), setup.Settings{pki.EnvDuration: "1m"}
	o := setup.Init{
		Address: all[0].address, HostID: all[0].id, Members: 3, Version: v, Wait: time.Minute,
		More: short,
	}
	first, err := all[0].Init(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	m, other := all[1], all[2]
	if _, err := other.tryJoin(t, first, first.Token); err != nil {
		t.Fatal(err)
	}
	// How long certificates live is each host's own setting, and the second holder's is to be the same.
	env := read(t, other.Paths.Settings()) + pki.EnvDuration + "=" + short[pki.EnvDuration] + "\n"
	if err := os.WriteFile(other.Paths.Settings(), []byte(env), 0o600); err != nil {
		t.Fatal(err)
	}
	other.direct.stop(syscall.SIGTERM)
	if err := other.direct.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	all[0].voters(t, 2)
	if _, err := m.tryJoin(t, first, all[0].leafToken(t, setup.NewToken{Host: m.id})); err != nil {
		t.Fatal(err)
	}
	all[0].voters(t, 3)
	was := m.leaf(t, "daemon")
	if life := time.Until(was.Leaf().NotAfter); life > time.Minute {
		t.Errorf("it lives %s, longer than certificates of who signed it", life)
	}
	now := m.renewed(t, was, time.Minute)
	if !pki.SameKey(now.Leaf().PublicKey, was.Leaf().PublicKey) {
		t.Error("a renewal has changed the key")
	}
	// A person renews all of them, by the host that holds the keys.
	m.etcdadm(t, "certs", "renew", "--all", "--root="+m.Paths.Root)
	member := m.member(t)

	// The holders are away until the certificates have ended, and their etcd with them.
	all[0].direct.stop(syscall.SIGTERM)
	other.direct.stop(syscall.SIGTERM)
	if out, errs, code := ran(t, filepath.Join(rig.Programs, "etcdadm"), "certs", "renew", "--all", "--root="+m.Paths.Root); code == 0 {
		t.Errorf("renewed without a holder:\n%s%s", out, errs)
	}
	time.Sleep(time.Until(m.leaf(t, "daemon").Leaf().NotAfter.Add(2 * time.Second)))
	if log := read(t, filepath.Join(m.Paths.Root, "agent.log")); !strings.Contains(log, "a certificate is due and could not be renewed") {
		t.Error("the agent said nothing of it")
	}
	if err := errors.Join(all[0].direct.Start(t.Context()), other.direct.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	all[0].up(t, 2)
	// It is nobody now, and a new token makes it what it was; a token for another host does not.
	if _, err := m.tryJoin(t, first, all[0].leafToken(t, setup.NewToken{Host: "host-9"})); !errors.Is(err, peer.ErrJoin) || !strings.Contains(err.Error(), "another host") {
		t.Errorf("by a token for another host: %v", err)
	}
	done, err := m.tryJoin(t, first, all[0].leafToken(t, setup.NewToken{Host: m.id}))
	if err != nil || !done.Again || !done.LeafOnly {
		t.Fatalf("%+v, %v", done, err)
	}
	all[0].voters(t, 3)
	if now := m.member(t); now != member {
		t.Errorf("it is member %s, and was %s", now, member)
	}

	// With a token that gives the keys it gets them, and signs for itself.
	settings, err := setup.ReadSettings(all[0].Paths)
	if err != nil {
		t.Fatal(err)
	}
	made, err := setup.MakeToken(t.Context(), settings, setup.NewToken{Host: m.id})
	if err != nil {
		t.Fatal(err)
	}
	tok := made.Token
	if done, err = m.Join(t.Context(), setup.Join{Endpoint: first.Endpoint, Token: tok, CAHash: first.CAHash, Again: true, Wait: time.Minute}); err != nil || done.LeafOnly || m.hasKeys() != 3 {
		t.Errorf("%+v with %d keys, %v", done, m.hasKeys(), err)
	}
	all[0].voters(t, 3)
}

// member is the ID of a machine's member.
func (m *machine) member(t *testing.T) cluster.MemberID {
	t.Helper()
	report := m.status(t)
	if report.Observation == nil {
		t.Fatal("nobody leads")
	}
	h, ok := report.Observation.Host(cluster.HostID(m.id))
	if !ok {
		t.Fatalf("host %s is not seen", m.id)
	}
	return h.Local.Member
}

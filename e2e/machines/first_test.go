package machines

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/teststore"
	"etcdadm.io/internal/token"
)

// direct starts an agent as the unit does, without systemd.
type direct struct {
	t     *testing.T
	paths setup.Paths

	mu     sync.Mutex // guards cmd
	cmd    *exec.Cmd
	before func() // the first start; nil: nothing
}

func (d *direct) Check(context.Context) error { return nil }

func (d *direct) Active(context.Context) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cmd != nil, nil
}

func (d *direct) Start(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd != nil {
		return nil
	}
	if d.before != nil {
		d.before()
		d.before = nil
	}
	settings, err := setup.ReadSettings(d.paths)
	if err != nil {
		return err
	}
	// The flag names the directory, by which the rig ends what a test that was killed has left.
	cmd := exec.Command(filepath.Join(rig.Programs, "etcdadm"), "auto", "--hosts-file="+filepath.Join(d.paths.Root, "hosts"))
	for name, value := range settings {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	log, err := os.OpenFile(filepath.Join(d.paths.Root, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	d.cmd = cmd
	return nil
}

// stop ends the agent by a signal, and waits for its end.
func (d *direct) stop(s syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(s)
	_ = d.cmd.Wait()
	d.cmd = nil
}

// machine is a fresh one below a directory, with an address of its own.
type machine struct {
	*setup.Machine
	direct  *direct
	address string
	id      string
}

func newMachines(t *testing.T, n int) (machines []*machine, store string) {
	t.Helper()
	dir := t.TempDir()
	rig.Watch(dir)
	t.Cleanup(func() {
		if err := rig.EndAll(dir); err != nil {
			t.Error(err)
		}
	})
	store = "file://" + filepath.Join(dir, "store")
	for i, address := range rig.Addresses(t, n) {
		paths := setup.Paths{Root: filepath.Join(dir, fmt.Sprint(i+1))}
		if err := os.MkdirAll(paths.Root, 0o700); err != nil {
			t.Fatal(err)
		}
		d := &direct{t: t, paths: paths}
		m := &machine{direct: d, address: address, id: fmt.Sprintf("host-%d", i+1)}
		m.Machine = &setup.Machine{
			Paths: paths, Service: d, Binary: filepath.Join(rig.Programs, "etcdadm"), Build: "test",
			Say: func(s string) { t.Logf("%s: %s", m.id, s) },
		}
		t.Cleanup(func() {
			if t.Failed() {
				if log, err := os.ReadFile(filepath.Join(paths.Root, "agent.log")); err == nil {
					t.Logf("log of %s:\n%s", m.id, log)
				}
			}
			d.stop(syscall.SIGTERM)
		})
		machines = append(machines, m)
	}
	return machines, store
}

func version(t *testing.T) cluster.Version {
	t.Helper()
	v, err := cluster.ParseVersion(builtin.Version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (m *machine) begin(t *testing.T, store string) setup.Initialised {
	t.Helper()
	done, err := m.tryInit(t, store)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func (m *machine) tryInit(t *testing.T, store string) (setup.Initialised, error) {
	t.Helper()
	o := setup.Init{Store: store, CreateStore: true, Address: m.address, HostID: m.id, Members: 3, Version: version(t), Wait: time.Minute}
	report, err := m.CheckInit(t.Context(), o)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		return setup.Initialised{}, err
	}
	return m.Init(t.Context(), o)
}

func (m *machine) tryJoin(t *testing.T, at setup.Initialised, secret string) (setup.Joined, error) {
	t.Helper()
	tok, err := token.Parse(secret)
	if err != nil {
		t.Fatal(err)
	}
	o := setup.Join{Endpoint: at.Endpoint, Token: tok, CAHash: at.CAHash, Address: m.address, HostID: m.id, Wait: time.Minute}
	report, err := m.CheckJoin(t.Context(), o)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		return setup.Joined{}, err
	}
	return m.Join(t.Context(), o)
}

// voters are how many voters are up, as an agent tells it.
func (m *machine) voters(t *testing.T, want int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		voters, up := m.count(t)
		if voters == want && up == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d voters are up, want %d", up, voters, want)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (m *machine) count(t *testing.T) (voters, up int) {
	access, err := console.ReadAccess(m.Paths.Data())
	if err != nil {
		t.Fatal(err)
	}
	c, err := console.Open(access)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	report, err := c.Status(ctx)
	if err != nil || report.Observation == nil {
		return 0, 0
	}
	roster, _ := report.Observation.Roster()
	return roster.Count()
}

func TestInitAndJoin(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"a shared store": true, "no store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, store := newMachines(t, 3)
			if !shared {
				store = ""
			}
			initAndJoin(t, all, store)
		})
	}
}

func initAndJoin(t *testing.T, all []*machine, store string) {
	t.Helper()
	began := time.Now()
	first := all[0].begin(t, store)
	t.Logf("init took %s", time.Since(began).Round(time.Millisecond))
	for _, m := range all[1:] {
		began := time.Now()
		done, err := m.tryJoin(t, first, first.Token)
		if err != nil {
			t.Fatal(err)
		}
		if done.Cluster != setup.DefaultCluster || done.Again || done.Spare {
			t.Errorf("%+v", done)
		}
		t.Logf("join took %s", time.Since(began).Round(time.Millisecond))
	}
	all[0].voters(t, 3)
	all[2].voters(t, 3)

	// What anybody may read holds no secret, and what does is for root only.
	secrets := map[string]bool{all[0].Paths.Settings(): true}
	for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
		for _, m := range all {
			secrets[filepath.Join(m.Paths.PKI(), name+".key")] = true
			if a, b := read(t, filepath.Join(m.Paths.PKI(), name+".key")), read(t, filepath.Join(all[0].Paths.PKI(), name+".key")); a != b {
				t.Errorf("%s of %s is another one", name, m.id)
			}
		}
	}
	for path := range secrets {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	_, secret, _ := strings.Cut(first.Token, ".")
	for _, m := range all {
		err := filepath.WalkDir(m.Paths.Root, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && !strings.Contains(path, "/member/") && strings.Contains(read(t, path), secret) {
				t.Errorf("%s holds the token", path)
			}
			return err
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(all[1].Paths.Root, "etc/etcdadm/join-try")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the number of the join is left: %v", err)
	}

	// Again, on hosts that are what they are asked to be.
	if again, err := all[0].tryInit(t, store); err != nil || !again.Again || again.CAHash != first.CAHash || again.Members != 3 {
		t.Errorf("init again: %+v, %v", again, err)
	}
	if again, err := all[1].tryJoin(t, first, first.Token); err != nil || !again.Again {
		t.Errorf("join again: %+v, %v", again, err)
	}
	odd := *all[1]
	odd.id = "host-7"
	if _, err := odd.tryJoin(t, first, first.Token); !errors.Is(err, setup.ErrSetUp) {
		t.Errorf("join again under another name: %v", err)
	}
	all[0].voters(t, 3)
}

// With a bucket: the credentials that init was started with reach the agents of hosts that join, and lie nowhere else.
func TestInitAndJoinOverABucket(t *testing.T) {
	t.Parallel()
	all, _ := newMachines(t, 2)
	server := teststore.Start(t, teststore.Versitygw)
	store := rig.ObjectStore(t, server, teststore.Versitygw, "")
	all[0].Environ = os.Environ() // the rig has put them there
	first := all[0].begin(t, store)
	if _, err := all[1].tryJoin(t, first, first.Token); err != nil {
		t.Fatal(err)
	}
	all[1].voters(t, 2)
	for _, m := range all {
		err := filepath.WalkDir(m.Paths.Root, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && path != m.Paths.Settings() && !strings.Contains(path, "/member/") && strings.Contains(read(t, path), teststore.SecretKey) {
				t.Errorf("%s holds the key of the store", path)
			}
			return err
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		if !strings.Contains(read(t, m.Paths.Settings()), "S3_SECRET_ACCESS_KEY="+teststore.SecretKey+"\n") {
			t.Errorf("%s does not hold the key of the store", m.Paths.Settings())
		}
	}
}

func read(t *testing.T, path string) string {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	return string(data)
}

// What a joiner is told that cannot join, within 3 s, and that nothing is left of it.
func TestJoinsThatAreRefused(t *testing.T) {
	t.Parallel()
	all, store := newMachines(t, 3)
	first := all[0].begin(t, store)
	settings, err := setup.ReadSettings(all[0].Paths)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := setup.OpenFolder(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	made := func(n setup.NewToken) (setup.MadeToken, string) {
		t.Helper()
		one, err := setup.MakeToken(t.Context(), settings, n)
		if err != nil {
			t.Fatal(err)
		}
		return one, one.Token.Reveal()
	}
	_, good := made(setup.NewToken{})
	other, _ := made(setup.NewToken{})
	revoked, revokedSecret := made(setup.NewToken{})
	if _, err := folder.Tokens().Revoke(t.Context(), revoked.Record.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	_, expired := made(setup.NewToken{Life: time.Nanosecond})
	_, single := made(setup.NewToken{Uses: 1})
	ask := func(change func(*peer.JoinRequest), secret string) error {
		r := peer.JoinRequest{Token: secret, Host: "host-9", Address: all[2].address, Build: "test", Clock: time.Now(), Try: "9"}
		if change != nil {
			change(&r)
		}
		_, _, err := peer.Join(t.Context(), first.Endpoint, first.CAHash, r)
		return err
	}
	if err := ask(nil, single); err != nil {
		t.Fatal(err)
	}
	_, secretOfGood, _ := strings.Cut(good, ".")
	for name, c := range map[string]struct {
		secret string
		change func(*peer.JoinRequest)
		says   string
	}{
		"unknown":                 {"zzzzzz." + secretOfGood, nil, "is not known"},
		"wrong":                   {other.Record.ID + "." + secretOfGood, nil, "has a wrong secret"},
		"revoked":                 {revokedSecret, nil, "was revoked"},
		"expired":                 {expired, nil, "has expired"},
		"used up":                 {single, func(r *peer.JoinRequest) { r.Try = "10" }, "is used up"},
		"no token":                {"nonsense", nil, "is not a join token"},
		"a clock that is behind":  {good, func(r *peer.JoinRequest) { r.Clock = r.Clock.Add(-6 * time.Minute) }, "the clock of the joiner is 6m behind"},
		"a clock that is ahead":   {good, func(r *peer.JoinRequest) { r.Clock = r.Clock.Add(time.Hour) }, "ahead of"},
		"the name of a host":      {good, func(r *peer.JoinRequest) { r.Host = "host-1" }, "has a host host-1 already"},
		"the address of a host":   {good, func(r *peer.JoinRequest) { r.Address = all[0].address }, "is that of host host-1"},
		"a name that is none":     {good, func(r *peer.JoinRequest) { r.Host = "a/b" }, "ID"},
		"an address that is none": {good, func(r *peer.JoinRequest) { r.Address = "a b" }, "is no address"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			err := ask(c.change, c.secret)
			var told *peer.Error
			if !errors.Is(err, peer.ErrJoin) || !strings.Contains(err.Error(), c.says) || !errors.As(err, &told) || told.Hint() == "" || strings.Contains(told.Err.Error(), "\n") {
				t.Errorf("%v; want %q and a hint", err, c.says)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("told after %s", took)
			}
			if err != nil && strings.Contains(err.Error(), secretOfGood) {
				t.Errorf("the secret is told: %v", err)
			}
		})
	}
	// The same number again is the same host, which was interrupted.
	if err := ask(nil, single); err != nil {
		t.Errorf("the same host again: %v", err)
	}

	// Another cluster's hash, and a host of another cluster.
	foreign := first
	foreign.CAHash = "sha256:" + strings.Repeat("0", 64)
	if _, err := all[1].tryJoin(t, foreign, good); !errors.Is(err, pki.ErrOtherAuthority) {
		t.Errorf("another hash: %v", err)
	}
	if _, err := os.Lstat(all[1].Paths.PKI()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left of it: %v", err)
	}
	if _, err := all[0].tryJoin(t, foreign, good); !errors.Is(err, setup.ErrOther) {
		t.Errorf("a host of another cluster: %v", err)
	}
	// Two that begin in one store.
	if _, err := all[2].tryInit(t, store); err == nil || !strings.Contains(err.Error(), "another machine has begun") {
		t.Errorf("begun twice: %v", err)
	}
	if _, err := all[0].tryInit(t, store+"-other"); !errors.Is(err, setup.ErrOther) {
		t.Errorf("begun on a host of another cluster: %v", err)
	}

	// The store is away: that is told, and no token is used.
	dir := strings.TrimPrefix(store, "file://")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = ask(func(r *peer.JoinRequest) { r.Try = "11" }, good)
	if !errors.Is(err, peer.ErrJoin) || !strings.Contains(err.Error(), "the backup store") || time.Since(began) > 3*time.Second {
		t.Errorf("without the store: %v after %s", err, time.Since(began))
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if log := read(t, filepath.Join(all[0].Paths.Root, "agent.log")); strings.Contains(log, secretOfGood) || !strings.Contains(log, "a host was not let join") {
		t.Error("the log holds a secret, or says nothing")
	}
}

// Nobody in between is given a token, and nobody without one is answered anything else: internal/peer. Here, that
// the agent's port shows its authority to whoever joins, and asks everybody else for a certificate.
func TestWhatThePortShows(t *testing.T) {
	t.Parallel()
	all, store := newMachines(t, 1)
	first := all[0].begin(t, store)
	conn, err := tls.Dial("tcp", first.Endpoint, &tls.Config{ServerName: pki.JoinName, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if chain := conn.ConnectionState().PeerCertificates; len(chain) != 2 || pki.HashOf(chain[1]) != first.CAHash {
		t.Errorf("%d certificates", len(chain))
	}
}

// An init that is interrupted after any of its steps goes on, and comes to the same end.
func TestInitGoesOn(t *testing.T) {
	t.Parallel()
	all, store := newMachines(t, 1)
	m := all[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := setup.Init{Store: store, CreateStore: true, Address: m.address, HostID: m.id, Members: 1, Version: version(t), Wait: time.Minute}
	cancel()
	if _, err := m.Init(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	// Authorities are made, and nothing else.
	all1, err := pki.Create(m.Paths.PKI(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	// The store is marked, and nothing is asked for.
	settings := setup.Settings{"ETCDADM_CLUSTER_NAME": setup.DefaultCluster, "ETCDADM_BACKUP_STORE": store}
	if err := os.MkdirAll(strings.TrimPrefix(store, "file://"), 0o700); err != nil {
		t.Fatal(err)
	}
	folder, err := setup.OpenFolder(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Tokens().Found(t.Context(), all1.Manager.Hash(), time.Now()); err != nil {
		t.Fatal(err)
	}
	done := m.begin(t, store)
	if done.CAHash != all1.Manager.Hash() || done.Again {
		t.Errorf("%+v", done)
	}
	// The agent is killed while its etcd goes on; init starts it again.
	m.direct.stop(syscall.SIGKILL)
	if again := m.begin(t, store); !again.Again || again.CAHash != done.CAHash {
		t.Errorf("%+v", again)
	}
	if _, err := folder.Tokens().All(t.Context()); err != nil && !errors.Is(err, control.ErrMalformed) {
		t.Error(err)
	}
}

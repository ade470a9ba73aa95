package setup

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	_ "etcdadm.io/internal/testenv" // no test goes by the environment of who runs it
	"etcdadm.io/internal/token"
	"etcdadm.io/internal/unit"
)

// idle is a service manager that starts nothing.
type idle struct {
	missing error
	active  bool
	started int
}

func (s *idle) Check(context.Context) error          { return s.missing }
func (s *idle) Active(context.Context) (bool, error) { return s.active, nil }
func (s *idle) Start(context.Context) error          { s.started++; return nil }

func fresh(t *testing.T) (*Machine, *idle) {
	t.Helper()
	s := new(idle)
	return &Machine{Paths: Paths{Root: t.TempDir()}, Service: s, Binary: "/usr/bin/etcdadm", Build: "test"}, s
}

var v = cluster.Version{Major: 3, Minor: 7, Patch: 3}

// The settings read back as they were written, for us and for systemd alike, or are refused.
func TestSettings(t *testing.T) {
	m, _ := fresh(t)
	if _, err := ReadSettings(m.Paths); !errors.Is(err, ErrNotSetUp) {
		t.Fatalf("%v", err)
	}
	s := m.hostSettings("192.0.2.1", "a", "")
	s.setFlag("cluster-name", "etcd")
	s.setFlag("backup-store", "s3://bucket/folder?x=1#y")
	s["S3_SECRET_ACCESS_KEY"] = `a/b+c=d"e'f`
	if err := m.writeSettings(s); err != nil {
		t.Fatal(err)
	}
	got, err := ReadSettings(m.Paths)
	if err != nil || len(got) != len(s) || got.Store() != s.Store() || got["S3_SECRET_ACCESS_KEY"] != s["S3_SECRET_ACCESS_KEY"] || got.HostID() != "a" || got.Endpoint() != "192.0.2.1:8000" {
		t.Errorf("%v, %v", got, err)
	}
	if info, err := os.Stat(m.Paths.Settings()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// What a person changed is kept.
	if err := os.WriteFile(m.Paths.Settings(), []byte("ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=s3://b\nETCDADM_V=8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.writeSettings(s); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadSettings(m.Paths); err != nil || got.Flag("v") != "8" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"a\nb", `a\b`, `"a"`, `'a`, " a", "a ", "a\x00"} {
		_, err := Settings{"X": bad}.text("x")
		if err == nil || len(bad) > 2 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := os.WriteFile(m.Paths.Settings(), []byte("ETCDADM_V=8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSettings(m.Paths); err == nil || errors.Is(err, ErrNotSetUp) {
		t.Errorf("settings without a cluster: %v", err)
	}
}

func TestChecks(t *testing.T) {
	m, service := fresh(t)
	store := filepath.Join(t.TempDir(), "store")
	o := Init{Store: "file://" + store, CreateStore: true, Address: "127.0.0.1", HostID: "a", Members: 3, Version: v}
	standing := func(name string) (Check, Report) {
		t.Helper()
		r, err := m.CheckInit(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Checks {
			if c.Name == name {
				if c.Standing == Refused && c.Remedy == "" {
					t.Errorf("%s refuses without a way out: %s", name, c.Found)
				}
				return c, r
			}
		}
		t.Fatalf("nothing is said of %s", name)
		return Check{}, r
	}
	want := func(name string, want Standing, says string) {
		t.Helper()
		if c, _ := standing(name); c.Standing != want || !strings.Contains(c.Found, says) {
			t.Errorf("%s: %s %q, want %s %q", name, c.Standing, c.Found, want, says)
		}
	}
	want("data directory", Good, "will be made")
	want("unit", Good, "will be made")
	want("authorities", Good, "will be made")
	want("store", Good, "will be made")
	want("service manager", Good, "")
	if c, _ := standing("disk"); c.Standing == Refused || !strings.Contains(c.Found, "syncs") { // a slow one is a warning
		t.Errorf("disk: %s %q", c.Standing, c.Found)
	}
	service.active = true // so that the disk is measured once
	if left, err := os.ReadDir(m.Paths.Root); err != nil || len(left) > 0 {
		t.Errorf("something was made: %v", left)
	}
	if err := os.MkdirAll(m.Paths.Data(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.Paths.Data(), probePrefix+"1"), nil, 0o600); err != nil { // of one that was killed
		t.Fatal(err)
	}
	want("data directory", Good, "is empty")
	if err := os.RemoveAll(filepath.Join(m.Paths.Root, "var")); err != nil {
		t.Fatal(err)
	}

	service.missing = unit.ErrNoSystemd
	want("service manager", Refused, "systemd does not run")
	service.missing = nil
	o.CreateStore = false
	want("store", Refused, "does not exist")
	o.Address = "192.0.2.77"
	want("address", Refused, "not this machine's")
	o.Address = "127.0.0.1"

	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(m.Paths.Unit(), "[Service]\n")
	want("unit", Refused, "was not made by etcdadm")
	write(m.Paths.Unit(), unit.Mark+"\n")
	want("unit", Good, "is etcdadm's")
	write(filepath.Join(m.Paths.Data(), "member", "x"), "")
	want("data directory", Refused, "is not empty")
	if err := os.RemoveAll(m.Paths.Data()); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(m.Paths.Data(), "myid"), "a")
	want("data directory", Good, "did not come far")
	// Some of the authorities: as an interrupted init leaves them, or not.
	write(filepath.Join(m.Paths.PKI(), "etcd-manager-ca.key"), "")
	want("authorities", Good, "interrupted")
	write(filepath.Join(m.Paths.PKI(), "etcd-clients-ca.crt"), "")
	want("authorities", Refused, "not left by an init")
	_, r := standing("authorities")
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "more checks refuse") {
		t.Errorf("%v", err)
	}
	if len(r.Steps) < 8 {
		t.Errorf("%q", r.Steps)
	}
}

func TestTakenPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	s := Settings{}
	s.setFlag("address", "127.0.0.1")
	s.setFlag("etcd-address", "127.0.0.1")
	s.setFlag("grpc-port", port)
	s.setFlag("client-urls", "https://__address__:"+port)
	find := func(running, left bool) (agent, etcd Standing) {
		all := checkPorts(t.Context(), s, running, left)
		return all[0].Standing, all[1].Standing
	}
	for _, c := range []struct {
		running, left bool
		agent, etcd   Standing
	}{{false, false, Refused, Refused}, {false, true, Refused, Good}, {true, true, Good, Good}} {
		if agent, etcd := find(c.running, c.left); agent != c.agent || etcd != c.etcd {
			t.Errorf("%+v: %s, %s", c, agent, etcd)
		}
	}
}

// What the cluster gives is taken only where it is for a joiner.
func TestRepliesThatAreRefused(t *testing.T) {
	m, _ := fresh(t)
	all, err := pki.Create(filepath.Join(t.TempDir(), "pki"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, a := range all.All() {
		of, err := a.Files()
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range of {
			files[name] = data
		}
	}
	reply := func() peer.JoinReply {
		return peer.JoinReply{
			Cluster: "etcd", Host: "a", Authorities: files, Daemons: []string{"192.0.2.1:8000", "192.0.2.2:8000"},
			Settings: map[string]string{"cluster-name": "etcd", "backup-store": "file:///s", "etcd-address": "__address__"}, Environment: map[string]string{"S3_REGION": "x"},
		}
	}
	o := Join{Endpoint: "192.0.2.1:8000", Address: "192.0.2.2", HostID: "b"}
	s, err := m.settingsOf(o, reply())
	if err != nil || s.HostID() != "b" || s.Flag("etcd-address") != "192.0.2.2" || s.Flag("discovery") != "192.0.2.1:8000" || s["S3_REGION"] != "x" || s.Flag("data-dir") != m.Paths.Data() {
		t.Errorf("%v, %v", s, err)
	}
	for name, change := range map[string]func(*peer.JoinReply){
		"another host's ID":    func(r *peer.JoinReply) { r.Settings["host-id"] = "x" },
		"a file of variables":  func(r *peer.JoinReply) { r.Settings["env-file"] = "/etc/shadow" },
		"an odd name":          func(r *peer.JoinReply) { r.Settings["A=B\nC"] = "x" },
		"a variable":           func(r *peer.JoinReply) { r.Environment["LD_PRELOAD"] = "/x.so" },
		"a flag by variable":   func(r *peer.JoinReply) { r.Environment["ETCDADM_ENV_FILE"] = "/x" },
		"another cluster":      func(r *peer.JoinReply) { r.Settings["cluster-name"] = "x" },
		"no store":             func(r *peer.JoinReply) { delete(r.Settings, "backup-store") },
		"insecure by settings": func(r *peer.JoinReply) { r.Settings["insecure"] = "true" },
	} {
		r := reply()
		change(&r)
		if _, err := m.settingsOf(o, r); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if err := m.keepAuthorities(m.Paths.PKI(), map[string][]byte{"../../x": nil}, all.Manager.Hash()); err == nil {
		t.Error("files of other names were taken")
	}
	for range 2 { // a second time after an interruption
		if err := m.keepAuthorities(m.Paths.PKI(), files, all.Manager.Hash()); err != nil {
			t.Fatal(err)
		}
	}
	if c := m.Paths.checkPrivate(all.Manager.Hash()); c.Standing != Good {
		t.Errorf("%+v", c)
	}
	if c := m.Paths.checkPrivate("sha256:x"); c.Standing != Refused || c.Remedy == "" {
		t.Errorf("%+v", c)
	}
	files["etcd-peers-ca.key"] = []byte("another")
	if err := m.keepAuthorities(m.Paths.PKI(), files, all.Manager.Hash()); !errors.Is(err, ErrOther) {
		t.Errorf("%v", err)
	}
}

// A machine that has not mounted the shared directory is not given a store of its own by mistake.
func TestStoreOfAJoiner(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	store, err := file.Open(t.Context(), dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := control.New(store, "etcd").Tokens().Add(t.Context(), token.Record{ID: "abcdef", Created: now, Expires: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	at := func(dir string) Settings {
		s := Settings{}
		s.setFlag("cluster-name", "etcd")
		s.setFlag("backup-store", "file://"+dir)
		return s
	}
	if err := sameStore(t.Context(), at(dir), "abcdef"); err != nil {
		t.Error(err)
	}
	for _, s := range []Settings{at(other), at(filepath.Join(other, "none"))} {
		var told *Error
		if err := sameStore(t.Context(), s, "abcdef"); !errors.As(err, &told) || !strings.Contains(told.Hint(), "mount") {
			t.Errorf("%v", err)
		}
	}
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("something was made: %v, %v", left, err)
	}
}

// etcdctl's file is not taken from who else has made one.
func TestEtcdctlFileOfSomebodyElse(t *testing.T) {
	m, _ := fresh(t)
	said := ""
	m.Say = func(s string) { said = s }
	s := m.hostSettings("192.0.2.1", "a", "")
	s.setFlag("client-urls", ClientURL)
	for range 2 {
		if err := m.writeEtcdctl(s); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(m.Paths.Etcdctl())
	if err != nil || !strings.Contains(string(data), "export ETCDCTL_ENDPOINTS=https://192.0.2.1:2379\n") {
		t.Errorf("%v\n%s", err, data)
	}
	if info, err := os.Stat(m.Paths.EtcdctlScript()); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(m.Paths.Etcdctl(), []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.writeEtcdctl(s); err != nil || !strings.Contains(said, "left as it is") {
		t.Errorf("%v, %q", err, said)
	}
	if data, _ := os.ReadFile(m.Paths.Etcdctl()); string(data) != "theirs" {
		t.Errorf("%s", data)
	}
}

// A record that an init left is gone on from by that init alone: who joins another cluster over it would have a record of its
// own, and an init with other authorities would begin a second cluster.
func TestLeftRecord(t *testing.T) {
	m, _ := fresh(t)
	o := Init{HostID: "a", Version: cluster.MustVersion("3.6.16")}
	s := m.hostSettings("192.0.2.1", "a", "")
	s.setFlag("cluster-name", "etcd")
	s.setFlag("backup-store", kept.URL(m.Paths.Data()))
	done := &Initialised{CAHash: "sha256:one"}
	for range 2 { // the second one goes on
		if err := m.seed(t.Context(), o, s, done); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.seed(t.Context(), o, s, &Initialised{CAHash: "sha256:two"}); !errors.Is(err, ErrOther) {
		t.Errorf("with other authorities: %v", err)
	}
	if _, err := m.askToJoin(t.Context(), Join{}, nil); !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), "has begun a cluster of its own") {
		t.Errorf("join: %v", err)
	}
}

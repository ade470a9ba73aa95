package machines

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/setup"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// client reaches the machine's etcd with the certificate that a person's shell uses.
func (m *machine) client(t *testing.T) *clientv3.Client {
	t.Helper()
	env := map[string]string{}
	for line := range strings.Lines(read(t, m.Paths.Etcdctl())) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		env[name] = strings.Trim(value, `'"`)
	}
	cert, err := tls.LoadX509KeyPair(env["ETCDCTL_CERT"], env["ETCDCTL_KEY"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(read(t, env["ETCDCTL_CACERT"])))
	c, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(env["ETCDCTL_ENDPOINTS"], ","), DialTimeout: 10 * time.Second,
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A new cluster begins with the data of a snapshot from another one, without a store and with one, and other hosts join it.
func TestInitFromBackup(t *testing.T) {
	t.Parallel()
	all, store := newMachines(t, 4)
	all[0].begin(t, "")
	old := all[0].client(t)
	for _, key := range []string{"a", "b", "c"} {
		if _, err := old.Put(t.Context(), key, "kept"); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "snapshot.db")
	save := exec.CommandContext(t.Context(), filepath.Join(rig.Programs, "etcdadm"), "snapshot", "save", file, "--data-dir", all[0].Paths.Data())
	if out, err := save.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	if err := os.WriteFile(damaged, []byte(strings.Replace(read(t, file), "kept", "lost", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	init := func(m *machine, store, from string) (setup.Initialised, error) {
		o := setup.Init{Store: store, CreateStore: true, Address: m.address, HostID: m.id, Members: 3, Version: version(t), Wait: time.Minute, FromBackup: from}
		report, err := m.CheckInit(t.Context(), o)
		if err == nil {
			err = report.Err()
		}
		if err != nil {
			return setup.Initialised{}, err
		}
		return m.Init(t.Context(), o)
	}
	for _, from := range []string{damaged, file + ".none", filepath.Join(rig.Programs, "etcdadm"), "2026-01-01T00:00:00Z-000001"} {
		if _, err := init(all[1], "", from); err == nil || !strings.Contains(err.Error(), "first data") {
			t.Errorf("from %s: %v", from, err)
		}
	}
	holds := func(m *machine) {
		t.Helper()
		got, err := m.client(t).Get(t.Context(), "", clientv3.WithFromKey())
		if err != nil || got.Count != 3 {
			t.Fatalf("%v, %v", got, err)
		}
	}
	first, err := init(all[1], "", file)
	if err != nil {
		t.Fatal(err)
	}
	holds(all[1])
	if _, err := all[2].tryJoin(t, first, first.Token); err != nil {
		t.Fatal(err)
	}
	all[1].voters(t, 2)
	holds(all[2])
	if again, err := init(all[1], "", file); err != nil || !again.Again {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := init(all[3], store, file); err != nil {
		t.Fatal(err)
	}
	holds(all[3])
}

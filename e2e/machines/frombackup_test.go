package machines

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
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
	file := all[0].snapshot(t)
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	if err := os.WriteFile(damaged, []byte(strings.Replace(read(t, file), "kept", "lost", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	init := func(m *machine, store, from string) (setup.Initialised, error) {
		return m.beginFrom(t, store, from, false)
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

// snapshot saves one of the machine's etcd.
func (m *machine) snapshot(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "snapshot.db")
	m.etcdadm(t, "snapshot", "save", file, "--data-dir", m.Paths.Data())
	return file
}

// beginFrom is init with the data of a backup, or empty after all.
func (m *machine) beginFrom(t *testing.T, store, from string, empty bool) (setup.Initialised, error) {
	t.Helper()
	o := setup.Init{Store: store, CreateStore: true, Address: m.address, HostID: m.id, Members: 3, Version: version(t), Wait: time.Minute, FromBackup: from, Empty: empty}
	report, err := m.CheckInit(t.Context(), o)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		return setup.Initialised{}, err
	}
	return m.Init(t.Context(), o)
}

// A backup that cannot be restored is not replaced by an empty cluster: init says why and how to go on. With another file it
// begins with that one, and with --empty it begins empty. A file that it did not begin with is told.
func TestInitFromBackupThatIsDamaged(t *testing.T) {
	t.Parallel()
	all, store := newMachines(t, 3)
	all[0].begin(t, "")
	old := all[0].client(t)
	put := func(key string) {
		t.Helper()
		if _, err := old.Put(t.Context(), key, strings.Repeat("kept", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	one := all[0].snapshot(t)
	put("b")
	two := all[0].snapshot(t)

	// damaged: what was taken into the store is cut short before the agent looks.
	damaged := func(m *machine, dir string) {
		m.direct.before = func() {
			cut := 0
			err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() || !strings.Contains(filepath.Base(path), "etcd.backup") {
					return err
				}
				info, err := d.Info()
				if err == nil {
					cut++
					err = os.Truncate(path, info.Size()/2)
				}
				return err
			})
			if err != nil || cut == 0 {
				t.Errorf("%d files were cut short below %s: %v", cut, dir, err)
			}
		}
	}
	refused := func(m *machine, store string) {
		t.Helper()
		_, err := m.beginFrom(t, store, one, false)
		told, _ := errors.AsType[*setup.Error](err)
		if !errors.Is(err, setup.ErrOther) || !strings.Contains(err.Error(), "no empty one is founded") || told == nil || !strings.Contains(told.Advice, "--empty") {
			t.Fatalf("%v", err)
		}
		if d := m.status(t).Decision; d == nil || len(d.Blockers) == 0 || d.Blockers[0].Code != "origin" {
			t.Errorf("%+v", d)
		}
	}
	keys := func(m *machine, want int64) {
		t.Helper()
		got, err := m.client(t).Get(t.Context(), "", clientv3.WithFromKey())
		if err != nil || got.Count != want {
			t.Fatalf("%v, %v, want %d keys", got, err, want)
		}
	}

	damaged(all[1], filepath.Join(all[1].Paths.Data(), "kept"))
	refused(all[1], "")
	if _, err := all[1].beginFrom(t, "", two, false); err != nil {
		t.Fatal(err)
	}
	keys(all[1], 2)
	if _, err := all[1].beginFrom(t, "", one, false); !errors.Is(err, setup.ErrOther) || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("with another file: %v", err)
	}
	if again, err := all[1].beginFrom(t, "", two, false); err != nil || !again.Again {
		t.Errorf("again: %+v, %v", again, err)
	}

	damaged(all[2], strings.TrimPrefix(store, "file://"))
	refused(all[2], store)
	if _, err := all[2].beginFrom(t, store, "", true); err != nil {
		t.Fatal(err)
	}
	keys(all[2], 0)
}

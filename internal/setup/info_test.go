package setup

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/unit"
)

// A look at a machine tells what is there, what is missing and what nobody tells, and no secret.
func TestInfo(t *testing.T) {
	m, service := fresh(t)
	l := Look{Paths: m.Paths, Service: service, ShowURL: func(string) string { return "s3://shown" }}
	if _, err := l.Info(t.Context()); !errors.Is(err, ErrNotSetUp) {
		t.Fatalf("of a machine that is no host: %v", err)
	}
	s := m.hostSettings("192.0.2.1", "a", "")
	s.setFlag("cluster-name", "etcd")
	s.setFlag("backup-store", "s3://user:planted-word@bucket/folder")
	s.setFlag("client-urls", "https://__address__:2379")
	s["S3_SECRET_ACCESS_KEY"] = "planted-word"
	if err := m.writeSettings(s); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Create(m.Paths.PKI(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(m.Paths.Unit()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Paths.Unit(), []byte("[Unit]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	service.active = true
	i, err := l.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, f := range i.Installed {
		states[f.What] = f.State
	}
	if states["settings"] != "there" || states["authorities"] != "there" || states["unit"] != "not etcdadm's" || states["etcdctl's settings"] != "missing" {
		t.Errorf("%v", states)
	}
	ports := ""
	for _, p := range i.Ports {
		ports += p.Port + " "
	}
	if i.Cluster != "etcd" || i.Host != "a" || i.Address != "192.0.2.1" || i.Agent.Unit != "running" || i.Agent.Answers || i.Etcd.State != stateNone || i.Data.Free <= 0 || ports != "8000 2379 2380 8001 " {
		t.Errorf("%+v, ports %s", i, ports)
	}
	if len(i.Certificates) != 3 || i.Certificates[0].NotAfter.Before(time.Now()) {
		t.Errorf("%+v", i.Certificates)
	}
	if len(i.Unknown) != 1 || !strings.HasPrefix(i.Unknown[0], "the agent: ") {
		t.Errorf("%q", i.Unknown)
	}
	if data, err := json.Marshal(i); err != nil || strings.Contains(string(data), "planted-word") || !strings.Contains(string(data), "s3://shown") {
		t.Errorf("%s, %v", data, err)
	}

	service.missing = unit.ErrNoSystemd
	if i, err := l.Info(t.Context()); err != nil || i.Agent.Unit != "" || len(i.Unknown) != 2 {
		t.Errorf("without systemd: %+v, %v", i, err)
	}
	l.DataDir = t.TempDir() // of a daemon that nobody has set up
	if i, err := l.Info(t.Context()); err != nil || i.Data.Dir != l.DataDir || len(i.Installed) != 0 || i.Cluster != "" {
		t.Errorf("%+v, %v", i, err)
	}
}

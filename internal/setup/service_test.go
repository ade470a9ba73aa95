package setup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/staticpod"
	"etcdadm.io/internal/unit"
)

// freshPod is a machine whose agent is to be a static pod.
func freshPod(t *testing.T) (*Machine, string) {
	t.Helper()
	m, _ := fresh(t)
	dir := filepath.Join(m.Paths.Root, DefaultManifests)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := m.RunBy(new(Pod)); err != nil {
		t.Fatal(err)
	}
	return m, filepath.Join(dir, staticpod.File)
}

func podSettings(m *Machine) Settings {
	s := m.hostSettings("192.0.2.1", "a", "")
	s.setFlag("cluster-name", "etcd")
	s.setFlag("backup-store", "s3://bucket/folder")
	s["S3_SECRET_ACCESS_KEY"] = "planted-word"
	m.forPod(s)
	return s
}

// The steps of a static pod end with its manifest, which holds no secret, and a later run knows that it is one.
func TestStaticPodSteps(t *testing.T) {
	m, file := freshPod(t)
	s := podSettings(m)
	if err := run(t.Context(), m.agentSteps(s, nil)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if strings.Contains(text, "planted-word") || !staticpod.Ours(data) || staticpod.Image(data) != "localhost/etcdadm:test" ||
		!strings.Contains(text, "host: \"127.0.0.1\"") || !strings.Contains(text, "port: 8002") {
		t.Errorf("%s", text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if exists(m.Paths.Unit()) {
		t.Error("there is a unit, too")
	}
	made, err := ReadManifest(m.Paths)
	if err != nil || !slices.Contains(made.Made, Made{KindPod, file}) {
		t.Errorf("%v, %v", made, err)
	}
	if runner, words := RunnerOf(m.Paths); words.Name != "static pod "+file || runner.(staticpod.Kubelet).Manifest != file {
		t.Errorf("%v, %v", runner, words)
	}
	if data, err := os.ReadFile(m.Paths.Settings()); err != nil || strings.Contains(string(data), "systemctl") || !strings.Contains(string(data), "crictl stop") {
		t.Errorf("%s, %v", data, err)
	}

	// Nobody says it again, and it goes on as a static pod, with its image; another image replaces it.
	again := &Machine{Paths: m.Paths, Build: "newer"}
	if err := again.RunBy(nil); err != nil || again.pod == nil || again.image() != "localhost/etcdadm:test" {
		t.Fatalf("%v, %v", again.pod, err)
	}
	if err := again.RunBy(&Pod{Image: "r/etcdadm:newer"}); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), again.agentSteps(s, nil)); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || staticpod.Image(data) != "r/etcdadm:newer" {
		t.Errorf("%s, %v", data, err)
	}
	if err := again.RunBy(&Pod{Manifests: "/elsewhere"}); !errors.Is(err, ErrSetUp) {
		t.Errorf("another directory: %v", err)
	}

	// The agent has the data directory, or it does not run.
	state := filepath.Join(s.Flag("data-dir"), "etcdadm")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if active, err := again.Service.Active(t.Context()); active || err != nil {
		t.Errorf("%v, %v", active, err)
	}
	lock, err := runtime.LockStateDir(state)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock() //nolint:errcheck // the test ends
	if active, err := again.Service.Active(t.Context()); !active || err != nil {
		t.Errorf("%v, %v", active, err)
	}
}

// An init that is killed after its first step goes on as a static pod, whoever forgets to say so.
func TestStaticPodIsRemembered(t *testing.T) {
	m, file := freshPod(t)
	if err := run(t.Context(), m.agentSteps(podSettings(m), nil)[:2]); err != nil {
		t.Fatal(err)
	}
	again := &Machine{Paths: m.Paths}
	if err := again.RunBy(nil); err != nil || again.pod == nil || again.file() != file {
		t.Errorf("%v, %v", again.pod, err)
	}
}

// A machine with a unit gets no static pod beside it.
func TestUnitAndStaticPod(t *testing.T) {
	m, _ := fresh(t)
	if err := m.RunBy(nil); err != nil || m.pod != nil || m.Service != (unit.Systemd{}) {
		t.Errorf("%v, %v", m.Service, err)
	}
	s := m.hostSettings("192.0.2.1", "a", "")
	s.setFlag("cluster-name", "etcd")
	s.setFlag("backup-store", "s3://bucket/folder")
	if err := m.writeSettings(s); err != nil {
		t.Fatal(err)
	}
	if err := m.RunBy(new(Pod)); !errors.Is(err, ErrSetUp) {
		t.Errorf("%v", err)
	}
	if err := m.RunBy(&Pod{Manifests: "relative"}); err == nil {
		t.Error("a directory that is not absolute was taken")
	}
}

func TestStaticPodChecks(t *testing.T) {
	m, file := freshPod(t)
	want := func(name string, standing Standing, says string) {
		t.Helper()
		for _, c := range m.checkDescription() {
			if c.Name == name {
				if c.Standing != standing || !strings.Contains(c.Found, says) || c.Standing == Refused && c.Remedy == "" {
					t.Errorf("%+v, want %s %q", c, standing, says)
				}
				return
			}
		}
		t.Errorf("nothing is said of %s", name)
	}
	want("static pod", Good, "will be made")
	want("other static pods", Good, "none")
	if err := os.WriteFile(file, []byte("kind: Pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("static pod", Refused, "not made by etcdadm")
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "etcd.yaml"), []byte("metadata: {name: etcd}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("other static pods", Refused, "etcd.yaml runs another etcd")
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	want("other static pods", Refused, "does not exist")
}

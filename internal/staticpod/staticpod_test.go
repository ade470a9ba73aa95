package staticpod

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func spec() Spec {
	return Spec{
		Image: "registry.example/etcdadm:1.2.3", Settings: "/etc/etcdadm/agent.env", Address: "127.0.0.1", Port: "8002",
		Mounts: []Mount{{"/var/lib/etcdadm", true}, {"/mnt/store", true}, {"/etc/etcdadm", false}, {"/mnt/store", false}},
	}
}

var rewrite = flag.Bool("rewrite", false, "write the manifest in testdata anew")

func TestText(t *testing.T) {
	got, err := spec().Text()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", File)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("it is not %s: go test ./internal/staticpod -run TestText -rewrite\n%s", path, got)
	}
	if !Ours(got) || Ours([]byte("apiVersion: v1\n")) {
		t.Error("whose it is cannot be told")
	}
	if Image(got) != "registry.example/etcdadm:1.2.3" || Image([]byte("no pod")) != "" {
		t.Errorf("its image is read as %q", Image(got))
	}
}

// probe is one of a container, as a kubelet reads it.
type probe struct {
	HTTPGet struct {
		Host string
		Port int
		Path string
	}
	PeriodSeconds, FailureThreshold int
}

// A kubelet reads what is meant, whatever is in the words.
func TestManifestAsTheKubeletReadsIt(t *testing.T) {
	s := spec()
	s.Image = `x/"y": {z}`
	s.Settings = `/etc/o'dd #"dir/agent.env`
	s.Mounts = append(s.Mounts, Mount{`/etc/o'dd #"dir`, false})
	if _, err := s.Text(); err == nil {
		t.Error("an image with a blank was taken")
	}
	s.Image = `x/"y":{z}`
	data, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
		Spec             struct {
			HostNetwork                   bool
			PriorityClassName             string
			Priority                      int
			TerminationGracePeriodSeconds int
			Containers                    []struct {
				Image         string
				Command       []string
				StartupProbe  probe
				LivenessProbe probe
				Resources     struct{ Requests, Limits map[string]string }
				VolumeMounts  []struct {
					Name, MountPath string
					ReadOnly        bool
				}
			}
			Volumes []struct {
				Name     string
				HostPath *struct{ Path, Type string }
			}
		}
	}
	if err := yaml.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	if p.APIVersion != "v1" || p.Kind != "Pod" || p.Metadata.Namespace != "kube-system" || !p.Spec.HostNetwork || p.Spec.PriorityClassName != "system-node-critical" || p.Spec.Priority != 2000001000 || p.Spec.TerminationGracePeriodSeconds < 200 {
		t.Errorf("%+v", p)
	}
	c := p.Spec.Containers[0]
	if c.Image != s.Image || !slices.Equal(c.Command, []string{"/usr/bin/etcdadm", "auto", "--env-file=" + s.Settings}) || len(c.Resources.Requests) != 2 || len(c.Resources.Limits) != 0 {
		t.Errorf("%+v", c)
	}
	for _, one := range []probe{c.StartupProbe, c.LivenessProbe} {
		// /readyz asks etcd; a member without a quorum has to live.
		if g := one.HTTPGet; g.Path != "/healthz" || g.Host != "127.0.0.1" || g.Port != 8002 {
			t.Errorf("%+v", one)
		}
	}
	if s := c.StartupProbe; s.PeriodSeconds*s.FailureThreshold < 300 {
		t.Errorf("a start has %d s", s.PeriodSeconds*s.FailureThreshold)
	}
	writes := map[string]bool{}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(p.Spec.Volumes, func(v struct {
			Name     string
			HostPath *struct{ Path, Type string }
		},
		) bool {
			return v.Name == m.Name
		})
		if i < 0 {
			t.Fatalf("%s has no volume", m.Name)
		}
		if at := p.Spec.Volumes[i].HostPath; at != nil {
			if at.Path != m.MountPath || at.Type != "Directory" {
				t.Errorf("%+v is mounted as %+v", at, m)
			}
			writes[at.Path] = !m.ReadOnly
		}
	}
	if len(writes) != 4 || !writes["/var/lib/etcdadm"] || !writes["/mnt/store"] || writes["/etc/etcdadm"] || writes[`/etc/o'dd #"dir`] {
		t.Errorf("%v", writes)
	}
}

func TestPathsThatNobodyMounts(t *testing.T) {
	for _, path := range []string{"relative", "/", "/a:b", "/a\nb", "/a/../b", ""} {
		s := spec()
		s.Mounts = append(s.Mounts, Mount{Path: path})
		if _, err := s.Text(); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
}

// Of the manifests in a directory those count that run etcd, and not those that use one.
func TestEtcds(t *testing.T) {
	if found, err := Etcds(filepath.Join(t.TempDir(), "none")); err != nil || found != nil {
		t.Errorf("%v, %v", found, err)
	}
	dir := t.TempDir()
	ours, err := spec().Text()
	if err != nil {
		t.Fatal(err)
	}
	container := func(name, image, command string) string {
		return "kind: Pod\nspec:\n  containers:\n  - name: " + name + "\n    image: " + image + "\n    command: [" + command + "]\n"
	}
	for name, text := range map[string]string{
		"etcd.yaml":           container("etcd", "registry.k8s.io/etcd:3.6.5-0", "etcd, --data-dir=/var/lib/etcd"),
		"image.yaml":          container("x", "registry.k8s.io/etcd@sha256:0", ""),
		"program.json":        `{"kind":"Pod","spec":{"containers":[{"name":"x","image":"y","command":["/usr/local/bin/etcd"]}]}}`,
		"etcd-manager.yaml":   "metadata:\n  name: etcd-manager\n" + container("x", "y", ""),
		"kube-apiserver.yaml": container("kube-apiserver", "registry.k8s.io/kube-apiserver:v1.36.3", "kube-apiserver, --etcd-servers=https://127.0.0.1:2379"),
		File:                  string(ours),
		".etcd.yaml.tmp":      container("etcd", "etcd", "etcd"),
		"notes.txt":           "etcd: [",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
	found, err := Etcds(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range found {
		found[i] = filepath.Base(path)
	}
	if want := []string{"etcd-manager.yaml", "etcd.yaml", "image.yaml", "program.json"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
}

// A stop waits for the agent's end, and not before the manifest is gone.
func TestStop(t *testing.T) {
	looks := 3
	k := Kubelet{Manifest: filepath.Join(t.TempDir(), File), Held: func() (bool, error) { looks--; return looks > 0, nil }}
	if err := k.Start(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("started without a manifest: %v", err)
	}
	if err := k.Stop(t.Context()); err != nil || looks != 0 {
		t.Errorf("%v, %d looks are left", err, looks)
	}
	k.Held = func() (bool, error) { return true, nil }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := k.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("of one that does not end: %v", err)
	}
	if err := os.WriteFile(k.Manifest, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.Start(t.Context()); err != nil {
		t.Error(err)
	}
	if err := k.Stop(t.Context()); err == nil {
		t.Error("stopped while the manifest lies there")
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	for _, one := range []struct {
		text, want string
		lines      int
	}{{"", "", 2}, {"a\nb\nc\n", "b\nc\n", 2}, {"a\nb", "a\nb", 5}, {strings.Repeat("x", tailMost) + "\nb\n", "b\n", 5}} {
		if err := os.WriteFile(path, []byte(one.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := tail(path, one.lines); err != nil || string(got) != one.want {
			t.Errorf("%.20q, %v, want %q", got, err, one.want)
		}
	}
}

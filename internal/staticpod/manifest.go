// Package staticpod is the agent as a static pod of the kubelet: its manifest, and the few things that are asked about it.
//
// What must always hold:
//
//   - The kubelet reads the old manifest or the new one: a file whose name begins with a dot is renamed over it, and the
//     kubelet takes none of that name for a pod.
//   - No probe needs a quorum: a kubelet that restarts every member of a cluster without one keeps it from getting one.
//   - The manifest holds no secret, since the kubelet shows it to the API server. The settings are a file of the host.
//   - etcd ends with its agent: both are in one container. The agent ends etcd before itself.
package staticpod

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"etcdadm.io/internal/regular"
	"sigs.k8s.io/yaml"
)

const (
	// Name is the pod's, without the node's name that the kubelet adds.
	Name = "etcdadm"
	// Namespace is the pod's.
	Namespace = "kube-system"
	// File is the name of the manifest.
	File = "etcdadm.yaml"
	// Mark is in the first line of a manifest that was made here. Another one is somebody else's.
	Mark = "# Made by etcdadm"
	// Program is where an image has etcdadm; see tools/release.
	Program = "/usr/bin/etcdadm"
)

// Mount is a directory of the host that the pod sees at the same path. It has to be there before the pod starts.
type Mount struct {
	Path  string // absolute
	Write bool
}

// Spec is what differs from host to host.
type Spec struct {
	Image    string
	Settings string // the file with the agent's settings, absolute, below one of the mounts
	Mounts   []Mount
	Address  string // where the agent answers the probes
	Port     string
}

// text is written out whole, so that an administrator reads what is so.
var text = template.Must(template.New(Name).Funcs(template.FuncMap{"quote": quote, "volume": volume}).Parse(Mark + `, which writes it anew: init and join, run again with --image, change the image.
# The agent runs etcd in this container, and both end together. Its settings are in {{.Settings}}
apiVersion: v1
kind: Pod
metadata:
  name: ` + Name + `
  namespace: ` + Namespace + `
  labels:
    app.kubernetes.io/name: ` + Name + `
    app.kubernetes.io/managed-by: etcdadm
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  # Admission sets it for others; a static pod says it itself.
  priority: 2000001000
  restartPolicy: Always
  automountServiceAccountToken: false
  enableServiceLinks: false
  # The agent moves raft's leadership away and stops etcd. It gives its parts three minutes.
  terminationGracePeriodSeconds: 240
  securityContext:
    seccompProfile:
      type: RuntimeDefault
  containers:
  - name: ` + Name + `
    image: {{quote .Image}}
    imagePullPolicy: IfNotPresent
    command: [` + Program + `, auto, {{quote (print "--env-file=" .Settings)}}]
    # No limits: an etcd that is held up by its own host is a slow voter, and one that is killed for its memory is none.
    resources:
      requests:
        cpu: 100m
        memory: 150Mi
    securityContext:
      runAsUser: 0
      runAsGroup: 0
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    # Both ask the agent itself, which answers without a quorum, and also while it waits for its disk.
    startupProbe:
      httpGet:
        host: {{quote .Address}}
        port: {{.Port}}
        path: /healthz
      periodSeconds: 5
      timeoutSeconds: 5
      failureThreshold: 60
    livenessProbe:
      httpGet:
        host: {{quote .Address}}
        port: {{.Port}}
        path: /healthz
      periodSeconds: 10
      timeoutSeconds: 15
      failureThreshold: 12
    volumeMounts:
    - name: tmp
      mountPath: /tmp
{{- range $i, $m := .Mounts}}
    - name: {{volume $i}}
      mountPath: {{quote $m.Path}}
{{- if not $m.Write}}
      readOnly: true
{{- end}}
{{- end}}
  volumes:
  - name: tmp
    emptyDir: {}
{{- range $i, $m := .Mounts}}
  - name: {{volume $i}}
    hostPath:
      path: {{quote $m.Path}}
      type: Directory
{{- end}}
`))

// quote makes a word of YAML of any text: YAML reads JSON's strings.
func quote(word string) (string, error) {
	data, err := json.Marshal(word)
	return string(data), err
}

func volume(i int) string { return fmt.Sprintf("host-%d", i) }

// Text is the manifest. It is refused where a path is none for a mount.
func (s Spec) Text() ([]byte, error) {
	if s.Image == "" || strings.ContainsFunc(s.Image, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("make %s: %q is no image", File, s.Image)
	}
	s.Mounts = once(s.Mounts)
	for _, path := range append([]string{s.Settings}, paths(s.Mounts)...) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == ':' || r == 0x7f }) {
			return nil, fmt.Errorf("make %s: the path %q cannot be mounted: use an absolute one without colons", File, path)
		}
	}
	var b bytes.Buffer
	if err := text.Execute(&b, s); err != nil {
		return nil, fmt.Errorf("make %s: %w", File, err)
	}
	return b.Bytes(), nil
}

// once has each path once, in their order. What one of several asks to write to is written to.
func once(mounts []Mount) (out []Mount) {
	for _, m := range mounts {
		if i := slices.IndexFunc(out, func(o Mount) bool { return o.Path == m.Path }); i >= 0 {
			out[i].Write = out[i].Write || m.Write
			continue
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func paths(mounts []Mount) (out []string) {
	for _, m := range mounts {
		out = append(out, m.Path)
	}
	return out
}

// Ours tells whether a manifest was made here.
func Ours(text []byte) bool { return bytes.HasPrefix(text, []byte(Mark)) }

// pod is what is read of a manifest.
type pod struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Containers []struct {
			Name    string   `json:"name"`
			Image   string   `json:"image"`
			Command []string `json:"command"`
		} `json:"containers"`
	} `json:"spec"`
}

// Image is that of a manifest that was made here; empty: there is none.
func Image(text []byte) string {
	var p pod
	if err := yaml.Unmarshal(text, &p); err != nil || len(p.Spec.Containers) == 0 {
		return ""
	}
	return p.Spec.Containers[0].Image
}

// maxManifest is the size in bytes beyond which a kubelet reads no file.
const maxManifest = 10 << 20

// Etcds are the manifests in a directory that have something else run etcd on this host. What is no manifest is passed
// over, as a kubelet does.
func Etcds(dir string) (found []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		data, err := regular.Read(path, maxManifest)
		if errors.Is(err, regular.ErrNotRegular) || errors.Is(err, regular.ErrTooLarge) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var p pod
		if !Ours(data) && yaml.Unmarshal(data, &p) == nil && p.runsEtcd() {
			found = append(found, path)
		}
	}
	return found, nil
}

// runsEtcd goes by the program, and by the names that kubeadm, kops and etcdadm of kubernetes-sigs give.
func (p pod) runsEtcd() bool {
	is := func(name string) bool { return name == "etcd" || name == "etcd-manager" }
	for _, c := range p.Spec.Containers {
		image, _, _ := strings.Cut(filepath.Base(c.Image), ":")
		image, _, _ = strings.Cut(image, "@")
		if is(c.Name) || is(image) || len(c.Command) > 0 && is(filepath.Base(c.Command[0])) {
			return true
		}
	}
	return is(p.Metadata.Name)
}

package setup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/release"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/staticpod"
	"etcdadm.io/internal/unit"
)

// PodFile is the manifest in a directory of static pods.
func (p Paths) PodFile(manifests string) string {
	if manifests == "" {
		return p.at(DefaultManifests, staticpod.File)
	}
	return filepath.Join(manifests, staticpod.File)
}

// podFile is the manifest that init or join chose on this machine; empty: none.
func (p Paths) podFile() (string, error) {
	m, err := ReadManifest(p)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, one := range m.Made {
		if one.Kind == KindPod {
			return one.Path, nil
		}
	}
	return "", err
}

// RunnerOf is what has the agent of this machine, and how people speak of it: a kubelet where init or join made a
// static pod, else systemd. Where that cannot be read it is systemd.
func RunnerOf(p Paths) (Runner, Words) {
	file, err := p.podFile()
	if err != nil || file == "" {
		return unit.Systemd{}, unitWords
	}
	return kubelet(p, file), podWords(file)
}

func kubelet(p Paths, file string) staticpod.Kubelet {
	return staticpod.Kubelet{Manifest: file, Held: func() (bool, error) {
		dir := p.Data()
		if s, err := ReadSettings(p); err == nil {
			dir = s.Flag("data-dir")
		}
		return runtime.StateDirHeld(filepath.Join(dir, "etcdadm"))
	}}
}

// RunBy has the agent run as a static pod, or where that is nil by what runs it already, which is systemd on a fresh
// machine.
//
// Errors: *Error with ErrSetUp, where the machine's agent runs in another way.
func (m *Machine) RunBy(pod *Pod) error {
	had, err := m.Paths.podFile()
	if err != nil {
		return &Error{Problem: "find out what runs the agent of this machine", Err: err, Advice: "look at that file; without it the agent is taken for systemd's"}
	}
	const way = "leave it out, or take this machine out of its cluster first: etcdadm reset"
	_, err = ReadSettings(m.Paths)
	isSetUp := err == nil
	switch {
	case pod == nil && had == "":
		m.Service, m.words = unit.Systemd{}, unitWords
		return nil
	case pod == nil:
		pod = &Pod{Manifests: filepath.Dir(had)}
	case had == "" && isSetUp:
		return &Error{Problem: "this machine is set up with the unit " + unit.Name + ", and a static pod was asked for", Err: ErrSetUp, Advice: way}
	case had != "" && pod.Manifests != "" && m.Paths.PodFile(pod.Manifests) != had:
		return &Error{Problem: fmt.Sprintf("this machine is set up with the static pod %s, and the directory %s was given", had, pod.Manifests), Err: ErrSetUp, Advice: way}
	case had != "":
		pod = &Pod{Manifests: filepath.Dir(had), Image: pod.Image}
	}
	if pod.Manifests != "" && !filepath.IsAbs(pod.Manifests) {
		return &Error{Problem: fmt.Sprintf("the directory %q of static pods is not absolute", pod.Manifests), Advice: "such as " + DefaultManifests}
	}
	file := m.Paths.PodFile(pod.Manifests)
	m.pod, m.Service, m.words = pod, kubelet(m.Paths, file), podWords(file)
	return nil
}

// description is what the service manager reads to run the agent.
type description struct {
	kind Kind
	what string // for people
	path string
	text []byte
	mode fs.FileMode
	ours func([]byte) bool
}

// file is the path of the description.
func (m *Machine) file() string {
	if m.pod != nil {
		return m.Paths.PodFile(m.pod.Manifests)
	}
	return m.Paths.Unit()
}

// places are the directories that the agent and etcd write to, and those that have to be mounted before.
func (m *Machine) places(s Settings) (writes, mounts []string) {
	writes = []string{s.Flag("data-dir"), s.PKI(m.Paths)} // the authorities are rotated by the agent
	if at, err := url.Parse(s.Store()); err == nil && at.Scheme == "file" {
		writes, mounts = append(writes, at.Path), append(mounts, at.Path)
	}
	return writes, mounts
}

// describe is the unit, or the manifest.
func (m *Machine) describe(s Settings) (description, error) {
	writes, mounts := m.places(s)
	if m.pod == nil {
		text, err := unit.Spec{Binary: m.Binary, Environment: m.Paths.Settings(), Writes: writes, Mounts: mounts}.Text()
		return description{KindUnit, "unit", m.file(), text, modePublic, unit.Ours}, err
	}
	p := staticpod.Spec{
		Image: m.image(), Settings: m.Paths.Settings(),
		Address: cmp.Or(s.Flag("metrics-address"), s.Flag("address")), Port: cmp.Or(s.Flag("etcd-manager-metrics-port"), probePort),
	}
	for _, dir := range writes {
		p.Mounts = append(p.Mounts, staticpod.Mount{Path: filepath.Clean(dir), Write: true})
	}
	for _, dir := range append(strings.Split(s.Flag("release-dir"), ","), filepath.Dir(m.Paths.Settings()), release.CacheDir) {
		if exists(dir) { // what is not there is read by no agent, and would keep the pod from starting
			p.Mounts = append(p.Mounts, staticpod.Mount{Path: filepath.Clean(dir)})
		}
	}
	text, err := p.Text()
	return description{KindPod, "static pod's manifest", m.file(), text, modeSecret, staticpod.Ours}, err
}

// image is the one that was asked for, that of the manifest which is there, or that of this release.
func (m *Machine) image() string {
	if m.pod.Image != "" {
		return m.pod.Image
	}
	if had, err := regular.Read(m.file(), regular.SmallSize); err == nil && staticpod.Ours(had) {
		if image := staticpod.Image(had); image != "" {
			return image
		}
	}
	return DefaultImage(m.Build)
}

// writeDescription has the service manager know the agent. A kubelet starts it by that.
func (m *Machine) writeDescription(s Settings) error {
	d, err := m.describe(s)
	if err != nil {
		return err
	}
	if err := put(d.path, d.text, d.mode, d.ours); err != nil {
		return err
	}
	return m.Paths.noteOurs(d.kind, d.path)
}

// notePod has the machine remember that a static pod was chosen, before anything is made.
func (m *Machine) notePod() error {
	if m.pod == nil {
		return nil
	}
	return m.Paths.noteOurs(KindPod, m.file())
}

// forPod adds what the agent of a static pod needs beyond: a place where the kubelet's probes are answered, that only
// this machine reaches.
func (m *Machine) forPod(s Settings) {
	if m.pod == nil || s.Flag("etcd-manager-metrics-port") != "" {
		return
	}
	s.setFlag("etcd-manager-metrics-port", probePort)
	s.setFlag("metrics-address", "127.0.0.1")
}

// makeCache makes the directory of fetched releases, which the pod sees.
func (m *Machine) makeCache() error {
	if m.pod == nil || m.Paths.at() != "/" {
		return nil
	}
	for _, dir := range []string{filepath.Dir(release.CacheDir), release.CacheDir} {
		if err := m.note(KindDirectory, dir); err != nil {
			return err
		}
	}
	return durable.MakeDir(release.CacheDir, modeDir)
}

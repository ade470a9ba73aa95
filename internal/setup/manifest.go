package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/regular"
)

// Kind is what a thing on a machine is for.
type Kind string

// The kinds of what init and join make.
const (
	KindSettings  Kind = "settings"  // the agent's
	KindUnit      Kind = "unit"      // of systemd
	KindPod       Kind = "pod"       // the manifest of a static pod
	KindEtcdctl   Kind = "etcdctl"   // what a shell reads before etcdctl
	KindAuthority Kind = "authority" // one file of the cluster's authorities
	KindData      Kind = "data"      // the data directory
	KindDirectory Kind = "directory" // one around the others
)

// Made is one thing that init or join made.
type Made struct {
	Kind Kind   `json:"kind"`
	Path string `json:"path"`
}

// Manifest is what init and join made on a machine, and so what is taken away again when it is no host any more.
// What was there before, such as authorities that a person had copied, is not in it. What is ours by its content is
// listed once it is there, everything else before it is made: what is listed may be missing.
type Manifest struct {
	Format int    `json:"format"`
	Made   []Made `json:"made"`
}

// manifestFormat numbers what the file holds. A higher one is a later release's.
const manifestFormat = 1

// ErrNewer says that a later release has written a file.
var ErrNewer = errors.New("a later release of etcdadm wrote it")

// Manifest is the file with what init and join made here.
func (p Paths) Manifest() string { return p.at("etc/etcdadm/installed.json") }

// ReadManifest is what init and join made here. Machines that an earlier release set up have none: fs.ErrNotExist.
func ReadManifest(p Paths) (Manifest, error) {
	data, err := regular.Read(p.Manifest(), regular.SmallSize)
	if err != nil {
		return Manifest{}, fmt.Errorf("read what was installed: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", p.Manifest(), err)
	}
	if m.Format != manifestFormat {
		return Manifest{}, fmt.Errorf("read %s: %w: format %d", p.Manifest(), ErrNewer, m.Format)
	}
	return m, nil
}

// note has the manifest list a thing that is about to be made. What is there already and is not listed was not made
// here, and stays so.
func (m *Machine) note(kind Kind, path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return m.Paths.noteOurs(kind, path)
}

// noteOurs has the manifest list a thing whether or not it is there: by its content it is ours.
func (p Paths) noteOurs(kind Kind, path string) error {
	file := p.Manifest()
	had, err := ReadManifest(p)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &Error{Problem: "note what is installed", Err: err, Advice: "look at that file; without it reset goes by the usual places"}
	}
	now := Manifest{Format: manifestFormat, Made: had.Made}
	if dir := filepath.Dir(file); !exists(dir) {
		now.Made = append(now.Made, Made{KindDirectory, dir})
	}
	if one := (Made{kind, path}); !slices.Contains(now.Made, one) {
		now.Made = append(now.Made, one)
	}
	if slices.Equal(now.Made, had.Made) {
		return nil
	}
	data, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.MakeDir(filepath.Dir(file), modeDir); err != nil {
		return &Error{Problem: "make " + filepath.Dir(file), Err: err, Advice: "run it as root"}
	}
	if err := durable.Replace(file, append(data, '\n'), modePublic); err != nil {
		return &Error{Problem: "write " + file, Err: err}
	}
	return nil
}

// noteAuthorities lists the files of the authorities that are about to be made.
func (m *Machine) noteAuthorities() error {
	if err := m.note(KindDirectory, m.Paths.PKI()); err != nil {
		return err
	}
	for _, name := range AuthorityFiles() {
		if err := m.note(KindAuthority, filepath.Join(m.Paths.PKI(), name)); err != nil {
			return err
		}
	}
	return nil
}

// AuthorityFiles are the files of the authorities, by their names, in the order in which pki.Create makes them.
func AuthorityFiles() (names []string) {
	for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
		names = append(names, name+".key", name+".crt")
	}
	return names
}

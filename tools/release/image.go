package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user of an image whose program needs no privilege: no account of a usual system has the number.
const nobody = 65532

// image is one, for all architectures.
type image struct {
	name, entry, user string
	programs          map[string]string // where it lies in the image, and its name
	etcd              bool              // it has the releases of etcd that were given
}

// images: kops starts etcd-manager as root, by "/go-runner --log-file=… /ko-app/etcd-manager …", because that mounts
// volumes and writes below /rootfs. etcdadm asks, and needs nobody's rights for it; as a host of the operator's it runs
// etcd, too. The operator's names are those that its Deployment and the chart start.
var images = []image{
	{
		name: "etcd-manager", entry: "/ko-app/etcd-manager", user: "0:0", etcd: true,
		programs: map[string]string{
			"/go-runner": "go-runner", "/ko-app/etcd-manager": "etcd-manager", "/ko-app/etcd-manager-ctl": "etcd-manager-ctl", "/usr/bin/etcdadm": "etcdadm",
		},
	},
	{
		name: "etcdadm", entry: "/usr/bin/etcdadm", user: fmt.Sprintf("%d:%[1]d", nobody), etcd: true,
		programs: map[string]string{"/usr/bin/etcdadm": "etcdadm"},
	},
	{
		name: "etcdadm-operator", entry: "/usr/bin/etcdadm-operator", user: fmt.Sprintf("%d:%[1]d", nobody),
		programs: map[string]string{"/usr/bin/etcdadm-operator": "etcdadm-operator"},
	},
}

// layImages makes an archive of an OCI layout for each image.
func (r *release) layImages(context.Context) error {
	if r.etcd == "" {
		say("no releases of etcd are in the image, beside the built-in one: give a directory with some by -etcd")
	}
	roots, err := authorities()
	if err != nil {
		return err
	}
	for _, i := range images {
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for _, arch := range r.arches {
			one, err := r.image(i, arch, roots)
			if err != nil {
				return fmt.Errorf("image %s for %s: %w", i.name, arch, err)
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{
				Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
			})
		}
		if err := r.writeImage(i.name, index); err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
	}
	return nil
}

func (r *release) image(i image, arch string, roots []byte) (v1.Image, error) {
	layers := [][]entry{{
		{name: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:%d:%[1]d:nonroot:/:/sbin/nologin\n", nobody)},
		{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", nobody)},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots},
		{name: "tmp/", mode: 0o1777},
		{name: "var/log/", mode: 0o755},
	}}
	if i.etcd {
		etcds, err := etcdReleases(r.etcd, arch)
		if err != nil {
			return nil, err
		}
		for _, e := range etcds {
			var layer []entry
			for _, p := range e.programs {
				layer = append(layer, entry{name: "opt/etcd-v" + e.version + "/" + p, mode: 0o755, from: filepath.Join(e.dir, p)})
			}
			layers = append(layers, layer)
		}
		if links := olderPatches(etcds); len(links) > 0 {
			layers = append(layers, links)
		}
	}
	var ours []entry
	for at, program := range i.programs {
		from := filepath.Join(r.bin(arch), program)
		if program == "go-runner" {
			from = r.runner(arch)
		}
		ours = append(ours, entry{name: strings.TrimPrefix(at, "/"), mode: 0o755, from: from})
	}
	layers = append(layers, ours)

	labels := map[string]string{
		"org.opencontainers.image.title": i.name, "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.created": r.time.Format(time.RFC3339), "org.opencontainers.image.licenses": "Apache-2.0",
	}
	one, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: r.time}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: i.user, Entrypoint: []string{i.entry}, WorkingDir: "/", Labels: labels, Env: []string{"PATH=/ko-app:/usr/bin"}},
	})
	if err != nil {
		return nil, err
	}
	for n, entries := range layers {
		path := filepath.Join(r.work, fmt.Sprintf("%s-%s-%d.tar.gz", i.name, arch, n))
		if err := writeLayer(path, entries, r.time); err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromFile(path, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if one, err = mutate.Append(one, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "etcdadm release " + r.version}}); err != nil {
			return nil, err
		}
	}
	return one, nil
}

// writeImage writes the image with its name, by which it is known where it is imported: with a host, since a kubelet takes
// a name without one for docker.io's.
func (r *release) writeImage(name string, index v1.ImageIndex) error {
	dir := filepath.Join(r.work, name+"-oci")
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "localhost/" + name + ":" + r.version,
	})); err != nil {
		return err
	}
	var entries []entry
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		entries = append(entries, entry{name: filepath.ToSlash(rel), mode: 0o644, from: path})
		return err
	})
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(r.out, name+"-"+r.version+"-oci.tar"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeTar(f, entries, r.time); err != nil {
		return err
	}
	return f.Close()
}

// entry is a file of an archive, or a directory where its name ends in a slash.
type entry struct {
	name string
	mode int64
	data []byte
	from string // the file with its content, in place of data
	link string // where it leads to; then it has no content
}

func writeLayer(path string, entries []entry, at time.Time) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	if err := writeTar(z, entries, at); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

// writeTar writes the entries in the order of their names, root's, all of one time, with the directories above them.
func writeTar(w io.Writer, entries []entry, at time.Time) error {
	sorted := slices.Clone(entries)
	known := make(map[string]bool)
	for _, e := range entries {
		known[e.name] = true
	}
	for _, e := range entries {
		for dir := filepath.Dir(strings.TrimSuffix(e.name, "/")); dir != "."; dir = filepath.Dir(dir) {
			if name := dir + "/"; !known[name] {
				known[name] = true
				sorted = append(sorted, entry{name: name, mode: 0o755})
			}
		}
	}
	slices.SortFunc(sorted, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	t := tar.NewWriter(w)
	for _, e := range sorted {
		if err := writeEntry(t, e, at); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return t.Close()
}

func writeEntry(t *tar.Writer, e entry, at time.Time) error {
	h := &tar.Header{Name: e.name, Mode: e.mode, ModTime: at, Typeflag: tar.TypeReg, Size: int64(len(e.data)), Format: tar.FormatUSTAR}
	var content io.Reader = bytes.NewReader(e.data)
	switch {
	case strings.HasSuffix(e.name, "/"):
		h.Typeflag = tar.TypeDir
	case e.link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.link, 0o777
	case e.from != "":
		f, err := os.Open(e.from)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		h.Size, content = info.Size(), f
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(t, content)
	return err
}

// authorities are the certificates that the stores' services are known by: those of Mozilla that hold for every server.
func authorities() ([]byte, error) {
	var b bytes.Buffer
	n := 0
	for root := range bundle.Roots() {
		if root.Constraint != nil { // trusted for some certificates only, which a file of certificates cannot say
			continue
		}
		n++
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if n < 50 {
		return nil, fmt.Errorf("only %d authorities are in the module with them", n)
	}
	return b.Bytes(), nil
}

// etcdRelease is a release of etcd as its archive unpacks.
type etcdRelease struct {
	version, dir string
	programs     []string
}

var etcdDirectory = regexp.MustCompile(`^etcd-v([0-9]+\.[0-9]+\.[0-9]+)-linux-([a-z0-9]+)$`)

// etcdReleases are those in a directory for an architecture; none without a directory.
func etcdReleases(dir, arch string) ([]etcdRelease, error) {
	if dir == "" {
		return nil, nil
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []etcdRelease
	for _, d := range found {
		m := etcdDirectory.FindStringSubmatch(d.Name())
		if m == nil || m[2] != arch {
			continue
		}
		e := etcdRelease{version: m[1], dir: filepath.Join(dir, d.Name())}
		for _, p := range []string{"etcd", "etcdctl", "etcdutl"} { // etcdutl is not in every line
			switch err := isFor(filepath.Join(e.dir, p), arch); {
			case err == nil:
				e.programs = append(e.programs, p)
			case !errors.Is(err, fs.ErrNotExist) || p != "etcdutl":
				return nil, err
			}
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no release of etcd for %s is in %s: it takes directories such as etcd-v3.6.16-linux-%[1]s", arch, dir)
	}
	return all, nil
}

// olderPatches are the names of releases that kops may ask for and that are not there: each leads to the newest patch of
// its line.
func olderPatches(etcds []etcdRelease) (links []entry) {
	newest := make(map[string]int) // by line
	for _, e := range etcds {
		line, patch := e.line()
		newest[line] = max(newest[line], patch)
	}
	for line, last := range newest {
		for patch := range last {
			version := fmt.Sprintf("%s.%d", line, patch)
			if !slices.ContainsFunc(etcds, func(e etcdRelease) bool { return e.version == version }) {
				links = append(links, entry{name: "opt/etcd-v" + version, link: fmt.Sprintf("etcd-v%s.%d", line, last)})
			}
		}
	}
	return links
}

// line is that of the release, such as 3.6, and its patch.
func (e etcdRelease) line() (string, int) {
	at := strings.LastIndex(e.version, ".")
	patch, _ := strconv.Atoi(e.version[at+1:]) // digits, by etcdDirectory
	return e.version[:at], patch
}

// isFor is an error where a program is not one for the architecture.
func isFor(path, arch string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; f.Machine != want {
		return fmt.Errorf("%s is a program for %s, and not for %s", path, f.Machine, arch)
	}
	return nil
}

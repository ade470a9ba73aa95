package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"flag"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/blakesmith/ar"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var long = flag.Bool("release.long", false, "make two whole releases, of the commit that is checked out")

const root = "../.."

// small is a release whose programs are all the same small one.
func small(t *testing.T) *release {
	t.Helper()
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{
		root: absolute, out: t.TempDir(), work: t.TempDir(), version: "1.2.3-rc.1", commit: "c0ffee",
		time: time.Unix(1700000000, 0).UTC(), arches: []string{"amd64", "arm64"},
	}
	for _, arch := range r.arches {
		if err := r.goBuild(t.Context(), ".", arch, r.runner(arch), "./go-runner"); err != nil {
			t.Fatal(err)
		}
		program := read(t, r.runner(arch))
		for _, p := range programs {
			write(t, filepath.Join(r.bin(arch), p), program)
		}
	}
	for _, c := range completions {
		write(t, r.completion(c.shell), []byte("completion for "+c.shell+"\n"))
	}
	pages := filepath.Join(r.work, "pages")
	write(t, filepath.Join(pages, "etcdadm-init.8"), []byte(".TH ETCDADM-INIT 8\n"))
	if err := packManual(pages, r.manual()); err != nil {
		t.Fatal(err)
	}
	return r
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// packed is the release with all that is made of its programs.
func packed(t *testing.T, r *release) *release {
	t.Helper()
	for _, do := range []func() error{
		func() error { return r.pack(t.Context()) }, func() error { return r.layImages(t.Context()) },
		func() error { return r.writeSBOM(t.Context()) }, func() error { return r.writeSums(t.Context()) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// sums are the files below a directory with what is in them.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var name string
			if name, err = filepath.Rel(dir, path); err == nil {
				all[name], err = sha256Of(path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t *testing.T, a, b map[string]string) {
	t.Helper()
	if !slices.Equal(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))) {
		t.Errorf("once there are\n%q\nand once\n%q", slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	}
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s differs", name)
		}
	}
}

func TestPackedTwice(t *testing.T) {
	first := sums(t, packed(t, small(t)).out)
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	r := small(t)
	for name := range sums(t, r.work) { // a file is as old as the release, whenever it was written
		if err := os.Chtimes(filepath.Join(r.work, name), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	same(t, first, sums(t, packed(t, r).out))
	want := []string{
		"SHA256SUMS", "etcdadm-1.2.3-rc.1-oci.tar", "etcd-manager-1.2.3-rc.1-oci.tar", "etcdadm-1.2.3-rc.1.cdx.json",
		"etcdadm_1.2.3~rc.1-1_amd64.deb", "etcdadm_1.2.3~rc.1-1_arm64.deb", "etcdadm-1.2.3~rc.1-1.x86_64.rpm", "etcdadm-1.2.3~rc.1-1.aarch64.rpm",
		"etcd-manager_1.2.3~rc.1-1_amd64.deb", "etcd-manager-1.2.3~rc.1-1.aarch64.rpm",
	}
	for _, name := range want {
		if first[name] == "" {
			t.Errorf("%s is not in it", name)
		}
	}
	if lines := strings.Count(string(read(t, filepath.Join(r.out, "SHA256SUMS"))), "\n"); lines != len(first)-1 {
		t.Errorf("%d files have a sum, of %d", lines, len(first)-1)
	}
}

// debian are the files of a package, and its control files.
func debian(t *testing.T, path string) (data, control map[string]*tar.Header, text map[string]string) {
	t.Helper()
	text = make(map[string]string)
	archive := ar.NewReader(bytes.NewReader(read(t, path)))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return data, control, text
		}
		if err != nil {
			t.Fatal(err)
		}
		switch strings.TrimRight(h.Name, "/") {
		case "control.tar.gz":
			control = untar(t, archive, text)
		case "data.tar.gz":
			data = untar(t, archive, text)
		}
	}
}

func untar(t *testing.T, from io.Reader, text map[string]string) map[string]*tar.Header {
	t.Helper()
	z, err := gzip.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]*tar.Header)
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(h.Name, ".")
		found[name] = h
		if h.Size < 1<<20 {
			data, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			text[name] = string(data)
		}
	}
}

func TestDebian(t *testing.T) {
	r := small(t)
	if err := r.pack(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, control, text := debian(t, filepath.Join(r.out, "etcdadm_1.2.3~rc.1-1_arm64.deb"))
	for name, mode := range map[string]int64{
		"/usr/bin/etcdadm": 0o755, "/usr/lib/systemd/system/etcdadm.service": 0o644, "/var/lib/etcdadm/": 0o700,
		"/usr/share/bash-completion/completions/etcdadm": 0o644, "/usr/share/zsh/vendor-completions/_etcdadm": 0o644,
		"/usr/share/fish/vendor_completions.d/etcdadm.fish": 0o644, "/usr/share/doc/etcdadm/copyright": 0o644,
		"/usr/share/doc/etcdadm/docs/operations/member-down.md": 0o644, "/usr/share/man/man8/etcdadm-init.8.gz": 0o644,
	} {
		if h := data[name]; h == nil || h.Mode&0o7777 != mode {
			t.Errorf("%s: %+v", name, h)
		}
	}
	for name, h := range data {
		if h.Uname != "root" || h.Gname != "root" || h.Uid != 0 || !h.ModTime.Equal(r.time) {
			t.Errorf("%s is %s:%s's, and of %s", name, h.Uname, h.Gname, h.ModTime)
		}
		if strings.HasPrefix(name, "/etc/") || strings.Contains(name, "site-functions") {
			t.Errorf("%s is in it", name)
		}
	}
	if want := string(read(t, filepath.Join("files", "etcdadm.service"))); text["/usr/lib/systemd/system/etcdadm.service"] != want {
		t.Error("the unit is another one")
	}
	page, err := gzip.NewReader(strings.NewReader(text["/usr/share/man/man8/etcdadm-init.8.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(page); err != nil || string(plain) != ".TH ETCDADM-INIT 8\n" {
		t.Errorf("the manual page has %q, %v", plain, err)
	}
	for _, want := range []string{"Package: etcdadm\n", "Version: 1.2.3~rc.1-1\n", "Architecture: arm64\n"} {
		if !strings.Contains(text["/control"], want) {
			t.Errorf("%q is not in\n%s", want, text["/control"])
		}
	}
	for _, script := range []string{"/postinst", "/prerm", "/postrm"} {
		if h := control[script]; h == nil || h.Mode&0o111 == 0 {
			t.Errorf("%s: %+v", script, h)
		}
		for _, never := range []string{" restart", " start ", "rm "} { // etcd runs on, and data stay
			if strings.Contains(text[script], never) {
				t.Errorf("%s has %q", script, never)
			}
		}
	}

	data, control, _ = debian(t, filepath.Join(r.out, "etcd-manager_1.2.3~rc.1-1_amd64.deb"))
	for _, p := range programs {
		if has := data["/usr/bin/"+p] != nil; has != (slices.Contains(hostPrograms, p) && p != "etcdadm") {
			t.Errorf("etcd-manager has %s: %t", p, has)
		}
	}
	if control["/postinst"] != nil {
		t.Error("etcd-manager has a script")
	}
}

// rpm itself reads the packages, where it is.
func TestRPM(t *testing.T) {
	program, err := exec.LookPath("rpm")
	if err != nil {
		t.Skip("rpm is not on this machine (Debian: rpm)")
	}
	r := small(t)
	if err := r.pack(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "-qp", "--dbpath", t.TempDir(), "--nosignature", "--qf", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{BUILDHOST}\n", "-l", "--scripts",
		filepath.Join(r.out, "etcdadm-1.2.3~rc.1-1.x86_64.rpm")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"etcdadm 1.2.3~rc.1 1 x86_64 localhost\n", "/usr/bin/etcdadm\n", "/usr/share/zsh/site-functions/_etcdadm\n", "postinstall scriptlet", "preuninstall scriptlet", "postuninstall scriptlet",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// unpack unpacks an archive without compression.
func unpack(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	in := tar.NewReader(bytes.NewReader(read(t, path)))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			data, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, h.Name), data)
		}
	}
}

func TestImages(t *testing.T) {
	r := small(t)
	r.etcd = t.TempDir()
	for _, arch := range r.arches {
		for _, p := range []string{"etcd", "etcdctl"} { // a line without etcdutl
			write(t, filepath.Join(r.etcd, "etcd-v3.4.25-linux-"+arch, p), read(t, r.runner(arch)))
		}
	}
	if err := r.layImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, user string
		files      []string
	}{
		{"etcd-manager", "0:0", []string{"go-runner", "ko-app/etcd-manager", "ko-app/etcd-manager-ctl", "usr/bin/etcdadm", "opt/etcd-v3.4.25/etcd", "opt/etcd-v3.4.25/etcdctl"}},
		{"etcdadm", "65532:65532", []string{"usr/bin/etcdadm", "opt/etcd-v3.4.25/etcd", "opt/etcd-v3.4.25/etcdctl"}},
		{"etcdadm-operator", "65532:65532", nil},
	} {
		at, err := layout.FromPath(unpack(t, filepath.Join(r.out, test.name+"-1.2.3-rc.1-oci.tar")))
		if err != nil {
			t.Fatal(err)
		}
		outer, err := at.ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(outer); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		named, err := outer.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if got := named.Manifests[0].Annotations["io.containerd.image.name"]; got != "localhost/"+test.name+":1.2.3-rc.1" {
			t.Errorf("the image is called %q", got)
		}
		index, err := outer.ImageIndex(named.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for n, arch := range r.arches {
			if p := manifest.Manifests[n].Platform; p == nil || p.OS != "linux" || p.Architecture != arch {
				t.Fatalf("%s: image %d is for %v", test.name, n, p)
			}
			one, err := index.Image(manifest.Manifests[n].Digest)
			if err != nil {
				t.Fatal(err)
			}
			config, err := one.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.Config.User != test.user || config.Architecture != arch || len(config.Config.Entrypoint) != 1 || !config.Created.Equal(r.time) {
				t.Errorf("%s: %+v", test.name, config)
			}
			files := contents(t, mutate.Extract(one))
			for _, name := range append(test.files, "etc/ssl/certs/ca-certificates.crt", strings.TrimPrefix(config.Config.Entrypoint[0], "/")) {
				if h := files[name]; h == nil || h.Size == 0 {
					t.Errorf("%s for %s: %s: %+v", test.name, arch, name, h)
				}
			}
			etcd := test.name != "etcdadm-operator"
			if h := files["opt/etcd-v3.4.24"]; etcd && (h == nil || h.Typeflag != tar.TypeSymlink || h.Linkname != "etcd-v3.4.25") {
				t.Errorf("%s: the name of an older patch: %+v", test.name, h)
			}
			if _, has := files["opt/etcd-v3.4.25/etcd"]; has != etcd {
				t.Errorf("%s has etcd: %t", test.name, has)
			}
			if h := files["tmp"]; h == nil || h.Mode != 0o1777 {
				t.Errorf("%s: tmp: %+v", test.name, h)
			}
		}
	}
}

func contents(t *testing.T, from io.ReadCloser) map[string]*tar.Header {
	t.Helper()
	defer from.Close()
	found := make(map[string]*tar.Header)
	for in := tar.NewReader(from); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = h
	}
}

func TestOlderPatches(t *testing.T) {
	var got []string
	for _, link := range olderPatches([]etcdRelease{{version: "3.6.1"}, {version: "3.6.3"}, {version: "3.5.1"}, {version: "3.7.0"}}) {
		got = append(got, link.name+" "+link.link)
	}
	slices.Sort(got)
	if want := []string{"opt/etcd-v3.5.0 etcd-v3.5.1", "opt/etcd-v3.6.0 etcd-v3.6.3", "opt/etcd-v3.6.2 etcd-v3.6.3"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestReleasesOfEtcd(t *testing.T) {
	dir := t.TempDir()
	r := small(t)
	if _, err := etcdReleases(dir, "amd64"); err == nil || !strings.Contains(err.Error(), "no release of etcd for amd64") {
		t.Errorf("an empty directory: %v", err)
	}
	write(t, filepath.Join(dir, "etcd-v3.6.16-linux-amd64", "etcd"), read(t, r.runner("arm64")))
	if _, err := etcdReleases(dir, "amd64"); err == nil || !strings.Contains(err.Error(), "EM_AARCH64") {
		t.Errorf("a program for another processor: %v", err)
	}
	write(t, filepath.Join(dir, "etcd-v3.6.16-linux-amd64", "etcd"), read(t, r.runner("amd64")))
	if _, err := etcdReleases(dir, "amd64"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without etcdctl: %v", err)
	}
}

func TestMaterials(t *testing.T) {
	r := small(t)
	if err := r.writeSBOM(t.Context()); err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, filepath.Join(r.out, "etcdadm-1.2.3-rc.1.cdx.json"))), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	refs := make(map[string]cdx.Component)
	for _, c := range *bom.Components {
		refs[c.BOMRef] = c
	}
	of := "bin/linux-arm64/etcdadm"
	if sum := sums(t, r.bin("arm64"))["etcdadm"]; refs[of].Hashes == nil || (*refs[of].Hashes)[0].Value != sum {
		t.Errorf("etcdadm is %+v, and its sum %s", refs[of], sum)
	}
	std := "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go")
	if _, has := refs[std]; !has {
		t.Errorf("%s is not in it", std)
	}
	for _, d := range *bom.Dependencies {
		if d.Ref == of && !slices.Equal(*d.Dependencies, []string{std}) {
			t.Errorf("%s has %q", of, *d.Dependencies)
		}
		for _, on := range *d.Dependencies {
			if _, has := refs[on]; !has {
				t.Errorf("%s is made of %s, which is not in the list", d.Ref, on)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	full := t.TempDir()
	write(t, filepath.Join(full, "mine"), nil)
	for _, test := range []struct{ out, version, arch, etcd, want string }{
		{"", "1.2.3", "amd64", "", "-o DIR"},
		{full, "1.2.3", "amd64", "", "not empty"},
		{t.TempDir(), "1.2", "amd64", "", "1.2.3-rc.1"},
		{t.TempDir(), "1.2.3+x", "amd64", "", "1.2.3-rc.1"},
		{t.TempDir(), "1.2.3", "riscv64", "", "amd64 and arm64"},
		{t.TempDir(), "1.2.3", "arm64", full, "no release of etcd for arm64"},
	} {
		err := run(t.Context(), root, test.out, test.version, test.arch, test.etcd)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// mostBytes is the largest that etcdadm may be.
const mostBytes = 52_000_000

// Two checkouts of a commit give the same release.
func TestReleasedTwice(t *testing.T) {
	if !*long {
		t.Skip("give -release.long: it builds everything twice, in three minutes")
	}
	var releases []string
	for range 2 {
		from, out := filepath.Join(t.TempDir(), "checkout"), t.TempDir()
		if said, err := exec.CommandContext(t.Context(), "git", "clone", "-q", root, from).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		if err := run(t.Context(), from, out, "1.2.3", runtime.GOARCH, ""); err != nil {
			t.Fatal(err)
		}
		releases = append(releases, out)
	}
	same(t, sums(t, releases[0]), sums(t, releases[1]))

	if bom := string(read(t, filepath.Join(releases[0], "etcdadm-1.2.3.cdx.json"))); strings.Contains(bom, `"name": ".."`) || !strings.Contains(bom, `"pkg:golang/etcdadm.io@v1.2.3"`) {
		t.Error("the bill of materials does not name the module that the operator is built with")
	}
	path := filepath.Join(releases[0], "bin", "linux-"+runtime.GOARCH, "etcdadm")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("etcdadm has %d bytes", info.Size())
	if info.Size() > mostBytes {
		t.Errorf("etcdadm has %d bytes, more than %d", info.Size(), mostBytes)
	}
	for _, p := range programs {
		f, err := elf.Open(filepath.Join(filepath.Dir(path), p))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range f.Progs {
			if part.Type == elf.PT_INTERP {
				t.Errorf("%s is not static", p)
			}
		}
		f.Close()
	}
	_, _, text := debian(t, filepath.Join(releases[0], "etcdadm_1.2.3-1_"+runtime.GOARCH+".deb"))
	if c := text["/usr/share/bash-completion/completions/etcdadm"]; !strings.Contains(c, "__complete") {
		t.Errorf("the completion for bash is\n%.200s", c)
	}
}

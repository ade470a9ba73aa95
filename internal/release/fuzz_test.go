package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzSums: a publisher's list gives nothing but sums, whatever it is.
func FuzzSums(f *testing.F) {
	for _, seed := range []string{"", "abc  etcd.tar.gz\n", "abc *etcd.tar.gz", "\x00 \x00", "a b c\n\n  d", strings.Repeat("a", 64) + " *etcd.tar.gz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, sum := range parseSums(text) {
			if !isSum(sum) || strings.ContainsAny(name, " \t\r\n") {
				t.Errorf("%q has the sum %q", name, sum)
			}
		}
		_ = parse(text)
	})
}

// FuzzArchive: whatever an archive holds, only programs are written, and only
// where they belong.
func FuzzArchive(f *testing.F) {
	const top = "etcd-v3.6.16-linux-amd64"
	archive := func(names ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, name := range names {
			h := tar.Header{Name: name, Size: 3, Mode: 0o755, Typeflag: tar.TypeReg}
			if strings.HasSuffix(name, "@") {
				h = tar.Header{Name: strings.TrimSuffix(name, "@"), Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}
			}
			if err := w.WriteHeader(&h); err != nil {
				f.Fatal(err)
			}
			if h.Size > 0 {
				_, _ = w.Write([]byte("etc"))
			}
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	f.Add(archive(top+"/etcd", top+"/etcdctl", top+"/README.md"))
	f.Add(archive(top+"/etcd@", top+"/etcdctl"))
	f.Add(archive("../etcd", top+"/../etcd", "/etcd", top+"/x/etcd"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		_, _ = z.Write(data)
		_ = z.Close()
		outside := t.TempDir()
		dir := filepath.Join(outside, "release")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		err := extract(&zipped, top, dir)
		for _, where := range []string{outside, dir} {
			entries, readErr := os.ReadDir(where)
			if readErr != nil {
				t.Fatal(readErr)
			}
			for _, e := range entries {
				known := where == outside && e.Name() == "release" || where == dir && (e.Name() == contentsName || slices.Contains(programs, e.Name()))
				if !known || where == dir && !e.Type().IsRegular() {
					t.Fatalf("%s was written as %s (%v)", e.Name(), e.Type(), err)
				}
			}
		}
		if err == nil && whole(dir) != nil {
			t.Fatalf("it was taken, and is not whole: %v", whole(dir))
		}
	})
}

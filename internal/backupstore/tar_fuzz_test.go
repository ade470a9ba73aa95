package backupstore

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob/memory"
)

// tarOf is a tar of entries that say of themselves what they like.
func tarOf(t testing.TB, heads ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range heads {
		content := strings.Repeat("x", int(h.Size))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			_, _ = w.Write([]byte(content))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sparseTar holds one file that says it is long, and almost all of which is a hole:
// a few bytes become as many as it says.
func sparseTar(t testing.TB, name string, long int64) []byte {
	t.Helper()
	records := fmt.Sprintf("GNU.sparse.major=1\nGNU.sparse.minor=0\nGNU.sparse.name=%s\nGNU.sparse.realsize=%d\n", name, long)
	var pax bytes.Buffer
	for line := range strings.Lines(records) {
		fmt.Fprintf(&pax, "%d %s", len(line)+3, line) // all have two digits
	}
	sparse := fmt.Sprintf("1\n%d\n1\n", long-1)
	body := make([]byte, 512, 513)
	copy(body, sparse)
	body = append(body, 'x')
	var b bytes.Buffer
	for _, e := range []struct {
		kind byte
		name string
		body []byte
	}{{'x', "PaxHeaders.0/f", pax.Bytes()}, {'0', "GNUSparseFile.0/f", body}} {
		var head bytes.Buffer
		w := tar.NewWriter(&head)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.body)), Mode: 0o600, Format: tar.FormatUSTAR}); err != nil {
			t.Fatal(err)
		}
		block := head.Bytes()[:512]
		block[156] = e.kind
		sealHead(block)
		b.Write(block)
		b.Write(e.body)
		b.Write(make([]byte, (512-len(e.body)%512)%512))
	}
	b.Write(make([]byte, 1024))
	return b.Bytes()
}

// sealHead writes the sum of an entry's head into it.
func sealHead(block []byte) {
	copy(block[148:156], "        ")
	sum := 0
	for _, c := range block {
		sum += int(c)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// unpackV2 has a tar read as a backup of etcd 2, and unpacked into a directory below
// another one, that is empty but for it.
func unpackV2(t testing.TB, data []byte) (outside string, verified, fetched error) {
	t.Helper()
	const name backup.Name = "2018-01-01T00:00:00Z-000001"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(data)
	z.Close()
	store := memory.New()
	put(t, store, key(name, backup.FileMeta), []byte(`{"etcdVersion":"2.2.1","timestamp":"1514764800"}`))
	put(t, store, key(name, "etcd.backup.gz"), packed.Bytes())
	_, verified = New(store).Verify(t.Context(), name, Identities{})
	outside = t.TempDir()
	_, fetched = New(store).FetchDirectory(t.Context(), name, filepath.Join(outside, "data"), Identities{}, 5, nil)
	return outside, verified, fetched
}

// A tar without a log of etcd 2 is refused, whatever else is in it, and so are a file that
// is almost nothing but a hole, and one whose size is no sum any more: a look at the first went on for as long as a person lives.
func TestV2TarThatLies(t *testing.T) {
	huge := tarOf(t, tar.Header{Name: "member/wal/0.wal", Typeflag: tar.TypeReg, Mode: 0o600})
	other := func(name string) []byte {
		return tarOf(t, tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600})
	}
	for name, data := range map[string][]byte{
		"no file":                     tarOf(t),
		"no tar from the middle on":   append(tarOf(t, tar.Header{Name: "member/wal/0.wal", Typeflag: tar.TypeReg, Mode: 0o600})[:512], bytes.Repeat([]byte("no head"), 1<<18)...),
		"a log elsewhere":             other("other/0.wal"),
		"a raft snapshot elsewhere":   other("member/0.snap"),
		"a log among raft snapshots":  other("member/snap/0.wal"),
		"another file among the logs": other("member/wal/0.tmp"),
		"a hole":                      sparseTar(t, "member/wal/0.wal", math.MaxInt64/2),
		"a small hole":                sparseTar(t, "member/snap/0.snap", 1<<20),
		"no sum any more":             resized(huge, math.MaxInt64-5),
	} {
		t.Run(name, func(t *testing.T) {
			outside, verified, fetched := unpackV2(t, data)
			if !errors.Is(verified, ErrDamaged) || !errors.Is(fetched, ErrDamaged) {
				t.Errorf("%v, %v", verified, fetched)
			}
			if _, err := os.Stat(filepath.Join(outside, "data")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is left: %v", err)
			}
		})
	}
}

// FuzzV2Tar: whatever a tar holds, only files of etcd 2 are written, only where they
// belong, not more than there is in it, and nothing is left of what is refused.
func FuzzV2Tar(f *testing.F) {
	file := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 5, Mode: 0o600}
	}
	f.Add(tarOf(f, file("member/snap/0.snap"), file("member/wal/0.wal")))
	f.Add(tarOf(f, file("../../member/wal/0.wal"), file("/member/wal/1.wal"), file("member/wal/../../../2.wal"), file("member/wal/x/3.wal")))
	f.Add(tarOf(f, tar.Header{Name: "member/wal/0.wal", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, tar.Header{Name: "member/wal/1.wal", Typeflag: tar.TypeLink, Linkname: "member/wal/0.wal"}))
	f.Add(tarOf(f, file("member/wal/0.wal"), file("./member/wal/0.wal")))
	f.Add(sparseTar(f, "member/wal/0.wal", 1<<40))
	f.Add(resized(tarOf(f, file("member/wal/0.wal")), math.MaxInt64))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		outside, verified, fetched := unpackV2(t, data)
		if verified != nil && fetched == nil {
			t.Fatalf("it was unpacked, and is bad: %v", verified)
		}
		written := int64(0)
		err := filepath.WalkDir(outside, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			dir, known := filepath.Dir(path), filepath.Join(outside, "data", "member")
			if fetched != nil || !e.Type().IsRegular() || dir != filepath.Join(known, "wal") && dir != filepath.Join(known, "snap") {
				t.Errorf("%s was written (%v)", path, fetched)
			}
			info, err := e.Info()
			if err == nil {
				written += info.Size()
			}
			return err
		})
		if err != nil || written > int64(len(data)) {
			t.Errorf("%d bytes were made of %d (%v)", written, len(data), err)
		}
	})
}

// resized changes what the first entry says of its size.
func resized(data []byte, size int64) []byte {
	head := data[:512]
	binary.BigEndian.PutUint64(head[128:], uint64(size))
	copy(head[124:128], "\x80\x00\x00\x00")
	sealHead(head)
	return data
}

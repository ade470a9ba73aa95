package backupstore

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/snapshot"
)

// A backup of etcd 2 whose size nothing tells is unpacked as far as there is room. What is
// needed then is told for all that will be made of it, so that nobody makes room for the
// backup alone.
func TestV2TarWithoutRoom(t *testing.T) {
	const small, large = int64(5000), int64(1) << 43 // more than any disk has, and never written
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for _, h := range []tar.Header{{Name: "member/snap/0.snap", Mode: 0o600, Size: small}, {Name: "member/wal/0.wal", Mode: 0o600, Size: large}} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, min(h.Size, small))); err != nil {
			t.Fatal(err)
		}
	}
	z.Close()
	const name backup.Name = "2018-01-01T00:00:00Z-000001"
	store := memory.New()
	put(t, store, key(name, backup.FileMeta), []byte(`{"etcdVersion":"2.2.1","timestamp":"1514764800"}`))
	put(t, store, key(name, "etcd.backup.gz"), packed.Bytes())
	for _, times := range []int64{1, 5} {
		dir := filepath.Join(t.TempDir(), "data")
		var no *snapshot.SpaceError
		_, err := New(store).FetchDirectory(t.Context(), name, dir, Identities{}, times, nil)
		if !errors.As(err, &no) || no.NeedsRoom() != times*(small+large)+spareV2 {
			t.Errorf("%d times: %v: %+v", times, err, no)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is left: %v", err)
		}
	}
}

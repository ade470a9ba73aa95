package snapshot

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A backup's own file, taken out of the store by hand, is not called cut off.
func TestPackedSnapshotIsToldAsPacked(t *testing.T) {
	t.Parallel()
	packed := filepath.Join(t.TempDir(), "etcd.backup.gz")
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(bytes.Repeat([]byte("snapshot"), 1<<10)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packed, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var as *PackedError
	if _, err := VerifyHash(t.Context(), packed); !errors.As(err, &as) || as.In != "gzip" || !errors.Is(err, ErrDamaged) {
		t.Errorf("of gzip: %v", err)
	}
	as = nil
	if err := Dump(t.Context(), packed, func(KeyValue) error { return nil }); !errors.As(err, &as) || as.In != "gzip" {
		t.Errorf("dumped, of gzip: %v", err)
	}
}

package snapshot

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// Whatever else a backup was packed in is named: such a file is no snapshot that was cut off.
func TestOtherPackingsAreNamed(t *testing.T) {
	t.Parallel()
	tar := make([]byte, 2048)
	copy(tar[257:], "ustar")
	for in, content := range map[string]string{
		"zip": "PK\x03\x04" + strings.Repeat("x", 4000), "bzip2": "BZh9" + strings.Repeat("x", 4000), "xz": "\xfd7zXZ\x00" + strings.Repeat("x", 3000),
		"7-Zip": "7z\xbc\xaf\x27\x1c" + strings.Repeat("x", 700), "openssl's encryption": "Salted__" + strings.Repeat("x", 1600), "tar": string(tar),
	} {
		packed := filepath.Join(t.TempDir(), "backup")
		if err := os.WriteFile(packed, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, verify := range []func() error{
			func() error { _, err := Verify(t.Context(), packed); return err },
			func() error { _, err := VerifyCopied(t.Context(), packed); return err },
		} {
			var as *PackedError
			if err := verify(); !errors.As(err, &as) || as.In != in || strings.Contains(err.Error(), "cut off") {
				t.Errorf("of %s: %v", in, err)
			}
		}
	}
}

package durable

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestLarge: whatever the sizes of what came before and of the writes, the file
// holds just that, on a disk and on a file system without direct writes.
func TestLarge(t *testing.T) {
	for name, dir := range map[string]string{"disk": t.TempDir(), "memory": "/dev/shm"} {
		r := rand.New(rand.NewPCG(1, 2))
		for _, size := range []int{0, 1, directBlock, directBuffer, directBuffer + 1, 3*directBuffer + 4711} {
			for _, before := range []int{0, 1, 4097, 8192} {
				f, err := os.CreateTemp(dir, "large-*")
				if err != nil {
					t.Skipf("%s: %v", name, err)
				}
				defer os.Remove(f.Name())
				defer f.Close()
				want := make([]byte, before+size)
				rand.NewChaCha8([32]byte{byte(size)}).Read(want)
				if _, err := f.Write(want[:before]); err != nil {
					t.Fatal(err)
				}
				l := NewLarge(f, int64(before))
				for rest := want[before:]; len(rest) > 0; {
					n := min(len(rest), 1+r.IntN(300<<10))
					if m, err := l.Write(rest[:n]); m != n || err != nil {
						t.Fatal(m, err)
					}
					rest = rest[n:]
				}
				if err := l.Finish(); err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes after %d: the file differs (%d bytes, %v)", name, size, before, len(got), err)
				}
			}
		}
	}
}

// A full disk is an error of the write or of Finish, not of the sync alone.
func TestLargeTellsErrors(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := NewLarge(f, 0)
	if _, err := l.Write(make([]byte, directBuffer+1)); err == nil {
		t.Error("a file that is not open for writing was written to")
	}
}

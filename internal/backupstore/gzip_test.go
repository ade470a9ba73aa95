package backupstore

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// Text shrinks by its repetitions, base64 of noise by its alphabet, noise not at
// all; blocks of each kind may follow one another, and a stranger's gunzip reads
// them.
func TestGzipFindsTheBetterWay(t *testing.T) {
	noise := make([]byte, 3*gzipBlock)
	rand.NewChaCha8([32]byte{7}).Read(noise)
	text := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog; "), 3*gzipBlock/45)
	coded := []byte(base64.StdEncoding.EncodeToString(noise))
	var repeating []byte // a little, and then bytes' frequencies tell nothing
	for piece := range slices.Chunk(noise, 8000) {
		repeating = slices.Concat(repeating, piece, piece[:min(2000, len(piece))])
	}
	for _, c := range []struct {
		name string
		data []byte
		most float64
	}{
		{"repeating a little", repeating, 0.95}, {"nothing", nil, 0}, {"a byte", []byte("x"), 0}, {"text", text, 0.02}, {"base64", coded, 0.76}, {"noise", noise, 1.001},
		{"one block", noise[:gzipBlock], 1.001}, {"a block and a byte", coded[:gzipBlock+1], 0.76},
		{"text, noise, base64", slices.Concat(text, noise, coded), 0.7},
	} {
		var out bytes.Buffer
		z := newGzipWriter(&out)
		for piece := range slices.Chunk(c.data, 100_001) {
			z.Write(piece)
		}
		if err := errors.Join(z.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		if ratio := float64(out.Len()) / float64(len(c.data)); c.most > 0 && ratio > c.most {
			t.Errorf("%s: %.3f of it are left", c.name, ratio)
		}
		r, err := gzip.NewReader(&out)
		if err != nil {
			t.Fatal(err)
		}
		r.Multistream(false) // it is one member
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, c.data) || out.Len() != 0 {
			t.Errorf("%s: read %d bytes of %d, %d are left over, %v", c.name, len(got), len(c.data), out.Len(), err)
		}
	}
	full := errors.New("the disk is full")
	z := newGzipWriter(failing{full})
	for range 30 { // more than are under way at a time: nobody waits for ever
		z.Write(noise)
	}
	if err := z.Close(); !errors.Is(err, full) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

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
		packed := out.Bytes()
		stranger, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(stranger); err != nil || !bytes.Equal(got, c.data) {
			t.Errorf("%s: a stranger reads %d bytes of %d, %v", c.name, len(got), len(c.data), err)
		}
		got, err := gunzip(packed)
		if err != nil || !bytes.Equal(got, c.data) {
			t.Errorf("%s: read %d bytes of %d, %v", c.name, len(got), len(c.data), err)
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

func gunzip(packed []byte) ([]byte, error) {
	r, err := newGunzip(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r)
	return got, errors.Join(err, r.Close(), r.Close())
}

// A stream of others is read as it is, in one member or several, and nothing
// that was cut or changed passes for whole, wherever that is.
func TestGunzip(t *testing.T) {
	data := make([]byte, 5*gzipBlock+77)
	rand.NewChaCha8([32]byte{9}).Read(data)
	copy(data[gzipBlock:], bytes.Repeat([]byte("x"), 2*gzipBlock))
	var theirs, ours bytes.Buffer
	for half := range slices.Chunk(data, len(data)/2+1) {
		w := gzip.NewWriter(&theirs)
		w.Write(half)
		w.Close()
	}
	if got, err := gunzip(theirs.Bytes()); err != nil || !bytes.Equal(got, data) {
		t.Errorf("theirs: %d bytes of %d, %v", len(got), len(data), err)
	}
	z := newGzipWriter(&ours)
	z.Write(data)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	good := ours.Bytes()
	if got, err := gunzip(slices.Concat(good, good)); err != nil || !bytes.Equal(got, slices.Concat(data, data)) {
		t.Errorf("twice: %d bytes, %v", len(got), err)
	}
	if _, err := gunzip(slices.Concat(good, theirs.Bytes())); !errors.Is(err, errNotOurs) {
		t.Errorf("theirs behind ours: %v", err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		at := random.IntN(len(good))
		if random.IntN(4) == 0 {
			at %= gzipHead + 4
		}
		changed := slices.Clone(good)
		changed[at] ^= 1 << random.IntN(8)
		// What gzip does not protect, as its date, changes nothing.
		if got, err := gunzip(changed); err == nil && !bytes.Equal(got, data) {
			t.Fatalf("byte %d was changed, and nobody noticed", at)
		}
		if got, err := gunzip(good[:at]); err == nil && !bytes.HasPrefix(data, got) {
			t.Fatalf("cut at %d: %d bytes that were never there", at, len(got))
		}
	}
}

// Whoever goes before the end leaves nobody behind, also when nothing comes.
func TestGunzipIsClosedEarly(t *testing.T) {
	var packed bytes.Buffer
	z := newGzipWriter(&packed)
	z.Write(make([]byte, 50*gzipBlock))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() {
		w.Write(packed.Bytes()[:packed.Len()-1]) // the last byte never comes
	}()
	plain, err := newGunzip(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, plain, gzipBlock); err != nil {
		t.Fatal(err)
	}
	r.Close() // as the body of an object
	if err := plain.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkGunzip(b *testing.B) {
	noise := make([]byte, 24<<20)
	rand.NewChaCha8([32]byte{3}).Read(noise)
	coded := []byte(base64.StdEncoding.EncodeToString(noise))
	var packed bytes.Buffer
	z := newGzipWriter(&packed)
	z.Write(coded)
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(coded)))
	for b.Loop() {
		r, err := newGunzip(bytes.NewReader(packed.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); err != nil || n != int64(len(coded)) {
			b.Fatal(n, err)
		}
		r.Close()
	}
}

func BenchmarkGzip(b *testing.B) {
	noise := make([]byte, 24<<20)
	rand.NewChaCha8([32]byte{3}).Read(noise)
	coded := []byte(base64.StdEncoding.EncodeToString(noise))
	b.SetBytes(int64(len(coded)))
	for b.Loop() {
		z := newGzipWriter(io.Discard)
		z.Write(coded)
		if err := z.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

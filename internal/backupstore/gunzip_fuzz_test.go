package backupstore

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
)

// FuzzGunzip: what our reader gives is what everybody's gives, and it ends.
func FuzzGunzip(f *testing.F) {
	for _, n := range []int{0, 1, 1000, gzipBlock + 1} {
		var ours, theirs bytes.Buffer
		z := newGzipWriter(&ours)
		w := gzip.NewWriter(&theirs)
		for _, to := range []io.WriteCloser{z, w} {
			if _, err := to.Write(bytes.Repeat([]byte("a"), n)); err != nil {
				f.Fatal(err)
			}
			if err := to.Close(); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(ours.Bytes())
		f.Add(theirs.Bytes())
		f.Add(append(ours.Bytes(), theirs.Bytes()...))
		f.Add(ours.Bytes()[:ours.Len()-1])
	}
	const most = 8 << 20 // a few bytes can be gigabytes
	f.Fuzz(func(t *testing.T, data []byte) {
		z, err := newGunzip(bytes.NewReader(data))
		if err != nil {
			return
		}
		got, err := io.ReadAll(io.LimitReader(z, most))
		if closeErr := z.Close(); err != nil || closeErr != nil || len(got) == most {
			return
		}
		w, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%d bytes were read of what is no gzip: %v", len(got), err)
		}
		want, err := io.ReadAll(io.LimitReader(w, most))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes were read, and %d are in it, %v", len(got), len(want), err)
		}
	})
}

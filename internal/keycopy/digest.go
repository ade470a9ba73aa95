package keycopy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math/bits"
)

// digest is a sum of SHA-256 hashes modulo 2^256, with their count: two sets of
// things have the same one whatever order they come in. The zero value is that
// of nothing.
type digest struct {
	sum   [4]uint64
	count int64
}

func (d *digest) add(of [sha256.Size]byte) {
	var carry uint64
	for i := range d.sum {
		d.sum[i], carry = bits.Add64(d.sum[i], binary.LittleEndian.Uint64(of[8*i:]), carry)
	}
	d.count++
}

func (d *digest) String() string {
	var b []byte
	for _, word := range d.sum {
		b = binary.BigEndian.AppendUint64(b, word)
	}
	return hex.EncodeToString(b)
}

// hasher hashes things made of several byte strings without allocating for each.
type hasher struct {
	h   hash.Hash
	buf []byte
}

func newHasher() *hasher { return &hasher{h: sha256.New()} }

// of hashes the parts with their lengths, so that no two lists of parts are
// the same to it.
func (h *hasher) of(number int64, parts ...[]byte) (sum [sha256.Size]byte) {
	h.h.Reset()
	h.buf = binary.LittleEndian.AppendUint64(h.buf[:0], uint64(number))
	h.h.Write(h.buf)
	for _, p := range parts {
		h.buf = binary.LittleEndian.AppendUint64(h.buf[:0], uint64(len(p)))
		h.h.Write(h.buf)
		h.h.Write(p)
	}
	h.buf = h.h.Sum(h.buf[:0])
	copy(sum[:], h.buf)
	return sum
}

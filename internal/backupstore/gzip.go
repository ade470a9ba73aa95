package backupstore

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"runtime"

	"github.com/klauspost/compress/flate"
)

const (
	gzipBlock  = 256 << 10 // bytes
	mostBlocks = 8         // under way at a time, beside the one that is filled
)

// gzipWriter compresses the blocks of a stream side by side. Each is a member of
// its own, as RFC 1952 allows and every gunzip reads, and says in an extra field how
// long it is, so that a reader can find them and unpack them side by side as well.
//
// A block is compressed in the better of two ways: by repetitions, or, where
// there are none, by the frequency of its bytes alone. The fast levels of the
// flate package leave such blocks as they are, and base64 of what is compressed
// already (as Helm's releases are) would keep a third too much.
//
// Close has to be called, also after an error, and the writer is for one
// goroutine.
type gzipWriter struct {
	w       io.Writer
	current *gzipPart
	free    chan *gzipPart
	queue   chan *gzipPart // in the order of the stream
	written chan error     // how the writing of all parts ended
	begun   bool           // there is a member
	closed  bool
}

func newGzipWriter(w io.Writer) *gzipWriter {
	n := min(mostBlocks, runtime.GOMAXPROCS(0)) + 1
	z := &gzipWriter{w: w, free: make(chan *gzipPart, n), queue: make(chan *gzipPart, n), written: make(chan error, 1)}
	for range n {
		z.free <- &gzipPart{in: make([]byte, 0, gzipBlock), done: make(chan error, 1)}
	}
	z.current = <-z.free
	go z.drain()
	return z
}

// gzipHeader: deflate, with an extra field, no time, fastest, from an unknown
// system; the extra field has eight bytes, which are our two letters, four more,
// and these: the length of the whole member. The length is left out here.
var gzipHeader = []byte{0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 4, 255, 8, 0, 'e', 'a', 4, 0}

const (
	gzipHead = 20 // bytes, with the length
	gzipTail = 8  // bytes: CRC-32 and size of what was compressed
)

// drain writes the parts as they get done.
func (z *gzipWriter) drain() {
	var err error
	for p := range z.queue {
		if perr := <-p.done; err == nil {
			err = perr
		}
		if err == nil {
			_, err = z.w.Write(p.out)
		}
		z.free <- p
	}
	z.written <- err
}

// Write takes the next bytes. An error of the writer below shows in Close.
func (z *gzipWriter) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		n := copy(z.current.in[len(z.current.in):gzipBlock], rest)
		z.current.in, rest = z.current.in[:len(z.current.in)+n], rest[n:]
		if len(z.current.in) == gzipBlock {
			z.submit()
			z.current = <-z.free
			z.current.in = z.current.in[:0]
		}
	}
	return len(data), nil
}

func (z *gzipWriter) submit() {
	p := z.current
	z.begun = true
	go func() { p.done <- p.compress() }()
	z.queue <- p
}

// Close ends the last member and the work.
func (z *gzipWriter) Close() error {
	if z.closed {
		return nil
	}
	z.closed = true
	if len(z.current.in) > 0 || !z.begun {
		z.submit()
	}
	close(z.queue)
	return <-z.written
}

// gzipPart is a block with all that it takes to compress it.
type gzipPart struct {
	in, out  []byte
	done     chan error
	ways     [2]*flate.Writer
	attempts [2]bytes.Buffer
}

// compress makes out of in. The first way is good enough if it saves a quarter:
// by frequencies alone, text saves about as much.
func (p *gzipPart) compress() error {
	for i, level := range [...]int{flate.BestSpeed, flate.HuffmanOnly} {
		if err := p.attempt(i, level); err != nil {
			return err
		}
		if got := p.attempts[i].Bytes(); i == 0 || len(got) < len(p.out) {
			p.out = got
		}
		if len(p.out) <= len(p.in)/4*3 {
			break
		}
	}
	p.out = binary.LittleEndian.AppendUint32(p.out, crc32.ChecksumIEEE(p.in))
	p.out = binary.LittleEndian.AppendUint32(p.out, uint32(len(p.in)))            //nolint:gosec // at most a block
	binary.LittleEndian.PutUint32(p.out[gzipHead-4:gzipHead], uint32(len(p.out))) //nolint:gosec // see above
	return nil
}

// attempt compresses the block in one way, behind room for the length.
func (p *gzipPart) attempt(i, level int) error {
	buf := &p.attempts[i]
	buf.Reset()
	buf.Write(gzipHeader)
	buf.Write(make([]byte, gzipHead-len(gzipHeader)))
	w := p.ways[i]
	if w == nil {
		var err error
		if w, err = flate.NewWriter(buf, level); err != nil {
			return err
		}
		p.ways[i] = w
	} else {
		w.Reset(buf)
	}
	if _, err := w.Write(p.in); err != nil {
		return err
	}
	return w.Close()
}

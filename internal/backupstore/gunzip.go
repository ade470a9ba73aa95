package backupstore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// mostMember is longer than a member of ours can be: a block that cannot be
// compressed, and what deflate and gzip write around it.
const mostMember = gzipBlock + 1<<10 // bytes

// errNotOurs is about a stream that begins as our writer does and goes on otherwise.
var errNotOurs = errors.New("what follows is no block as the ones before")

// newGunzip reads gzip: what our writer made side by side, and what others made
// as the one stream that it is. The reader has to be closed.
func newGunzip(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, copyBuffer)
	head, err := in.Peek(len(gzipHeader))
	if err != nil || !bytes.Equal(head, gzipHeader) {
		return newMembers(in)
	}
	n := min(mostBlocks, runtime.GOMAXPROCS(0)) + 2 // one is read from, and one is filled
	z := &gunzipReader{free: make(chan *gunzipPart, n), queue: make(chan *gunzipPart, n), quit: make(chan struct{}), ended: make(chan struct{})}
	for range n {
		z.free <- &gunzipPart{done: make(chan error, 1)}
	}
	go z.split(in)
	return z, nil
}

// members reads the members of a stream of others, one after the other. The
// library does that, too, but takes a stream that ends within the header of a
// later member for a whole one.
type members struct {
	in  *bufio.Reader
	now *gzip.Reader
}

func newMembers(in *bufio.Reader) (*members, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &members{in, z}, nil
}

// Read implements io.Reader.
func (m *members) Read(to []byte) (int, error) {
	n, err := m.now.Read(to)
	if err != io.EOF { //nolint:errorlint // a wrapped one is no end
		return n, err
	}
	if _, err := m.in.Peek(1); err != nil {
		return n, err
	}
	if err := m.now.Reset(m.in); err == io.EOF { //nolint:errorlint // the library's own
		return n, io.ErrUnexpectedEOF
	} else if err != nil {
		return n, err
	}
	m.now.Multistream(false)
	return n, nil
}

// Close implements io.Closer.
func (m *members) Close() error { return m.now.Close() }

// gunzipReader unpacks members side by side and gives them in their order.
type gunzipReader struct {
	free    chan *gunzipPart
	queue   chan *gunzipPart // in the order of the stream
	current *gunzipPart
	rest    []byte // of current
	err     error
	quit    chan struct{}
	stop    sync.Once
	ended   chan struct{} // closed when the source is no longer read
	work    sync.WaitGroup
}

// split cuts the stream into members and has each unpacked. The last part that
// it gives has the error that ended it, io.EOF after a whole stream.
func (z *gunzipReader) split(in io.Reader) {
	defer close(z.ended)
	for {
		var p *gunzipPart
		select {
		case p = <-z.free:
		case <-z.quit:
			return
		}
		err := p.read(in)
		if err != nil {
			p.done <- err
		} else {
			z.work.Go(func() { p.done <- p.unpack() })
		}
		z.queue <- p // it has room for all parts
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader. Once it has given an error, the source is no longer
// read.
func (z *gunzipReader) Read(to []byte) (int, error) {
	for len(z.rest) == 0 && z.err == nil {
		if z.current != nil {
			z.free <- z.current // it has room for all parts
		}
		z.current = <-z.queue
		if z.err = <-z.current.done; z.err == nil {
			z.rest = z.current.out
		}
	}
	if len(z.rest) == 0 {
		_ = z.Close() // never fails
		return 0, z.err
	}
	n := copy(to, z.rest)
	z.rest = z.rest[n:]
	return n, nil
}

// Close ends the work. A Read of the source that is under way is waited for.
func (z *gunzipReader) Close() error {
	z.stop.Do(func() { close(z.quit) })
	<-z.ended
	z.work.Wait()
	return nil
}

// gunzipPart is a member with all that it takes to unpack it.
type gunzipPart struct {
	in, out []byte
	source  bytes.Reader
	inflate io.ReadCloser
	done    chan error
}

// read takes a member from the stream. io.EOF: there is none.
func (p *gunzipPart) read(in io.Reader) error {
	p.in = append(p.in[:0], make([]byte, gzipHead)...)
	if _, err := io.ReadFull(in, p.in); err != nil {
		return err
	}
	length := int(binary.LittleEndian.Uint32(p.in[len(gzipHeader):]))
	if !bytes.HasPrefix(p.in, gzipHeader) || length < gzipHead+gzipTail || length > mostMember {
		return errNotOurs
	}
	if cap(p.in) < length {
		p.in = append(make([]byte, 0, mostMember), p.in...)
	}
	p.in = p.in[:length]
	if _, err := io.ReadFull(in, p.in[gzipHead:]); err == io.EOF { //nolint:errorlint // ReadFull's own
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	return nil
}

func (p *gunzipPart) unpack() error {
	tail := p.in[len(p.in)-gzipTail:]
	size := int(binary.LittleEndian.Uint32(tail[4:]))
	if size > gzipBlock {
		return errNotOurs
	}
	if cap(p.out) < size {
		p.out = make([]byte, size, gzipBlock)
	}
	p.out = p.out[:size]
	p.source.Reset(p.in[gzipHead : len(p.in)-gzipTail])
	if p.inflate == nil {
		p.inflate = flate.NewReader(&p.source)
	} else if err := p.inflate.(flate.Resetter).Reset(&p.source, nil); err != nil { //nolint:forcetypeassert // flate promises it
		return err
	}
	if _, err := io.ReadFull(p.inflate, p.out); err != nil && !(size == 0 && errors.Is(err, io.EOF)) {
		return fmt.Errorf("a block is too short: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	var more [1]byte
	if n, err := p.inflate.Read(more[:]); n > 0 || !errors.Is(err, io.EOF) || p.source.Len() > 0 {
		return errors.Join(errors.New("a block is longer than it says"), err)
	}
	if crc32.ChecksumIEEE(p.out) != binary.LittleEndian.Uint32(tail) {
		return gzip.ErrChecksum
	}
	return nil
}

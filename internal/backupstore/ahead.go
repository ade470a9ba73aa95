package backupstore

import (
	"io"
	"sync"

	"etcdadm.io/backup"
)

// blocksAhead is how many blocks of a source that needs no packing are read and
// inspected while the store writes.
const blocksAhead = 4

// readAhead passes a source on as it is. Its end is told only when the source
// was whole.
type readAhead struct {
	free chan *aheadBlock
	full chan *aheadBlock // in the order of the stream
	quit chan struct{}
	stop sync.Once

	current *aheadBlock // the rest is the reader's alone
	rest    []byte
	err     error
	ended   bool // the end was told
}

type aheadBlock struct {
	data []byte
	n    int
	err  error // that ends the stream after the data
}

func newReadAhead() *readAhead {
	a := &readAhead{free: make(chan *aheadBlock, blocksAhead), full: make(chan *aheadBlock, blocksAhead), quit: make(chan struct{})}
	for range blocksAhead {
		a.free <- &aheadBlock{data: make([]byte, copyBuffer)}
	}
	return a
}

// fill reads the source to its end, or until close, and tells what it was.
func (a *readAhead) fill(source io.Reader, i *inspector, progress func(int64)) (content backup.Content) {
	for {
		var b *aheadBlock
		select {
		case b = <-a.free:
		case <-a.quit:
			return content
		}
		b.n, b.err = 0, nil
		for b.err == nil && b.n < len(b.data) {
			var n int
			n, b.err = source.Read(b.data[b.n:])
			b.n += n
		}
		i.see(b.data[:b.n])
		if b.n > 0 && progress != nil {
			progress(i.size)
		}
		if b.err == io.EOF { //nolint:errorlint // a wrapped one is no end
			var err error
			if content, err = i.finish(); err != nil {
				b.err = err
			}
		}
		end := b.err != nil
		a.full <- b // it has room for all blocks
		if end {
			return content
		}
	}
}

// Read implements io.Reader.
func (a *readAhead) Read(p []byte) (int, error) {
	for len(a.rest) == 0 && a.err == nil {
		if a.current != nil {
			a.free <- a.current // it has room for all blocks
		}
		select {
		case a.current = <-a.full:
			a.rest, a.err = a.current.data[:a.current.n], a.current.err
		case <-a.quit:
			a.current, a.err = nil, io.ErrClosedPipe
		}
	}
	if len(a.rest) == 0 {
		a.ended = a.err == io.EOF //nolint:errorlint // a wrapped one is no end
		return 0, a.err
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// close ends the reading of the source, and of the stream.
func (a *readAhead) close() { a.stop.Do(func() { close(a.quit) }) }

package durable

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of what is written past the page cache. Source: open(2); the block of a
// disk is at most a page of memory, and the buffer is one.
const (
	directBlock  = 4 << 10 // bytes
	directBuffer = 1 << 20 // bytes
)

// Large writes the rest of a large new file past the page cache, where it would
// push out the database that etcd reads through it, and where writing costs a host
// more than all else that a backup takes. Where the file system cannot do that, it
// writes as usual. Finish writes what is left; the sync is the caller's.
type Large struct {
	file   *os.File
	buf    []byte // aligned; up to directBuffer
	lead   int    // bytes until the file's next block begins
	direct bool
}

// NewLarge goes on with a file of that size, at its end.
func NewLarge(f *os.File, size int64) *Large {
	l := &Large{file: f, buf: aligned()}
	if over := int(size % directBlock); over > 0 {
		l.lead = directBlock - over
	} else {
		l.setDirect(true)
	}
	return l
}

// aligned is an empty buffer that begins at a block of memory.
func aligned() []byte {
	b := make([]byte, directBuffer+directBlock)
	over := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % directBlock)
	return b[directBlock-over:][:0:directBuffer]
}

// Write implements io.Writer.
func (l *Large) Write(p []byte) (int, error) {
	n := 0
	if l.lead > 0 {
		first := p[:min(l.lead, len(p))]
		m, err := l.file.Write(first)
		l.lead -= m
		if n += m; err != nil || l.lead > 0 {
			return n, err
		}
		l.setDirect(true)
	}
	for n < len(p) {
		more := p[n:min(len(p), n+cap(l.buf)-len(l.buf))]
		l.buf = append(l.buf, more...)
		n += len(more)
		if len(l.buf) == cap(l.buf) {
			if err := l.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// flush writes whole blocks.
func (l *Large) flush() error {
	_, err := l.file.Write(l.buf)
	if l.direct && errors.Is(err, unix.EINVAL) { // it was promised and is not kept
		l.setDirect(false)
		_, err = l.file.Write(l.buf)
	}
	l.buf = l.buf[:0]
	return err
}

// Finish writes what is left.
func (l *Large) Finish() error {
	l.setDirect(false)
	return l.flush()
}

// setDirect turns writing past the page cache on or off. Where it cannot be had,
// nothing changes.
func (l *Large) setDirect(on bool) {
	fd := l.file.Fd()
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return
	}
	to := flags &^ unix.O_DIRECT
	if on {
		to |= unix.O_DIRECT
	}
	if _, err := unix.FcntlInt(fd, unix.F_SETFL, to); err == nil {
		l.direct = on
	}
}

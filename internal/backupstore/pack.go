package backupstore

import (
	"fmt"
	"io"
	"runtime"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"etcdadm.io/backup"
)

// Compression is set for speed: etcd's database cannot free pages while it is
// read. Windows, blocks and goroutines bound the memory.
const (
	zstdWindow    = 1 << 20 // bytes
	mostZstd      = 4       // goroutines
	mostZstdInput = 64 << 20
	copyBuffer    = 256 << 10 // bytes
)

// packed is a snapshot on its way into the store. It is read as the object is
// to be; reading it fails unless the source was whole.
type packed struct {
	io.Reader
	pipe    *io.PipeReader // nil when nothing has to be done to the source
	ahead   *readAhead     // then
	done    chan struct{}  // closed when the source is no longer read
	content backup.Content // of the source; once done
	seen    *inspector     // likewise
}

// pack begins to read the source, which with v2 is a tar and no database. The caller
// calls end.
func pack(source io.Reader, e backup.Encoding, r Recipients, v2 bool, progress func(int64)) *packed {
	p := &packed{done: make(chan struct{}), seen: newInspector()}
	p.seen.tar = v2
	if e == (backup.Encoding{Compression: backup.None}) {
		p.ahead = newReadAhead()
		p.Reader = p.ahead
		go func() {
			defer close(p.done)
			p.content = p.ahead.fill(source, p.seen, progress)
		}()
		return p
	}
	var w *io.PipeWriter
	p.pipe, w = io.Pipe()
	p.Reader = p.pipe
	go func() {
		defer close(p.done)
		var err error
		p.content, err = fill(w, source, e, r, p.seen, progress)
		w.CloseWithError(err)
	}()
	return p
}

// end stops the work and waits for it. A Read of the source that is under way
// is waited for.
func (p *packed) end() {
	if p.pipe != nil {
		p.pipe.CloseWithError(io.ErrClosedPipe)
	} else {
		p.ahead.close()
	}
	<-p.done
	if p.ahead != nil && !p.ahead.ended {
		p.content = backup.Content{} // whatever was read, the store has not seen its end
	}
}

// fill compresses, encrypts and inspects. Nothing reaches w's reader as an end
// but a nil error.
func fill(w *io.PipeWriter, source io.Reader, e backup.Encoding, r Recipients, i *inspector, progress func(int64)) (content backup.Content, err error) {
	var out io.WriteCloser = keepOpen{w}
	if e.Encrypted {
		if out, err = age.Encrypt(w, r.keys...); err != nil {
			return content, fmt.Errorf("encrypt: %w", err)
		}
	}
	compressor, err := newCompressor(out, e.Compression)
	if err != nil {
		return content, err
	}
	buf := make([]byte, copyBuffer)
	for err == nil {
		var n int
		n, err = source.Read(buf)
		i.see(buf[:n])
		if _, werr := compressor.Write(buf[:n]); werr != nil {
			err = fmt.Errorf("compress: %w", werr)
		}
		if n > 0 && progress != nil {
			progress(i.size)
		}
	}
	if err == io.EOF { //nolint:errorlint // a wrapped one is no end
		content, err = i.finish()
	}
	if err != nil {
		// Closing ends the compressor's goroutines; what it still writes must
		// not reach the store, and does not once the pipe has an error.
		w.CloseWithError(err)
		compressor.Close()
		return content, err
	}
	if err := compressor.Close(); err != nil {
		return content, fmt.Errorf("compress: %w", err)
	}
	if err := out.Close(); err != nil {
		return content, fmt.Errorf("encrypt: %w", err)
	}
	return content, nil
}

func newCompressor(w io.Writer, c backup.Compression) (io.WriteCloser, error) {
	switch c {
	case backup.Gzip:
		return newGzipWriter(w), nil
	case backup.Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdWindow),
			zstd.WithAllLitEntropyCompression(true), zstd.WithEncoderConcurrency(min(mostZstd, runtime.GOMAXPROCS(0))))
	case backup.None:
		return keepOpen{w}, nil
	}
	return nil, fmt.Errorf("compress: no compression %q", c)
}

// keepOpen is a writer whose end is somebody else's matter.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// unpack undoes pack. The reader has to be closed.
func unpack(r io.Reader, e backup.Encoding, ids Identities) (io.ReadCloser, error) {
	if e.Encrypted {
		if len(ids.keys) == 0 {
			return nil, fmt.Errorf("%w: it takes the secret key of one of its recipients", ErrEncrypted)
		}
		plain, err := age.Decrypt(r, ids.keys...)
		if err != nil {
			return nil, decryption(err)
		}
		r = plain
	}
	switch e.Compression {
	case backup.Gzip:
		return newGunzip(r)
	case backup.Zstd:
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(mostZstdInput))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case backup.None:
		return io.NopCloser(r), nil
	}
	return nil, fmt.Errorf("unpack: no compression %q", e.Compression)
}

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// resumptions is how often in a row a transfer is taken up again without a byte coming of it.
const resumptions = 3

// Body reads an object of a known size, and opens it again where a transfer broke off. reopen asks for that same version from an
// offset on; its errors, one of them being that the object has changed, end the read.
type Body struct {
	ctx    context.Context
	reopen func(ctx context.Context, offset int64) (io.ReadCloser, error)
	from   io.ReadCloser
	offset int64
	size   int64
	tries  int
}

// NewBody begins with what is open already.
func NewBody(ctx context.Context, from io.ReadCloser, size int64, reopen func(ctx context.Context, offset int64) (io.ReadCloser, error)) *Body {
	return &Body{ctx: ctx, from: from, size: size, reopen: reopen}
}

// Read implements io.Reader. It fails once the context has ended, and never passes off a part as the whole.
func (b *Body) Read(p []byte) (int, error) {
	for {
		if err := b.ctx.Err(); err != nil {
			return 0, err
		}
		n, err := b.from.Read(p)
		b.offset += int64(n)
		if n > 0 {
			b.tries = 0
		}
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, io.EOF) && b.offset == b.size:
			return n, io.EOF
		case errors.Is(err, io.EOF) && b.offset > b.size:
			return n, fmt.Errorf("the store sent more than the %d bytes that it had announced", b.size)
		case b.ctx.Err() != nil:
			return n, Ended(b.ctx, err)
		case b.offset >= b.size:
			return n, err // all bytes came, and something is wrong with them: a checksum
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		if err := b.resume(err); err != nil {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

func (b *Body) resume(cause error) error {
	if b.tries == resumptions {
		return fmt.Errorf("the transfer broke off after %d of %d bytes: %w", b.offset, b.size, cause)
	}
	b.tries++
	b.from.Close() // it failed, and nothing more is expected of it
	from, err := b.reopen(b.ctx, b.offset)
	if err != nil {
		b.from, b.tries = io.NopCloser(eof{}), resumptions
		return fmt.Errorf("the transfer broke off after %d of %d bytes (%w), and can not go on: %w", b.offset, b.size, cause, err)
	}
	b.from = from
	return nil
}

// Close implements io.Closer.
func (b *Body) Close() error { return b.from.Close() }

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

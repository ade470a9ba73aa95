package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"etcdadm.io/internal/blob"
)

// The kernel calls nothing off: over a network file system without its server, or on a hung disk, a look at a file
// lasts until that is back. So whatever a call does with files it does in a goroutine of its own, and who called does not wait
// for it beyond the context.

const (
	// callEnds is what a call may take to end after its context has, in which it gives its own reason: the holder of the lock.
	callEnds = 500 * time.Millisecond
	// maxCalls bounds the goroutines that a hung file system can hold.
	maxCalls = 256
)

// errStill says that the file system has not answered.
var errStill = errors.New("its file system has not answered")

func (s *Store) still(ctx context.Context) error {
	return &blob.Error{
		Op: "reach", Object: "store " + s.String(), Err: fmt.Errorf("%w: %w", errStill, ctx.Err()),
		Advice: "look at the disk or at the server that it is mounted from; what was asked for may still be done when that is back",
	}
}

// within has do called, and waits for it until ctx ends. What comes later is given to late.
func within[T any](ctx context.Context, s *Store, do func() (T, error), late func(T)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	select {
	case s.calls <- struct{}{}:
	case <-ctx.Done():
		return none, s.still(ctx)
	}
	type answer struct {
		value T
		err   error
	}
	ended := make(chan answer, 1)
	go func() {
		value, err := do()
		<-s.calls
		ended <- answer{value, err}
	}()
	select {
	case a := <-ended:
		return a.value, a.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(callEnds)
	defer grace.Stop()
	select {
	case a := <-ended:
		return a.value, a.err
	case <-grace.C:
	}
	go func() {
		if a := <-ended; a.err == nil {
			late(a.value)
		}
	}()
	return none, s.still(ctx)
}

// source is what is written, until ctx ends. It is not read any more once the caller has its answer, who may use it for
// something else: send it anew from its start, for one. So a read of it that is under way is waited for, however long it
// takes: it is for the caller that it ends with ctx, as blob.Store says.
type source struct {
	ctx  context.Context
	mu   sync.Mutex // held while it is read
	from io.Reader
}

func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.from.Read(p)
}

// release waits for a read that is under way. The next one finds that ctx has ended, or there is none.
func (s *source) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// body is read until its context ends. It is for one goroutine.
type body struct {
	ctx  context.Context
	s    *Store
	file io.ReadCloser
	buf  []byte
	left chan struct{} // closed at the end of a read that was not waited for; nil: there is none
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left != nil {
		return 0, b.s.still(b.ctx)
	}
	if cap(b.buf) < len(p) {
		b.buf = make([]byte, len(p))
	}
	buf := b.buf[:len(p)]
	var n int
	var err error
	ended := make(chan struct{})
	go func() {
		n, err = b.file.Read(buf)
		close(ended)
	}()
	select {
	case <-ended:
		return copy(p, buf[:n]), err
	case <-b.ctx.Done():
		b.left = ended
		return 0, b.s.still(b.ctx)
	}
}

// Seek goes to another place in the file; nothing is read for it.
func (b *body) Seek(offset int64, whence int) (int64, error) {
	seeker, ok := b.file.(io.Seeker)
	if !ok || b.left != nil {
		return 0, errors.ErrUnsupported
	}
	return seeker.Seek(offset, whence)
}

// Close closes the file, after a read of it that is not waited for.
func (b *body) Close() error {
	if b.left == nil {
		return b.file.Close()
	}
	go func() {
		<-b.left
		b.file.Close()
	}()
	return nil
}

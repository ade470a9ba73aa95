package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// PartSize is the size of every part but the last, in bytes. S3 takes at most 10,000 parts, which is 78 GiB: ten times what
	// etcd can hold.
	PartSize = 8 << 20
	// parallel parts are held and sent at a time; an upload never holds more memory than these.
	parallel = 3
	// small is the size of the first look at a body. Most objects are control objects and fit.
	small = 64 << 10
)

// First reads the beginning of a body: whole, and then that is all, if it is at most one part long.
func First(ctx context.Context, body io.Reader) (data []byte, whole bool, err error) {
	data = make([]byte, small)
	n, err := fill(ctx, body, data)
	if err == nil {
		grown := make([]byte, PartSize)
		copy(grown, data[:n])
		data = grown
		var more int
		more, err = fill(ctx, body, data[n:])
		n += more
	}
	if errors.Is(err, errBodyEnd) {
		return data[:n], true, nil
	}
	return data[:n], false, err
}

// Parts sends first and then the rest of body in parts, numbered from 1, several at a time, and returns their number once all
// calls of send have returned. The error is that of the body, or the first of a send. The data belongs to send until it returns.
func Parts(ctx context.Context, first []byte, body io.Reader, send func(ctx context.Context, number int, data []byte) error) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var sending sync.WaitGroup
	defer sending.Wait()

	free := make(chan []byte, parallel)
	for range parallel - 1 {
		free <- nil // made when it is needed
	}
	number, data := 0, first
	for last := false; ; {
		number++
		n, whole := number, data
		sending.Go(func() {
			if err := send(ctx, n, whole); err != nil {
				cancel(err) // the first one counts
			}
			free <- whole[:cap(whole)]
		})
		if last {
			break
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case data = <-free:
		}
		if data == nil {
			data = make([]byte, PartSize)
		}
		count, err := fill(ctx, body, data[:PartSize])
		last = errors.Is(err, errBodyEnd)
		if err != nil && !last {
			cancel(err)
			return 0, context.Cause(ctx)
		}
		if data = data[:count]; last && count == 0 {
			break // it ended with the part before
		}
	}
	sending.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return number, nil
}

// errBodyEnd says that the body ended before the buffer was full.
var errBodyEnd = errors.New("end of body")

// fill fills a buffer, or returns errBodyEnd with what there was.
func fill(ctx context.Context, body io.Reader, p []byte) (n int, err error) {
	for n < len(p) {
		if err := ctx.Err(); err != nil {
			return n, context.Cause(ctx)
		}
		read, err := body.Read(p[n:])
		n += read
		if errors.Is(err, io.EOF) {
			return n, errBodyEnd
		} else if err != nil {
			return n, fmt.Errorf("read body: %w", err)
		}
	}
	return n, nil
}

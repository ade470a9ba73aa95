package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// ReadAll reads an object whole. One of more than limit bytes gives ErrTooLarge, and is not held in memory.
func ReadAll(ctx context.Context, store Store, key string, limit int64) ([]byte, ETag, error) {
	return read(ctx, store, key, limit, GetOptions{})
}

// ReadAllIfChanged is ReadAll, but returns ErrNotModified, and tag, when the object still has this ETag. With an empty tag it
// always reads.
func ReadAllIfChanged(ctx context.Context, store Store, key string, tag ETag, limit int64) ([]byte, ETag, error) {
	return read(ctx, store, key, limit, GetOptions{IfNoneMatch: tag})
}

// PutBytes writes an object from memory.
func PutBytes(ctx context.Context, store Store, key string, data []byte, cond Condition) (ETag, error) {
	return store.Put(ctx, key, bytes.NewReader(data), cond)
}

func read(ctx context.Context, store Store, key string, limit int64, opts GetOptions) ([]byte, ETag, error) {
	object, err := store.Get(ctx, key, opts)
	if errors.Is(err, ErrNotModified) {
		return nil, opts.IfNoneMatch, err
	} else if err != nil {
		return nil, "", err
	}
	defer object.Body.Close() // nothing was written through it, so its error says nothing
	if object.Size > limit {
		return nil, "", fmt.Errorf("read %q: %w: %d bytes, at most %d were expected", key, ErrTooLarge, object.Size, limit)
	}
	// The announced size is checked as well: a store that cuts a transfer short must not pass off half an object as a whole.
	data, err := io.ReadAll(io.LimitReader(object.Body, limit+1))
	if err != nil {
		return nil, "", fmt.Errorf("read %q: %w", key, err)
	}
	if int64(len(data)) > limit {
		return nil, "", fmt.Errorf("read %q: %w: at most %d bytes were expected", key, ErrTooLarge, limit)
	}
	if int64(len(data)) != object.Size {
		return nil, "", fmt.Errorf("read %q: got %d bytes of %d: %w", key, len(data), object.Size, io.ErrUnexpectedEOF)
	}
	return data, object.ETag, nil
}

// Package gs is an object store in a bucket of Google Cloud Storage.
//
// The invariant: an object appears with the one request that completes it, under the condition that was given (a generation, which
// never comes again, is the ETag). A body of up to 8 MiB is one request; a longer one is a resumable upload in chunks of that
// size, of which one is in memory at a time. An upload that is not completed is no object; the service forgets it after a week.
package gs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

// pageSize is the number of objects in one answer to a listing; the service gives no more.
const pageSize = 1000

// Store is an object store in one folder of a bucket. Use Open.
type Store struct {
	place  remote.Location
	config config
	stall  time.Duration
	client opening
}

// String gives the store's URL, without parameters.
func (s *Store) String() string { return s.place.String() }

// Get implements blob.Store. A transfer that breaks off is taken up again, of the same generation.
func (s *Store) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	object, err := s.get(ctx, key, opts)
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	return object, nil
}

func (s *Store) get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	name, err := s.place.Key(key)
	if err != nil {
		return nil, err
	}
	unless := storage.Conditions{}
	if g, ok := generation(opts.IfNoneMatch); ok {
		unless.GenerationNotMatch = g
	}
	var reader *storage.Reader
	if _, err = s.try(ctx, func(ctx context.Context, bucket *storage.BucketHandle) error {
		object := bucket.Object(name)
		if unless != (storage.Conditions{}) {
			object = object.If(unless)
		}
		reader, err = object.NewReader(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	attrs := reader.Attrs
	if unless.GenerationNotMatch == attrs.Generation { // a server that does not keep the condition
		reader.Close()
		return nil, blob.ErrNotModified
	}
	body := remote.NewBody(ctx, reader, attrs.Size, func(ctx context.Context, offset int64) (rest io.ReadCloser, err error) {
		_, err = s.try(ctx, func(ctx context.Context, bucket *storage.BucketHandle) error {
			rest, err = bucket.Object(name).Generation(attrs.Generation).NewRangeReader(ctx, offset, -1)
			return err
		})
		return rest, err
	})
	return &blob.Object{Body: body, ETag: tagOf(attrs.Generation), Size: attrs.Size, Modified: attrs.LastModified}, nil
}

func tagOf(generation int64) blob.ETag { return blob.ETag(strconv.FormatInt(generation, 10)) }

// generation reads an ETag; false for one that no object of this store can have.
func generation(tag blob.ETag) (int64, bool) {
	g, err := strconv.ParseInt(string(tag), 10, 64)
	return g, err == nil && g > 0 && tagOf(g) == tag
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	tag, err := s.put(ctx, key, body, cond)
	if err != nil {
		return "", fmt.Errorf("put %q: %w", key, err)
	}
	return tag, nil
}

func (s *Store) put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	name, err := s.place.Key(key)
	if err != nil {
		return "", err
	}
	var on storage.Conditions
	if tag, match := cond.Match(); match {
		g, ok := generation(tag)
		if !ok {
			return "", blob.ErrPreconditionFailed // as Condition.Holds has it
		}
		on.GenerationMatch = g
	} else if cond == blob.IfAbsent {
		on.DoesNotExist = true
	} else if cond != blob.Any {
		return "", blob.ErrPreconditionFailed
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	data, whole, err := remote.First(ctx, body)
	if err != nil {
		return "", err
	}
	var g int64
	var unsure bool
	if whole {
		unsure, err = s.try(ctx, func(ctx context.Context, bucket *storage.BucketHandle) error {
			g, err = write(ctx, handle(bucket, name, on), data)
			return err
		})
	} else {
		g, unsure, err = s.upload(ctx, name, on, io.MultiReader(bytes.NewReader(data), body))
	}
	if _, match := cond.Match(); match && errors.Is(err, blob.ErrNotFound) {
		err = fmt.Errorf("%w: there is no object", blob.ErrPreconditionFailed)
	}
	if unsure && (errors.Is(err, blob.ErrPreconditionFailed) || errors.Is(err, blob.ErrNotFound)) {
		return "", s.failed(errors.New("the answer to the write was lost, and it may have taken effect: read the object to find out"))
	}
	if err != nil {
		return "", err
	}
	return tagOf(g), nil
}

func handle(bucket *storage.BucketHandle, name string, on storage.Conditions) *storage.ObjectHandle {
	object := bucket.Object(name)
	if on != (storage.Conditions{}) {
		object = object.If(on)
	}
	return object
}

// write makes an object in one request.
func write(ctx context.Context, object *storage.ObjectHandle, data []byte) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := object.NewWriter(ctx)
	w.ChunkSize = 0
	w.ContentType = contentType
	w.CRC32C, w.SendCRC32C = crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)), true
	if _, err := w.Write(data); err != nil {
		cancel()
		_ = w.Close() // says the same
		return 0, err
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	return w.Attrs().Generation, nil
}

// contentType keeps the SDK from guessing one by looking at the content.
const contentType = "application/octet-stream"

// upload makes an object of a body of any length. The SDK sends a chunk again when that can help, and never the whole.
func (s *Store) upload(ctx context.Context, name string, on storage.Conditions, body io.Reader) (g int64, unsure bool, err error) {
	bucket, err := s.bucket(ctx)
	if err != nil {
		return 0, false, remote.Ended(ctx, s.explain(err))
	}
	var again atomic.Bool     // some request was sent twice
	var failures atomic.Int64 // since the last chunk that came through
	object := handle(bucket, name, on).Retryer(storage.WithPolicy(storage.RetryAlways), storage.WithErrorFunc(func(err error) bool {
		if judge(err) == remote.Final || failures.Add(1) > tries {
			return false
		}
		again.Store(true)
		return true
	}))
	ending, cancel := context.WithCancel(ctx)
	defer cancel()
	w := object.NewWriter(ending)
	w.ChunkSize = remote.PartSize
	w.ChunkRetryDeadline = (tries + 1) * s.stall
	w.ProgressFunc = func(int64) { failures.Store(0) }
	w.ContentType = contentType
	source := &remembering{Reader: body}
	if _, err := io.Copy(w, source); err != nil {
		// Closing without this would make an object of what was sent so far.
		cancel()
		_ = w.Close() // says the same
		if source.err != nil {
			return 0, false, fmt.Errorf("read body: %w", source.err)
		}
		return 0, again.Load(), remote.Ended(ctx, s.explain(err))
	}
	if err := w.Close(); err != nil {
		return 0, again.Load(), remote.Ended(ctx, s.explain(err))
	}
	return w.Attrs().Generation, again.Load(), nil
}

// tries is how often one request of an upload is sent again.
const tries = 3

// remembering tells an error of the body from one of the upload.
type remembering struct {
	io.Reader
	err error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	infos, err := s.list(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", prefix, err)
	}
	return infos, nil
}

func (s *Store) list(ctx context.Context, prefix string) ([]blob.Info, error) {
	whole, err := s.place.KeyPrefix(prefix)
	if err != nil {
		return nil, err
	}
	query := &storage.Query{Prefix: whole, Projection: storage.ProjectionNoACL}
	if err := query.SetAttrSelection([]string{"Name", "Size", "Updated"}); err != nil {
		return nil, err
	}
	var infos []blob.Info
	for token, first := "", true; first || token != ""; first = false {
		var page []*storage.ObjectAttrs
		var next string
		if _, err := s.try(ctx, func(ctx context.Context, bucket *storage.BucketHandle) error {
			page = nil
			next, err = iterator.NewPager(bucket.Objects(ctx, query), pageSize, token).NextPage(&page)
			return err
		}); err != nil {
			return nil, err
		}
		for _, o := range page {
			// What cannot be a key is not ours: a console makes an object "folder/" of a folder.
			if key, ok := s.place.Own(o.Name); ok && strings.HasPrefix(key, prefix) {
				infos = append(infos, blob.Info{Key: key, Size: o.Size, Modified: o.Updated})
			}
		}
		if next != "" && next == token {
			return nil, s.failed(errors.New("the store does not say how its listing goes on"))
		}
		token = next
	}
	slices.SortFunc(infos, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
	return infos, nil
}

// Delete implements blob.Store. In a bucket with versions or soft deletion, the older ones stay.
func (s *Store) Delete(ctx context.Context, key string) error {
	name, err := s.place.Key(key)
	if err == nil {
		_, err = s.try(ctx, func(ctx context.Context, bucket *storage.BucketHandle) error {
			return bucket.Object(name).Delete(ctx)
		})
	}
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	return nil
}

// try makes one request, and again as long as that can help. Errors are explained.
func (s *Store) try(ctx context.Context, do func(context.Context, *storage.BucketHandle) error) (unsure bool, err error) {
	unsure, err = remote.Try(ctx, judge, func(ctx context.Context) error {
		bucket, err := s.bucket(ctx)
		if err != nil {
			return err
		}
		return do(ctx, bucket)
	})
	if err != nil {
		err = remote.Ended(ctx, s.explain(err))
	}
	return unsure, err
}

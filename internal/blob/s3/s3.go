// Package s3 is an object store in a bucket of Amazon S3, or of a server that speaks its protocol.
//
// The invariant: an object appears with the one request that completes it, and that request carries the condition. A body of up
// to 8 MiB is one PutObject; a longer one is uploaded in parts of that size, a few in memory at a time, and
// CompleteMultipartUpload makes an object of them. An upload that is not completed is aborted, so that its parts are not kept;
// those of a process that was killed are left to the bucket's lifecycle rule (AbortIncompleteMultipartUpload).
//
// The SDK tries nothing again: this package does, because it has to know which attempt may have taken effect.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

// cleanUpTimeout bounds the abort of an upload after it failed or its context ended.
const cleanUpTimeout = 5 * time.Second

// Store is an object store in one folder of a bucket. Use Open.
type Store struct {
	place  remote.Location
	config config
	aws    aws.Config
	// patient waits longer: a server may copy a large object together before it says anything.
	patient s3.HTTPClient

	mu     sync.Mutex // guards client
	client *s3.Client // nil until the bucket's region is known
}

// String gives the store's URL, without parameters.
func (s *Store) String() string { return s.place.String() }

// Get implements blob.Store. A transfer that breaks off is taken up again, of the same version.
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
	input := &s3.GetObjectInput{Bucket: &s.place.Bucket, Key: &name}
	if opts.IfNoneMatch != "" {
		input.IfNoneMatch = aws.String(string(opts.IfNoneMatch))
	}
	out, err := s.open(ctx, input)
	if err != nil {
		return nil, err
	}
	tag, size := out.ETag, aws.ToInt64(out.ContentLength)
	if aws.ToString(tag) == "" || out.ContentLength == nil {
		out.Body.Close()
		return nil, s.error(errNoObject, adviceNoStore)
	}
	body := remote.NewBody(ctx, out.Body, size, func(ctx context.Context, offset int64) (io.ReadCloser, error) {
		rest, err := s.open(ctx, &s3.GetObjectInput{
			Bucket: &s.place.Bucket, Key: &name, IfMatch: tag, Range: aws.String(fmt.Sprintf("bytes=%d-", offset)),
		})
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(aws.ToString(rest.ContentRange), fmt.Sprintf("bytes %d-", offset)) || aws.ToString(rest.ETag) != *tag {
			rest.Body.Close()
			return nil, s.failed(errors.New("the store sends another part than the one that was asked for"))
		}
		return rest.Body, nil
	})
	return &blob.Object{Body: body, ETag: blob.ETag(*tag), Size: size, Modified: aws.ToTime(out.LastModified)}, nil
}

func (s *Store) open(ctx context.Context, input *s3.GetObjectInput) (out *s3.GetObjectOutput, err error) {
	_, err = s.try(ctx, func(ctx context.Context, client *s3.Client) error {
		out, err = client.GetObject(ctx, input)
		return err
	})
	return out, err
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
	ifMatch, ifNoneMatch, err := conditions(cond)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	data, whole, err := remote.First(ctx, body)
	if err != nil {
		return "", err
	}
	var tag *string
	var unsure bool
	if whole {
		unsure, err = s.try(ctx, func(ctx context.Context, client *s3.Client) error {
			out, err := client.PutObject(ctx, &s3.PutObjectInput{
				Bucket: &s.place.Bucket, Key: &name, Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
				IfMatch: ifMatch, IfNoneMatch: ifNoneMatch,
			})
			if err == nil {
				tag = out.ETag
			}
			return err
		})
	} else {
		tag, unsure, err = s.upload(ctx, name, data, body, ifMatch, ifNoneMatch)
	}
	switch {
	case err != nil:
		return "", s.settle(err, cond, unsure)
	case aws.ToString(tag) == "":
		return "", s.error(errNoETag, adviceNoStore)
	}
	return blob.ETag(*tag), nil
}

// conditions are the request headers of a condition.
func conditions(cond blob.Condition) (ifMatch, ifNoneMatch *string, err error) {
	tag, match := cond.Match()
	switch {
	case cond == blob.Any:
		return nil, nil, nil
	case cond == blob.IfAbsent:
		return nil, aws.String("*"), nil
	case match && tag != "":
		return aws.String(string(tag)), nil, nil
	}
	return nil, nil, blob.ErrPreconditionFailed // as Condition.Holds has it
}

// settle says of a write that failed what the caller may rely on.
func (s *Store) settle(err error, cond blob.Condition, unsure bool) error {
	// versitygw keeps objects as files, and a file has nothing below it.
	if _, match := cond.Match(); match && (errors.Is(err, blob.ErrNotFound) || codeOf(err) == "ObjectParentIsFile") {
		err = fmt.Errorf("%w: there is no object", blob.ErrPreconditionFailed)
	}
	if cond != blob.Any && unsupported(err) {
		return fmt.Errorf("%w: %w", blob.ErrUnsupported, err)
	}
	if unsure && (errors.Is(err, blob.ErrPreconditionFailed) || errors.Is(err, blob.ErrNotFound)) {
		return s.failed(errors.New("the answer to the write was lost, and it may have taken effect: read the object to find out"))
	}
	return err
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	infos, err := s.list(ctx, prefix)
	if err != nil {
		return nil, blob.ListError(s, prefix, err)
	}
	return infos, nil
}

func (s *Store) list(ctx context.Context, prefix string) ([]blob.Info, error) {
	return s.place.List(ctx, prefix, func(whole, token string) (found []blob.Info, next string, err error) {
		input := &s3.ListObjectsV2Input{Bucket: &s.place.Bucket, Prefix: &whole}
		if token != "" {
			input.ContinuationToken = &token
		}
		var page *s3.ListObjectsV2Output
		if _, err := s.try(ctx, func(ctx context.Context, client *s3.Client) (err error) {
			page, err = client.ListObjectsV2(ctx, input)
			return err
		}); err != nil {
			return nil, "", err
		}
		if page.Name == nil && page.IsTruncated == nil && page.KeyCount == nil && page.Contents == nil {
			return nil, "", s.error(errNoListing, adviceNoStore)
		}
		for _, o := range page.Contents {
			found = append(found, blob.Info{Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)})
		}
		if !aws.ToBool(page.IsTruncated) {
			return found, "", nil
		}
		next = aws.ToString(page.NextContinuationToken)
		if next == "" {
			return nil, "", s.failed(errors.New("the store's listing is cut, and does not say how it goes on"))
		}
		return found, next, nil
	})
}

// Delete implements blob.Store. In a bucket with versions, the older ones stay.
func (s *Store) Delete(ctx context.Context, key string) error {
	name, err := s.place.Key(key)
	if err == nil {
		_, err = s.try(ctx, func(ctx context.Context, client *s3.Client) error {
			_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.place.Bucket, Key: &name})
			return err
		})
	}
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	return nil
}

// try makes one request, and again as long as that can help. Errors are explained.
func (s *Store) try(ctx context.Context, do func(context.Context, *s3.Client) error) (unsure bool, err error) {
	unsure, err = remote.Try(ctx, judge, func(ctx context.Context) error {
		client, err := s.connect(ctx)
		if err != nil {
			return err
		}
		return do(ctx, client)
	})
	if err != nil {
		err = remote.Ended(ctx, s.explain(err))
	}
	return unsure, err
}

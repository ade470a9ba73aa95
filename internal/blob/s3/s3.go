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
	remote.Bucket
	config config
	aws    aws.Config
	// patient waits longer: a server may copy a large object together before it says anything.
	patient s3.HTTPClient

	mu     sync.Mutex // guards client
	client *s3.Client // nil until the bucket's region is known
}

// Fetch implements remote.Driver.
func (s *Store) Fetch(ctx context.Context, name string, unless blob.ETag) (*blob.Object, error) {
	input := &s3.GetObjectInput{Bucket: &s.Place.Bucket, Key: &name}
	if unless != "" {
		input.IfNoneMatch = aws.String(string(unless))
	}
	out, err := s.open(ctx, input)
	if err != nil {
		return nil, err
	}
	tag, size := out.ETag, aws.ToInt64(out.ContentLength)
	if aws.ToString(tag) == "" || out.ContentLength == nil {
		out.Body.Close()
		return nil, s.Advised(errNoObject, adviceNoStore)
	}
	body := remote.NewBody(ctx, out.Body, size, func(ctx context.Context, offset int64) (io.ReadCloser, error) {
		rest, err := s.open(ctx, &s3.GetObjectInput{
			Bucket: &s.Place.Bucket, Key: &name, IfMatch: tag, Range: aws.String(fmt.Sprintf("bytes=%d-", offset)),
		})
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(aws.ToString(rest.ContentRange), fmt.Sprintf("bytes %d-", offset)) || aws.ToString(rest.ETag) != *tag {
			rest.Body.Close()
			return nil, s.Failed(remote.ErrOtherPart)
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

// Write implements remote.Driver.
func (s *Store) Write(ctx context.Context, name string, body io.Reader, cond blob.Condition) (_ blob.ETag, unsure bool, err error) {
	ifMatch, ifNoneMatch, err := conditions(cond)
	if err != nil {
		return "", false, err
	}
	data, whole, err := remote.First(ctx, body)
	if err != nil {
		return "", false, err
	}
	var tag *string
	if whole {
		unsure, err = s.try(ctx, func(ctx context.Context, client *s3.Client) error {
			out, err := client.PutObject(ctx, &s3.PutObjectInput{
				Bucket: &s.Place.Bucket, Key: &name, Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
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
	// versitygw keeps objects as files, and a file has nothing below it.
	_, match := cond.Match()
	switch {
	case match && codeOf(err) == "ObjectParentIsFile":
		return "", unsure, fmt.Errorf("%w: %w", blob.ErrNotFound, err)
	case cond != blob.Any && unsupported(err):
		return "", unsure, fmt.Errorf("%w: %w", blob.ErrUnsupported, err)
	case err == nil && aws.ToString(tag) == "":
		return "", unsure, s.Advised(errNoETag, adviceNoStore)
	}
	return blob.ETag(aws.ToString(tag)), unsure, err
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

// Page implements remote.Driver.
func (s *Store) Page(ctx context.Context, whole, token string) (found []blob.Info, next string, err error) {
	input := &s3.ListObjectsV2Input{Bucket: &s.Place.Bucket, Prefix: &whole}
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
		return nil, "", s.Advised(errNoListing, adviceNoStore)
	}
	for _, o := range page.Contents {
		found = append(found, blob.Info{Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)})
	}
	if !aws.ToBool(page.IsTruncated) {
		return found, "", nil
	}
	next = aws.ToString(page.NextContinuationToken)
	if next == "" {
		return nil, "", s.Failed(errors.New("the store's listing is cut, and does not say how it goes on"))
	}
	return found, next, nil
}

// Remove implements remote.Driver.
func (s *Store) Remove(ctx context.Context, name string) error {
	_, err := s.try(ctx, func(ctx context.Context, client *s3.Client) error {
		_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.Place.Bucket, Key: &name})
		return err
	})
	return err
}

// try makes one request, and again as long as that can help. Errors are explained.
func (s *Store) try(ctx context.Context, do func(context.Context, *s3.Client) error) (unsure bool, err error) {
	return s.Bucket.Try(ctx, judge, s.explain, func(ctx context.Context) error {
		client, err := s.connect(ctx)
		if err != nil {
			return err
		}
		return do(ctx, client)
	})
}

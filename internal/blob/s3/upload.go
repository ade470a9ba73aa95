package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
	"etcdadm.io/internal/wake"
)

// upload writes a body that is longer than one part. unsure is that of the last request, the only one that makes an object.
func (s *Store) upload(ctx context.Context, name string, first []byte, body io.Reader, ifMatch, ifNoneMatch *string) (tag *string, unsure bool, err error) {
	// Should the answer to this be lost, an upload without parts stays behind, which costs nothing.
	var id *string
	if _, err := s.try(ctx, func(ctx context.Context, client *s3.Client) error {
		out, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &s.Place.Bucket, Key: &name})
		if err == nil {
			id = out.UploadId
		}
		return err
	}); err != nil {
		return nil, false, err
	}
	if aws.ToString(id) == "" {
		return nil, false, s.Failed(errors.New("the store begins an upload without an ID"))
	}
	done := false
	defer func() {
		if !done {
			s.abort(ctx, name, id)
		}
	}()

	parts, err := s.sendParts(ctx, name, id, first, body)
	if err != nil {
		return nil, false, err
	}
	unsure, err = s.try(ctx, func(ctx context.Context, client *s3.Client) error {
		out, err := client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &s.Place.Bucket, Key: &name, UploadId: id, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
			IfMatch: ifMatch, IfNoneMatch: ifNoneMatch,
		}, func(o *s3.Options) { o.HTTPClient = s.patient })
		if err == nil {
			tag = out.ETag
		}
		return err
	})
	done = err == nil
	return tag, unsure, err
}

func (s *Store) sendParts(ctx context.Context, name string, id *string, first []byte, body io.Reader) ([]types.CompletedPart, error) {
	var mu sync.Mutex // guards parts
	var parts []types.CompletedPart
	_, err := remote.Parts(ctx, first, body, func(ctx context.Context, number int, data []byte) error {
		n := aws.Int32(int32(number))
		_, err := s.try(ctx, func(ctx context.Context, client *s3.Client) error {
			out, err := client.UploadPart(ctx, &s3.UploadPartInput{
				Bucket: &s.Place.Bucket, Key: &name, UploadId: id, PartNumber: n,
				Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
			})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			parts = append(parts, types.CompletedPart{
				PartNumber: n, ETag: out.ETag,
				// A store that made checksums wants to see them again.
				ChecksumCRC32: out.ChecksumCRC32, ChecksumCRC32C: out.ChecksumCRC32C, ChecksumCRC64NVME: out.ChecksumCRC64NVME,
				ChecksumSHA1: out.ChecksumSHA1, ChecksumSHA256: out.ChecksumSHA256,
			})
			return nil
		})
		return err
	})
	slices.SortFunc(parts, func(a, b types.CompletedPart) int { return int(*a.PartNumber - *b.PartNumber) })
	return parts, err
}

// An upload is given up several times: a part that was on its way can arrive after an abort, and bring it back. Source: the S3
// API's page about AbortMultipartUpload. It is looked whether one did, at once and a moment later.
const (
	aborts    = 4
	partsLand = 250 * time.Millisecond // a part on its way arrives in that; a caller waits meanwhile
)

// abort gives up an upload, also when ctx has ended. It may fail, and then the bucket's lifecycle rule is what removes the parts;
// the caller has an error of its own to tell.
func (s *Store) abort(ctx context.Context, name string, id *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	gone := 0
	for try := 0; try < aborts && gone < 2; try++ {
		if gone == 0 {
			if _, err := s.try(ctx, func(ctx context.Context, client *s3.Client) error {
				_, err := client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.Place.Bucket, Key: &name, UploadId: id})
				return err
			}); err != nil && !errors.Is(err, blob.ErrNotFound) {
				return
			}
		} else {
			if !wake.After(ctx, partsLand) {
				return
			}
		}
		switch _, err := s.try(ctx, func(ctx context.Context, client *s3.Client) error {
			_, err := client.ListParts(ctx, &s3.ListPartsInput{Bucket: &s.Place.Bucket, Key: &name, UploadId: id})
			return err
		}); {
		case err == nil:
			gone = 0
		case errors.Is(err, blob.ErrNotFound):
			gone++
		default:
			return // nobody can tell
		}
	}
}

// Package azure is an object store in a container of Azure Blob Storage.
//
// The invariant: a blob appears with the one request that completes it, under the condition that was given; its ETag is another
// with every write. A body of up to 8 MiB is one request; a longer one is staged in blocks of that size, a few in memory at a
// time, and committed by the list of them. Blocks of an upload that was given up are nobody's blob and in no listing; the
// service has no request to remove them, and does so after a week.
//
// Of two long uploads to one key the service drops the blocks of the one that is committed later, which then fails.
package azure

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

// Store is an object store in one folder of a container. Use Open.
type Store struct {
	remote.Bucket
	client *container.Client
	// credential is where tokens come from; nil: nothing is asked for one.
	credential *named
}

// Fetch implements remote.Driver.
func (s *Store) Fetch(ctx context.Context, name string, known blob.ETag) (*blob.Object, error) {
	var unless *azcore.ETag
	if valid(known) {
		unless = to.Ptr(azcore.ETag(known))
	}
	out, err := s.open(ctx, name, &sdk.DownloadStreamOptions{AccessConditions: access(nil, unless)})
	if err != nil {
		return nil, err
	}
	if out.ErrorCode != nil && bloberror.Code(*out.ErrorCode) == bloberror.ConditionNotMet { // the SDK takes a 304 for a success
		out.Body.Close()
		return nil, blob.ErrNotModified
	}
	if out.ETag == nil || out.ContentLength == nil || out.LastModified == nil {
		out.Body.Close()
		return nil, s.Failed(errors.New("the store tells no ETag, size or time"))
	}
	body := remote.NewBody(ctx, out.Body, *out.ContentLength, func(ctx context.Context, offset int64) (io.ReadCloser, error) {
		rest, err := s.open(ctx, name, &sdk.DownloadStreamOptions{AccessConditions: access(out.ETag, nil), Range: sdk.HTTPRange{Offset: offset}})
		if err != nil {
			return nil, err
		}
		if rest.ContentRange == nil || !strings.HasPrefix(*rest.ContentRange, fmt.Sprintf("bytes %d-", offset)) {
			rest.Body.Close()
			return nil, s.Failed(remote.ErrOtherPart)
		}
		return rest.Body, nil
	})
	return &blob.Object{Body: body, ETag: blob.ETag(*out.ETag), Size: *out.ContentLength, Modified: *out.LastModified}, nil
}

func (s *Store) open(ctx context.Context, name string, opts *sdk.DownloadStreamOptions) (out sdk.DownloadStreamResponse, err error) {
	_, err = s.try(ctx, func(ctx context.Context) error {
		out, err = s.client.NewBlobClient(name).DownloadStream(ctx, opts)
		return err
	})
	return out, err
}

// refuse: the service makes a slash of a backslash and may drop a dot before a slash or at the end, so that two keys would be
// one.
func refuse(key string) error {
	if strings.Contains(key, `\`) || strings.Contains(key+"/", "./") {
		return fmt.Errorf("%w %q: Azure keeps no backslash, and no dot at the end of a segment", blob.ErrInvalidKey, key)
	}
	return nil
}

// valid tells whether an ETag can be one of this store: the service refuses others as malformed.
func valid(tag blob.ETag) bool {
	return len(tag) > 2 && tag[0] == '"' && tag[len(tag)-1] == '"' && !strings.ContainsAny(string(tag[1:len(tag)-1]), "\"\r\n")
}

func access(match, noneMatch *azcore.ETag) *sdk.AccessConditions {
	if match == nil && noneMatch == nil {
		return nil
	}
	return &sdk.AccessConditions{ModifiedAccessConditions: &sdk.ModifiedAccessConditions{IfMatch: match, IfNoneMatch: noneMatch}}
}

// conditionOf is a condition in the service's words.
func conditionOf(cond blob.Condition) (*sdk.AccessConditions, error) {
	tag, match := cond.Match()
	switch {
	case cond == blob.Any:
		return nil, nil
	case cond == blob.IfAbsent:
		return access(nil, to.Ptr(azcore.ETagAny)), nil
	case match && valid(tag):
		return access(to.Ptr(azcore.ETag(tag)), nil), nil
	}
	return nil, blob.ErrPreconditionFailed // as Condition.Holds has it
}

// Write implements remote.Driver.
func (s *Store) Write(ctx context.Context, name string, body io.Reader, cond blob.Condition) (_ blob.ETag, unsure bool, err error) {
	on, err := conditionOf(cond)
	if err != nil {
		return "", false, err
	}
	data, whole, err := remote.First(ctx, body)
	if err != nil {
		return "", false, err
	}
	client := s.client.NewBlockBlobClient(name)
	var tag *azcore.ETag
	if whole {
		unsure, err = s.try(ctx, func(ctx context.Context) error {
			out, err := client.Upload(ctx, streaming.NopCloser(bytes.NewReader(data)), &blockblob.UploadOptions{AccessConditions: on})
			tag = out.ETag
			return err
		})
	} else {
		tag, unsure, err = s.upload(ctx, client, data, body, on)
	}
	switch {
	case unsure && superseded(err): // perhaps by the attempt before
		return "", true, fmt.Errorf("%w: %w", blob.ErrPreconditionFailed, err)
	case err != nil:
		return "", unsure, err
	case tag == nil:
		return "", unsure, s.Failed(errors.New("the store confirms the write, but tells no ETag"))
	}
	return blob.ETag(*tag), unsure, nil
}

// upload writes a body that is longer than one block. unsure is that of the last request, the only one that makes a blob.
func (s *Store) upload(ctx context.Context, client *blockblob.Client, first []byte, body io.Reader, on *sdk.AccessConditions) (tag *azcore.ETag, unsure bool, err error) {
	// Blocks have names in one space for all uploads to a key. All names of a blob must be of one length.
	mine := rand.Text()
	id := func(number int) string {
		return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%06d", mine, number))
	}
	var mu sync.Mutex // guards ids
	var ids []string
	if _, err := remote.Parts(ctx, first, body, func(ctx context.Context, number int, data []byte) error {
		_, err := s.try(ctx, func(ctx context.Context) error {
			_, err := client.StageBlock(ctx, id(number), streaming.NopCloser(bytes.NewReader(data)), nil)
			return err
		})
		mu.Lock()
		defer mu.Unlock()
		for len(ids) < number {
			ids = append(ids, id(len(ids)+1))
		}
		return err
	}); err != nil {
		return nil, false, err
	}
	unsure, err = s.try(ctx, func(ctx context.Context) error {
		out, err := client.CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{AccessConditions: on})
		tag = out.ETag
		return err
	})
	return tag, unsure, err
}

// Page implements remote.Driver.
func (s *Store) Page(ctx context.Context, whole, token string) (found []blob.Info, next string, err error) {
	opts := container.ListBlobsFlatOptions{Prefix: &whole}
	if token != "" {
		opts.Marker = &token
	}
	var page container.ListBlobsFlatResponse
	if _, err := s.try(ctx, func(ctx context.Context) error {
		page, err = s.client.NewListBlobsFlatPager(&opts).NextPage(ctx)
		return err
	}); err != nil {
		return nil, "", err
	}
	if page.Segment == nil {
		return nil, "", s.Failed(errors.New("the store's listing is not one"))
	}
	for _, b := range page.Segment.BlobItems {
		if b.Name == nil || b.Properties == nil || b.Properties.ContentLength == nil || b.Properties.LastModified == nil {
			continue
		}
		found = append(found, blob.Info{Key: *b.Name, Size: *b.Properties.ContentLength, Modified: *b.Properties.LastModified})
	}
	if page.NextMarker != nil {
		next = *page.NextMarker
	}
	return found, next, nil
}

// Remove implements remote.Driver.
func (s *Store) Remove(ctx context.Context, name string) error {
	_, err := s.try(ctx, func(ctx context.Context) error {
		_, err := s.client.NewBlobClient(name).Delete(ctx, nil)
		return err
	})
	return err
}

// try makes one request, and again as long as that can help. Errors are explained.
func (s *Store) try(ctx context.Context, do func(context.Context) error) (unsure bool, err error) {
	return s.Bucket.Try(ctx, judge, s.explain, func(ctx context.Context) error {
		if err := s.credential.ready(ctx); err != nil {
			return err
		}
		return do(ctx)
	})
}

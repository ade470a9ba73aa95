// Package gs is an object store in a bucket of Google Cloud Storage.
//
// The invariant: an object appears with the one request that completes it, under the condition that was given (a generation, which
// never comes again, is the ETag). A body of up to 8 MiB is one request; a longer one is a resumable upload in chunks of that
// size, of which one is in memory at a time. An upload that is not completed is no object; the service forgets it after a week.
//
// The client is the one of the service's JSON protocol that Google generates, and not the larger one built on it: that one brings a
// second protocol, takes up broken downloads without end, and makes the binary 5 MB larger.
package gs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/storage/v1"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/remote"
)

// pageSize is the number of objects in one answer to a listing; the service gives no more.
const pageSize = 1000

// Store is an object store in one folder of a bucket. Use Open.
type Store struct {
	remote.Bucket
	config config
	stall  time.Duration
	base   *http.Transport // trusts what the URL named when the store was opened
	client opening
}

// Fetch implements remote.Driver.
func (s *Store) Fetch(ctx context.Context, name string, unless blob.ETag) (*blob.Object, error) {
	seen, _ := generation(unless)
	answer, err := s.open(ctx, func(objects *storage.ObjectsService) *storage.ObjectsGetCall {
		call := objects.Get(s.Place.Bucket, name)
		if seen != 0 {
			call.IfGenerationNotMatch(seen)
		}
		return call
	})
	if err != nil {
		return nil, err
	}
	current, err := strconv.ParseInt(answer.Header.Get("X-Goog-Generation"), 10, 64)
	if err != nil || answer.ContentLength < 0 {
		answer.Body.Close()
		return nil, s.Failed(errors.New("the store tells no generation or no size"))
	}
	if current == seen { // a server that does not keep the condition
		answer.Body.Close()
		return nil, blob.ErrNotModified
	}
	size := answer.ContentLength
	body := remote.NewBody(ctx, answer.Body, size, func(ctx context.Context, offset int64) (io.ReadCloser, error) {
		rest, err := s.open(ctx, func(objects *storage.ObjectsService) *storage.ObjectsGetCall {
			call := objects.Get(s.Place.Bucket, name).Generation(current)
			call.Header().Set("Range", fmt.Sprintf("bytes=%d-", offset))
			return call
		})
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(rest.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", offset)) {
			rest.Body.Close()
			return nil, s.Failed(remote.ErrOtherPart)
		}
		return rest.Body, nil
	})
	modified, _ := http.ParseTime(answer.Header.Get("Last-Modified")) // a server that does not tell it leaves it zero
	return &blob.Object{Body: checked(body, answer.Header), ETag: tagOf(current), Size: size, Modified: modified}, nil
}

func (s *Store) open(ctx context.Context, get func(*storage.ObjectsService) *storage.ObjectsGetCall) (answer *http.Response, err error) {
	_, err = s.try(ctx, func(ctx context.Context, objects *storage.ObjectsService) error {
		answer, err = get(objects).Context(ctx).Download() //nolint:bodyclose // it is the reader's
		return err
	})
	return answer, err
}

func tagOf(generation int64) blob.ETag { return blob.ETag(strconv.FormatInt(generation, 10)) }

// generation reads an ETag; false for one that no object of this store can have.
func generation(tag blob.ETag) (int64, bool) {
	g, err := strconv.ParseInt(string(tag), 10, 64)
	return g, err == nil && g > 0 && tagOf(g) == tag
}

// Write implements remote.Driver.
func (s *Store) Write(ctx context.Context, name string, body io.Reader, cond blob.Condition) (tag blob.ETag, unsure bool, err error) {
	on, err := conditionOf(cond)
	if err != nil {
		return "", false, err
	}
	data, whole, err := remote.First(ctx, body)
	if err != nil {
		return "", false, err
	}
	var g int64
	if whole {
		unsure, err = s.try(ctx, func(ctx context.Context, objects *storage.ObjectsService) error {
			call := s.insert(objects, name, on, checksum(data))
			made, err := call.Media(bytes.NewReader(data), googleapi.ChunkSize(0), googleapi.ContentType(contentType)).Context(ctx).Do()
			if err == nil {
				g = made.Generation
			}
			return err
		})
	} else {
		g, unsure, err = s.upload(ctx, name, on, io.MultiReader(bytes.NewReader(data), body))
	}
	if err != nil {
		return "", unsure, err
	}
	return tagOf(g), unsure, nil
}

// conditionOf gives the generation that an object must have: 0 for none, nil for any.
func conditionOf(cond blob.Condition) (*int64, error) {
	tag, match := cond.Match()
	g, ok := generation(tag)
	switch {
	case cond == blob.Any:
		return nil, nil
	case cond == blob.IfAbsent:
		return new(int64), nil
	case match && ok:
		return &g, nil
	}
	return nil, blob.ErrPreconditionFailed // as Condition.Holds has it
}

// contentType keeps the client from guessing one by looking at the content.
const contentType = "application/octet-stream"

func (s *Store) insert(objects *storage.ObjectsService, name string, on *int64, crc32c string) *storage.ObjectsInsertCall {
	call := objects.Insert(s.Place.Bucket, &storage.Object{Name: name, ContentType: contentType, Crc32c: crc32c}).Fields("generation")
	if on != nil {
		call.IfGenerationMatch(*on)
	}
	return call
}

// upload makes an object of a body of any length. The client sends a chunk again when that can help, and never the whole.
func (s *Store) upload(ctx context.Context, name string, on *int64, body io.Reader) (g int64, unsure bool, err error) {
	objects, err := s.objects(ctx)
	if err != nil {
		return 0, false, remote.Ended(ctx, s.explain(err))
	}
	var failures int // since the last chunk that came through
	source := &remembering{Reader: body}
	made, err := s.insert(objects, name, on, "").
		Media(source, googleapi.ChunkSize(remote.PartSize), googleapi.ContentType(contentType),
			googleapi.ChunkRetryDeadline((tries+1)*s.stall), googleapi.EnableAutoChecksum()).
		ProgressUpdater(func(int64, int64) { failures = 0 }).
		WithRetry(nil, func(err error) bool {
			if err == nil || ctx.Err() != nil || judge(err) == remote.Final {
				return false
			}
			if failures++; failures > tries {
				return false
			}
			unsure = true
			return true
		}).
		Context(ctx).Do()
	switch {
	case source.err != nil:
		return 0, false, fmt.Errorf("read body: %w", source.err)
	case err != nil:
		return 0, unsure, remote.Ended(ctx, s.explain(err))
	}
	return made.Generation, unsure, nil
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

// Page implements remote.Driver.
func (s *Store) Page(ctx context.Context, whole, token string) (found []blob.Info, next string, err error) {
	var page *storage.Objects
	if _, err := s.try(ctx, func(ctx context.Context, objects *storage.ObjectsService) error {
		page, err = objects.List(s.Place.Bucket).Prefix(whole).PageToken(token).MaxResults(pageSize).
			Fields("items(name,size,updated)", "nextPageToken").Context(ctx).Do()
		return err
	}); err != nil {
		return nil, "", err
	}
	for _, o := range page.Items {
		modified, _ := time.Parse(time.RFC3339, o.Updated)
		found = append(found, blob.Info{Key: o.Name, Size: int64(o.Size), Modified: modified})
	}
	return found, page.NextPageToken, nil
}

// Remove implements remote.Driver.
func (s *Store) Remove(ctx context.Context, name string) error {
	_, err := s.try(ctx, func(ctx context.Context, objects *storage.ObjectsService) error {
		return objects.Delete(s.Place.Bucket, name).Context(ctx).Do()
	})
	return err
}

// try makes one request, and again as long as that can help. Errors are explained.
func (s *Store) try(ctx context.Context, do func(context.Context, *storage.ObjectsService) error) (unsure bool, err error) {
	return s.Bucket.Try(ctx, judge, s.explain, func(ctx context.Context) error {
		objects, err := s.objects(ctx)
		if err != nil {
			return err
		}
		return do(ctx, objects)
	})
}

package backupstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// inPart is a store of several places: a write of one file reaches one place only and fails, and a read finds that
// place unless it asks for all of them.
type inPart struct {
	*memory.Store
	file string
}

func (s inPart) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	tag, err := s.Store.Put(ctx, key, body, cond)
	if err == nil && strings.HasSuffix(key, "/"+s.file) {
		return "", errors.New("1 of 4 hosts has it")
	}
	return tag, err
}

func (s inPart) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if blob.IsWhole(ctx) && strings.HasSuffix(key, "/"+s.file) {
		return nil, blob.ErrNotFound
	}
	return s.Store.Get(ctx, key, o)
}

// A file that a part of the store has only was not written, though a read of that part finds it.
func TestReadBackIsWhole(t *testing.T) {
	req, _ := request(t, encodings[0])
	for _, file := range []string{fileClaim, backup.FileManifest, backup.FileMeta} {
		c := New(inPart{memory.New(), file})
		if b, err := c.Write(t.Context(), req, bytes.NewReader(snapshotOf(10<<10, 1))); err == nil {
			t.Errorf("%s reached one place only, and backup %s is told as taken", file, b.Name)
		}
	}
}

package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	stdhash "hash"
	"io"

	"etcdadm.io/internal/progress"
	"etcdadm.io/internal/regular"
)

// VerifyCopied is Verify for a file that may be a copied database, which no SHA-256
// follows: it holds every page and every record against each other instead. Entries that
// were in the log of the member alone are missing in such a file. A file that has its
// SHA-256 is held against that, too.
func VerifyCopied(ctx context.Context, path string) (Info, error) {
	info, err := Verify(ctx, path)
	if !errors.Is(err, ErrNoHash) {
		return info, err
	}
	if info, err = examine(ctx, path); err != nil {
		return Info{}, fmt.Errorf("verify the copied database %s: %w", path, err)
	}
	f, err := regular.Open(path)
	if err != nil {
		return Info{}, fmt.Errorf("verify the copied database: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Info{}, fmt.Errorf("verify the copied database %s: %w", path, err)
	}
	sum, err := hash(ctx, f, progress.Begin(ctx, st.Size(), progress.Bytes, "reading %s", path))
	if err != nil {
		return Info{}, fmt.Errorf("verify the copied database %s: %w", path, err)
	}
	info.Size, info.SHA256, info.Copied = st.Size(), hex.EncodeToString(sum), true
	info.FileSHA256 = info.SHA256
	return info, nil
}

// WithHash reads what r has, and then its SHA-256, as etcd ends a snapshot.
func WithHash(r io.Reader) io.Reader {
	h := sha256.New()
	return io.MultiReader(io.TeeReader(r, h), &trailing{of: h})
}

// trailing is the sum of what was read before.
type trailing struct {
	of   stdhash.Hash
	rest []byte
	made bool
}

func (t *trailing) Read(p []byte) (int, error) {
	if !t.made {
		t.rest, t.made = t.of.Sum(nil), true
	}
	if len(t.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

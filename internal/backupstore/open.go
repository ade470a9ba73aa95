package backupstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"filippo.io/age"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
)

// Snapshot is an open backup: the database followed by its SHA-256, as etcd sent
// them and as etcd's tools take them; of a V2 backup a tar of its directory.
//
// Read gives io.EOF only when all of it was checked: the object against the
// manifest, where there is one, the database against its own checksum. Until
// then nothing of it may be relied on. Errors wrap ErrDamaged, or are the
// store's. Read and Close are for one goroutine.
type Snapshot struct {
	Backup

	body      *download
	plain     io.ReadCloser
	inspector *inspector
	err       error
}

// Open begins to read a backup. The reader ends with ctx, and is closed by the
// caller. Errors: ErrNoBackup, ErrEncrypted, ErrDamaged.
func (c *Catalogue) Open(ctx context.Context, name backup.Name, ids Identities) (*Snapshot, error) {
	b, err := c.get(ctx, name)
	if err == nil {
		var s *Snapshot
		if s, err = c.open(ctx, b, ids); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("open backup %s: %w", name, err)
}

// open passes over what is wrong with the files beside the snapshot: in need,
// its own checksum is enough.
func (c *Catalogue) open(ctx context.Context, b Backup, ids Identities) (*Snapshot, error) {
	if b.File == "" {
		return nil, b.Err
	}
	body, err := c.download(ctx, key(b.Name, b.File))
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("%w: there is no %s", ErrDamaged, b.File)
	} else if err != nil {
		return nil, err
	}
	s := &Snapshot{Backup: b, body: body, inspector: newInspector()}
	s.inspector.tar = b.Meta.V2() // compression and manifest are all there is
	if s.plain, err = unpack(body, b.Encoding, ids); err != nil {
		err = s.explain(err)
		body.Close()
		return nil, err
	}
	return s, nil
}

func (s *Snapshot) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.plain.Read(p)
	s.inspector.see(p[:n])
	switch {
	case err == io.EOF: //nolint:errorlint // a wrapped one is no end
		if s.err = s.check(); s.err == nil {
			s.err = io.EOF
		}
	case err != nil:
		s.err = s.explain(err)
	default:
		return n, nil
	}
	return n, s.err
}

// check judges all that was read.
func (s *Snapshot) check() error {
	if err := s.body.drain(); err != nil {
		return err
	}
	content, err := s.inspector.finish()
	if err == nil && s.Manifest != nil {
		err = errors.Join(differ("object", s.Manifest.Stored, s.body.content()), differ("snapshot", s.Manifest.Snapshot, content))
	}
	return err
}

// differ compares with what a manifest says, if it does.
func differ(what string, want, got backup.Content) error {
	switch {
	case want.IsZero() || want == got:
		return nil
	case want.Size != got.Size:
		return fmt.Errorf("%w: the %s has %d bytes, the manifest says %d", ErrDamaged, what, got.Size, want.Size)
	}
	return fmt.Errorf("%w: the %s has SHA-256 %s, the manifest says %s", ErrDamaged, what, got.SHA256, want.SHA256)
}

// explain tells a transfer that broke from content that cannot be unpacked.
func (s *Snapshot) explain(err error) error {
	switch {
	case s.body.err != nil:
		return s.body.err
	case errors.Is(err, ErrEncrypted):
		return err
	}
	return fmt.Errorf("%w: unpack %s: %w", ErrDamaged, s.File, err)
}

// Close ends the reading. It can be called again.
func (s *Snapshot) Close() error {
	if s.err == nil {
		s.err = errors.New("read snapshot: closed")
	}
	err := s.body.Close() // first, so that nothing waits for more of it
	return errors.Join(s.plain.Close(), err)
}

// decryption tells a key that does not fit from a file that is no encrypted one.
func decryption(err error) error {
	if none := (*age.NoIdentityMatchError)(nil); errors.As(err, &none) {
		return fmt.Errorf("%w: to other keys than the ones given", ErrEncrypted)
	}
	return fmt.Errorf("decrypt: %w", err)
}

// Verify reads a backup anew and says what it found. Damage is in the
// verification and in the error, which wraps ErrDamaged; any other error says
// that the backup could not be looked at, and nothing about it. Of an encrypted
// one without its identities, only what lies in the store is compared with the
// manifest. Nothing is recorded; see Record.
func (c *Catalogue) Verify(ctx context.Context, name backup.Name, ids Identities) (backup.Verification, error) {
	began := time.Now()
	depth, revision, err := c.verify(ctx, name, ids)
	v := backup.Verification{At: began.UTC().Truncate(time.Second), Depth: depth, OK: err == nil, Revision: revision, Duration: time.Since(began).Round(time.Millisecond)}
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, ErrDamaged):
		v.Problem = OneLine(err.Error())
		return v, fmt.Errorf("verify backup %s: %w", name, err)
	}
	return backup.Verification{}, fmt.Errorf("verify backup %s: %w", name, err)
}

// verify tells how deep it looked, and the revision that the database goes to;
// zero: it could not be found.
func (c *Catalogue) verify(ctx context.Context, name backup.Name, ids Identities) (backup.Depth, int64, error) {
	b, err := c.get(ctx, name)
	switch {
	case err != nil:
		return "", 0, err
	case b.Err != nil && !errors.Is(b.Err, ErrDamaged) && !errors.Is(b.Err, backup.ErrNewer):
		return backup.DepthStored, 0, fmt.Errorf("%w: %w", ErrDamaged, b.Err)
	case b.Encoding.Encrypted && len(ids.keys) == 0 && b.Manifest != nil && !b.Manifest.Stored.IsZero():
		return backup.DepthStored, 0, c.verifyStored(ctx, b)
	}
	s, err := c.open(ctx, b, ids)
	if errors.Is(err, ErrEncrypted) && b.Manifest != nil && !b.Manifest.Stored.IsZero() {
		// A damaged header looks as if it were for other keys.
		if damage := c.verifyStored(ctx, b); damage != nil {
			return backup.DepthStored, 0, damage
		}
	}
	if err != nil {
		return backup.DepthContent, 0, err
	}
	defer s.Close()
	if b.Meta.V2() {
		return backup.DepthContent, 0, s.eachFile(func(_ string, _ int64, r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		})
	}
	if _, err = io.Copy(io.Discard, s); err != nil {
		return backup.DepthContent, 0, err
	}
	revision := s.inspector.revision()
	if b.Manifest != nil && revision < b.Manifest.Position.Revision {
		revision = 0 // see contentsOf
	}
	return backup.DepthContent, revision, nil
}

// verifyStored compares an object with the manifest without unpacking it.
func (c *Catalogue) verifyStored(ctx context.Context, b Backup) error {
	body, err := c.download(ctx, key(b.Name, b.File))
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("%w: there is no %s", ErrDamaged, b.File)
	} else if err != nil {
		return err
	}
	defer body.Close()
	if err := body.drain(); err != nil {
		return err
	}
	return differ("object", b.Manifest.Stored, body.content())
}

package backupstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/durable"
)

// Copy copies a backup into another store, under its name, byte for byte, where it
// is kept until a time at least; zero: as its writer said. What passes is checked as
// by Open, as far as the identities allow, and only what is good is listed there. Its
// verifications are of the copy that they looked at, so they stay behind; so do pins.
// A copy of it that is there already is not made again. Errors: ErrExists of another
// backup, or of an unfinished one, under that name; ErrNoBackup, ErrDamaged.
func (c *Catalogue) Copy(ctx context.Context, name backup.Name, to *Catalogue, ids Identities, until time.Time) (Backup, error) {
	b, err := c.copyTo(ctx, name, to, ids, until)
	if err != nil {
		return Backup{}, fmt.Errorf("copy backup %s: %w", name, err)
	}
	return b, nil
}

func (c *Catalogue) copyTo(ctx context.Context, name backup.Name, to *Catalogue, ids Identities, until time.Time) (Backup, error) {
	b, err := c.get(ctx, name)
	if err != nil {
		return Backup{}, err
	}
	if b.Err != nil {
		return Backup{}, b.Err
	}
	meta, _, err := c.read(ctx, key(name, backup.FileMeta))
	if err != nil {
		return Backup{}, err
	}
	w, err := to.take(ctx, name, b.File)
	if errors.Is(err, ErrExists) {
		return to.copied(ctx, b, until)
	}
	if err != nil {
		return Backup{}, err
	}
	m, err := c.transfer(ctx, b, w, ids)
	if err == nil {
		keepUntil(&m, until)
		err = w.publish(ctx, m.Encode(), meta)
	}
	if err != nil {
		w.tidy(ctx)
		return Backup{}, err
	}
	return to.get(ctx, name)
}

// copied is the copy of a backup that is there already.
func (c *Catalogue) copied(ctx context.Context, b Backup, until time.Time) (Backup, error) {
	there, err := c.get(ctx, b.Name)
	if err == nil && (there.Err != nil || there.Manifest == nil || b.Manifest == nil || b.Manifest.Stored.IsZero() || there.Manifest.Stored != b.Manifest.Stored) {
		err = errors.New("it is not known to be the same")
	}
	if err != nil {
		return Backup{}, fmt.Errorf("%w under that name: %w", ErrExists, err)
	}
	if !until.After(there.Manifest.KeepUntil) {
		return there, nil
	}
	if err := c.change(ctx, b.Name, func(m *backup.Manifest) { keepUntil(m, until) }); err != nil {
		return Backup{}, err
	}
	return c.get(ctx, b.Name)
}

func keepUntil(m *backup.Manifest, at time.Time) {
	if at.After(m.KeepUntil) {
		m.KeepUntil = at.UTC().Truncate(time.Second)
	}
}

// transfer streams a snapshot from one store to the other, and gives the
// manifest of the copy.
func (c *Catalogue) transfer(ctx context.Context, b Backup, w *writing, ids Identities) (backup.Manifest, error) {
	m := backup.Manifest{Reason: backup.ReasonCopied}
	if b.Manifest != nil {
		m = *b.Manifest
		m.Verifications, m.Pinned = nil, ""
	}
	source, err := c.passing(ctx, b, ids)
	if err != nil {
		return m, err
	}
	defer source.end()
	watch := newWatch(ctx)
	defer watch.end()
	_, err = w.c.store.Put(watch.ctx, key(w.name, w.file), uploaded{source, watch}, w.condition)
	if errors.Is(err, blob.ErrPreconditionFailed) {
		w.keep = true
	}
	if err != nil {
		return m, watch.explain(err)
	}
	if !source.passed {
		return m, errors.New("the store did not read the snapshot to its end")
	}
	m.File, m.Encoding, m.Stored = b.File, b.Encoding, source.body.content()
	if m.Snapshot.IsZero() {
		m.Snapshot = source.unpacked
	}
	if m.Contents.Revision == 0 && source.revision >= m.Position.Revision {
		m.Contents.Revision = source.revision
	}
	if m.EtcdVersion.IsZero() {
		m.EtcdVersion = b.Meta.EtcdVersion
	}
	return m, nil
}

// passing is an object on its way from store to store, unpacked and checked
// beside that. Its end is told only when it was good.
type passing struct {
	b        Backup
	body     *download
	tee      *io.PipeWriter // nil when it cannot be unpacked
	judged   chan struct{}  // closed when the two below are there
	verdict  error          // on what was unpacked
	unpacked backup.Content
	revision int64 // that the database goes to; zero: it could not be found
	passed   bool
	err      error
}

func (c *Catalogue) passing(ctx context.Context, b Backup, ids Identities) (*passing, error) {
	body, err := c.download(ctx, key(b.Name, b.File))
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("%w: there is no %s", ErrDamaged, b.File)
	} else if err != nil {
		return nil, err
	}
	p := &passing{b: b, body: body}
	if b.Encoding.Encrypted && len(ids.keys) == 0 {
		if b.Manifest == nil || b.Manifest.Stored.IsZero() {
			body.Close()
			return nil, fmt.Errorf("%w, and without a manifest its completeness cannot be checked", ErrEncrypted)
		}
		return p, nil
	}
	var r *io.PipeReader
	r, p.tee = io.Pipe()
	p.judged = make(chan struct{})
	go func() {
		defer close(p.judged)
		p.verdict = p.unpack(r, ids)
		// Whatever follows is not looked at, but must not wait for it.
		r.CloseWithError(errLooked)
	}()
	return p, nil
}

var errLooked = errors.New("seen enough")

func (p *passing) unpack(r io.Reader, ids Identities) error {
	plain, err := unpack(r, p.b.Encoding, ids)
	if err != nil {
		return err
	}
	defer plain.Close()
	i := newInspector()
	i.tar = p.b.Meta.V2()
	if _, err := io.Copy(i, plain); err != nil {
		return err
	}
	if p.unpacked, err = i.finish(); err != nil {
		return err
	}
	p.revision = i.revision()
	if p.b.Manifest != nil {
		return differ("snapshot", p.b.Manifest.Snapshot, p.unpacked)
	}
	return nil
}

func (p *passing) Read(buf []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.body.Read(buf)
	if p.tee != nil && n > 0 {
		if _, werr := p.tee.Write(buf[:n]); werr != nil && !errors.Is(werr, errLooked) {
			err = werr
		}
	}
	if err == io.EOF { //nolint:errorlint // a wrapped one is no end
		if err = p.judge(); err == nil {
			p.passed, err = true, io.EOF
		}
	}
	p.err = err
	return n, err
}

// judge is called once all has passed.
func (p *passing) judge() error {
	if p.tee != nil {
		p.tee.Close()
		<-p.judged
		err := p.verdict
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrEncrypted) {
			err = fmt.Errorf("%w: unpack %s: %w", ErrDamaged, p.b.File, err)
		}
		if err != nil {
			return err
		}
	}
	if p.b.Manifest != nil {
		return differ("object", p.b.Manifest.Stored, p.body.content())
	}
	return nil
}

// end stops the unpacking, if it was not judged, and waits for it.
func (p *passing) end() {
	if p.tee != nil {
		p.tee.CloseWithError(io.ErrClosedPipe)
		<-p.judged
	}
	p.body.Close()
}

// Download writes a backup's snapshot into a new file, unpacked and checked, as
// etcd's tools take it. The file is there only once it is whole; one that was
// there before is not touched, and gives fs.ErrExist.
func (c *Catalogue) Download(ctx context.Context, name backup.Name, file string, ids Identities, progress func(bytes int64)) (Backup, error) {
	return c.Fetch(ctx, name, file, ids, Durable, progress)
}

// Keeping says how durable a file is to be.
type Keeping int

// How durable a file is to be.
const (
	Durable     Keeping = iota // when it is there
	SyncedLater                // its owner syncs it; the disk begins to write at once
	ThrownAway                 // nobody looks for it after a crash
)

// Fetch is Download for those who need the file for a while only.
func (c *Catalogue) Fetch(ctx context.Context, name backup.Name, file string, ids Identities, keep Keeping, progress func(bytes int64)) (Backup, error) {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return Backup{}, fmt.Errorf("download backup %s to %s: %w", name, file, err)
	}
	s, err := c.Open(ctx, name, ids)
	if err != nil {
		return Backup{}, err
	}
	defer s.Close()
	if err := writeNew(file, s, keep, progress); err != nil {
		return Backup{}, fmt.Errorf("download backup %s to %s: %w", name, file, err)
	}
	return s.Backup, nil
}

// writeNew makes a file of a stream's bytes, whole or not at all.
func writeNew(file string, r io.Reader, keep Keeping, progress func(int64)) error {
	dir := filepath.Dir(file)
	f, err := os.CreateTemp(dir, "."+filepath.Base(file)+".*") // for its owner only
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone by now, or left by a failure
	defer f.Close()
	var out io.Writer = f
	if keep != ThrownAway {
		out = &durable.Early{File: f}
	}
	buf := make([]byte, copyBuffer)
	var size int64
	for {
		n, err := r.Read(buf)
		if _, werr := out.Write(buf[:n]); werr != nil {
			return werr
		}
		size += int64(n)
		if n > 0 && progress != nil {
			progress(size)
		}
		if err == io.EOF { //nolint:errorlint // a wrapped one is no end
			break
		} else if err != nil {
			return err
		}
	}
	if keep == Durable {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	// A link, unlike a rename, never replaces what is there.
	if err := os.Link(f.Name(), file); err != nil || keep != Durable {
		return err
	}
	return durable.SyncDir(dir)
}

package backupstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/progress"
)

const (
	// mostNames bounds how many names are tried for one backup. Half of their
	// digits are random, so the second try is rare and the third a sign of trouble.
	mostNames = 5
	// tidyTimeout bounds what is done after a failure or a cancellation.
	tidyTimeout = 10 * time.Second
)

// Request says what a backup is of, and how it is to be stored.
type Request struct {
	// Name is the backup's; empty: one that is free, of the time at which it begins. One that is not free is ErrExists.
	Name backup.Name
	// Meta is written as it is, but for a missing timestamp. Its EtcdVersion
	// must be there.
	Meta backup.Meta
	// Manifest has what the caller knows: cluster and member, host, reason,
	// position. What the writing itself shows is filled in.
	Manifest backup.Manifest
	// KeepFor is how long it is kept at least, whatever the policy; zero: as that has it.
	KeepFor time.Duration
	// Compression is Gzip if empty.
	Compression backup.Compression
	Recipients  Recipients
	// Progress, if not nil, is called with the bytes of the snapshot so far, by
	// one goroutine at a time.
	Progress func(bytes int64)
	// Count, if not nil, is asked for the number of keys at the revision that the
	// snapshot was found to go to; nil: it could not be told.
	Count func(ctx context.Context, revision int64) *int64
}

// Write makes a backup of a snapshot, as etcd's Snapshot call streams it, or of etcd 2,
// as the meta says, of a [Directory], which has no checksum of its own. It
// returns without an error only when the backup is whole and listed.
//
// A source that fails, ends early or does not agree with its checksum gives an
// error, and so does the end of ctx; nothing is listed then. The source's Read
// must end soon after ctx does. Errors: ErrDamaged about the source, ErrStalled,
// and what the source or the store says.
func (c *Catalogue) Write(ctx context.Context, req Request, source io.Reader) (Backup, error) {
	began := time.Now()
	w, err := c.newWriting(ctx, req, began)
	if err != nil {
		return Backup{}, fmt.Errorf("write backup: %w", err)
	}
	b, err := w.run(ctx, req, source, began)
	if err != nil {
		w.tidy(ctx)
		return Backup{}, fmt.Errorf("write backup %s: %w", w.name, err)
	}
	return b, nil
}

// writing is a backup that is under way, in a folder that is claimed.
type writing struct {
	c     *Catalogue
	name  backup.Name
	claim []byte
	// condition is that of all files: IfAbsent where the store can keep it.
	condition blob.Condition
	file      string
	// keep says that nothing is to be removed after a failure: the meta was sent
	// and may still arrive, or the folder may be another's.
	keep bool
}

func (c *Catalogue) newWriting(ctx context.Context, req Request, at time.Time) (*writing, error) {
	e, err := encoding(req)
	if err != nil {
		return nil, err
	}
	if req.Meta.EtcdVersion.IsZero() {
		return nil, errors.New("the version of etcd is missing")
	}
	if req.Name != "" {
		return c.take(ctx, req.Name, e.File())
	}
	for range mostNames {
		name, err := drawName(at)
		if err != nil {
			return nil, err
		}
		w, err := c.take(ctx, name, e.File())
		if !errors.Is(err, ErrExists) {
			return w, err
		}
	}
	return nil, fmt.Errorf("%w: %d names of one second were taken", ErrExists, mostNames)
}

func encoding(req Request) (backup.Encoding, error) {
	compression, err := backup.ParseCompression(string(req.Compression))
	return backup.Encoding{Compression: compression, Encrypted: len(req.Recipients.keys) > 0}, err
}

// drawName has the digits begin with the milliseconds, so that the newest of one
// second is the last by name, too; the rest is random.
func drawName(at time.Time) (backup.Name, error) {
	const amongOthers = 1000
	n, err := rand.Int(rand.Reader, big.NewInt(amongOthers))
	if err != nil {
		return "", err
	}
	return backup.NewName(at, at.Nanosecond()/int(time.Millisecond)*amongOthers+int(n.Int64()))
}

// take claims the folder of a name; ErrExists when it is not free. The claim
// alone is not enough: who had it before may have finished, and dropped it.
func (c *Catalogue) take(ctx context.Context, name backup.Name, file string) (*writing, error) {
	claim, err := json.Marshal(map[string]string{"nonce": rand.Text()})
	if err != nil {
		return nil, err
	}
	w := &writing{c: c, name: name, claim: claim, condition: blob.IfAbsent, file: file}
	_, err = w.put(ctx, fileClaim, claim)
	if errors.Is(err, blob.ErrUnsupported) {
		// The random digits have to do.
		w.condition = blob.Any
		_, err = w.put(ctx, fileClaim, claim)
	}
	switch {
	case errors.Is(err, blob.ErrPreconditionFailed):
		return nil, ErrExists
	case err != nil:
		return nil, fmt.Errorf("claim the name: %w", err)
	}
	f, err := c.folder(ctx, name)
	if err == nil && len(f.files) > 1 {
		err = ErrExists
	}
	if err != nil {
		w.file = "" // whose it is
		w.tidy(ctx)
		return nil, err
	}
	return w, nil
}

// put writes a small file of the folder. When the reply was lost, or refused
// because the first of two tries got through, the file that the store has decides:
// all of the store, because hosts that keep the backups need a majority of copies.
func (w *writing) put(ctx context.Context, file string, data []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, ObjectTimeout)
	defer cancel()
	_, err := blob.PutBytes(ctx, w.c.store, key(w.name, file), data, w.condition)
	if err == nil || errors.Is(err, blob.ErrUnsupported) || ctx.Err() != nil {
		return err == nil, err
	}
	got, _, readErr := w.c.read(blob.Whole(ctx), key(w.name, file))
	if readErr == nil && bytes.Equal(got, data) {
		return true, nil
	}
	return false, err
}

func (w *writing) run(ctx context.Context, req Request, source io.Reader, began time.Time) (Backup, error) {
	e, err := encoding(req)
	if err != nil {
		return Backup{}, err
	}
	m := req.Manifest
	m.File, m.Encoding, m.Recipients = w.file, e, req.Recipients.names
	m.EtcdVersion, m.Started = req.Meta.EtcdVersion, began.UTC().Truncate(time.Millisecond)
	if req.KeepFor > 0 {
		m.KeepUntil = began.UTC().Add(req.KeepFor).Truncate(time.Second)
	}
	m.Format = m.WrittenAs()
	revision := int64(0)
	m.Snapshot, m.Stored, revision, err = w.store(ctx, req, e, source)
	if err != nil {
		return Backup{}, err
	}
	m.Contents = contentsOf(ctx, req, revision)
	// Sub-second figures of a duration tell nothing but how it was measured.
	m.Duration = time.Since(began).Round(time.Millisecond)
	meta := req.Meta
	if meta.Timestamp.IsZero() {
		meta.Timestamp = began.UTC().Truncate(time.Second)
	}
	if err := w.publish(ctx, m.Encode(), meta.Format()); err != nil {
		return Backup{}, err
	}
	entry := Entry{Name: w.name, File: w.file, Encoding: e, Size: m.Stored.Size, Modified: time.Now(), HasManifest: true}
	return Backup{Entry: entry, Meta: meta, Manifest: &m}, nil
}

// contentsOf is what the snapshot that passed holds. A member can have been at a
// higher revision than that of any record, where a compaction took away the last
// one, which was a deletion: then only what it said is known.
func contentsOf(ctx context.Context, req Request, revision int64) (c backup.Contents) {
	if revision == 0 || revision < req.Manifest.Position.Revision {
		return c
	}
	if c.Revision = revision; req.Count != nil {
		c.Keys = req.Count(ctx, revision)
	}
	return c
}

// store streams the snapshot into its object, and tells the highest revision in
// it; zero: it could not be found.
func (w *writing) store(ctx context.Context, req Request, e backup.Encoding, source io.Reader) (snapshot, stored backup.Content, revision int64, err error) {
	watch := newWatch(ctx)
	defer watch.end()
	step := progress.Begin(ctx, 0, progress.Bytes, "writing %s to the store", key(w.name, w.file))
	p := pack(source, e, req.Recipients, req.Meta.V2(), func(n int64) {
		step.Set(n)
		if req.Progress != nil {
			req.Progress(n)
		}
	})
	var body io.Reader = p
	through := newCounted(p)
	if p.pipe != nil {
		body = through
	}
	_, err = w.c.store.Put(watch.ctx, key(w.name, w.file), uploaded{body, watch}, w.condition)
	p.end()
	if errors.Is(err, blob.ErrPreconditionFailed) {
		w.keep = true
	}
	if err == nil && p.content.IsZero() {
		err = errors.New("the store did not read the snapshot to its end")
	}
	if err != nil {
		return snapshot, stored, 0, watch.explain(err)
	}
	if p.pipe == nil {
		return p.content, p.content, p.seen.revision(), nil
	}
	return p.content, through.content(), p.seen.revision(), nil
}

// publish writes the manifest, and the meta last. The claim shows that nobody
// has cleaned up in between, after a pause that was long enough to be taken for
// a crash.
func (w *writing) publish(ctx context.Context, manifest, meta []byte) error {
	if _, err := w.put(ctx, backup.FileManifest, manifest); err != nil {
		return err
	}
	claim, _, err := w.c.read(ctx, key(w.name, fileClaim))
	if err != nil {
		return fmt.Errorf("look at the claim: %w", err)
	}
	if !bytes.Equal(claim, w.claim) {
		w.keep = true
		return errors.New("another has claimed the name since")
	}
	w.keep = true
	if _, err := w.put(ctx, backup.FileMeta, meta); err != nil {
		return w.settle(ctx, meta, err)
	}
	// It has served; whoever claims the name from now on finds the meta.
	w.delete(ctx, fileClaim)
	return nil
}

// settle finds out what became of the meta when its writing gave an error. A
// write whose reply was lost, or that came through while ctx ended, counts.
func (w *writing) settle(ctx context.Context, meta []byte, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
	defer cancel()
	got, _, err := w.c.read(blob.Whole(ctx), key(w.name, backup.FileMeta))
	switch {
	case err == nil && bytes.Equal(got, meta):
		w.delete(ctx, fileClaim)
		return nil
	case err == nil:
		return fmt.Errorf("%w: there is another meta", cause)
	case errors.Is(err, blob.ErrNotFound):
		return cause
	}
	return fmt.Errorf("%w (whether it is listed is not known: %w)", cause, err)
}

// tidy removes what was written, as far as the store lets it; the rest is
// CleanUp's.
func (w *writing) tidy(ctx context.Context) {
	if w.keep {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
	defer cancel()
	if w.file != "" {
		w.delete(ctx, w.file)
		w.delete(ctx, backup.FileManifest)
	}
	w.delete(ctx, fileClaim)
}

// delete is about tidiness only, so its error is nobody's.
func (w *writing) delete(ctx context.Context, file string) {
	ctx, cancel := context.WithTimeout(ctx, ObjectTimeout)
	defer cancel()
	_ = w.c.store.Delete(ctx, key(w.name, file))
}

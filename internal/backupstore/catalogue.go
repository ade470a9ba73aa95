package backupstore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/progress"
)

// Bounds of what is asked of a store.
const (
	// ObjectTimeout ends each call about a small object, and each listing of which
	// nothing more comes.
	ObjectTimeout = 30 * time.Second
	// ListMost ends a listing that comes on: the pages of some millions of objects
	// take that long. It is there for a store whose pages have no end.
	ListMost = 10 * time.Minute
	// StallAfter ends a transfer that the other side takes or brings no byte of.
	StallAfter = 5 * time.Minute

	maxFile  = 1 << 20 // bytes of a meta or manifest; they are a few kilobytes
	together = 8       // small objects under way at a time
)

// fileClaim is in the folder of a backup that is being written.
const fileClaim = "_etcdadm_claim"

// Sentinels that callers decide by.
var (
	// ErrNoBackup says that the store was reached and lists no such backup.
	ErrNoBackup = errors.New("no such backup")
	// ErrExists says that the store holds a backup of that name already.
	ErrExists = errors.New("backup exists")
	// ErrDamaged says that what the store holds, or the source sent, is not a
	// whole and unchanged snapshot. A store that could not be read is never
	// reported this way.
	ErrDamaged = errors.New("damaged")
	// ErrEncrypted says that a backup cannot be unpacked with the identities
	// that were given.
	ErrEncrypted = errors.New("encrypted")
	// ErrStalled says that a transfer stood still for StallAfter.
	ErrStalled = errors.New("transfer stalled")
)

// Catalogue is the backups of one store. Its methods may be called from several
// goroutines at once.
type Catalogue struct {
	store    blob.Store
	retained retained
	kept     sync.Map // backup.Name to the time until when it is kept, which is written once
}

// New gives the catalogue of a store. It reads nothing.
func New(store blob.Store) *Catalogue { return &Catalogue{store: store} }

// Entry is a backup as a listing shows it.
type Entry struct {
	Name backup.Name
	// File holds the snapshot, under a name that tells its Encoding; both are
	// empty when the folder has a meta and no snapshot.
	File     string
	Encoding backup.Encoding
	Size     int64     // bytes in the store
	Modified time.Time // by the store's clock
	// HasManifest is false for backups of other programs.
	HasManifest bool
}

// Listing is what lies in a store, as far as it is about backups.
type Listing struct {
	// Backups are sorted, newest first.
	Backups []Entry
	// Unfinished are folders without a meta: being written, being removed, or
	// left by one who did not come to an end.
	Unfinished []Unfinished
	// Odd are folders that have a meta and whose names are no backup's. The
	// predecessor lists them too; nothing here touches them.
	Odd []string
}

// Unfinished is a folder that is not a backup, yet or any more.
type Unfinished struct {
	Name  backup.Name
	Files []string
	// Modified is the latest time of any of them, by the store's clock.
	Modified time.Time
}

// Backup is everything that the store says of one.
type Backup struct {
	Entry
	Meta     backup.Meta
	Manifest *backup.Manifest // nil for backups of other programs
	// Err says what of it could not be read or understood.
	Err error
}

// Version is the release that wrote the database, as any of its files says;
// zero: none does.
func (b Backup) Version() cluster.Version {
	if b.Meta.EtcdVersion.IsZero() && b.Manifest != nil {
		return b.Manifest.EtcdVersion
	}
	return b.Meta.EtcdVersion
}

// Doubt says, in a line, what speaks against relying on the backup: what is wrong
// with the files beside the snapshot, or what the last look at it found. Empty:
// nothing that is known. It may be good all the same.
func (b Backup) Doubt() string {
	if b.Err != nil {
		return OneLine(b.Err.Error())
	}
	if m := b.Manifest; m != nil && len(m.Verifications) > 0 {
		if v := m.Verifications[len(m.Verifications)-1]; !v.OK {
			return OneLine(fmt.Sprintf("the last look at it, on %s, found: %s", v.At.UTC().Format(time.RFC3339), v.Problem))
		}
	}
	return ""
}

// Proven reports whether the last look at the backup ended well, and its snapshot
// is still there, as long as it was.
func (b Backup) Proven() bool { return b.Manifest.Proven() && !errors.Is(b.Err, ErrDamaged) }

// List gives the backups, newest first, by one listing of the store.
func (c *Catalogue) List(ctx context.Context) ([]Entry, error) {
	l, err := c.Scan(ctx)
	return l.Backups, err
}

// Scan is List with all else that lies about, by one listing of the store.
func (c *Catalogue) Scan(ctx context.Context) (Listing, error) {
	folders, err := c.folders(ctx, "")
	if err != nil {
		return Listing{}, fmt.Errorf("list backups: %w", err)
	}
	var l Listing
	for _, f := range folders {
		name, err := backup.ParseName(f.name)
		switch {
		case err != nil && f.has(backup.FileMeta):
			l.Odd = append(l.Odd, f.name)
		case err != nil: // control, discovery, and what others keep here
		case f.has(backup.FileMeta):
			l.Backups = append(l.Backups, f.entry(name))
		default:
			l.Unfinished = append(l.Unfinished, f.unfinished(name))
		}
	}
	slices.SortFunc(l.Backups, func(a, b Entry) int { return b.Name.Compare(a.Name) })
	return l, nil
}

// Get gives one backup with its meta and manifest. Errors: ErrNoBackup, and what
// the store says; what is wrong with the backup's files is in its Err.
func (c *Catalogue) Get(ctx context.Context, name backup.Name) (Backup, error) {
	b, err := c.get(ctx, name)
	if err != nil {
		return Backup{}, fmt.Errorf("read backup %s: %w", name, err)
	}
	return b, nil
}

func (c *Catalogue) get(ctx context.Context, name backup.Name) (Backup, error) {
	f, err := c.folder(ctx, name)
	if err != nil {
		return Backup{}, err
	}
	if !f.has(backup.FileMeta) {
		return Backup{}, f.noBackup(name)
	}
	return c.describe(ctx, f.entry(name))
}

// Describe reads the metas and manifests of entries, several at a time, and
// keeps their order. Those that were removed since they were listed are left
// out; what is wrong with one is in its Err. The error is the store's.
func (c *Catalogue) Describe(ctx context.Context, entries []Entry) ([]Backup, error) {
	out := make([]Backup, len(entries))
	step := progress.Begin(ctx, int64(len(entries)), progress.Backups, "reading what is kept beside each backup")
	err := each(ctx, len(entries), func(ctx context.Context, i int) error {
		defer step.Add(1)
		b, err := c.describe(ctx, entries[i])
		if errors.Is(err, ErrNoBackup) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read backup %s: %w", entries[i].Name, err)
		}
		out[i] = b
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(out, func(b Backup) bool { return b.Name == "" }), nil
}

// describe reads the files beside a snapshot.
func (c *Catalogue) describe(ctx context.Context, e Entry) (Backup, error) {
	b := Backup{Entry: e}
	if e.File == "" {
		b.Err = fmt.Errorf("%w: there is no snapshot in its folder", ErrDamaged)
	}
	data, _, err := c.read(ctx, key(e.Name, backup.FileMeta))
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return Backup{}, ErrNoBackup
	case err != nil && !errors.Is(err, blob.ErrTooLarge):
		return Backup{}, err
	case err == nil:
		b.Meta, err = backup.ParseMeta(data)
	}
	b.Err = errors.Join(b.Err, err)
	if !e.HasManifest {
		return b, nil
	}
	m, _, err := c.manifest(ctx, e.Name)
	switch {
	case errors.Is(err, blob.ErrNotFound): // removed since it was listed
	case errors.Is(err, backup.ErrMalformed), errors.Is(err, blob.ErrTooLarge):
		b.Err = errors.Join(b.Err, err)
	case err != nil:
		return Backup{}, err
	default:
		b.Manifest = &m
		switch {
		case m.File == "" || b.File == "": // or there is none at all, whatever the manifest says
		case m.File != b.File:
			b.File, b.Encoding, b.Size = m.File, m.Encoding, m.Stored.Size // there is another one in its folder
		case !m.Stored.IsZero() && m.Stored.Size != b.Size:
			b.Err = errors.Join(b.Err, fmt.Errorf("%w: %s has %d bytes in the store, the manifest says %d", ErrDamaged, b.File, b.Size, m.Stored.Size))
		}
	}
	return b, nil
}

func (c *Catalogue) manifest(ctx context.Context, name backup.Name) (backup.Manifest, blob.ETag, error) {
	data, tag, err := c.read(ctx, key(name, backup.FileManifest))
	if err != nil {
		return backup.Manifest{}, "", err
	}
	m, err := backup.ParseManifest(data)
	return m, tag, err
}

func (c *Catalogue) read(ctx context.Context, key string) ([]byte, blob.ETag, error) {
	ctx, cancel := context.WithTimeout(ctx, ObjectTimeout)
	defer cancel()
	return blob.ReadAll(ctx, c.store, key, maxFile)
}

// folder is one directory right below the store's base.
type folder struct {
	name  string
	files []blob.Info // Key is the file's name
}

// folders lists the directories that have files, sorted by name.
func (c *Catalogue) folders(ctx context.Context, prefix string) ([]folder, error) {
	infos, err := listAll(ctx, c.store, prefix)
	if err != nil {
		return nil, err
	}
	var out []folder
	for _, i := range infos {
		name, file, ok := strings.Cut(i.Key, "/")
		if !ok || strings.Contains(file, "/") {
			continue
		}
		if n := len(out); n == 0 || out[n-1].name != name {
			out = append(out, folder{name: name})
		}
		i.Key = file
		last := &out[len(out)-1]
		last.files = append(last.files, i)
	}
	return out, nil
}

// folder lists the folder of one name; one that is not there is empty.
func (c *Catalogue) folder(ctx context.Context, name backup.Name) (folder, error) {
	if _, err := backup.ParseName(string(name)); err != nil {
		return folder{}, err
	}
	folders, err := c.folders(ctx, string(name)+"/")
	if err != nil || len(folders) == 0 {
		return folder{name: string(name)}, err
	}
	return folders[0], nil
}

func (f folder) has(file string) bool {
	return slices.ContainsFunc(f.files, func(i blob.Info) bool { return i.Key == file })
}

func (f folder) names() []string {
	var out []string
	for _, i := range f.files {
		out = append(out, i.Key)
	}
	return out
}

func (f folder) entry(name backup.Name) Entry {
	e := Entry{Name: name, HasManifest: f.has(backup.FileManifest)}
	file, ok := backup.PreferredFile(f.names())
	if !ok {
		return e
	}
	e.File = file
	e.Encoding, _ = backup.EncodingOf(file)
	for _, i := range f.files {
		if i.Key == file {
			e.Size, e.Modified = i.Size, i.Modified
		}
	}
	return e
}

func (f folder) unfinished(name backup.Name) Unfinished {
	u := Unfinished{Name: name, Files: f.names()}
	for _, i := range f.files {
		if i.Modified.After(u.Modified) {
			u.Modified = i.Modified
		}
	}
	return u
}

// key is where a file of a backup lies.
func key(name backup.Name, file string) string { return path.Join(string(name), file) }

// each does something for every index, several at a time, and gives the first
// error, after which nothing new is begun.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var all sync.WaitGroup
	for range min(n, together) {
		all.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}

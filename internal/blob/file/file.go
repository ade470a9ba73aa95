// Package file is an object store in a directory, shared by several processes on one machine (and by several machines where the
// file system keeps flock across them, as NFS does on Linux).
//
// A key is the path of a file below the directory, so that people and the predecessor's tools can read and write it too. The
// invariant: an object's file is only ever replaced by a rename, of a file that was complete and synced; and every change by
// this package is made while holding the lock on the file .lock in the root. So a reader needs no lock and sees one whole
// write, and a condition is judged and acted on with nobody in between.
//
// Files of others that are written in place are read as they are, perhaps half written; their readers have to bear with it.
//
// Objects hold what the cluster holds, so they are created for their owner only (0600, directories 0700). Symbolic links
// that stay inside the store are followed by Get, but not listed; the root itself may be one.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/blob"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// Options say how a store is opened.
type Options struct {
	// Create makes a missing directory, with its parents, as the predecessor does on its first write. Daemons and whatever
	// founds a cluster set it; commands that look at an existing store do not, so that a mistyped path is told and not made.
	// A directory that vanishes later is never made again: it may be a disk that is not mounted, and an empty store in its
	// place would hide the real one.
	Create bool
	// ReadOnly accepts a directory that cannot be written. Writes then fail.
	ReadOnly bool
}

// Store is an object store in a directory. Use Open.
type Store struct {
	dir string // absolute
	// turn is held by the goroutine that takes the lock file, so that those of one process queue up and do not poll.
	turn  chan struct{}
	swept atomic.Bool   // left-over temporary files were looked for
	calls chan struct{} // one token for each call whose files are being looked at
	open  func(dir string) (*os.Root, error)
	sync  syncer
}

// Open opens the store in an absolute directory. Its errors are *blob.Error with a hint. It starts nothing and need not be closed.
// Calls end with their contexts, also where the file system does not answer.
func Open(ctx context.Context, dir string, opts Options) (*Store, error) {
	if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		return nil, openError(dir, errors.New("the directory is not an absolute path"), "write it from the root on, as file:///var/backups/etcd")
	}
	dir = filepath.Clean(dir)
	if dir == "/" {
		return nil, openError(dir, errors.New("the root directory can not be a store"), "name a directory of its own, as file:///var/backups/etcd")
	}
	s := &Store{dir: dir, turn: make(chan struct{}, 1), calls: make(chan struct{}, maxCalls), open: os.OpenRoot, sync: (*os.File).Sync}
	return within(ctx, s, func() (*Store, error) { return s, s.look(opts) }, func(*Store) {})
}

// ErrNoDirectory is in the chain of what says that a store's directory is not there.
var ErrNoDirectory = errors.New("the directory does not exist")

// look makes sure of the directory.
func (s *Store) look(opts Options) error {
	dir := s.dir
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) && opts.Create && !opts.ReadOnly {
		if err := s.sync.makeDirectory(dir); err != nil {
			return openError(dir, fmt.Errorf("create the directory: %w", bare(err)), "create it by hand, or check who may write to its parent")
		}
		info, err = os.Stat(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing("open", dir)
	case err != nil:
		return openError(dir, bare(err), "check that this user may reach the directory")
	case !info.IsDir():
		return openError(dir, errors.New("it is not a directory"), "name the directory that holds the backups")
	}
	need := uint32(unix.R_OK | unix.X_OK)
	if !opts.ReadOnly {
		need |= unix.W_OK
	}
	if err := unix.Access(dir, need); err != nil {
		verb := "write to"
		if opts.ReadOnly {
			verb = "read"
		}
		return openError(dir, fmt.Errorf("may not %s the directory: %w", verb, err), "run as its owner, or change its owner or its mode; on a file system mounted read-only, mount it for writing")
	}
	if opts.ReadOnly {
		return nil
	}
	if err := s.sync.madeByAnother(dir); err != nil {
		return openError(dir, fmt.Errorf("make its name durable: %w", bare(err)), "look at the disk that it is on")
	}
	return nil
}

func openError(dir string, err error, advice string) error {
	return &blob.Error{Op: "open", Object: "store " + URL(dir), Err: err, Advice: advice}
}

// missing is the error for a store whose directory is not there. It is not blob.ErrNotFound: nothing is known about its objects.
func missing(op, dir string) error {
	return &blob.Error{
		Op: op, Object: "store " + URL(dir), Err: ErrNoDirectory,
		Advice: "check the path and that its disk is mounted; a new store is made by `mkdir -p " + dir + "`",
	}
}

// URL gives the store URL of a directory.
func URL(dir string) string { return "file://" + dir }

// String gives the store's URL.
func (s *Store) String() string { return URL(s.dir) }

// Get implements blob.Store.
func (s *Store) Get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	object, err := within(ctx, s, func() (*blob.Object, error) { return s.get(ctx, key, opts) }, func(o *blob.Object) { o.Body.Close() })
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	return object, nil
}

func (s *Store) get(ctx context.Context, key string, opts blob.GetOptions) (*blob.Object, error) {
	if err := validate(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	object, err := open(root, key)
	if err != nil {
		return nil, err
	}
	if opts.IfNoneMatch != "" && opts.IfNoneMatch == object.ETag {
		object.Body.Close()
		return nil, blob.ErrNotModified
	}
	object.Body = &body{ctx: ctx, s: s, file: object.Body}
	return object, nil
}

// Put implements blob.Store. The body is written beside the objects first, without the lock, so that a long upload holds up nobody.
// A read of the body that is under way when ctx ends is waited for, see source.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, cond blob.Condition) (blob.ETag, error) {
	from := &source{ctx: ctx, from: r}
	tag, err := within(ctx, s, func() (blob.ETag, error) { return s.put(ctx, key, from, cond) }, func(blob.ETag) {})
	from.release()
	if err != nil {
		return "", fmt.Errorf("put %q: %w", key, s.full(err))
	}
	return tag, nil
}

// full says what is missing where a file system takes no more: the system has the same
// words for one without room and for one without inodes.
func (s *Store) full(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return &blob.Error{Op: "write to", Object: "store " + s.String(), Err: err, Advice: "make room there; df shows whether it is room that is missing, and df -i whether it is inodes"}
}

func (s *Store) put(ctx context.Context, key string, r io.Reader, cond blob.Condition) (blob.ETag, error) {
	if err := validate(key); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	root, err := s.root()
	if err != nil {
		return "", err
	}
	defer root.Close()
	if cond != blob.Any {
		// A condition that does not hold now need not wait for the body or for the lock.
		if err := check(root, key, cond); err != nil {
			return "", err
		}
	}
	t, err := newTemporary(root, s.sync)
	if err != nil {
		return "", err
	}
	defer t.discard()
	if err := t.fill(r); err != nil {
		return "", err
	}
	unlock, err := s.lock(ctx, root)
	if err != nil {
		return "", err
	}
	defer unlock()
	if !s.swept.Swap(true) {
		sweep(root)
	}
	if err := check(root, key, cond); err != nil {
		return "", err
	}
	return t.commit(ctx, key)
}

// Delete implements blob.Store. It also removes the directories that it leaves empty, up to the root.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := within(ctx, s, func() (struct{}, error) { return struct{}{}, s.remove(ctx, key) }, func(struct{}) {})
	if err != nil {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	return nil
}

func (s *Store) remove(ctx context.Context, key string) error {
	if err := validate(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	root, err := s.root()
	if err != nil {
		return err
	}
	defer root.Close()
	unlock, err := s.lock(ctx, root)
	if err != nil {
		return err
	}
	defer unlock()
	info, err := root.Lstat(key)
	if absent(err) || err == nil && info.IsDir() {
		return nil
	} else if err != nil {
		return bare(err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := root.Remove(key); err != nil && !absent(err) {
		return bare(err)
	}
	dir := filepath.Dir(key)
	for dir != "." {
		// Only an empty directory can be removed, so whoever writes into it at this moment keeps it.
		if err := root.Remove(dir); err != nil && !absent(err) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return s.sync.directory(root, dir)
}

// List implements blob.Store. What could not be the file of an object is left out: other kinds of files, symbolic links, names
// that no key can have, and this package's own files.
func (s *Store) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	infos, err := within(ctx, s, func() ([]blob.Info, error) { return s.list(ctx, prefix) }, func([]blob.Info) {})
	if err != nil {
		return nil, blob.ListError(s, prefix, err)
	}
	return infos, nil
}

func (s *Store) list(ctx context.Context, prefix string) ([]blob.Info, error) {
	if err := blob.ValidatePrefix(prefix); err != nil {
		return nil, err
	}
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	start := "."
	if i := strings.LastIndexByte(prefix, '/'); i > 0 {
		start = prefix[:i]
		if reached, err := plainly(root, start); !reached || err != nil {
			return nil, err
		}
	}
	var infos []blob.Info
	err = fs.WalkDir(root.FS(), start, func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if absent(err) {
			return nil // gone since its directory was read, or no such folder
		} else if err != nil {
			return bare(err)
		}
		if entry.IsDir() {
			if path != "." && !strings.HasPrefix(path+"/", prefix) && !strings.HasPrefix(prefix, path+"/") {
				return fs.SkipDir
			}
			blob.Heard(ctx, len(infos))
			return nil
		}
		if !strings.HasPrefix(path, prefix) || !entry.Type().IsRegular() || validate(path) != nil {
			return nil
		}
		info, err := entry.Info()
		if absent(err) {
			return nil
		} else if err != nil {
			return bare(err)
		}
		infos = append(infos, blob.Info{Key: path, Size: info.Size(), Modified: info.ModTime()})
		blob.Heard(ctx, len(infos))
		return nil
	})
	if err != nil {
		return nil, err
	}
	// The walk sorts within each directory, which is not the order of whole keys: "a-b" comes before "a/b".
	slices.SortFunc(infos, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
	return infos, nil
}

// plainly tells whether a directory is there and is reached through no symbolic link, as a walk from the root would reach it.
func plainly(root *os.Root, dir string) (bool, error) {
	for i := 0; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		info, err := root.Lstat(dir[:i])
		if absent(err) || err == nil && !info.IsDir() {
			return false, nil
		} else if err != nil {
			return false, bare(err)
		}
	}
	return true, nil
}

// root opens the directory anew for every call, because what is mounted there can change while a daemon runs. Paths taken from
// it can not lead outside, whatever symbolic links there are.
func (s *Store) root() (*os.Root, error) {
	root, err := s.open(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing("reach", s.dir)
	} else if err != nil {
		return nil, &blob.Error{Op: "reach", Object: "store " + s.String(), Err: bare(err), Advice: "check that this user may reach the directory"}
	}
	return root, nil
}

// validate refuses, beyond what no store takes, the names that this package uses itself.
func validate(key string) error {
	if err := blob.ValidateKey(key); err != nil {
		return err
	}
	first, _, _ := strings.Cut(key, "/")
	if first == lockName || strings.HasPrefix(first, tempPrefix) {
		return fmt.Errorf("%w %q: the name is used by the store itself", blob.ErrInvalidKey, key)
	}
	return nil
}

// absent tells whether an error says that there is no file of that name; also when a part of the path is a file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// bare takes the operation and path off an error of package os, for a sentence that names them already.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}

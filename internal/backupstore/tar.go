package backupstore

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/snapshot"
)

// A backup of etcd 2 is a tar of the directory that `etcdctl backup` makes, with the
// files member/snap/*.snap and member/wal/*.wal, and no entries for directories.
const (
	snapOfV2 = "member/snap/"
	walOfV2  = "member/wal/"
)

// Directory reads a backup directory of etcd 2 as a tar. It is closed by the caller.
func Directory(dir string) (io.ReadCloser, error) {
	var files []string
	for _, pattern := range []string{snapOfV2 + "*.snap", walOfV2 + "*.wal"} {
		found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: %s is no backup directory of etcd 2", ErrDamaged, dir)
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeTar(w, dir, files)) }()
	return r, nil
}

func writeTar(w io.Writer, dir string, files []string) error {
	t := tar.NewWriter(w)
	for _, file := range files {
		if err := addFile(t, dir, file); err != nil {
			return fmt.Errorf("pack the backup directory: %w", err)
		}
	}
	return t.Close()
}

func addFile(t *tar.Writer, dir, file string) error {
	name, err := filepath.Rel(dir, file)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	err = t.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: info.Size(), ModTime: info.ModTime().Truncate(time.Second)})
	if err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

// spareV2 is what is left on the disk beside a file that is unpacked, in bytes, for a
// member that runs there.
const spareV2 = 64 << 20

// ErrNotV2 says that a backup is not one of etcd 2.
var ErrNotV2 = errors.New("it is no backup of etcd 2")

// FetchDirectory brings a backup of etcd 2 to a directory that is made. What is in
// it was held against the manifest, where there is one, and against its own checksums.
// After an error nothing is there. Errors: those of Open, ErrNotV2, ErrDamaged, and
// [snapshot.ErrNoSpace]: what is known by then of the room that is needed is told for
// times as much data as was unpacked, since more is made of it afterwards.
func (c *Catalogue) FetchDirectory(ctx context.Context, name backup.Name, dir string, ids Identities, times int64, progress func(bytes int64)) (Backup, error) {
	s, err := c.Open(ctx, name, ids)
	if err != nil {
		return Backup{}, err
	}
	defer s.Close()
	if err := s.unpackTo(dir, times, progress); err != nil {
		return Backup{}, fmt.Errorf("unpack backup %s to %s: %w", name, dir, err)
	}
	return s.Backup, nil
}

func (s *Snapshot) unpackTo(dir string, times int64, progress func(int64)) (err error) {
	if !s.Meta.V2() {
		return ErrNotV2
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir)) // of this very call
		}
	}()
	for _, part := range []string{snapOfV2, walOfV2} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(part)), 0o700); err != nil {
			return err
		}
	}
	var size int64
	err = s.eachFile(func(name string, long int64, r io.Reader) error {
		// Nothing but the tar says how large it is.
		if err := snapshot.NeedSpace(dir, long+spareV2, size+(times-1)*(size+long)); err != nil {
			return err
		}
		n, err := extract(filepath.Join(dir, filepath.FromSlash(name)), r)
		if size += n; progress != nil {
			progress(size)
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = snapshot.VerifyV2(dir)
	return damage(err)
}

// damage tells what snapshot calls damaged in the words of this package.
func damage(err error) error {
	if errors.Is(err, snapshot.ErrDamaged) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// eachFile calls visit for the files of etcd's log and raft snapshots, with how many
// bytes each has, and reads all to the end. Others, which nobody needs, are passed over. A tar that is cut, has a
// file that nobody packs, or names one twice that visit makes, is [ErrDamaged].
func (s *Snapshot) eachFile(visit func(name string, long int64, r io.Reader) error) error {
	files := 0
	for t := tar.NewReader(s); ; {
		head, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			if files == 0 {
				return fmt.Errorf("%w: the tar holds no log of etcd 2", ErrDamaged)
			}
			_, err := io.Copy(io.Discard, s)
			return err
		case err != nil && s.err != nil && !errors.Is(s.err, io.EOF):
			return s.err
		case err != nil:
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		name, ok := fileOfV2(head)
		if !ok {
			continue
		}
		if files++; head.Size > mostV2 || hasHoles(head) {
			return fmt.Errorf("%w: %s has holes, or %d bytes", ErrDamaged, name, head.Size)
		}
		if err := visit(name, head.Size, t); err != nil {
			if s.err != nil && !errors.Is(s.err, io.EOF) {
				return s.err
			}
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, fs.ErrExist) { // cut within a file, or one that comes twice
				err = fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
			}
			return err
		}
	}
}

// mostV2 is more than a file of etcd 2 can have, bytes: sums of such sizes stay numbers.
const mostV2 = 1 << 50

// hasHoles: a file of a few bytes would be as many zeros as it says, without an end.
// Nobody who packs a backup makes one. Those of the older form are no regular files.
func hasHoles(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// fileOfV2 is the path of a file that etcd 2 begins with, below its data directory.
func fileOfV2(h *tar.Header) (string, bool) {
	name := path.Clean(h.Name)
	if h.Typeflag != tar.TypeReg || strings.HasPrefix(path.Base(name), ".") {
		return "", false
	}
	dir, ext := path.Dir(name)+"/", path.Ext(name)
	return name, dir == snapOfV2 && ext == ".snap" || dir == walOfV2 && ext == ".wal"
}

func extract(file string, r io.Reader) (int64, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, r)
	return n, errors.Join(err, f.Close())
}

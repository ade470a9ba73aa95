package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"go.etcd.io/bbolt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/progress"
	"etcdadm.io/internal/regular"
)

// etcd appends the SHA-256 of the database to a snapshot, and a database is a
// whole number of disk sectors long. Source: hasChecksum in etcdutl/snapshot.
const sector = 512

// ErrNoHash says that a file does not end with its SHA-256: it is a copy of a
// database, or the beginning of a snapshot.
var ErrNoHash = errors.New("it carries no SHA-256: it is the beginning of a snapshot, or a copied database")

// PackedError says that a file is wrapped in something. It is [ErrDamaged] to who asked
// for a snapshot.
type PackedError struct{ In string }

func (e *PackedError) Error() string { return "it is packed in " + e.In + ", and no snapshot as it is" }

// Is implements errors.Is.
func (e *PackedError) Is(target error) bool { return target == ErrDamaged }

// packings are the beginnings of files that may hold a snapshot. A database begins with
// the number of its first page, which is zero.
var packings = map[string]string{
	"\x1f\x8b": "gzip", "\x28\xb5\x2f\xfd": "zstd", "age-encryption.org/": "age's encryption",
	"PK\x03\x04": "zip", "BZh": "bzip2", "\xfd7zXZ\x00": "xz", "7z\xbc\xaf\x27\x1c": "7-Zip", "\x04\x22\x4d\x18": "lz4",
	"Salted__": "openssl's encryption", "-----BEGIN PGP": "PGP's encryption",
}

// tarMark is in a tar's first header, at tarAt (POSIX pax and ustar, GNU tar).
const (
	tarMark = "ustar"
	tarAt   = 257
)

// Info is what is in a snapshot.
type Info struct {
	Size   int64  `json:"size"`   // of the database, bytes, without the hash
	SHA256 string `json:"sha256"` // of the database, hexadecimal
	// FileSHA256 is of the whole file, as sha256sum prints it and the manifest of a backup
	// has it.
	FileSHA256 string `json:"fileSHA256"`
	// Copied: the file has no SHA-256 of its own, so its pages and records alone were checked.
	Copied bool `json:"copied,omitempty"`

	Revision        int64 `json:"revision"`
	CompactRevision int64 `json:"compactRevision"` // what etcd will answer; -1: never compacted
	// Compacting: a compaction was under way; etcd finishes it at its start.
	Compacting bool  `json:"compacting,omitempty"`
	Records    int64 `json:"records"` // revisions of keys
	Keys       int64 `json:"keys"`    // that have a value; -1: too many to tell, see Compacting
	// HashKV is what etcd answers at Revision (releases after 3.5.15 and 3.4.33).
	// It is not told when more than two million keys were written since
	// the last compaction.
	HashKV      uint32 `json:"hashKV"`
	HashKVTold  bool   `json:"hashKVTold"`
	Leases      int    `json:"leases"`
	Alarms      int    `json:"alarms,omitempty"`
	AuthEnabled bool   `json:"authEnabled"`
	Users       int    `json:"users,omitempty"`
	Roles       int    `json:"roles,omitempty"`

	ConsistentIndex uint64           `json:"consistentIndex"` // of the last entry that was applied
	Term            uint64           `json:"term,omitempty"`  // of that entry; 0 before 3.5
	StorageVersion  string           `json:"storageVersion,omitempty"`
	ClusterVersion  string           `json:"clusterVersion,omitempty"`
	Members         []cluster.Member `json:"members,omitempty"` // sorted by ID; a restore replaces them
}

// Verify reads a snapshot from its beginning to its end: the hash first, then
// everything in it. Memory does not grow with the database. A file that
// cannot be trusted is [ErrDamaged] or [ErrNoHash].
func Verify(ctx context.Context, path string) (Info, error) {
	sum, file, err := verifyHash(ctx, path)
	if err != nil {
		return Info{}, err
	}
	info, err := examine(ctx, path)
	if err != nil {
		return Info{}, fmt.Errorf("verify snapshot %s: %w", path, err)
	}
	info.SHA256, info.FileSHA256 = sum, file
	if st, err := os.Stat(path); err == nil {
		info.Size = st.Size() - sha256.Size
	}
	return info, nil
}

// VerifyHash checks the hash alone and returns it in hexadecimal.
func VerifyHash(ctx context.Context, path string) (string, error) {
	sum, _, err := verifyHash(ctx, path)
	return sum, err
}

// verifyHash gives the hash of the database, and that of the whole file.
func verifyHash(ctx context.Context, path string) (database, file string, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", "", fmt.Errorf("verify snapshot: %w", err)
	}
	defer f.Close()
	size, said, err := trailer(f)
	if err != nil {
		return "", "", fmt.Errorf("verify snapshot %s: %w", path, err)
	}
	h := sha256.New()
	err = copyAll(ctx, h, io.NewSectionReader(f, 0, size), progress.Begin(ctx, size, progress.Bytes, "checking the SHA-256 of %s", path).Add)
	if err != nil {
		return "", "", fmt.Errorf("verify snapshot %s: %w", path, err)
	}
	is := h.Sum(nil)
	if !bytes.Equal(is, said) {
		return "", "", fmt.Errorf("verify snapshot %s: %w: its SHA-256 is %x and it says %x", path, ErrDamaged, is, said)
	}
	h.Write(said)
	return hex.EncodeToString(is), hex.EncodeToString(h.Sum(nil)), nil
}

// packed is a [PackedError] of a file that is.
func packed(f io.ReaderAt) error {
	head := make([]byte, tarAt+len(tarMark))
	n, _ := f.ReadAt(head, 0) // of a shorter one, what there is
	if n == len(head) && string(head[tarAt:]) == tarMark {
		return &PackedError{"tar"}
	}
	for begins, in := range packings {
		if bytes.HasPrefix(head[:n], []byte(begins)) {
			return &PackedError{in}
		}
	}
	return nil
}

func packedFile(path string) error {
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return packed(f)
}

// trailer reads the size of the database and the hash that follows it.
func trailer(f *os.File) (size int64, sum []byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	if err := packed(f); err != nil {
		return 0, nil, err
	}
	switch rest := info.Size() % sector; {
	case info.Size() <= sector:
		return 0, nil, fmt.Errorf("%w: it has %d bytes only", ErrDamaged, info.Size())
	case rest == 0:
		return 0, nil, ErrNoHash
	case rest != sha256.Size:
		return 0, nil, fmt.Errorf("%w: %d bytes are not a snapshot's length, it was cut off", ErrDamaged, info.Size())
	}
	sum = make([]byte, sha256.Size)
	size = info.Size() - sha256.Size
	if _, err := f.ReadAt(sum, size); err != nil {
		return 0, nil, err
	}
	return size, sum, nil
}

// hash reads to the end in steps between which it looks at ctx.
func hash(ctx context.Context, r io.Reader, step *progress.Step) ([]byte, error) {
	h := sha256.New()
	if err := copyAll(ctx, h, r, step.Add); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// copyStep is how much is copied between two looks at a context.
const copyStep = 8 << 20

func copyAll(ctx context.Context, to io.Writer, from io.Reader, done func(int64)) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(to, from, copyStep)
		if done != nil {
			done(n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// examine reads what is in a database, with or without a hash behind it.
func examine(ctx context.Context, path string) (info Info, err error) {
	db, err := openDatabase(ctx, path, anyBucket)
	if err != nil {
		return Info{}, err
	}
	defer db.Close()
	err = guarded(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			h, err := readHeader(tx)
			if err != nil {
				return err
			}
			if st, err := os.Stat(path); err == nil && st.Size() < tx.Size() {
				return fmt.Errorf("%w: it has %d bytes of its %d", ErrDamaged, st.Size(), tx.Size())
			}
			if err := checkAll(ctx, tx); err != nil {
				return err
			}
			found, err := walk(ctx, tx, h)
			if err != nil {
				return err
			}
			info = h.info(tx.Size(), found)
			return nil
		})
	})
	return info, err
}

func (h *header) info(size int64, c contents) Info {
	return Info{
		Size: size, Revision: h.revision, CompactRevision: h.compactRevision(), Compacting: h.scheduled > h.finished,
		Records: c.records, Keys: c.keys, HashKV: c.hash, HashKVTold: c.hashed,
		Leases: h.leases, Alarms: h.alarms, AuthEnabled: h.authEnabled, Users: h.users, Roles: h.roles,
		ConsistentIndex: h.consistentIndex, Term: h.term,
		StorageVersion: h.storageVersion, ClusterVersion: h.clusterVersion, Members: h.members,
	}
}

// Wrote is the release line that a database, or a snapshot of one, was last used
// with, as the database itself says it: that of its schema from etcd 3.6 on,
// before that the cluster's version. Its patch is zero. The zero version: it does
// not say, or cannot be read.
func Wrote(path string) (v cluster.Version) {
	ctx := context.Background() // these are small
	db, err := openDatabase(ctx, path, only(bucketMeta, bucketCluster))
	if err != nil {
		return v
	}
	defer db.Close()
	_ = guarded(func() error { // what cannot be read says nothing
		return db.View(func(tx *bbolt.Tx) error {
			for _, said := range [][]byte{get(tx, bucketMeta, metaStorageVersion), get(tx, bucketCluster, clusterVersionKey)} {
				if p, err := cluster.ParseVersion(string(said)); err == nil {
					v = p
					return nil
				}
			}
			return nil
		})
	})
	return v
}

// peek reads the header only, which takes no longer for a large database.
func peek(ctx context.Context, path string) (*header, error) {
	db, err := openDatabase(ctx, path, anyBucket)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var h *header
	err = guarded(func() error {
		return db.View(func(tx *bbolt.Tx) (err error) {
			h, err = readHeader(tx)
			return err
		})
	})
	return h, err
}

package backupstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"etcdadm.io/backup"
	"etcdadm.io/internal/snapshot"
)

// inspector looks at a snapshot as it passes: a database and then its SHA-256.
// It keeps back the last 32 bytes that it has seen, since only the end tells
// which they are.
type inspector struct {
	sum  hash.Hash // of all but tail
	tail [sha256.Size]byte
	held int // bytes in tail
	size int64
	tar  bool // it is a backup of etcd 2, which ends without a checksum
	// newest finds the revision that the database goes to.
	newest snapshot.Newest
}

func newInspector() *inspector { return &inspector{sum: sha256.New()} }

// Write is see for io.Copy; it never fails.
func (i *inspector) Write(p []byte) (int, error) {
	i.see(p)
	return len(p), nil
}

// see takes the next bytes.
func (i *inspector) see(p []byte) {
	_, _ = i.newest.Write(p) // never fails
	i.size += int64(len(p))
	if len(p) >= len(i.tail) {
		i.sum.Write(i.tail[:i.held])
		i.sum.Write(p[:len(p)-len(i.tail)])
		i.held = copy(i.tail[:], p[len(p)-len(i.tail):])
		return
	}
	if over := i.held + len(p) - len(i.tail); over > 0 {
		i.sum.Write(i.tail[:over])
		i.held = copy(i.tail[:], i.tail[over:i.held])
	}
	i.held += copy(i.tail[i.held:], p)
}

// finish tells what has passed, and whether it was a whole snapshot; the error
// wraps ErrDamaged. etcd's databases are whole pages, so one with its checksum
// leaves 32 when divided by 512. Source: etcdutl's snapshot package. It is
// called once.
func (i *inspector) finish() (backup.Content, error) {
	database := i.sum.Sum(nil)
	i.sum.Write(i.tail[:i.held])
	all := backup.Content{Size: i.size, SHA256: hex.EncodeToString(i.sum.Sum(nil))}
	const (
		least    = 512 + sha256.Size
		leastTar = 3 * 512 // a head, and the two blocks of its end
	)
	switch {
	case i.tar && i.size >= leastTar:
		return all, nil
	case i.size < least:
		return all, fmt.Errorf("%w: %d bytes are no database with its checksum", ErrDamaged, i.size)
	case bytes.Equal(database, i.tail[:]):
		return all, nil
	case i.size%512 != sha256.Size:
		return all, fmt.Errorf("%w: after %d bytes it ends without its checksum", ErrDamaged, i.size)
	}
	return all, fmt.Errorf("%w: the database does not agree with its checksum", ErrDamaged)
}

// revision is the highest of what has passed; zero: it could not be found.
func (i *inspector) revision() int64 {
	revision, _ := i.newest.Revision()
	return revision
}

// counted passes a stream on, hashes it, and counts its bytes.
type counted struct {
	r    io.Reader
	sum  hash.Hash
	size int64
}

func newCounted(r io.Reader) *counted { return &counted{r: r, sum: sha256.New()} }

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum.Write(p[:n])
	c.size += int64(n)
	return n, err
}

func (c *counted) content() backup.Content {
	return backup.Content{Size: c.size, SHA256: hex.EncodeToString(c.sum.Sum(nil))}
}

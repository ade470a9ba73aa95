// Package blob is the object store that backups and the control folder live in, seen as flat keys with bytes behind them.
//
// The invariant that everything above relies on: a write is all or nothing, a read sees one whole write, and a conditional
// write takes effect only if its condition holds at that very moment, whoever else is writing, in this process or another.
// A reply can still be lost: an error other than those named here leaves open whether a write or a delete took effect, and
// the caller finds out by reading back.
//
// Drivers live below this package (file, memory, …) and pass the suite in blobtest; package open picks one by URL. Nothing
// here knows which keys are used or what the bytes mean.
package blob

import (
	"context"
	"errors"
	"io"
	"time"
)

// Sentinels that callers decide by. Drivers wrap them, so compare with errors.Is.
var (
	// ErrNotFound says that the store was reached and holds no object of that key. A store that cannot be reached, or whose
	// directory is gone, is never reported this way.
	ErrNotFound = errors.New("object not found")
	// ErrNotModified says that the object still has the ETag given in GetOptions.IfNoneMatch.
	ErrNotModified = errors.New("object not modified")
	// ErrPreconditionFailed says that nothing was written because the condition did not hold.
	ErrPreconditionFailed = errors.New("precondition failed")
	// ErrInvalidKey says that a key or prefix can not be used (see ValidateKey).
	ErrInvalidKey = errors.New("invalid key")
	// ErrTooLarge says that an object is larger than the caller was ready to hold in memory.
	ErrTooLarge = errors.New("object too large")
	// ErrUnsupported says that this store cannot do what was asked, and will not be able to on a retry either.
	ErrUnsupported = errors.New("not supported by this store")
	// ErrForbidden says that the store knows who is asking, or asks who it is, and does not allow it. A person has to change
	// that; for an object this may be the answer about one that is not there.
	ErrForbidden = errors.New("not allowed by the store")
	// ErrReadOnly says that nothing was written, because the store takes no writes from who is asking: it is mounted so, or its
	// directory is another user's.
	ErrReadOnly = errors.New("nothing can be written")
	// ErrRetained says that nothing was deleted or overwritten because a lock, hold or retention period of the store keeps the
	// object. It may be allowed later.
	ErrRetained = errors.New("kept by the store's retention")
)

// Store keeps objects under keys. All methods may be called from several goroutines at once, and end soon after ctx does.
// Every driver passes blobtest.Run.
//
// A key must not be a directory of another key (`a` beside `a/b`): a directory tree cannot hold both.
type Store interface {
	// Get opens an object. The caller closes its body, and reads it before ctx ends. Errors: ErrNotFound, ErrNotModified.
	Get(ctx context.Context, key string, opts GetOptions) (*Object, error)
	// Put writes an object whole, or not at all, and returns the new ETag. When it returns without an error the object is as
	// durable as the store can make it. Errors: ErrPreconditionFailed, and ErrUnsupported when the store cannot keep the
	// condition. The body is read to its end at most once; an error from it is returned, and nothing is written. Its Read must
	// end soon after ctx does: Put may wait for one that is under way, so that the body is the caller's again.
	//
	// A driver may try again after an answer was lost. It then never says ErrPreconditionFailed of a condition that its own
	// first try may have ended: that is an error which leaves the outcome open.
	Put(ctx context.Context, key string, body io.Reader, cond Condition) (ETag, error)
	// List returns every object whose key begins with prefix, in ascending byte order of the keys. The prefix is a plain
	// string: end it with a slash to mean a folder. No match is an empty list.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Delete removes an object. One that is not there is no error. Errors: ErrRetained.
	Delete(ctx context.Context, key string) error
}

// ETag names one write of one object. Two writes of equal bytes may share one, so whoever needs to tell them apart puts a
// nonce into the bytes. It is opaque, and comparable only with ETags of the same key in the same store.
type ETag string

// GetOptions narrow a Get.
type GetOptions struct {
	// IfNoneMatch, if not empty, makes Get return ErrNotModified when the object still has this ETag.
	IfNoneMatch ETag
}

// Object is an open object.
type Object struct {
	Body     io.ReadCloser
	ETag     ETag
	Size     int64     // bytes
	Modified time.Time // by the store's clock
}

// Info is what List tells about an object.
type Info struct {
	Key      string
	Size     int64     // bytes
	Modified time.Time // by the store's clock
}

// Condition says when a Put may take effect. The zero value is Any.
type Condition string

const (
	// Any always holds.
	Any Condition = ""
	// IfAbsent holds when there is no object of that key.
	IfAbsent Condition = "absent"

	matchPrefix = "match:"
)

// IfMatch holds when the object exists and has this ETag. With an empty ETag it never holds.
func IfMatch(tag ETag) Condition { return matchPrefix + Condition(tag) }

// Match returns the ETag that the condition asks for, and whether it asks for one.
func (c Condition) Match() (ETag, bool) {
	if len(c) < len(matchPrefix) || c[:len(matchPrefix)] != matchPrefix {
		return "", false
	}
	return ETag(c[len(matchPrefix):]), true
}

// Holds tells whether the condition holds for an object that exists, or not, with the given ETag.
func (c Condition) Holds(exists bool, tag ETag) bool {
	if want, ok := c.Match(); ok {
		return exists && want != "" && want == tag
	}
	switch c {
	case Any:
		return true
	case IfAbsent:
		return !exists
	}
	return false
}

// Error is an error for people: what was being done, to what, why it failed, and what to do about it.
type Error struct {
	Op     string // a verb, as "open"
	Object string // the store or "store, key", without secrets
	Err    error
	Advice string // a sentence or a command; may be empty
}

func (e *Error) Error() string { return e.Op + " " + e.Object + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint says what a person can do about it, or is empty.
func (e *Error) Hint() string { return e.Advice }

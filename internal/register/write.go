package register

import "errors"

var (
	// ErrCondition says that the object is not as the write wants it. Nothing was written.
	ErrCondition = errors.New("the object is not as the write asks")
	// ErrOpen says that an attempt before may have been written, and that the object changed since.
	ErrOpen = errors.New("whether the write took effect is not known, and the object changed since")
)

// Write is one write of one object, over as many attempts as it takes.
//
// Somebody else may complete what an attempt left half done, and act on it. So a further attempt succeeds if it finds its own
// tag, and writes only over what the first one saw: else one write would take effect twice.
type Write struct {
	Key    string
	Object *Object // nil deletes it
	// Holds tells whether the write may take effect. Nil: whatever is there.
	Holds func(exists bool, tag string) bool

	sent    bool   // by an attempt before
	seen    string // what that one saw
	deleted uint64 // … and the newest deletion that it knew of
}

// Change is the [Change] of the next attempt.
func (w *Write) Change(base *Document) (*Document, error) {
	there, exists := base.Objects[w.Key]
	switch {
	case w.Object == nil && !exists, w.Object != nil && exists && there.Tag == w.Object.Tag:
		return nil, nil
	case w.sent && (there.Tag != w.seen || !exists && base.Deleted != w.deleted): // it may have been there meanwhile
		return nil, ErrOpen
	case !w.sent && w.Holds != nil && !w.Holds(exists, there.Tag):
		return nil, ErrCondition
	}
	next, err := base.With(w.Key, w.Object)
	if err == nil && !w.sent {
		w.seen, w.deleted = there.Tag, base.Deleted
	}
	return next, err
}

// Sent takes note that an attempt may have been written.
func (w *Write) Sent() { w.sent = true }

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// NewerError says that something was written by a later release, and holds what this one does not
// know. It must not be kept, sent on or written back without that: the rest may say something else
// than the whole, as a list of ended commands that was dropped has them run again.
type NewerError struct {
	What   string // such as "the cluster's record"
	Detail string // what is not known
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s was written by a newer release of etcdadm, and holds what an older one does not know: %s", e.What, e.Detail)
}

// Hint is the way out.
func (e *NewerError) Hint() string {
	return "update etcdadm on this machine to the release that wrote it"
}

// UnmarshalKnown reads one JSON value into a struct. What says what that is. A field that into
// does not have, at whatever depth, is a *NewerError.
func UnmarshalKnown(data []byte, into any, what string) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	switch {
	case err == nil && len(bytes.TrimSpace(data[d.InputOffset():])) > 0:
		return errors.New("something follows the JSON value")
	case err == nil, errors.As(err, new(*NewerError)): // of a part that looks after itself
		return err
	case json.Unmarshal(data, into) == nil: // so that nothing else is wrong with it
		return &NewerError{What: what, Detail: strings.TrimPrefix(err.Error(), "json: ")}
	}
	return err
}

// UnmarshalJSON reads an intent that this release knows all of; of another one the error is a
// *NewerError. That holds wherever an intent is a part of what is read, be it another host's
// answer, a leader's request, the state on a disk or a saved observation: each of them may be
// handed on, and end up in the store.
func (in *Intent) UnmarshalJSON(data []byte) error {
	type plain Intent // without this method
	p := plain(*in)
	if err := UnmarshalKnown(data, &p, "the cluster's record"); err != nil {
		return err
	}
	*in = Intent(p)
	return nil
}

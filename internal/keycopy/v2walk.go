package keycopy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode/utf8"
)

// v2Visitor is told of what a listing of version 2 has: each key, and each
// directory after all that is in it.
type v2Visitor struct {
	key func(key, value string, expires int64) error
	dir func(v2Dir) error
}

// v2Dir is a directory, and what is in it at any depth.
type v2Dir struct {
	key     string
	keys    int64
	lasting int64 // of the keys, those that never expire
	expires int64 // it or a directory above it, in seconds since 1970; 0: never
	hasTTL  bool  // of its own
}

// walk reads the whole tree in one answer, which is the state at one index, and what
// is known to be hidden in one each: whoever calls looks whether anybody wrote in
// between (see stand). It is parsed as it comes in; the server has it in memory, as all of its data.
// expires is that of the key or of the first directory above it to expire, in
// seconds since 1970, rounded up.
func (s *v2) walk(ctx context.Context, visit v2Visitor) (index int64, err error) {
	if index, err = s.walkFrom(ctx, "/", 0, visit); err != nil {
		return 0, err
	}
	for _, hidden := range s.hidden {
		above, err := s.expiryAbove(ctx, hidden)
		if err != nil {
			return 0, err
		}
		if _, err := s.walkFrom(ctx, hidden, above, visit); err != nil {
			return 0, err
		}
	}
	return index, nil
}

// walkFrom reads what is below a path, of which something above expires.
func (s *v2) walkFrom(ctx context.Context, root string, above int64, visit v2Visitor) (int64, error) {
	list := beginListing(ctx, fmt.Sprintf("listing the keys of an etcd %s", s.version))
	index, err := s.list(list, root, above, visit)
	if err = list.end(err); errors.Is(err, errGone) {
		return s.position(ctx) // what was hidden there has expired
	}
	if err != nil {
		return 0, fmt.Errorf("list keys: %w", err)
	}
	return index, nil
}

// errGone is that there is nothing at the path of a listing.
var errGone = errors.New("there is no such key")

func (s *v2) list(list *listing, root string, above int64, visit v2Visitor) (int64, error) {
	body, index, err := s.ask(list.ctx, http.MethodGet, root, "recursive=true&sorted=true&quorum=true", nil)
	if refused, ok := errors.AsType[*v2Error](err); ok && refused.Code == codeKeyNotFound {
		return 0, errGone
	}
	if err != nil {
		return 0, err
	}
	defer body.Close()
	w := v2Walker{list: list, d: json.NewDecoder(list.of(body)), visit: visit}
	return index, w.answer(above)
}

// expiryAbove is when the first of the directories above a path expires.
func (s *v2) expiryAbove(ctx context.Context, below string) (first int64, err error) {
	for dir := path.Dir(below); dir != "/" && dir != "."; dir = path.Dir(dir) {
		node, err := s.get(ctx, dir)
		if err != nil {
			return 0, fmt.Errorf("look at a directory: %w", err)
		}
		if node != nil && node.Expiration != nil {
			first = earlier(first, ceilSecond(*node.Expiration))
		}
	}
	return first, nil
}

type v2Walker struct {
	list  *listing
	d     *json.Decoder
	visit v2Visitor
}

// errShape: the listing is not as etcd writes it.
var errShape = errors.New("etcd's listing is not of the form that is known")

// answer reads {"action":…,"node":{…}}.
func (w *v2Walker) answer(above int64) error {
	if err := w.delim('{'); err != nil {
		return err
	}
	for w.d.More() {
		name, err := w.text()
		if err != nil {
			return err
		}
		if name == "node" {
			_, err = w.node(above)
		} else {
			_, err = w.d.Token()
		}
		if err != nil {
			return err
		}
	}
	return w.delim('}')
}

// counted is how many keys there are, and how many of them never expire.
type counted struct{ keys, lasting int64 }

// node reads one key or directory, and returns how many keys it is. etcd writes
// the fields in the order of its struct, "nodes" after key, dir and expiration.
// Source: NodeExtern of 2.3.8.
func (w *v2Walker) node(above int64) (below counted, err error) {
	if err := w.delim('{'); err != nil {
		return below, err
	}
	var (
		key, value    string
		own           int64
		isDir, listed bool
	)
	for w.d.More() {
		name, err := w.text()
		if err != nil {
			return below, err
		}
		switch name {
		case "key":
			key, err = w.text()
		case "value":
			value, err = w.text()
		case "dir":
			isDir, err = w.yes()
		case "expiration":
			own, err = w.expiration(listed)
		case "nodes":
			listed = true
			below, err = w.nodes(earlier(above, own))
		default:
			_, err = w.d.Token()
		}
		if err != nil {
			return below, err
		}
	}
	if err := w.delim('}'); err != nil {
		return below, err
	}
	expires := earlier(above, own)
	switch {
	case !isDir && listed:
		// The root has no name, but it has "dir".
		return below, errShape
	case isDir && key == "" || key == "/":
		return below, nil
	case isDir:
		return below, w.visit.dir(v2Dir{key: key, keys: below.keys, lasting: below.lasting, expires: expires, hasTTL: own != 0})
	}
	below.keys = 1
	w.list.counted()
	if expires == 0 {
		below.lasting = 1
	}
	return below, w.visit.key(key, value, expires)
}

// earlier is the first of two times, of which zero is never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (w *v2Walker) nodes(above int64) (all counted, err error) {
	if err := w.list.ctx.Err(); err != nil {
		return all, err
	}
	if err := w.delim('['); err != nil {
		return all, err
	}
	for w.d.More() {
		n, err := w.node(above)
		if err != nil {
			return all, err
		}
		all.keys += n.keys
		all.lasting += n.lasting
	}
	return all, w.delim(']')
}

func (w *v2Walker) delim(want json.Delim) error {
	t, err := w.d.Token()
	if err == nil && t != want {
		err = errShape
	}
	return err
}

func (w *v2Walker) text() (string, error) {
	t, err := w.d.Token()
	s, ok := t.(string)
	if err == nil && !ok {
		err = errShape
	}
	return s, err
}

func (w *v2Walker) yes() (bool, error) {
	t, err := w.d.Token()
	b, ok := t.(bool)
	if err == nil && !ok {
		err = errShape
	}
	return b, err
}

func (w *v2Walker) expiration(late bool) (int64, error) {
	s, err := w.text()
	if err != nil {
		return 0, err
	}
	if late { // what was below it has been visited
		return 0, errShape
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, err
	}
	return ceilSecond(at), nil
}

func ceilSecond(t time.Time) int64 {
	return t.Add(time.Second - 1).Unix()
}

// suspect says that a text may stand for bytes that JSON cannot write: etcd
// writes this character in place of each.
func suspect(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }

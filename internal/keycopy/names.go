package keycopy

import (
	"bytes"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// isPath says whether version 2 of the API can have a key of this name, and
// would not take it for another: it cleans every path that it is given.
// Source: parseKeyRequest of 2.3.8, and net/http's multiplexer before it.
func isPath(key []byte) bool {
	if len(key) < 2 || key[0] != '/' || !utf8.Valid(key) {
		return false
	}
	s := string(key)
	return path.Clean(s) == s
}

// isHidden says whether version 2 leaves the key out when it lists: a part of its
// path begins with an underscore. Source: node.IsHidden of 2.3.8.
func isHidden(key []byte) bool { return bytes.Contains(key, []byte("/_")) }

// below says whether the key would lie in the directory dir.
func below(key, dir []byte) bool {
	return len(key) > len(dir) && key[len(dir)] == '/' && bytes.HasPrefix(key, dir)
}

// past says whether, in the order of bytes, no key from this one on can lie in
// the directory dir.
func past(key, dir []byte) bool {
	n := min(len(key), len(dir))
	if c := bytes.Compare(key[:n], dir[:n]); c != 0 {
		return c > 0
	}
	return len(key) > len(dir) && key[len(dir)] > '/'
}

// exampleLength is how much of a name an example shows, in bytes.
const exampleLength = 200

// show makes a name fit for a person's terminal: quoted when it is not plain.
func show(name []byte) string {
	cut := ""
	if len(name) > exampleLength {
		name, cut = name[:exampleLength], "…"
	}
	quoted := strconv.QuoteToGraphic(string(name))
	if plain := quoted[1 : len(quoted)-1]; plain == string(name) && !strings.ContainsRune(plain, ' ') && plain != "" {
		return plain + cut
	}
	return quoted + cut
}

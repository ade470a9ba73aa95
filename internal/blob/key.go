package blob

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a key, in bytes. The first is what S3 allows, the second what file systems allow for a name.
const (
	MaxKey     = 1024
	MaxSegment = 255
)

// ValidateKey tells whether every store can hold an object under this key: slash-separated segments, none of them empty, "."
// or "..", in UTF-8 and without control characters. The error wraps ErrInvalidKey and is a sentence.
func ValidateKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", ErrInvalidKey)
	}
	if err := validateText(key); err != nil {
		return err
	}
	if strings.HasPrefix(key, "/") {
		return fmt.Errorf("%w %q: it begins with a slash", ErrInvalidKey, key)
	}
	for segment := range strings.SplitSeq(key, "/") {
		switch {
		case segment == "":
			return fmt.Errorf("%w %q: it has an empty segment", ErrInvalidKey, key)
		case segment == "." || segment == "..":
			return fmt.Errorf("%w %q: it has the segment %q", ErrInvalidKey, key, segment)
		case len(segment) > MaxSegment:
			return fmt.Errorf("%w %.40q…: a segment is longer than %d bytes", ErrInvalidKey, key, MaxSegment)
		}
	}
	return nil
}

// ValidatePrefix tells whether some valid key can begin with this prefix. The empty prefix is valid and means every key.
func ValidatePrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	// A prefix can end anywhere inside a key, so an unfinished last segment is completed before it is judged.
	if strings.HasSuffix(prefix, "/") || strings.HasSuffix(prefix, "/.") || strings.HasSuffix(prefix, "/..") ||
		prefix == "." || prefix == ".." {
		return ValidateKey(prefix + "x")
	}
	return ValidateKey(prefix)
}

func validateText(s string) error {
	if len(s) > MaxKey {
		return fmt.Errorf("%w %.40q…: it is longer than %d bytes", ErrInvalidKey, s, MaxKey)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w %q: it is not UTF-8", ErrInvalidKey, s)
	}
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			return fmt.Errorf("%w %q: it has the control character %U", ErrInvalidKey, s, r)
		}
	}
	return nil
}

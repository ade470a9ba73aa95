package kubernetes

import (
	"encoding/hex"
	"fmt"
	"strings"

	"etcdadm.io/internal/blob"
)

// maxName is the longest name that a ConfigMap takes for an entry, in bytes.
const maxName = 253

// Name is the entry of a ConfigMap that has the object of a key. An entry's name has letters, digits, '-', '.' and '_', and does
// not begin with two dots: a slash is "__", and any other byte that may not stand is '_' and two hexadecimal digits. The error wraps
// blob.ErrInvalidKey.
func Name(key string) (string, error) {
	if err := blob.ValidateKey(key); err != nil {
		return "", err
	}
	var b strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case c == '/':
			b.WriteString("__")
		case plain(c) && !(c == '.' && i == 0):
			b.WriteByte(c)
		default:
			b.WriteByte('_')
			b.WriteString(hex.EncodeToString([]byte{c}))
		}
	}
	if b.Len() > maxName {
		return "", fmt.Errorf("%w %.40q…: an entry of a ConfigMap has a name of %d bytes at most, and this one would have %d", blob.ErrInvalidKey, key, maxName, b.Len())
	}
	return b.String(), nil
}

// Key gives back the key that Name was given; false: it is no entry of ours.
func Key(name string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch rest := name[i+1:]; {
		case name[i] != '_':
			b.WriteByte(name[i])
		case strings.HasPrefix(rest, "_"):
			b.WriteByte('/')
			i++
		default:
			c, err := hex.DecodeString(rest[:min(2, len(rest))])
			if err != nil || len(c) != 1 {
				return "", false
			}
			b.WriteByte(c[0])
			i += 2
		}
	}
	key := b.String()
	again, err := Name(key)
	return key, err == nil && again == name
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.'
}

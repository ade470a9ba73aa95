// Package record reads and writes the control record of a cluster in its two ConfigMaps, in which the daemons keep it too.
//
// A [View] is the object store that internal/control works on, over ConfigMaps that somebody has read: reading asks nobody,
// and writing changes the copies. Whoever writes them back does so on the resourceVersion that was read, so that all that
// one View changed takes effect at once or not at all.
package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	corev1 "k8s.io/api/core/v1"
)

// View is the record as it was read. Status may be nil: nothing of it is there.
type View struct {
	Control, Status *corev1.ConfigMap
}

// Of copies the ConfigMaps.
func Of(control, status *corev1.ConfigMap) *View {
	v := &View{Control: control.DeepCopy()}
	if status != nil {
		v.Status = status.DeepCopy()
	}
	return v
}

// Folder is the control folder of the cluster of that name.
func (v *View) Folder(clusterName string) *control.Folder {
	return control.New(v, clusterName).Known()
}

// often are the objects that change all the time and lie in the second ConfigMap.
var often = []string{"control/etcdadm-status.json", "control/etcdadm-record.json"}

func (v *View) mapOf(key string) *corev1.ConfigMap {
	if slices.Contains(often, key) {
		return v.Status
	}
	return v.Control
}

// Get implements blob.Store.
func (v *View) Get(_ context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	data, is := value(v.mapOf(key), entry(key))
	switch {
	case !is:
		return nil, fmt.Errorf("get %q: %w", key, blob.ErrNotFound)
	case o.IfNoneMatch != "" && o.IfNoneMatch == tagOf(data):
		return nil, fmt.Errorf("get %q: %w", key, blob.ErrNotModified)
	}
	return &blob.Object{Body: io.NopCloser(bytes.NewReader(data)), ETag: tagOf(data), Size: int64(len(data))}, nil
}

// Put implements blob.Store.
func (v *View) Put(_ context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return "", fmt.Errorf("put %q: %w", key, err)
	}
	m := v.mapOf(key)
	if m == nil {
		return "", fmt.Errorf("put %q: the ConfigMap is missing", key)
	}
	if was, is := value(m, entry(key)); !cond.Holds(is, tagOf(was)) {
		return "", fmt.Errorf("put %q: %w", key, blob.ErrPreconditionFailed)
	}
	delete(m.BinaryData, entry(key))
	delete(m.Data, entry(key))
	if utf8.Valid(data) {
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		m.Data[entry(key)] = string(data)
	} else {
		if m.BinaryData == nil {
			m.BinaryData = map[string][]byte{}
		}
		m.BinaryData[entry(key)] = data
	}
	return tagOf(data), nil
}

// List implements blob.Store.
func (v *View) List(_ context.Context, prefix string) ([]blob.Info, error) {
	var out []blob.Info
	for _, m := range []*corev1.ConfigMap{v.Control, v.Status} {
		if m == nil {
			continue
		}
		for _, name := range slices.Concat(slices.Collect(maps.Keys(m.Data)), slices.Collect(maps.Keys(m.BinaryData))) {
			if key, ours := keyOf(name); ours && strings.HasPrefix(key, prefix) && v.mapOf(key) == m {
				data, _ := value(m, name)
				out = append(out, blob.Info{Key: key, Size: int64(len(data))})
			}
		}
	}
	slices.SortFunc(out, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

// Delete implements blob.Store.
func (v *View) Delete(_ context.Context, key string) error {
	if m := v.mapOf(key); m != nil {
		delete(m.Data, entry(key))
		delete(m.BinaryData, entry(key))
	}
	return nil
}

func value(m *corev1.ConfigMap, name string) ([]byte, bool) {
	if m == nil {
		return nil, false
	}
	if data, is := m.BinaryData[name]; is {
		return data, true
	}
	text, is := m.Data[name]
	return []byte(text), is
}

func tagOf(data []byte) blob.ETag {
	sum := sha256.Sum256(data)
	return blob.ETag(hex.EncodeToString(sum[:16]))
}

// entry is the name in a ConfigMap of the object of a key, as the daemons write it: a slash is "__", and what may not stand
// in a name is '_' and two hexadecimal digits.
func entry(key string) string {
	var b strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case c == '/':
			b.WriteString("__")
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// keyOf gives back the key that entry was given; false: it is no entry of the record.
func keyOf(name string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch {
		case name[i] != '_':
			b.WriteByte(name[i])
		case strings.HasPrefix(name[i+1:], "_"):
			b.WriteByte('/')
			i++
		default:
			c, err := hex.DecodeString(name[i+1 : min(i+3, len(name))])
			if err != nil || len(c) != 1 {
				return "", false
			}
			b.WriteByte(c[0])
			i += 2
		}
	}
	return b.String(), entry(b.String()) == name
}

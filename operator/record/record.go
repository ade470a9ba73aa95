// Package record reads and writes the control record of a cluster in its two ConfigMaps, in which the daemons keep it too.
//
// A [View] is the object store that internal/control works on, over ConfigMaps that somebody has read: reading asks nobody,
// and writing changes the copies. Whoever writes them back does so on the resourceVersion that was read, so that all that
// one View changed takes effect at once or not at all. That of a cluster on bare hosts is in an object store, see [Stores].
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
	"etcdadm.io/internal/blob/kubernetes"
	"etcdadm.io/internal/control"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

func (v *View) mapOf(key string) *corev1.ConfigMap {
	if slices.Contains(kubernetes.Often, key) {
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
			if key, ours := kubernetes.Key(name); ours && strings.HasPrefix(key, prefix) && v.mapOf(key) == m {
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

// progress is the object that daemons raise each minute while clients write, and that is read by nobody here.
const progress = "control/etcdadm-record.json"

// News says whether a ConfigMap of a record became another one for anybody but who reads the progress.
func News(was, is *corev1.ConfigMap) bool {
	read := func(m *corev1.ConfigMap) *corev1.ConfigMap {
		c := *m
		c.ResourceVersion, c.ManagedFields, c.Data = "", nil, maps.Clone(m.Data)
		delete(c.Data, entry(progress))
		return &c
	}
	return !equality.Semantic.DeepEqual(read(was), read(is))
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

// entry is the name in a ConfigMap of the object of a key, as the daemons write it; empty: no object may have that key.
func entry(key string) string {
	name, err := kubernetes.Name(key)
	if err != nil {
		return ""
	}
	return name
}

package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// ErrMalformed is in the chain of errors about a meta or manifest that cannot be
// understood.
var ErrMalformed = errors.New("malformed")

// Meta is what both programs know of a backup.
type Meta struct {
	// EtcdVersion is the release that wrote the database. A major version of 2
	// says that the snapshot is a tar of etcd's backup directory.
	EtcdVersion cluster.Version
	// Timestamp is when the backup was made, to the second; the zero time when
	// the file does not say.
	Timestamp time.Time
	// MemberCount and SpecVersion are the spec at that time; zero when the file
	// does not say.
	MemberCount int
	SpecVersion cluster.Version
}

// lastSecond ends the year 9999, the last that JSON's times can hold.
const lastSecond = 253402300799

// V2 reports whether the snapshot is of etcd's v2 store: a tar, and no database.
func (m Meta) V2() bool { return m.EtcdVersion.Major == 2 }

// metaFile has exactly the keys that the other program accepts.
type metaFile struct {
	EtcdVersion string    `json:"etcdVersion"`
	Timestamp   string    `json:"timestamp,omitempty"`
	ClusterSpec *specFile `json:"clusterSpec,omitempty"`
}

type specFile struct {
	MemberCount int    `json:"memberCount,omitempty"`
	EtcdVersion string `json:"etcdVersion,omitempty"`
}

// Format writes the meta with the keys that the other program accepts, and no
// others.
func (m Meta) Format() []byte {
	f := metaFile{EtcdVersion: m.EtcdVersion.String()}
	if !m.Timestamp.IsZero() {
		f.Timestamp = strconv.FormatInt(m.Timestamp.Unix(), 10)
	}
	if m.MemberCount != 0 || !m.SpecVersion.IsZero() {
		f.ClusterSpec = &specFile{m.MemberCount, m.SpecVersion.String()}
	}
	return format(f)
}

// ParseMeta reads a meta leniently: keys in camelCase or snake_case, numbers as
// numbers or strings, unknown keys passed over. Only the version must be there.
// Errors wrap ErrMalformed.
func ParseMeta(data []byte) (Meta, error) {
	m, err := parseMeta(data)
	if err != nil {
		return Meta{}, fmt.Errorf("read %s: %w: %w", FileMeta, ErrMalformed, err)
	}
	return m, nil
}

func parseMeta(data []byte) (Meta, error) {
	fields, err := parseObject(data)
	if err != nil {
		return Meta{}, err
	}
	var m Meta
	if m.EtcdVersion, err = fields.version("etcdVersion"); err != nil {
		return Meta{}, err
	}
	if m.EtcdVersion.IsZero() {
		return Meta{}, errors.New("it has no etcdVersion")
	}
	seconds, err := fields.integer("timestamp")
	if err != nil {
		return Meta{}, err
	}
	if seconds < 0 || seconds > lastSecond {
		return Meta{}, fmt.Errorf("timestamp %d is no time in unix seconds", seconds)
	}
	if seconds != 0 {
		m.Timestamp = time.Unix(seconds, 0).UTC()
	}
	raw := fields["clusterSpec"]
	if raw == nil || string(raw) == "null" {
		return m, nil
	}
	spec, err := parseObject(raw)
	if err != nil {
		return Meta{}, fmt.Errorf("clusterSpec: %w", err)
	}
	count, err := spec.integer("memberCount")
	if err != nil {
		return Meta{}, fmt.Errorf("clusterSpec: %w", err)
	}
	m.MemberCount = int(count)
	if m.SpecVersion, err = spec.version("etcdVersion"); err != nil {
		return Meta{}, fmt.Errorf("clusterSpec: %w", err)
	}
	return m, nil
}

// object is a JSON object by camelCase keys.
type object map[string]json.RawMessage

func parseObject(data []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	var raw map[string]json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if raw == nil {
		return nil, errors.New("not a JSON object: null")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	o := make(object, len(raw))
	for key, value := range raw { // any order: two keys of one name are an error whichever comes first
		name := camelCase(key)
		if _, twice := o[name]; twice {
			return nil, fmt.Errorf("the key %q is there twice", name)
		}
		o[name] = value
	}
	return o, nil
}

func camelCase(key string) string {
	words := strings.Split(key, "_")
	for i, w := range words {
		if i > 0 && w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// version reads a version; one that is missing is zero.
func (o object) version(key string) (cluster.Version, error) {
	var s *string
	if raw, ok := o[key]; ok {
		if err := json.Unmarshal(raw, &s); err != nil {
			return cluster.Version{}, fmt.Errorf("%s is not a string", key)
		}
	}
	if s == nil || *s == "" {
		return cluster.Version{}, nil
	}
	v, err := cluster.ParseVersion(*s)
	if err != nil {
		return cluster.Version{}, fmt.Errorf("%s: %w", key, err)
	}
	return v, nil
}

// integer reads a whole number, written as a number or as a string; one that is
// missing is zero.
func (o object) integer(key string) (int64, error) {
	raw, ok := o[key]
	if !ok || string(raw) == "null" {
		return 0, nil
	}
	s := string(raw)
	if s[0] == '"' {
		if err := json.Unmarshal(raw, &s); err != nil {
			return 0, fmt.Errorf("%s is not a whole number", key)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number", key)
	}
	return n, nil
}

// format is JSON for people and programs.
func format(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("strings, numbers and times have a JSON form: " + err.Error())
	}
	return append(data, '\n')
}

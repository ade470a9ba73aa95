package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// loose is a JSON object as the predecessor's readers accept it: keys in
// camelCase or snake_case, numbers as numbers or strings. Keys that were asked
// for are ticked off, so that the rest can be named.
type loose struct {
	fields map[string]json.RawMessage // by camelCase key
	asked  []string
}

// parseLoose reads one JSON object and nothing after it.
func parseLoose(data []byte) (*loose, error) {
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
	l := &loose{fields: make(map[string]json.RawMessage, len(raw))}
	for key, value := range raw {
		name := camelCase(key)
		if _, twice := l.fields[name]; twice {
			return nil, fmt.Errorf("the key %q is there twice", name)
		}
		l.fields[name] = value
	}
	return l, nil
}

func camelCase(key string) string {
	first, rest, ok := strings.Cut(key, "_")
	if !ok || first == "" {
		return key
	}
	var b strings.Builder
	b.WriteString(first)
	for part := range strings.SplitSeq(rest, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

func (l *loose) raw(key string) (json.RawMessage, bool) {
	l.asked = append(l.asked, key)
	v, ok := l.fields[key]
	return v, ok && string(v) != "null"
}

// integer reads a whole number; one that is missing is zero.
func (l *loose) integer(key string) (int64, error) {
	v, ok := l.raw(key)
	if !ok {
		return 0, nil
	}
	s := string(v)
	if s[0] == '"' {
		if err := json.Unmarshal(v, &s); err != nil {
			return 0, fmt.Errorf("%s: %w", key, err)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil {
		return n, nil
	}
	// Another writer's 3.0 or 3e0. Floats hold whole numbers exactly up to 2^53.
	if x, ferr := strconv.ParseFloat(s, 64); ferr == nil && x == float64(int64(x)) && x > -(1<<53) && x < 1<<53 {
		return int64(x), nil
	}
	return 0, fmt.Errorf("%s is %s: not a whole number", key, v)
}

// text reads a string; one that is missing is empty.
func (l *loose) text(key string) (string, error) {
	v, ok := l.raw(key)
	if !ok {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", fmt.Errorf("%s is %s: not a string", key, v)
	}
	return s, nil
}

// object reads a nested object; one that is missing is nil.
func (l *loose) object(key string) (*loose, error) {
	v, ok := l.raw(key)
	if !ok {
		return nil, nil
	}
	o, err := parseLoose(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return o, nil
}

// rest names the keys that nobody asked for, sorted.
func (l *loose) rest() []string {
	var out []string
	for key := range l.fields {
		if !slices.Contains(l.asked, key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// parseStrict reads one JSON value of ours: unknown keys, which a later
// release may have written, are an error, because writing the value back
// would lose them.
func parseStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

package duration

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// unit is what the name of a field in people's JSON ends in.
const unit = "Seconds"

// JSON is a value as JSON for people and their programs: that of package json, but for its
// durations. Those are seconds there, under the name of their field and the unit: a field
// `json:"uptime"` of 90s is "uptimeSeconds": 90. What daemons say to each other, and what
// is kept in files and in the store, is the JSON of package json.
func JSON(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return rename(data, reflect.TypeOf(v), seconds)
}

// WriteJSON writes it for people to read: indented, with a newline at its end.
func WriteJSON(w io.Writer, v any) error {
	data, err := JSON(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = out.WriteTo(w)
	return err
}

// FromJSON reads what JSON has made, and the JSON of package json as well.
func FromJSON(data []byte, v any) error {
	if json.Valid(data) { // else package json says what is wrong with it
		plain, err := rename(data, reflect.TypeOf(v), nanoseconds)
		if err != nil {
			return err
		}
		data = plain
	}
	return json.Unmarshal(data, v)
}

// direction is one of the two ways.
type direction struct {
	// field is the field of a struct that a key is of, and key what it is called then.
	field func(t reflect.Type, key string) (f reflect.Type, as string, ok bool)
	// number is the duration itself.
	number func(text string) (string, error)
}

var (
	seconds = direction{
		field: func(t reflect.Type, key string) (reflect.Type, string, bool) {
			f, ok := fieldOf(t, key)
			if ok && isDuration(f) {
				return f, key + unit, true
			}
			return f, key, ok
		},
		number: func(text string) (string, error) {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return "", fmt.Errorf("write duration %s: %w", text, err)
			}
			return strconv.FormatFloat(time.Duration(n).Seconds(), 'f', -1, 64), nil
		},
	}
	nanoseconds = direction{
		field: func(t reflect.Type, key string) (reflect.Type, string, bool) {
			if f, ok := fieldOf(t, key); ok {
				if isDuration(f) { // as package json writes it
					return nil, key, false
				}
				return f, key, true
			}
			if name, ok := strings.CutSuffix(key, unit); ok {
				if f, ok := fieldOf(t, name); ok && isDuration(f) {
					return f, name, true
				}
			}
			return nil, key, false
		},
		number: func(text string) (string, error) {
			f, err := strconv.ParseFloat(text, 64)
			if n := f * float64(time.Second); err != nil || math.Abs(n) > math.MaxInt64/2 {
				return "", fmt.Errorf("read duration of %s seconds: %w", text, ErrRange)
			}
			return strconv.FormatInt(int64(math.Round(f*float64(time.Second))), 10), nil
		},
	}
)

var (
	durationType  = reflect.TypeFor[time.Duration]()
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// isDuration reports whether a field is a duration, or a pointer to one, a list or a map
// of them.
func isDuration(t reflect.Type) bool {
	for t != durationType {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			t = t.Elem()
		default:
			return false
		}
	}
	return true
}

// opaque reports whether a type says itself what its JSON is.
func opaque(t reflect.Type) bool {
	for _, i := range []reflect.Type{marshaler, textMarshaler} {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

// fieldOf finds the field of a struct that has a name in JSON.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	var within []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			e := f.Type
			if e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			if e.Kind() == reflect.Struct {
				within = append(within, e)
			}
		case !f.IsExported() || tag == "-":
		case tag == name || tag == "" && f.Name == name:
			return f.Type, true
		}
	}
	for _, e := range within { // what lies deeper is hidden by what does not
		if f, ok := fieldOf(e, name); ok {
			return f, true
		}
	}
	return nil, false
}

// rename goes through a text of JSON by the type that it is of. The order of what is in
// it stays.
func rename(data []byte, t reflect.Type, d direction) ([]byte, error) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	text := bytes.TrimSpace(data)
	switch {
	case t == nil || string(text) == "null" || len(text) == 0:
		return text, nil
	case t == durationType:
		n, err := d.number(string(text))
		return []byte(n), err
	case opaque(t):
		return text, nil
	}
	switch kind := t.Kind(); {
	case kind == reflect.Struct && text[0] == '{':
		return each(text, func(key string) (reflect.Type, string) {
			f, as, _ := d.field(t, key)
			return f, as
		}, d)
	case kind == reflect.Map && text[0] == '{', (kind == reflect.Slice || kind == reflect.Array) && text[0] == '[':
		return each(text, func(key string) (reflect.Type, string) { return t.Elem(), key }, d)
	}
	return text, nil
}

// each goes through an object or a list. field is the type of what is in it, and its key.
func each(text []byte, field func(key string) (reflect.Type, string), d direction) ([]byte, error) {
	in := json.NewDecoder(bytes.NewReader(text))
	if _, err := in.Token(); err != nil {
		return nil, err
	}
	out := []byte{text[0]}
	for in.More() {
		key := ""
		if text[0] == '{' {
			token, err := in.Token()
			if err != nil {
				return nil, err
			}
			key, _ = token.(string)
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return nil, err
		}
		t, as := field(key)
		changed, err := rename(value, t, d)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if text[0] == '{' {
			name, err := json.Marshal(as)
			if err != nil {
				return nil, err
			}
			out = append(append(out, name...), ':')
		}
		out = append(out, changed...)
	}
	return append(out, text[len(text)-1]), nil
}

package words

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// Text is a sentence as data: what it says, and the facts in it by name. This package
// alone makes English of it; nobody reads it back.
type Text struct {
	template string // with {name} where a fact stands
	args     []any  // in the order in which they stand

	told *told // by a program that made the text, of which only the words came here
}

// told is what came beside the words.
type told struct {
	subject string
	facts   json.RawMessage
}

// Told is a text that another program made: its words, its subject and its facts as JSON.
func Told(sentence, subject string, facts json.RawMessage) Text {
	return Text{"{said}", []any{sentence}, &told{subject, facts}}
}

// F is a text. Each {name} of the template stands for the next argument: a name, a number,
// a time, a duration, or a text.
func F(template string, args ...any) Text { return Text{template: template, args: args} }

// IsZero reports whether nothing is said.
func (t Text) IsZero() bool { return t.template == "" }

// Equal reports whether both read alike.
func (t Text) Equal(u Text) bool { return t.String() == u.String() }

// String is the text in English.
func (t Text) String() string {
	if len(t.args) == 0 {
		return t.template
	}
	var b strings.Builder
	t.write(&b)
	return b.String()
}

func (t Text) write(b *strings.Builder) {
	rest, next := t.template, 0
	for {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			return
		}
		_, rest, _ = strings.Cut(after, "}")
		if next < len(t.args) {
			writeFact(b, t.args[next])
		}
		next++
	}
}

func writeFact(b *strings.Builder, fact any) {
	switch f := fact.(type) {
	case string:
		b.WriteString(f)
	case cluster.HostID:
		b.WriteString(string(f))
	case Text:
		f.write(b)
	default:
		fmt.Fprint(b, fact)
	}
}

// fact is one with its name.
type fact struct {
	name  string
	value any
}

// facts are those of the text and of the texts in it.
func (t Text) facts() (out []fact) {
	rest, next := t.template, 0
	for next < len(t.args) {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			return out
		}
		name, tail, _ := strings.Cut(after, "}")
		if inner, is := t.args[next].(Text); is {
			out = append(out, inner.facts()...)
		} else {
			out = append(out, fact{name, t.args[next]})
		}
		rest, next = tail, next+1
	}
	return out
}

// Facts are the facts by name, as JSON has them: durations in seconds under a name that
// ends in Seconds, times in RFC 3339. Of two of a name the first has it, and the next
// ones a number behind it.
func (t Text) Facts() map[string]any {
	all := t.facts()
	if len(all) == 0 {
		return nil
	}
	out := map[string]any{}
	for _, f := range all {
		name, value := f.name, f.value
		switch v := value.(type) {
		case time.Duration:
			name, value = name+"Seconds", v.Seconds()
		case time.Time:
			value = v.UTC().Format(time.RFC3339)
		case int, int64, uint64, uint, bool, string:
		default:
			value = fmt.Sprint(v)
		}
		key := name
		for n := 2; ; n++ {
			if _, taken := out[key]; !taken {
				break
			}
			key = fmt.Sprint(name, n)
		}
		out[key] = value
	}
	return out
}

// Subject is the host or member that the text is about first; empty: none.
func (t Text) Subject() string {
	if t.told != nil {
		return t.told.subject
	}
	for _, f := range t.facts() {
		switch f.name {
		case "host", "voter", "learner", "member":
			return fmt.Sprint(f.value)
		}
	}
	return ""
}

// Shape is what two texts have in common that say the same at two moments: all but times
// and durations, and without numbers also those.
func (t Text) Shape(withNumbers bool) string {
	var b strings.Builder
	t.shape(&b, withNumbers)
	return b.String()
}

func (t Text) shape(b *strings.Builder, withNumbers bool) {
	b.WriteString(t.template)
	for _, a := range t.args {
		switch a := a.(type) {
		case time.Duration, time.Time:
		case int, int64, uint64, uint:
			if withNumbers {
				fmt.Fprint(b, "\x00", a)
			}
		case Text:
			b.WriteByte(0)
			a.shape(b, withNumbers)
		default:
			b.WriteByte(0)
			writeShape(b, a, withNumbers)
		}
	}
}

// writeShape has the words of a fact, whose numbers may be in words of others.
func writeShape(b *strings.Builder, fact any, withNumbers bool) {
	if withNumbers {
		writeFact(b, fact)
		return
	}
	var all strings.Builder
	writeFact(&all, fact)
	for _, r := range all.String() {
		if r < '0' || r > '9' {
			b.WriteRune(r)
		}
	}
}

// MarshalText is String, for JSON.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText has a text of which only the words are known.
func (t *Text) UnmarshalText(said []byte) error {
	*t = Text{}
	if len(said) > 0 {
		*t = F("{said}", string(said))
	}
	return nil
}

// RawFacts are the facts as JSON, for who passes them on; nil: there are none.
func (t Text) RawFacts() json.RawMessage {
	if t.told != nil {
		return t.told.facts
	}
	facts := t.Facts()
	if facts == nil {
		return nil
	}
	data, err := json.Marshal(facts)
	if err != nil {
		return nil // no fact is of a kind that JSON has not
	}
	return data
}

package backupstore

import (
	"path"
	"regexp"
	"strings"
	"unicode"
)

// mostWords is how long a line about a backup may be, in bytes.
const mostWords = 300

// absolute is a path on whatever machine looked; its last part is enough.
var absolute = regexp.MustCompile(`(^|[\s"(=])/[^\s":()]*/[^\s":()]+`)

// OneLine makes one short line of what a file or an error says: what was joined
// by ends of lines is joined by semicolons, paths are shortened to their last
// part, and nothing in it moves a terminal's cursor.
func OneLine(s string) string {
	var parts []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.Join(parts, "; "))
	s = absolute.ReplaceAllStringFunc(s, func(m string) string {
		before := ""
		if m[0] != '/' {
			before = m[:1]
		}
		return before + path.Base(m)
	})
	if len(s) > mostWords {
		s = strings.ToValidUTF8(s[:mostWords], "") + "…"
	}
	return s
}

package support

import (
	"bytes"
	"regexp"
	"strings"

	"etcdadm.io/internal/envfile"
)

// leastSecret is how long a value has to be to be looked for: a shorter one would be found
// in words.
const leastSecret = 6

// removed stands where a secret was.
const removed = "(removed)"

// Redactor takes out of a text what must not leave the host. Nothing of ours writes a
// secret, so it is a second lock.
type Redactor struct{ literals [][]byte }

// NewRedactor knows the values of variables that are no flag's, such as credentials of a
// store, and what stands before the @ of a URL or in its parameters.
func NewRedactor(settings map[string]string) Redactor {
	var r Redactor
	for name, value := range settings {
		if !envfile.IsFlag(name) && !harmless.MatchString(name) && len(value) >= leastSecret {
			r.literals = append(r.literals, []byte(value))
		}
		if m := userInfo.FindStringSubmatch(value); m != nil {
			for _, part := range strings.SplitN(m[2], ":", 2) {
				if len(part) >= leastSecret {
					r.literals = append(r.literals, []byte(part))
				}
			}
		}
		for _, m := range parameter.FindAllStringSubmatch(value, -1) {
			if len(m[1]) >= leastSecret {
				r.literals = append(r.literals, []byte(m[1]))
			}
		}
	}
	return r
}

var (
	// harmless are variables whose values are needed by who helps, and are no secret.
	harmless  = regexp.MustCompile(`(_REGION|_ENDPOINT|_PROFILE|_DURATION|_RETENTION|_BYTES|_COUNT|_INTERVAL)$`)
	userInfo  = regexp.MustCompile(`([a-z][a-z0-9+.-]*://)([^/\s"@]+)@`)
	parameter = regexp.MustCompile(`[?&][^=&]+=([^&#]+)`)

	// anywhere are secrets by their form.
	anywhere = []struct {
		is *regexp.Regexp
		by string
	}{
		{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), removed},
		{regexp.MustCompile(`AGE-SECRET-KEY-1[0-9A-Z]+`), removed},
		{userInfo, "${1}" + removed + "@"},
		{regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z2-7]{32}\b`), "${1}." + removed}, // a join token
	}
	// named are secrets by the word before them: in lines of logs, not in documents whose
	// fields are known to hold none.
	named = regexp.MustCompile(`(?i)((?:password|passwd|secret|api_?key|access_?key|account_?key|storage_?key|session_?token|authorization)[\w.-]*["']?\s*[=:]\s*["']?)[^\s"'&,;}]+`)
)

// Document takes secrets out of a document of ours.
func (r Redactor) Document(text []byte) []byte {
	for _, l := range r.literals {
		text = bytes.ReplaceAll(text, l, []byte(removed))
	}
	for _, p := range anywhere {
		text = p.is.ReplaceAll(text, []byte(p.by))
	}
	return text
}

// Log takes secrets out of lines that anybody may have written.
func (r Redactor) Log(text []byte) []byte {
	return named.ReplaceAll(r.Document(text), []byte("${1}"+removed))
}

// Package docs_test keeps the documents true to the code: every code that can
// block has its page and no page is left over, links lead somewhere, and the
// flags, commands, metrics, files, tests and words that are named exist.
// It also keeps their form: lines of 120 columns, decisions that come first.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// root is the checkout.
const root = ".."

// document is a Markdown file.
type document struct {
	path  string // below root, with slashes
	lines []line
}

// line is a line of a document. Code is what stands in it between backquotes,
// or all of it inside of a fence.
type line struct {
	text   string
	code   []string
	prose  string // without code
	fenced bool
}

var span = regexp.MustCompile("`([^`]+)`")

func documents(t *testing.T) []document {
	t.Helper()
	paths := []string{"README.md", "CHANGELOG.md"}
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			paths = append(paths, "docs/"+filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []document
	for _, path := range paths {
		out = append(out, document{path, linesOf(read(t, path))})
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func linesOf(text string) []line {
	var out []line
	fenced := false
	for s := range strings.Lines(text) {
		l := line{text: strings.TrimRight(s, "\n"), fenced: fenced}
		switch {
		case strings.HasPrefix(strings.TrimSpace(s), "```"):
			fenced = !fenced
		case fenced:
			l.code = []string{l.text}
		default:
			for _, m := range span.FindAllStringSubmatch(s, -1) {
				l.code = append(l.code, m[1])
			}
			l.prose = span.ReplaceAllString(l.text, "")
		}
		out = append(out, l)
	}
	return out
}

// guides are the pages of docs/operations that are about no single code.
var guides = []string{"README", "first-cluster", "from-etcdadm", "reset", "install-and-run", "replace-a-host", "maintenance", "change-size", "tls", "certs", "kubeadm", "metrics", "static-pods", "in-a-container", "backup-and-restore", "troubleshooting", "stores", "releases", "options", "packages"}

func TestEveryCodeHasAPage(t *testing.T) {
	used := codes(t)
	if len(used) < 30 {
		t.Fatalf("found only %d codes: %q", len(used), used)
	}
	files, err := filepath.Glob("operations/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".md"); !slices.Contains(guides, name) {
			pages = append(pages, name)
		}
	}
	index := read(t, "docs/operations/README.md")
	for _, code := range used {
		if !slices.Contains(pages, code) {
			t.Errorf("the code %s is used and has no page docs/operations/%s.md", code, code)
		}
		if !strings.Contains(index, "["+code+"]("+code+".md)") {
			t.Errorf("docs/operations/README.md does not list %s", code)
		}
	}
	for _, page := range pages {
		if !slices.Contains(used, page) {
			t.Errorf("docs/operations/%s.md is about a code that nothing uses", page)
		}
		text := read(t, "docs/operations/"+page+".md")
		if !strings.Contains(text, page) || !strings.Contains(text, "**What it means.**") {
			t.Errorf("docs/operations/%s.md does not say what %s means", page, page)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, d := range documents(t) {
		for i, l := range d.lines {
			if l.fenced {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(l.text, -1) {
				if !strings.Contains(m[1], "://") {
					checkLink(t, d, i+1, m[1])
				}
			}
		}
	}
}

func checkLink(t *testing.T, from document, number int, target string) {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	path := from.path
	if file != "" {
		path = filepath.ToSlash(filepath.Join(filepath.Dir(from.path), file))
	}
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		t.Errorf("%s:%d: %s leads nowhere", from.path, number, target)
		return
	}
	if anchor == "" {
		return
	}
	for _, l := range linesOf(read(t, path)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(l.text, "#"), " "); ok && !l.fenced && strings.HasPrefix(l.text, "#") && slug(title) == anchor {
			return
		}
	}
	t.Errorf("%s:%d: %s has no heading #%s", from.path, number, path, anchor)
}

// slug is the anchor of a heading, as GitHub makes it.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// avoided are words that vocabulary.md replaces.
var avoided = regexp.MustCompile(`(?i)\b(nodes?|masters?|instances?)\b`)

func TestVocabulary(t *testing.T) {
	for _, d := range documents(t) {
		if d.path == "docs/vocabulary.md" {
			continue
		}
		for i, l := range d.lines {
			if m := avoided.FindString(l.prose); m != "" {
				t.Errorf("%s:%d: %q is no word of ours, see docs/vocabulary.md: %s", d.path, i+1, m, l.text)
			}
		}
	}
	for i, l := range linesOf(read(t, "docs/vocabulary.md")) {
		for _, c := range l.code {
			if !existsInCode(t, c) {
				t.Errorf("docs/vocabulary.md:%d: there is no %s", i+1, c)
			}
		}
	}
}

var qualified = regexp.MustCompile(`^([A-Za-z]+)\.([A-Z]\w*)$`)

// existsInCode finds `package.Name` and `Type.Member` in the Go sources, and
// `path/` and `path` as directories.
func existsInCode(t *testing.T, word string) bool {
	t.Helper()
	m := qualified.FindStringSubmatch(word)
	if m == nil {
		_, err := os.Stat(filepath.Join(root, word))
		return err == nil || word == "control/" || strings.Contains(sources(t), `"`+strings.TrimSuffix(word, "/")+`"`)
	}
	declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |\t)` + m[2] + `\b`)
	return declared.MatchString(sources(t)) && strings.Contains(sources(t), m[1])
}

// columns is how wide a line of Markdown may be; it is counted in characters.
const columns = 120

// unbreakable is a link or a code span that fills a line by itself.
var unbreakable = regexp.MustCompile("^\\s*([-*>] )?(`[^`]+`|\\[[^\\]]+\\]\\([^)]+\\))[.,:;]?$")

func TestLinesAreWrapped(t *testing.T) {
	for _, d := range documents(t) {
		for _, number := range tooWide(d.lines) {
			t.Errorf("%s:%d: the line has more than %d columns", d.path, number, columns)
		}
	}
}

// tooWide are the numbers of the lines that could be wrapped and are not: code, tables
// and single links stay as they are.
func tooWide(lines []line) (numbers []int) {
	for i, l := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(l.text), "```")
		if table := strings.HasPrefix(l.text, "|"); table || l.fenced || fence || unbreakable.MatchString(l.text) {
			continue
		}
		if utf8.RuneCountInString(l.text) > columns {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// A check that cannot fail is none.
func TestWideLinesAreSeen(t *testing.T) {
	long := strings.Repeat("wörter ", 30)
	text := strings.Repeat("ö", columns) + "\n" + long + "\n- " + long + "\n| " + long + "|\n```\n" + long + "\n```\n" +
		"[" + long + "](x.md).\nsee [" + long + "](x.md)\n"
	if found := tooWide(linesOf(text)); !slices.Equal(found, []int{2, 3, 9}) {
		t.Errorf("too wide: %v", found)
	}
}

// A decision record says in its first sentence what was decided.
func TestDecisionsComeFirst(t *testing.T) {
	files, err := filepath.Glob("adr/*.md")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		if why := opensWrong(read(t, "docs/"+filepath.ToSlash(f))); why != "" {
			t.Errorf("docs/%s: %s", filepath.ToSlash(f), why)
		}
	}
}

// opensWrong says what is wrong with the opening of a decision record, or nothing.
func opensWrong(text string) string {
	parts := strings.SplitN(text, "\n\n", 4)
	switch {
	case len(parts) < 4 || !strings.HasPrefix(parts[0], "# ") || !strings.HasPrefix(parts[1], "Status: "):
		return "it opens with a title and a status"
	case !strings.HasPrefix(parts[2], "**Decision:** "):
		return "after the status comes the decision: \"**Decision:** …\""
	case strings.Count(parts[2]+" ", ". ") != 1 || !strings.HasSuffix(parts[2], "."):
		return "the decision is one sentence"
	}
	return ""
}

// A check that cannot fail is none.
func TestWrongOpeningsAreSeen(t *testing.T) {
	for text, want := range map[string]string{
		"# 1: X\n\nStatus: accepted\n\n**Decision:** We do 3.5\nand no more.\n\n## Context\n":       "",
		"# 1: X\n\nStatus: accepted\n\n## Context\n\nLong ago.\n":                                   "after the status",
		"# 1: X\n\n**Decision:** We do.\n\nStatus: accepted\n\n## Context\n":                        "a title and a status",
		"# 1: X\n\nStatus: accepted\n\n**Decision:** We do. And more.\n\n## Context\n":              "one sentence",
		"# 1: X\n\nStatus: accepted\n\n**Decision:** We do, and so on\n\n## Context\n\nLong ago.\n": "one sentence",
	} {
		if why := opensWrong(text); want == "" && why != "" || !strings.Contains(why, want) {
			t.Errorf("%q: %q", text, why)
		}
	}
}

// hollow are turns of phrase that docs/style.md forbids.
var hollow = regexp.MustCompile(`(?i)\b(stands? still|stood still|comes? to nothing|came to nothing|is there|of which|that which)\b`)

// plain are the documents that users read; what the program prints stays as it is,
// between backquotes, asterisks or quotation marks.
func plain(path string) bool {
	return strings.HasPrefix(path, "docs/operations/") || slices.Contains([]string{"README.md", "CHANGELOG.md", "docs/waits.md", "docs/vocabulary.md"}, path)
}

var quoted = regexp.MustCompile(`"[^"]*"|\*[^*]+\*`)

func TestPlainWords(t *testing.T) {
	for _, d := range documents(t) {
		for i, l := range d.lines {
			if m := hollow.FindString(quoted.ReplaceAllString(l.prose, "")); plain(d.path) && m != "" {
				t.Errorf("%s:%d: %q, see docs/style.md: %s", d.path, i+1, m, l.text)
			}
		}
	}
}

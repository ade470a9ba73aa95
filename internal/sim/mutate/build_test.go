package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckCompiles: what a mutation leaves unused, or takes from the package's own tests, does not compile.
func TestCheckCompiles(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module m\n\ngo 1.26\n",
		"p/p.go":      "package p\n\nimport \"strings\"\n\nfunc F(s string) bool { return strings.HasPrefix(s, \"x\") }\n\ntype T struct{ N int }\n",
		"p/p_test.go": "package p\n\nvar _ = T{N: 1}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := newChecker(t.Context(), root, []string{""})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct{ decl, old, new, want string }{
		{"F", `strings.HasPrefix(s, "x")`, `strings.HasSuffix(s, "x")`, ""},
		{"F", `strings.HasPrefix(s, "x")`, "true", "imported and not used"},
		{"type T", "N int", "M int", "unknown field N"},
	} {
		err := c.check(mutation{edits: []edit{{dir: "p", decl: m.decl, old: m.old, new: m.new}}})
		if m.want == "" && err != nil || m.want != "" && (err == nil || !strings.Contains(err.Error(), m.want)) {
			t.Errorf("%s becomes %s: %v, want %q", m.old, m.new, err, m.want)
		}
	}
}

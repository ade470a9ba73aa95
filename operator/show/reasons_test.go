package show

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// reasons are those that a cluster which is not well may show: what decide waits for, and what this package says itself.
func reasons(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	take := func(e ast.Expr) {
		if l, ok := e.(*ast.BasicLit); ok {
			text, err := strconv.Unquote(l.Value)
			if err != nil {
				t.Fatal(err)
			}
			all[text] = true
		}
	}
	for _, dir := range []string{".", "../decide"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				switch x := n.(type) {
				case *ast.ValueSpec: // a Code of decide
					if name, ok := x.Type.(*ast.Ident); ok && name.Name == "Code" && dir != "." {
						take(x.Values[0])
					}
				case *ast.CallExpr:
					if name, ok := x.Fun.(*ast.Ident); ok && name.Name == "not" && dir == "." {
						take(x.Args[0])
					}
				case *ast.CompositeLit:
					if name, ok := x.Type.(*ast.Ident); ok && name.Name == "condition" && len(x.Elts) == 4 && bad(x) {
						take(x.Elts[2])
					}
				}
				return true
			})
		}
	}
	return all
}

// bad tells whether a condition says that something is wrong.
func bad(x *ast.CompositeLit) bool {
	selected := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok {
			return s.Sel.Name
		}
		return ""
	}
	switch selected(x.Elts[0]) {
	case "Reporting", "Available", "BackedUp":
		return selected(x.Elts[1]) != "ConditionTrue"
	}
	return false
}

// Each reason has a section of docs/operator/reasons.md, and each section is one's.
func TestEachReasonHasASection(t *testing.T) {
	text, err := os.ReadFile("../../docs/operator/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllSubmatch(text, -1) {
		sections = append(sections, string(m[1]))
	}
	all := reasons(t)
	if len(all) < 20 {
		t.Fatalf("found only %d reasons: %v", len(all), all)
	}
	for reason := range all {
		if !slices.Contains(sections, reason) {
			t.Errorf("docs/operator/reasons.md has no section of %s", reason)
		}
	}
	for _, s := range sections {
		if !all[s] {
			t.Errorf("docs/operator/reasons.md has a section of %s, which nobody gives as a reason", s)
		}
	}
}

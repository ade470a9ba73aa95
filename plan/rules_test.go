package plan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNoRuleCallsARule: what is in a list of rules has no caller but a list. What holds
// during a downgrade or a join is a second list, so that a reader finds what comes when in
// one file.
func TestNoRuleCallsARule(t *testing.T) {
	fset := token.NewFileSet()
	rules := map[string]bool{} // as package.Function
	file, err := parser.ParseFile(fset, "rules.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		l, is := n.(*ast.CompositeLit)
		if !is || len(l.Elts) != 2 {
			return true
		}
		if s, is := l.Elts[1].(*ast.SelectorExpr); is {
			rules[s.X.(*ast.Ident).Name+"."+s.Sel.Name] = true
		}
		return true
	})
	if len(rules) < 30 {
		t.Fatalf("only %d rules were found: %s", len(rules), slices.Sorted(maps.Keys(rules)))
	}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == "rules.go" {
			return err
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			name := ""
			switch n := n.(type) {
			case *ast.FuncDecl: // its own name is no call
				if n.Body != nil {
					ast.Inspect(n.Body, func(n ast.Node) bool { return calls(t, fset, file.Name.Name, rules, n) })
				}
				return false
			case *ast.SelectorExpr:
				if x, is := n.X.(*ast.Ident); is {
					name = x.Name + "." + n.Sel.Name
				}
			}
			if rules[name] {
				t.Errorf("%s: rule %s is used outside of the lists", fset.Position(n.Pos()), name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func calls(t *testing.T, fset *token.FileSet, pkg string, rules map[string]bool, n ast.Node) bool {
	t.Helper()
	name := ""
	switch n := n.(type) {
	case *ast.KeyValueExpr: // its key may be a field
		ast.Inspect(n.Value, func(n ast.Node) bool { return calls(t, fset, pkg, rules, n) })
		return false
	case *ast.SelectorExpr:
		if x, is := n.X.(*ast.Ident); is {
			name = x.Name + "." + n.Sel.Name
		}
		if rules[name] {
			t.Errorf("%s: rule %s is called", fset.Position(n.Pos()), name)
		}
		return false
	case *ast.Ident:
		if name = pkg + "." + n.Name; rules[name] {
			t.Errorf("%s: rule %s is called", fset.Position(n.Pos()), name)
		}
	}
	return true
}

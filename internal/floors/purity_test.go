package floors

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Floor 0 is pure: its imports are checked by the table, and what imports
// cannot show is checked here, on the syntax tree with types.
//
// A range over a map passes when the same function sorts afterwards, or when
// the line carries a comment that begins with "any order:" and says why the
// order cannot matter.
const anyOrder = "any order:"

// impure are functions and variables of allowed packages that are a clock, the
// machine's settings, or output.
var impure = map[string]string{
	"time.Now":          "a clock",
	"time.Since":        "a clock",
	"time.Until":        "a clock",
	"time.After":        "a clock",
	"time.AfterFunc":    "a clock",
	"time.Sleep":        "a clock",
	"time.Tick":         "a clock",
	"time.NewTimer":     "a clock",
	"time.NewTicker":    "a clock",
	"time.Local":        "this machine's setting",
	"time.LoadLocation": "this machine's files",
	"fmt.Print":         "output",
	"fmt.Printf":        "output",
	"fmt.Println":       "output",
	"fmt.Scan":          "input",
	"fmt.Scanf":         "input",
	"fmt.Scanln":        "input",
}

func TestFloorZeroIsPure(t *testing.T) {
	packages, exports := floorZero(t)
	if len(packages) == 0 {
		t.Fatal("there is no package on floor 0")
	}
	for _, p := range packages {
		fset := token.NewFileSet()
		checked, info, files := typeCheck(t, fset, p, exports)
		for _, complaint := range impurities(fset, info, files) {
			t.Errorf("%s: %s", p.ImportPath, complaint)
		}
		if p.ImportPath == module+"/plan" {
			if complaint := nextSignature(checked); complaint != "" {
				t.Error(complaint)
			}
		}
	}
}

// floorZero lists floor 0, and where the compiler's export data of everything
// that it imports lies.
func floorZero(t *testing.T) (packages []pkg, exports map[string]string) {
	t.Helper()
	var roots []string
	for _, p := range goList(t, "-json=ImportPath", "./...") {
		if r, known := roomOf(below(p.ImportPath)); known && r.floor == pure {
			roots = append(roots, p.ImportPath)
		}
	}
	if len(roots) == 0 {
		return nil, nil
	}
	exports = map[string]string{}
	for _, p := range goList(t, append([]string{"-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles"}, roots...)...) {
		exports[p.ImportPath] = p.Export
		if slices.Contains(roots, p.ImportPath) {
			packages = append(packages, p)
		}
	}
	return packages, exports
}

func typeCheck(t *testing.T, fset *token.FileSet, p pkg, exports map[string]string) (*types.Package, *types.Info, []*ast.File) {
	t.Helper()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
	}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	checked, err := config.Check(p.ImportPath, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	return checked, info, files
}

// nextSignature holds the law that plan.Next has no error: whatever is wrong is
// part of the decision.
func nextSignature(plan *types.Package) string {
	next, ok := plan.Scope().Lookup("Next").(*types.Func)
	if !ok {
		return "plan has no function Next: the planner is plan.Next(goal, observation) Decision"
	}
	results := next.Signature().Results()
	if results.Len() != 1 || !strings.HasSuffix(results.At(0).Type().String(), ".Decision") {
		return fmt.Sprintf("plan.Next returns %s: it returns a Decision and nothing else", results)
	}
	return ""
}

// impurities reads the files of one package.
func impurities(fset *token.FileSet, info *types.Info, files []*ast.File) []string {
	var found []string
	for _, f := range files {
		s := scan{fset: fset, info: info, excused: excusedLines(fset, f), found: &found}
		for _, d := range f.Decls {
			s.declaration(d)
		}
	}
	return found
}

// excusedLines are the lines whose order is declared not to matter.
func excusedLines(fset *token.FileSet, f *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.Comments {
		for _, c := range group.List {
			text := strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
			if reason, ok := strings.CutPrefix(text, anyOrder); ok && strings.TrimSpace(reason) != "" {
				lines[fset.Position(c.Pos()).Line] = true
				lines[fset.Position(group.End()).Line+1] = true // a comment above its line
			}
		}
	}
	return lines
}

type scan struct {
	fset    *token.FileSet
	info    *types.Info
	excused map[int]bool
	found   *[]string
}

func (s scan) say(at token.Pos, format string, args ...any) {
	p := s.fset.Position(at)
	*s.found = append(*s.found, fmt.Sprintf("%s:%d: ", filepath.Base(p.Filename), p.Line)+fmt.Sprintf(format, args...))
}

// declaration reads one top-level declaration. lastSort is where it last sorts:
// what takes an order from a map has to come before.
func (s scan) declaration(d ast.Decl) {
	lastSort := token.NoPos
	inOrder := map[ast.Expr]bool{} // arguments of a call that sorts
	ast.Inspect(d, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && s.sorts(call) {
			lastSort = max(lastSort, call.Pos())
			for _, a := range call.Args {
				inOrder[a] = true
			}
		}
		return true
	})
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			s.say(n.Pos(), "starts a goroutine")
		case *ast.SelectStmt:
			s.say(n.Pos(), "waits on channels")
		case *ast.ChanType:
			s.say(n.Pos(), "has a channel")
		case *ast.Ident:
			if what := impure[s.name(n)]; what != "" {
				s.say(n.Pos(), "%s is %s: floor 0 gets such things as values", s.name(n), what)
			}
		case *ast.RangeStmt:
			if s.isMap(n.X) && n.Pos() > lastSort && !s.excused[s.line(n)] {
				s.say(n.Pos(), "ranges over a map and does not sort after it: sort what it collects, or say on the line why the order cannot matter (// %s …)", anyOrder)
			}
		case *ast.CallExpr:
			name := s.name(callee(n))
			if slices.Contains([]string{"maps.Keys", "maps.Values", "maps.All"}, name) &&
				!inOrder[n] && n.Pos() > lastSort && !s.excused[s.line(n)] {
				s.say(n.Pos(), "%s has no order: put slices.Sorted around it, or say on the line why the order cannot matter (// %s …)", name, anyOrder)
			}
		}
		return true
	})
}

func (s scan) line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

func (s scan) isMap(x ast.Expr) bool {
	t := s.info.TypeOf(x)
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

func (s scan) sorts(call *ast.CallExpr) bool {
	name := s.name(callee(call))
	return strings.HasPrefix(name, "slices.Sort") || strings.HasPrefix(name, "sort.")
}

// callee is the identifier of the function that is called, nil for other calls.
func callee(call *ast.CallExpr) *ast.Ident {
	fun := ast.Unparen(call.Fun)
	if generic, ok := fun.(*ast.IndexExpr); ok {
		fun = generic.X
	}
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun
	case *ast.SelectorExpr:
		return fun.Sel
	}
	return nil
}

// name is package.name of a package-level object that an identifier uses.
func (s scan) name(id *ast.Ident) string {
	if id == nil {
		return ""
	}
	object := s.info.Uses[id]
	if object == nil || object.Pkg() == nil || object.Parent() != object.Pkg().Scope() {
		return ""
	}
	return object.Pkg().Path() + "." + object.Name()
}

// The reader itself can say no.
func TestImpuritiesAreSeen(t *testing.T) {
	const head = "package p\n\nimport (\n\t\"maps\"\n\t\"slices\"\n\t\"time\"\n)\n\nvar _ = maps.Clone[map[int]int]\nvar _ = slices.Max[[]int]\nvar _ time.Time\n\n"
	tests := []struct{ name, body, want string }{
		{"pure", "func f(m map[string]int) int { return m[\"a\"] }", ""},
		{"clock", "func f() time.Time { return time.Now() }", "time.Now is a clock"},
		{"clock as a value", "var now = time.Now", "time.Now is a clock"},
		{"duration is a type", "func f() time.Duration { return time.Second }", ""},
		{"after is a method too", "func f(a, b time.Time) bool { return a.After(b) }", ""},
		{"goroutine", "func f() { go func() {}() }", "goroutine"},
		{"channel", "var c chan int", "channel"},
		{"range", "func f(m map[int]int) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn s\n}", "ranges over a map"},
		{"range over a named map", "type M map[int]int\n\nfunc f(m M) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn s\n}", "ranges over a map"},
		{"range and sort", "func f(m map[int]int) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\tslices.Sort(s)\n\treturn s\n}", ""},
		{"sort before", "func f(m map[int]int, s []int) []int {\n\tslices.Sort(s)\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn s\n}", "ranges over a map"},
		{"excused", "func f(m map[int]int) (n int) {\n\tfor _, v := range m { // any order: a sum\n\t\tn += v\n\t}\n\treturn n\n}", ""},
		{"excused above", "func f(m map[int]int) (n int) {\n\t// any order: a sum\n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn n\n}", ""},
		{"excused without a reason", "func f(m map[int]int) (n int) {\n\tfor _, v := range m { // any order:\n\t\tn += v\n\t}\n\treturn n\n}", "ranges over a map"},
		{"keys sorted", "func f(m map[int]int) []int { return slices.Sorted(maps.Keys(m)) }", ""},
		{"keys collected", "func f(m map[int]int) []int { return slices.Collect(maps.Keys(m)) }", "maps.Keys has no order"},
	}
	exports := map[string]string{}
	for _, p := range goList(t, "-deps", "-export", "-json=ImportPath,Export", "maps", "slices", "time") {
		exports[p.ImportPath] = p.Export
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(head+test.body+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			fset := token.NewFileSet()
			_, info, files := typeCheck(t, fset, pkg{ImportPath: "p", Dir: dir, GoFiles: []string{"p.go"}}, exports)
			got := strings.Join(impurities(fset, info, files), "\n")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

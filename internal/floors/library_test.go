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
	"slices"
	"strings"
	"testing"
)

// The library at the module's root is called by programs of others, which can name no type
// of an internal package: none stands in what it exports.
func TestLibraryExportsNothingInternal(t *testing.T) {
	readTree(t)
	exports := map[string]string{}
	for _, p := range goList(t, "-deps", "-export", "-json=ImportPath,Export", ".") {
		exports[p.ImportPath] = p.Export
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	library, err := importer.ForCompiler(token.NewFileSet(), "gc", lookup).Import(module)
	if err != nil {
		t.Fatal(err)
	}
	if library.Scope().Lookup("Connect") == nil {
		t.Error("the library has no Connect: is it still at the module's root?")
	}
	for _, leak := range leaks(library) {
		t.Error(leak)
	}
}

// leaks are the places in what a package exports where a type of an internal package stands.
func leaks(p *types.Package) []string {
	l := leakage{seen: map[types.Type]bool{}}
	for _, name := range p.Scope().Names() {
		if o := p.Scope().Lookup(name); o.Exported() {
			l.look(name, o.Type())
		}
	}
	slices.Sort(l.found)
	return l.found
}

type leakage struct {
	seen  map[types.Type]bool
	found []string
}

// look goes through a type as whoever uses it can: exported fields and methods only.
func (l *leakage) look(at string, t types.Type) {
	if t == nil || l.seen[t] {
		return
	}
	l.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		l.look(at, types.Unalias(t))
	case *types.Named:
		l.named(at, t)
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				l.look(at+"."+f.Name(), f.Type())
			}
		}
	case *types.Signature:
		l.tuple(at, t.Params())
		l.tuple(at, t.Results())
	case *types.Interface:
		for m := range t.Methods() {
			l.look(at+"."+m.Name(), m.Type())
		}
	case *types.Map:
		l.look(at, t.Key())
		l.look(at, t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		l.look(at, t.Elem())
	}
}

func (l *leakage) named(at string, t *types.Named) {
	o := t.Obj()
	if o.Pkg() == nil || !ours(o.Pkg().Path()) {
		return
	}
	if under(below(o.Pkg().Path()), "internal") {
		l.found = append(l.found, fmt.Sprintf("%s is or holds a %s.%s, which no program of others can name: give the library a type of its own, or move that one into a public package", at, below(o.Pkg().Path()), o.Name()))
		l.seen[t] = false // each place is told
		return
	}
	for a := range t.TypeArgs().Types() {
		l.look(at, a)
	}
	for m := range t.Methods() {
		if m.Exported() {
			l.look(o.Name()+"."+m.Name(), m.Type())
		}
	}
	l.look(o.Name(), t.Underlying())
}

func (l *leakage) tuple(at string, t *types.Tuple) {
	for v := range t.Variables() {
		l.look(at, v.Type())
	}
}

// A check that cannot fail is none.
func TestLeaksAreSeen(t *testing.T) {
	inner := types.NewPackage(module+"/internal/inner", "inner")
	secret := types.NewTypeName(token.NoPos, inner, "Secret", nil)
	types.NewNamed(secret, types.NewStruct(nil, nil), nil)
	inner.Scope().Insert(secret)
	inner.MarkComplete()
	for body, want := range map[string]string{
		"func F(inner.Secret)":                               "F is",
		"func F() (int, error, []*inner.Secret)":             "F is",
		"var V map[string]chan inner.Secret":                 "V is",
		"type T struct { In *inner.Secret }":                 "T.In is",
		"type T = inner.Secret":                              "T is",
		"type T struct { Deep struct { In inner.Secret } }":  "T.Deep.In is",
		"type T int; func (T) M() inner.Secret { panic(0) }": "T.M is",
		"type I interface { M(func(inner.Secret)) }":         "I.M is",
		"type T struct { in *inner.Secret }":                 "",
		"type T int; func (T) m(inner.Secret) {}":            "",
		"func f(inner.Secret)":                               "",
		"func F(error, ...string)":                           "",
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x\n\nimport \""+inner.Path()+"\"\n\nvar _ inner.Secret\n"+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		config := types.Config{Importer: only{inner}, IgnoreFuncBodies: true}
		checked, err := config.Check(module, fset, []*ast.File{file}, nil)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		got := strings.Join(leaks(checked), "\n")
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// only knows one package.
type only struct{ p *types.Package }

func (o only) Import(string) (*types.Package, error) { return o.p, nil }

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"

	"golang.org/x/tools/go/packages"
)

// figures are those of a package.
type figures struct {
	path      string
	files     int
	lines     int
	circle    int // the files of the largest circle; 0 or 1: there is none
	types     []counted
	functions []counted
}

// counted is something with its count of methods or lines.
type counted struct {
	name  string
	count int
}

// load measures the packages that a pattern names and what they import of their own
// module, without tests and generated files.
func load(dir, pattern string) ([]figures, error) {
	const need = packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps | packages.NeedModule
	all, err := packages.Load(&packages.Config{Mode: need, Dir: dir}, pattern)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no package found")
	}
	var out []figures
	packages.Visit(all, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			err = errors.Join(err, fmt.Errorf("read %s: %w", p.PkgPath, e))
		}
		if p.Module != nil && p.Module.Main {
			out = append(out, measure(p))
		}
	})
	return out, err
}

func measure(p *packages.Package) figures {
	f := figures{path: p.PkgPath}
	uses := map[string]map[string]bool{}
	methods := map[string]int{}
	var order []string
	for _, file := range p.Syntax {
		at := p.Fset.File(file.Pos())
		if ast.IsGenerated(file) {
			continue
		}
		f.files++
		f.lines += at.LineCount()
		uses[at.Name()] = named(p, file, at.Name())
		for _, d := range file.Decls {
			fn, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			f.functions = append(f.functions, counted{p.Name + "." + fullName(fn), lines(p.Fset, fn)})
			if of := receiver(fn); of != "" {
				if methods[of]++; methods[of] == 1 {
					order = append(order, of)
				}
			}
		}
	}
	for _, of := range order {
		f.types = append(f.types, counted{p.Name + "." + of, methods[of]})
	}
	f.circle = largestCircle(uses)
	return f
}

// named are the other files of the package that declare what a file names.
func named(p *packages.Package, file *ast.File, own string) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		id, is := n.(*ast.Ident)
		if !is {
			return true
		}
		o := p.TypesInfo.Uses[id]
		if o == nil || o.Pkg() != p.Types || !o.Pos().IsValid() || !declaration(o) {
			return true
		}
		if in := p.Fset.File(o.Pos()); in != nil && in.Name() != own {
			out[in.Name()] = true
		}
		return true
	})
	return out
}

// declaration: a function, a method, or what stands at the top of a file. The fields of a
// type do not count, its name does.
func declaration(o types.Object) bool {
	if _, is := o.(*types.Func); is {
		return true
	}
	return o.Parent() != nil && o.Parent() == o.Pkg().Scope()
}

func lines(fset *token.FileSet, fn *ast.FuncDecl) int {
	return fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
}

func fullName(fn *ast.FuncDecl) string {
	if of := receiver(fn); of != "" {
		return of + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// receiver is the type that a method is of; empty: it is a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	t := fn.Recv.List[0].Type
	for {
		switch is := t.(type) {
		case *ast.StarExpr:
			t = is.X
		case *ast.IndexExpr:
			t = is.X
		case *ast.IndexListExpr:
			t = is.X
		case *ast.Ident:
			return is.Name
		default:
			return filepath.Base(fmt.Sprint(t))
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// edit replaces old, which is there exactly once, by new: in a declaration of a
// package, whichever of its files has it, or in one file.
type edit struct {
	dir, decl string // as in "== plan view.takeOut"
	inTests   bool   // the declaration stands in a _test.go file
	file      string // as in "== internal/x/testdata/y.sh"
	old, new  string
}

// place reads what follows "==".
func place(words string) edit {
	dir, decl, _ := strings.Cut(words, " ")
	if decl == "" {
		return edit{file: dir}
	}
	decl, inTests := strings.CutSuffix(decl, " in tests")
	return edit{dir: dir, decl: decl, inTests: inTests}
}

func (e edit) String() string {
	switch {
	case e.file != "":
		return e.file
	case e.inTests:
		return e.dir + " " + e.decl + " in tests"
	}
	return e.dir + " " + e.decl
}

// lexeme is a token and where it stands.
type lexeme struct {
	text       string
	start, end int
}

// lex splits Go text into tokens. Comments are left out, and so are semicolons
// that stand for the end of a line: neither says what the code does.
func lex(text []byte) ([]lexeme, error) {
	var errs scanner.ErrorList
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, errs.Add, 0)
	var out []lexeme
	for {
		pos, tok, word := s.Scan()
		if tok == token.EOF {
			return out, errs.Err()
		}
		if tok == token.SEMICOLON && word != ";" {
			continue
		}
		if !tok.IsLiteral() {
			word = tok.String()
		}
		at := file.Offset(pos)
		out = append(out, lexeme{word, at, at + len(word)})
	}
}

// lastComma reports whether words[i] is the comma before a closing bracket, which
// comes and goes with the line break behind it.
func lastComma(words []lexeme, i int) bool {
	return words[i].text == "," && i+1 < len(words) && slices.Contains([]string{")", "]", "}"}, words[i+1].text)
}

// match compares old with what begins at in[i], and says where that ends.
func match(in []lexeme, i int, old []lexeme) (end int, ok bool) {
	first := i
	for k, want := range old {
		if i > first && i < len(in) && lastComma(in, i) && want.text != "," {
			i++
		}
		switch {
		case i < len(in) && in[i].text == want.text:
			i++
		case k > 0 && lastComma(old, k):
		default:
			return 0, false
		}
	}
	return i, true
}

// sameTokens reports whether two texts are the same Go but for comments and layout.
func sameTokens(a, b []byte) bool {
	x, errX := lex(a)
	y, errY := lex(b)
	return errX == nil && errY == nil && slices.EqualFunc(x, y, func(a, b lexeme) bool { return a.text == b.text })
}

// span is a part of a file.
type span struct{ start, end int }

// find lists where old stands in text.
func find(text, old []byte) ([]span, error) {
	wanted, err := lex(old)
	if err != nil {
		return nil, fmt.Errorf("the old text is not made of Go tokens: %w", err)
	}
	if len(wanted) == 0 {
		return nil, errors.New("the old text is empty")
	}
	in, err := lex(text)
	if err != nil {
		return nil, err
	}
	var out []span
	for i := range in {
		if end, ok := match(in, i, wanted); ok {
			out = append(out, span{in[i].start, in[end-1].end})
		}
	}
	return out, nil
}

// source is a file, with its declarations if it is one of Go.
type source struct {
	text  []byte
	decls map[string][]span
}

func read(path string, text []byte) (*source, error) {
	s := &source{text: text, decls: map[string][]span{}}
	if !strings.HasSuffix(path, ".go") {
		return s, nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(name string, n ast.Node) {
		s.decls[name] = append(s.decls[name], span{fset.Position(n.Pos()).Offset, fset.Position(n.End()).Offset})
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(funcName(d), d)
		case *ast.GenDecl:
			for _, one := range d.Specs {
				var n ast.Node = one
				if !d.Lparen.IsValid() {
					n = d
				}
				switch one := one.(type) {
				case *ast.TypeSpec:
					add("type "+one.Name.Name, n)
				case *ast.ValueSpec:
					for _, name := range one.Names {
						add(d.Tok.String()+" "+name.Name, n)
					}
				}
			}
		}
	}
	return s, nil
}

// funcName is a function's name, with the type before that of a method.
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.ParenExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

// tree reads the files below a directory, each once.
type tree struct {
	root  string
	files map[string]*source
	names map[string][]string // by directory
}

func newTree(root string) *tree {
	return &tree{root: root, files: map[string]*source{}, names: map[string][]string{}}
}

func (t *tree) file(path string) (*source, error) {
	if s := t.files[path]; s != nil {
		return s, nil
	}
	text, err := os.ReadFile(filepath.Join(t.root, path))
	if err != nil {
		return nil, err
	}
	s, err := read(path, text)
	if err != nil {
		return nil, err
	}
	t.files[path] = s
	return s, nil
}

// goFiles lists the Go files of a directory, whatever they are built for.
func (t *tree) goFiles(dir string) ([]string, error) {
	if names := t.names[dir]; names != nil {
		return names, nil
	}
	entries, err := os.ReadDir(filepath.Join(t.root, dir))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".go") {
			t.names[dir] = append(t.names[dir], dir+"/"+e.Name())
		}
	}
	return t.names[dir], nil
}

// apply makes a mutation's edits one after the other, and hands out the files
// that they change. Nothing is written.
func (t *tree) apply(m mutation) (map[string][]byte, error) {
	now := &tree{root: t.root, files: map[string]*source{}, names: t.names}
	changed := map[string][]byte{}
	for _, e := range m.edits {
		look := func(path string) (*source, error) {
			if s := now.files[path]; s != nil {
				return s, nil
			}
			return t.file(path)
		}
		path, at, err := t.locate(e, look)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e, err)
		}
		s, err := look(path)
		if err != nil {
			return nil, err
		}
		if e.file == "" && sameTokens(s.text[at.start:at.end], []byte(e.new)) {
			return nil, fmt.Errorf("%s: the new text says the same as the old", e)
		}
		text := slices.Concat(s.text[:at.start], []byte(e.new), s.text[at.end:])
		if now.files[path], err = read(path, text); err != nil {
			return nil, fmt.Errorf("%s: the changed file does not parse: %w", e, err)
		}
		changed[path] = text
	}
	return changed, nil
}

// locate finds the one place where an edit's old text stands.
func (t *tree) locate(e edit, look func(string) (*source, error)) (path string, at span, err error) {
	if e.file != "" {
		s, err := look(e.file)
		if err != nil {
			return "", span{}, err
		}
		n := strings.Count(string(s.text), e.old)
		if n != 1 || e.old == "" {
			return "", span{}, fmt.Errorf("the file has the old text %d times:\n%s", n, e.old)
		}
		start := strings.Index(string(s.text), e.old)
		return e.file, span{start, start + len(e.old)}, nil
	}
	names, err := t.goFiles(e.dir)
	if err != nil {
		return "", span{}, err
	}
	declared, found := 0, 0
	var elsewhere []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") != e.inTests {
			continue
		}
		s, err := look(name)
		if err != nil {
			return "", span{}, err
		}
		declared += len(s.decls[e.decl])
		for _, d := range s.decls[e.decl] {
			spans, err := find(s.text[d.start:d.end], []byte(e.old))
			if err != nil {
				return "", span{}, err
			}
			found += len(spans)
			for _, one := range spans {
				path, at = name, span{d.start + one.start, d.start + one.end}
			}
		}
	}
	if found == 1 {
		return path, at, nil
	}
	if found == 0 { // it says where the text went, for whoever moved it
		for _, name := range names {
			s, err := look(name)
			if err != nil {
				return "", span{}, err
			}
			for decl, spans := range s.decls {
				for _, d := range spans {
					if there, err := find(s.text[d.start:d.end], []byte(e.old)); err == nil && len(there) > 0 {
						elsewhere = append(elsewhere, decl+" ("+filepath.Base(name)+")")
					}
				}
			}
		}
	}
	slices.Sort(elsewhere)
	where := ""
	if len(elsewhere) > 0 {
		where = "; the package has it in " + strings.Join(elsewhere[:min(len(elsewhere), 4)], ", ")
	}
	if declared == 0 {
		return "", span{}, fmt.Errorf("the package declares it 0 times%s", where)
	}
	return "", span{}, fmt.Errorf("declared %d times, with the old text %d times%s:\n%s", declared, found, where, e.old)
}

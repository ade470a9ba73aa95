package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// checker says whether mutations compile, without their tests, which take hours. It checks the package that an edit changes,
// and not those that import it.
type checker struct {
	files    *tree
	fset     *token.FileSet
	importer types.Importer
	packages map[string]listed // by directory below the root
	parsed   map[string]*ast.File
}

// listed is what go list says of a package.
type listed struct {
	Dir, ImportPath, ForTest, Export   string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// newChecker has the modules below root built, for what their packages export.
func newChecker(ctx context.Context, root string, modules []string) (*checker, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	c := &checker{files: newTree(root), fset: token.NewFileSet(), packages: map[string]listed{}, parsed: map[string]*ast.File{}}
	exports := map[string]string{}
	for _, module := range modules {
		list := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-test", "-json=Dir,ImportPath,ForTest,Export,GoFiles,TestGoFiles,XTestGoFiles", "./...")
		list.Dir, list.Stderr = filepath.Join(root, module), os.Stderr
		said, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list the packages of module %q: %w", module, err)
		}
		for in := json.NewDecoder(bytes.NewReader(said)); ; {
			var p listed
			if err := in.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read what go list says of module %q: %w", module, err)
			}
			if p.ForTest != "" || strings.HasSuffix(p.ImportPath, ".test") {
				continue
			}
			exports[p.ImportPath] = p.Export
			if dir, err := filepath.Rel(root, p.Dir); err == nil && filepath.IsLocal(dir) {
				c.packages[dir] = p
			}
		}
	}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("go list has built no package %s", path)
		}
		return os.Open(exports[path])
	})
	return c, nil
}

// check reports why a mutation does not compile.
func (c *checker) check(m mutation) error {
	changed, err := c.files.apply(m)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for path := range changed {
		dir := filepath.Dir(path)
		if !strings.HasSuffix(path, ".go") || done[dir] {
			continue
		}
		done[dir] = true
		p, ok := c.packages[dir]
		if !ok {
			return fmt.Errorf("%s is in no package of this system", path)
		}
		if err := c.compile(p, dir, changed); err != nil {
			return err
		}
	}
	return nil
}

// compile checks a package with the changed files and its own tests, which a run builds with it; or its tests from outside, where one
// of their files is changed.
func (c *checker) compile(p listed, dir string, changed map[string][]byte) error {
	has := func(names []string) bool {
		for _, name := range names {
			if changed[dir+"/"+name] != nil {
				return true
			}
		}
		return false
	}
	var names []string
	switch {
	case has(p.XTestGoFiles):
		names = p.XTestGoFiles
	case has(p.GoFiles) || has(p.TestGoFiles):
		names = append(append(names, p.GoFiles...), p.TestGoFiles...)
	default:
		return fmt.Errorf("%s: no changed file is built on this system", dir)
	}
	var files []*ast.File
	for _, name := range names {
		f, err := c.parse(dir+"/"+name, changed)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var errs []error
	conf := types.Config{Importer: c.importer, Error: func(err error) { errs = append(errs, err) }}
	if _, err := conf.Check(p.ImportPath, c.fset, files, nil); err != nil && len(errs) == 0 {
		errs = append(errs, err)
	}
	return errors.Join(errs[:min(len(errs), 3)]...)
}

func (c *checker) parse(path string, changed map[string][]byte) (*ast.File, error) {
	if text, is := changed[path]; is {
		return parser.ParseFile(c.fset, path, text, parser.SkipObjectResolution)
	}
	if c.parsed[path] == nil {
		f, err := parser.ParseFile(c.fset, filepath.Join(c.files.root, path), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c.parsed[path] = f
	}
	return c.parsed[path], nil
}

// builds says of each mutation that does not compile why.
func builds(ctx context.Context, all []mutation) (ok bool, err error) {
	modules := []string{""}
	for _, m := range all {
		if !slices.Contains(modules, m.module) {
			modules = append(modules, m.module)
		}
	}
	c, err := newChecker(ctx, ".", modules)
	if err != nil {
		return false, err
	}
	unbuilt := 0
	for _, m := range all {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err := c.check(m); err != nil {
			unbuilt++
			fmt.Printf("%-12s rule %-3s %-34s %v\n", broken, m.rule, m.name, err)
		}
	}
	fmt.Printf("%d of %d mutations compile\n", len(all)-unbuilt, len(all))
	return unbuilt == 0, nil
}

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// goFiles parses the Go files below directories of the checkout, tests left out.
func goFiles(t *testing.T, dirs ...string) []*ast.File {
	t.Helper()
	var out []*ast.File
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no Go files in %s: %v", dir, err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, parsed)
		}
	}
	return out
}

// codes are the codes of blockers and problems, sorted.
func codes(t *testing.T) []string {
	t.Helper()
	// Which argument of the planner's own functions is the code.
	position := map[string]int{"Wait": 1, "WaitLater": 0, "Refuse": 0, "Stuck": 0, "Notice": 0, "Advise": 0, "notYet": 1}
	var out []string
	take := func(e ast.Expr) {
		switch x := e.(type) {
		case *ast.BasicLit:
			s, err := strconv.Unquote(x.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		case *ast.Ident, *ast.SelectorExpr: // handed on from one that is seen elsewhere
		default:
			t.Errorf("a code that is made up at run time has no page: %T", e)
		}
	}
	planner := goFiles(t, "plan", "plan/internal/*")
	for _, f := range append(planner, goFiles(t, "internal/host", "internal/host/*", "internal/manager", "internal/daemon", "internal/keeping", "internal/moving")...) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				if at, ok := position[called(x)]; ok && slices.Contains(planner, f) && len(x.Args) > at {
					take(x.Args[at])
				}
			case *ast.KeyValueExpr:
				if key, ok := x.Key.(*ast.Ident); ok && key.Name == "Code" {
					take(x.Value)
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

var flagName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// defines are the functions of package flag, pflag and internal/cli by which a
// flag comes to be; its name is the first argument that looks like one.
var defines = []string{"StringVar", "StringVarP", "StringSliceVar", "StringArrayVar", "BoolVar", "BoolVarP", "IntVar", "DurationVar", "BoolFunc", "Func", "Var", "list"}

// flags are all flags that internal/cli defines, or those of one of its functions.
func flags(t *testing.T, function string) []string {
	t.Helper()
	var out []string
	for _, f := range goFiles(t, "internal/cli", "operator/plugin") {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || function != "" && fn.Name.Name != function {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				c, ok := n.(*ast.CallExpr)
				if !ok || !slices.Contains(defines, called(c)) {
					return true
				}
				for _, a := range c.Args[:min(2, len(c.Args))] {
					if l, ok := a.(*ast.BasicLit); ok && l.Kind == token.STRING {
						if s, err := strconv.Unquote(l.Value); err == nil && flagName.MatchString(s) {
							out = append(out, s)
							break
						}
					}
				}
				return true
			})
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var (
	flagUsed    = regexp.MustCompile(`(?:^|[\s(\[/=])--([a-z][a-z0-9_-]*)`)
	commandUsed = regexp.MustCompile(`(?:^|[\s/(])etcdadm ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?`)
)

// foreign are flags of other programs that the documents name.
var foreign = []string{
	"force-new-cluster", "max-learners", "no-password", "limit", // etcd, etcdctl
	"config", "upload-certs", "etcd-servers", "raw", "replicas", "type", "server-side", "field-selector", "overwrite", // kubeadm, kube-apiserver, kubectl
	"set", "take-ownership", "dest-cacert", "dest-cert", "dest-key", // helm, etcdctl make-mirror
	"rotation-grace", "issuers", "alpha", // the operator's
	"check", "purge", "now", "log-file", "also-stdout", // sha256sum, dpkg, systemctl, the images' go-runner
	"x",                                         // how flags are written
	"logtostderr", "alsologtostderr", "vmodule", // klog's, defined in a loop
}

// unbuilt says that a line tells of something that is not there.
var unbuilt = regexp.MustCompile(`(?i)not in this release|not yet`)

// decided: documents that tell why, at the time, may name what is to come.
func decided(path string) bool { return strings.HasPrefix(path, "docs/adr/") }

func TestFlagsExist(t *testing.T) {
	known := append(flags(t, ""), foreign...)
	for _, d := range documents(t) {
		notYet := false // below a heading that says so
		for i, l := range d.lines {
			if strings.HasPrefix(l.text, "#") {
				notYet = unbuilt.MatchString(l.text)
			}
			for _, c := range l.code {
				for _, m := range flagUsed.FindAllStringSubmatch(c, -1) {
					if !slices.Contains(known, m[1]) && !notYet && !decided(d.path) && !unbuilt.MatchString(l.text) {
						t.Errorf("%s:%d: there is no flag --%s: %s", d.path, i+1, m[1], l.text)
					}
				}
			}
		}
	}
}

// The table of flags is whole, in both directions.
func TestManagersFlagsAreListed(t *testing.T) {
	manager := flags(t, "ManagerFlags")
	if len(manager) < 30 {
		t.Fatalf("found only %d flags: %q", len(manager), manager)
	}
	var listed []string
	for _, l := range linesOf(read(t, "docs/operations/install-and-run.md")) {
		first, _, _ := strings.Cut(strings.TrimPrefix(l.text, "| "), " | ")
		if !strings.HasPrefix(l.text, "| `--") {
			continue
		}
		for _, m := range span.FindAllStringSubmatch(first, -1) {
			listed = append(listed, strings.TrimPrefix(m[1], "--"))
		}
	}
	for _, name := range manager {
		if !slices.Contains(listed, name) {
			t.Errorf("--%s is not in the table of docs/operations/install-and-run.md", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(manager, name) && !slices.Contains(foreign, name) {
			t.Errorf("docs/operations/install-and-run.md lists --%s, which etcd-manager does not have", name)
		}
	}
}

func TestCommandsExist(t *testing.T) {
	known := []string{"etcd", "completion"} // the built-in one, which no person calls; cobra's own
	for _, f := range goFiles(t, "internal/cli", "operator/plugin") {
		ast.Inspect(f, func(n ast.Node) bool {
			var use ast.Expr
			switch x := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := x.Key.(*ast.Ident); ok && key.Name == "Use" {
					use = x.Value
				}
			case *ast.CallExpr:
				if called(x) == "step" || called(x) == "group" {
					use = x.Args[0]
				}
			}
			if l, ok := use.(*ast.BasicLit); ok {
				if s, err := strconv.Unquote(l.Value); err == nil {
					word, _, _ := strings.Cut(s, " ")
					known = append(known, word)
				}
			}
			return true
		})
	}
	for _, d := range documents(t) {
		for i, l := range d.lines {
			for _, c := range l.code {
				for _, m := range commandUsed.FindAllStringSubmatch(c, -1) {
					there := slices.Contains(known, m[1]) && (m[1] != "member" || m[2] == "" || slices.Contains(known, m[2]))
					if !there && !decided(d.path) && !unbuilt.MatchString(l.text) {
						t.Errorf("%s:%d: there is no command %q: %s", d.path, i+1, m[0], l.text)
					}
				}
			}
		}
	}
}

var metricName = regexp.MustCompile(`\betcdadm_[a-z_]+\b`)

func TestMetricsAndRulesAreListed(t *testing.T) {
	page := read(t, "docs/format/metrics.md")
	defined := map[string]bool{}
	for _, name := range metricName.FindAllString(read(t, "internal/daemon/metrics.go"), -1) {
		defined[name] = true
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/format/metrics.md does not list %s", name)
		}
	}
	for _, d := range documents(t) {
		for _, l := range d.lines {
			for _, name := range metricName.FindAllString(l.text, -1) {
				if !defined[name] {
					t.Errorf("%s: there is no metric %s", d.path, name)
				}
			}
		}
	}
	for _, m := range regexp.MustCompile(`\{"([a-z-]+)", [a-zA-Z.]+\}`).FindAllStringSubmatch(read(t, "plan/rules.go"), -1) {
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("docs/format/metrics.md does not name the rule %s", m[1])
		}
	}
}

var (
	testName = regexp.MustCompile(`\bTest[A-Z]\w+`)
	goFile   = regexp.MustCompile(`(?:[a-z0-9-]+/)*[a-z_*]+\.go\b`)
)

// Tests and files that a document names exist; a name without a directory is in
// the directory of the one before it on the line.
func TestNamedTestsAndFilesExist(t *testing.T) {
	all := sources(t)
	for _, d := range documents(t) {
		for i, l := range d.lines {
			dir := ""
			for _, c := range l.code {
				for _, name := range testName.FindAllString(c, -1) {
					if !strings.Contains(all, "func "+name+"(") {
						t.Errorf("%s:%d: there is no test %s", d.path, i+1, name)
					}
				}
				for _, name := range goFile.FindAllString(c, -1) {
					if at, ok := locate(dir, name); ok || strings.Contains(name, "*") {
						dir = at
						continue
					}
					t.Errorf("%s:%d: there is no file %s", d.path, i+1, name)
				}
			}
		}
	}
}

func locate(dir, name string) (string, bool) {
	for _, prefix := range []string{"", "internal", dir} {
		path := filepath.Join(prefix, filepath.FromSlash(name))
		if prefix == dir && dir != "" || strings.Contains(name, "/") {
			if _, err := os.Stat(filepath.Join(root, path)); err == nil {
				return filepath.Dir(path), true
			}
		}
	}
	return "", false
}

var readSources = sync.OnceValues(func() (string, error) {
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "testdata" || e.Name() == "bin" || e.Name() == "docs"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		return err
	})
	return all.String(), err
})

// sources is every Go file of the checkout.
func sources(t *testing.T) string {
	t.Helper()
	s, err := readSources()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

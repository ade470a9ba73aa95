package floors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const module = "etcdadm.io"

// pkg is what the go command says of a package.
type pkg struct {
	ImportPath string
	Dir        string
	Export     string
	Standard   bool
	Module     *struct{ Path string }
	GoFiles    []string
	Imports    []string
}

// goList runs the go command at the root of the checkout.
func goList(t *testing.T, args ...string) []pkg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"list"}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// readTree opens every Go file of the checkout. The go command remembers a
// test's result by the files that the test itself has opened; what "go list"
// reads for it does not count, and a breach would pass as "(cached)".
func readTree(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".go":
			_, err = os.ReadFile(path)
		}
		if errors.Is(err, os.ErrNotExist) { // an editor's file, gone again
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsGoDown(t *testing.T) {
	readTree(t)
	packages := goList(t, "-deps", "-json=ImportPath,Dir,Standard,Module,GoFiles,Imports", "./...")
	for _, complaint := range complaints(packages) {
		t.Error(complaint)
	}
	for _, r := range table {
		if !isThere(packages, r.path) && r.path != "tools/..." { // tools is a module of its own
			t.Errorf("the table has a row for %s, and no such package exists: delete the row", r.path)
		}
		for _, name := range slices.Concat(sorted(r.beside), sorted(r.never)) {
			if isNamedHere(name) && !isThere(packages, name) {
				t.Errorf("the row of %s names %s, and no such package exists: delete the entry", r.path, name)
			}
		}
	}
	for _, g := range guarded {
		for _, name := range g.rooms {
			if !isThere(packages, name) {
				t.Errorf("%s is guarded for %s, and no such package exists: delete the entry", g.path, name)
			}
		}
	}
}

// isNamedHere reports whether a name of the table means a package of this module.
func isNamedHere(name string) bool {
	return strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "cmd/")
}

// isThere reports whether a name of the table means a package that exists.
func isThere(packages []pkg, name string) bool {
	name = strings.TrimSuffix(name, "/...")
	return slices.ContainsFunc(packages, func(p pkg) bool { return ours(p.ImportPath) && under(below(p.ImportPath), name) })
}

// Commands hold no logic: what they do fits on two screens.
func TestCommandsAreShort(t *testing.T) {
	for _, p := range goList(t, "-json=ImportPath,Dir,GoFiles", "./...") {
		r, known := roomOf(below(p.ImportPath))
		if !known || r.floor != command {
			continue
		}
		lines := 0
		for _, name := range p.GoFiles {
			content, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(content, []byte("\n"))
		}
		if lines > commandLines {
			t.Errorf("%s has %d lines, more than %d: a command turns flags into options, minds signals and exits; logic belongs in internal/cli or below", p.ImportPath, lines, commandLines)
		}
	}
}

// Every module that is required directly has its line in docs/dependencies.md.
func TestDependenciesAreExplained(t *testing.T) {
	requirements, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	explained, err := os.ReadFile(filepath.Join("..", "..", "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	direct := 0
	for line := range strings.Lines(string(requirements)) {
		path, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "require "), " ")
		if !isOutside(path) || !strings.HasPrefix(rest, "v") || strings.Contains(rest, "// indirect") {
			continue
		}
		direct++
		if !bytes.Contains(explained, []byte("| "+path+" |")) {
			t.Errorf("%s has no line in docs/dependencies.md: what for, why this one, who keeps it", path)
		}
	}
	if direct == 0 {
		t.Error("found no requirement in go.mod")
	}
}

// complaints is every breach of the table, as sentences.
func complaints(packages []pkg) []string {
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, p := range packages {
		if !ours(p.ImportPath) {
			continue
		}
		r, known := roomOf(below(p.ImportPath))
		if !known {
			say("%s has no row in internal/floors/table_test.go: add one, with its floor and the reason for every import sideways", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if imported == "C" {
				say("%s uses cgo: every binary here is built without it", p.ImportPath)
				continue
			}
			if why := r.refuses(p.ImportPath, imported); why != "" {
				say("%s imports %s: %s", p.ImportPath, imported, why)
			}
		}
	}
	return found
}

// refuses says why the room's package may not import another; "" when it may.
func (r room) refuses(importer, imported string) string {
	for _, path := range sorted(r.never) {
		if named(imported, path) {
			return r.never[path]
		}
	}
	if ours(imported) {
		return r.refusesOwn(below(importer), below(imported))
	}
	return r.refusesOutside(imported)
}

func (r room) refusesOwn(importer, imported string) string {
	to, known := roomOf(imported)
	switch {
	case !known:
		return "" // it gets its own complaint
	case to.floor == scaffold && r.floor != scaffold:
		return "that is for tests only"
	case to.path == r.path: // one tree
		return ""
	case r.floor == scaffold:
		return ""
	case to.floor > r.floor:
		return fmt.Sprintf("imports go down the floors, and this goes up from %d to %d", r.floor, to.floor)
	case to.floor < r.floor:
		return ""
	}
	if to.ground && !r.ground {
		return ""
	}
	for path := range r.beside {
		if path == imported || path == to.path {
			return ""
		}
	}
	return fmt.Sprintf("both are on floor %d: move what they share a floor down, or list it under beside in internal/floors/table_test.go with the reason", r.floor)
}

func (r room) refusesOutside(imported string) string {
	if r.floor == scaffold {
		return ""
	}
	switch r.floor {
	case pure:
		if !slices.Contains(pureStd, imported) {
			return "floor 0 computes on values; what it may import is pureStd in internal/floors/table_test.go"
		}
	case command:
		if !slices.Contains(commandStd, imported) {
			return "a command imports internal/cli and little else; see commandStd in internal/floors/table_test.go"
		}
	}
	for _, g := range guarded {
		if under(imported, g.path) && !slices.Contains(g.rooms, r.path) {
			return g.why + "; see guarded in internal/floors/table_test.go"
		}
	}
	return ""
}

// roomOf finds the row of a package: an exact one before a tree.
func roomOf(p string) (room, bool) {
	for _, r := range table {
		if r.path == p {
			return r, true
		}
	}
	for _, r := range table {
		if r.covers(p) {
			return r, true
		}
	}
	if isConformanceSuite(p) {
		return room{path: p, floor: scaffold}, true
	}
	return room{}, false
}

// isConformanceSuite reports whether the package is x/xtest, as httptest is to
// http: what every implementation of x's interface has to pass.
func isConformanceSuite(p string) bool {
	return path.Base(p) == path.Base(path.Dir(p))+"test"
}

func (r room) covers(path string) bool {
	tree, isTree := strings.CutSuffix(r.path, "/...")
	if isTree {
		return under(path, tree)
	}
	return path == r.path
}

// under reports whether path is root or below it.
func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// named reports whether an entry of a never list means this import. A package of
// the standard library means just itself (net is not net/url), everything else
// the tree below it too.
func named(imported, entry string) bool {
	if ours(imported) || isOutside(entry) {
		return under(below(imported), entry)
	}
	return imported == entry
}

// isOutside reports whether the path is neither of the standard library nor of
// this module: its first element is a host name.
func isOutside(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".")
}

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

func below(path string) string { return strings.TrimPrefix(path, module+"/") }

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// The rules themselves can say no.
func TestRulesRefuse(t *testing.T) {
	tests := []struct {
		importer, imported string
		want               string // part of the complaint; "" for none
	}{
		{"plan", "etcdadm.io/cluster", ""},
		{"plan", "time", ""},
		{"plan", "os", "floor 0"},
		{"plan", "math/rand/v2", "floor 0"},
		{"plan", "github.com/google/go-cmp/cmp", "floor 0"},
		{"cluster", "etcdadm.io/plan", "both are on floor 0"},
		{"cluster", "etcdadm.io/internal/duration", "goes up from 0 to 1"},
		{"internal/etcd", "etcdadm.io/internal/blob", "both are on floor 1"},
		{"internal/etcd", "etcdadm.io/plan", noPolicy},
		{"internal/etcd", "go.etcd.io/etcd/client/v3", ""},
		{"internal/blob/file", "etcdadm.io/internal/blob", ""},
		{"internal/etcd", "etcdadm.io/plan/sub", noPolicy},
		{"internal/pki", "etcdadm.io/internal/duration", ""},
		{"internal/durable", "etcdadm.io/internal/duration", "both are on floor 1"},
		{"internal/journal", "net", noNetwork},
		{"internal/journal", "net/url", ""},
		{"internal/runtime", "etcdadm.io/cluster", "not clusters"},
		{"internal/control", "etcdadm.io/internal/etcd", "never to etcd"},
		{"internal/host", "etcdadm.io/plan", "not the host's"},
		{"internal/manager", "os/exec", "interfaces"},
		{"internal/manager", "google.golang.org/grpc/status", "interfaces"},
		{"internal/manager", "etcdadm.io/internal/host", ""},
		{"internal/host", "etcdadm.io/internal/manager", "goes up from 2 to 3"},
		{"internal/host", "etcdadm.io/internal/testetcd", "tests only"},
		{"internal/host", "go.etcd.io/etcd/client/v3", "through internal/etcd"},
		{"internal/cli/daemon", "etcdadm.io/internal/cli", ""},
		{"internal/sim/fake", "etcdadm.io/internal/manager", ""},
		{"cmd/etcdadm", "etcdadm.io/internal/cli", ""},
		{"cmd/etcdadm", "github.com/spf13/cobra", "little else"},
		{"cmd/etcdadm", "net/http", "little else"},
		{"internal/runtime/runtimetest", "testing", ""},
		{"internal/runtime", "etcdadm.io/internal/runtime/runtimetest", "tests only"},
		{"internal/nobody", "time", "has no row"},
	}
	for _, test := range tests {
		got := strings.Join(complaints([]pkg{{ImportPath: module + "/" + test.importer, Imports: []string{test.imported}}}), "\n")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s imports %s: got %q, want %q", test.importer, test.imported, got, test.want)
		}
	}
}

// Every reason is given, and no row stands twice.
func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range table {
		if seen[r.path] {
			t.Errorf("%s has two rows", r.path)
		}
		seen[r.path] = true
		for _, reasons := range []map[string]string{r.beside, r.never} {
			for path, why := range reasons {
				if strings.TrimSpace(why) == "" {
					t.Errorf("%s: no reason for %s", r.path, path)
				}
			}
		}
	}
}

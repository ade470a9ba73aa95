package floors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// unended lists the files that begin something which no caller ends, with what
// bounds it instead.
var unended = map[string]string{
	"internal/peer/peerpb/gen/main.go": "a generator, which a person runs",
	"internal/cli/signals.go":          "the program: a signal ends it",
	"operator/plugin/plugin.go":        "the program: a signal ends it",
	"operator/e2e/real/load/main.go":   "a program of tests: a signal ends it",
	"operator/reconcile/near.go":       "patience, before anything runs",
	"internal/backupstore/write.go":    "tidying up after a caller that gave up, within tidyTimeout",
	"internal/blob/probe.go":           "tidying up after a caller that gave up, within cleanUpTimeout",
	"internal/blob/hosts/batch.go":     "readTimeout for a read that several wait for",
	"internal/blob/hosts/carry.go":     "messageTimeout for a message",
	"internal/keeping/answer.go":       "keeperTimeout",
	"internal/keeping/keeping.go":      "keeperTimeout",
	"internal/keeping/whereabouts.go":  "keeperTimeout",
	"internal/keeping/maystart.go":     "keeperTimeout",
	"internal/setup/setup.go":          "notesTimeout",
	"internal/moving/homing.go":        "lookTimeout",
	"internal/moving/home.go":          "decideTimeout: a freeze is ended",
	"internal/moving/mover.go":         "a move goes on without who asked for it; each of its steps is bounded",
	"internal/kept/store.go":           "otherTimeout",
	"internal/removal/reset.go":        "callOffTimeout, after a caller that gave up",
	"internal/blob/open/open.go":       "reading files that configure a store, which a disk ends; callers wait for it until their own contexts end",
	"internal/blob/s3/upload.go":       "tidying up after a caller that gave up, within cleanUpTimeout",
	"internal/blob/gs/config.go":       "looking for credentials, which the SDK bounds; callers wait for it until their own contexts end",
	"internal/blob/gs/token.go":        "tokenTimeout",
	"internal/daemon/certs.go":         "askTotal; at the start nobody is asked",
	"internal/daemon/etcd.go":          "releasesTimeout",
	"internal/daemon/inventory.go":     "releasesTimeout, and releasesAsked for a person",
	"internal/etcd/token.go":           "tokenTimeout",
	"internal/daemon/metrics.go":       "metricsEnd",
	"internal/daemon/moves_made.go":    "a move is a part, and parts end in await",
	"internal/daemon/parts.go":         "parts end in await, all of them within partsEnd",
	"internal/daemon/process.go":       "a status that does not block",
	"internal/daemon/lastword.go":      "lastWordTimeout",
	"internal/daemon/run.go":           "the end of a daemon: handOverTimeout and stopTimeout",
	"internal/daemon/seeds.go":         "a line of the log",
	"internal/daemon/serve.go":         "readyTimeout",
	"internal/host/apply.go":           "an op is finished by its host, within work.OpDeadline",
	"internal/host/bulk/backups.go":    "backupDeadline, or the end of the member that it is taken of",
	"internal/host/bulk/stage.go":      "record.SaveTimeout",
	"internal/host/evidence/owner.go":  "record.SaveTimeout",
	"internal/host/evidence/proof.go":  "record.SaveTimeout",
	"internal/host/record/learned.go":  "SaveTimeout",
	"internal/host/work/supervisor.go": "work beside the ops, which the host ends when it ends",
	"internal/host/halt.go":            "an op of the host's own, of steps that are bounded one by one",
	"internal/host/observe.go":         "an op of the host's own",
	"internal/manager/manager.go":      "its loops, which end when it has said that it leaves",
	"internal/playground/host.go":      "the look at a port, which waits for nobody",
	"internal/release/places.go":       "looksLeast",
	"internal/snapshot/removals.go":    "reading a database that is there, before a start, whose order carries no context",
	"internal/snapshot/server.go":      "the look at a program, which is bounded by itself",
	"internal/snapshot/verify.go":      "Wrote: reading two small buckets",
}

// unbound lists the files that start a process without a context, with what
// ends it.
var unbound = map[string]string{
	"internal/playground/host.go": "stopAll, and the end of this program",
	"internal/snapshot/server.go": "stop and kill, and the end of this program",
}

// blocking lists the files with a lock that may wait.
var blocking = map[string]string{
	"internal/runtime/locks.go": "it passes on how, which all callers give with LOCK_NB",
}

// A source is a file of what is shipped.
type source struct {
	path string // below root, with slashes
	pkg  string // its directory
	file *ast.File
	fset *token.FileSet
}

// shipped parses every file that is part of a program: no tests, no scaffolds.
func shipped(t *testing.T) []source {
	t.Helper()
	var all []source
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		pkg := filepath.ToSlash(filepath.Dir(rel))
		if r, known := roomOf(pkg); known && r.floor == scaffold || isConformanceSuite(pkg) {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		all = append(all, source{rel, pkg, file, fset})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// imported is the path of the package that x names in this file, or "".
func (s source) imported(x ast.Expr) string {
	id, ok := x.(*ast.Ident)
	if !ok {
		return ""
	}
	for _, i := range s.file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		if name == id.Name {
			return path
		}
	}
	return ""
}

// callOf is package and function of a call, such as "time" and "After".
func (s source) callOf(call *ast.CallExpr) (pkg, name string) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	return s.imported(sel.X), sel.Sel.Name
}

// bounds are the calls that take a time, and which argument that is.
var bounds = map[string]int{
	"context.WithTimeout": 1, "context.WithTimeoutCause": 1,
	"time.NewTimer": 0, "time.NewTicker": 0, "time.After": 0, "time.AfterFunc": 0,
	"etcdadm.io/internal/wake.After": 1,
	".InBackground":                  0, ".End": 2, // methods of a host
}

// Blocking calls of the standard library that nobody can end.
var endless = regexp.MustCompile(`^(time\.(Sleep|Tick)|net\.(Dial|DialTimeout|DialTCP|DialUDP|DialUnix|Lookup\w+|ResolveTCPAddr|ResolveUDPAddr|ResolveIPAddr)|net/http\.(Get|Head|Post|PostForm|ListenAndServe|ListenAndServeTLS|Serve))$`)

// waitComplaints is every wait in a file that nothing bounds, or that no name
// and no reason stand by.
func waitComplaints(s source) (found []string) {
	say := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(n.Pos()).Line, fmt.Sprintf(format, args...)))
	}
	command := strings.HasPrefix(s.path, "cmd/")
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if s.imported(n.X) == "net/http" && n.Sel.Name == "DefaultClient" {
				say(n, "http.DefaultClient has no deadline")
			}
		case *ast.CallExpr:
			pkg, name := s.callOf(n)
			call := pkg + "." + name
			switch {
			case endless.MatchString(call):
				say(n, "%s is a wait that nobody can end: wait for an event or a context", call)
			case call == "context.Background" || call == "context.TODO" || call == "context.WithoutCancel":
				if unended[s.path] == "" && !command {
					say(n, "%s: what bounds it? Say so in unended", call)
				}
			case call == "os/exec.Command" && unbound[s.path] == "":
				say(n, "exec.Command: what ends it? exec.CommandContext, or say so in unbound")
			case name == "Flock" && len(n.Args) == 2 && blocking[s.path] == "":
				if how := text(n.Args[1]); !strings.Contains(how, "LOCK_NB") && !strings.Contains(how, "LOCK_UN") {
					say(n, "a lock that is waited for cannot be given up: ask with LOCK_NB")
				}
			}
			if at, bounding := bounds[call]; bounding && at < len(n.Args) && units.MatchString(text(n.Args[at])) {
				say(n, "%s(%s): give the bound a name and a reason", call, text(n.Args[at]))
			}
		}
		return true
	})
	return found
}

var units = regexp.MustCompile(`\btime\.(Nano|Micro|Milli)?(second|Second|Minute|Hour)\b`)

// text is an expression of names, numbers and operators as it is written.
func text(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.BasicLit:
		return x.Value
	case *ast.SelectorExpr:
		return text(x.X) + "." + x.Sel.Name
	case *ast.BinaryExpr:
		return text(x.X) + " " + x.Op.String() + " " + text(x.Y)
	case *ast.ParenExpr:
		return "(" + text(x.X) + ")"
	case *ast.CallExpr:
		var args []string
		for _, a := range x.Args {
			args = append(args, text(a))
		}
		return text(x.Fun) + "(" + strings.Join(args, ", ") + ")"
	}
	return ""
}

// Every wait of what is shipped is bounded, by a constant with a name.
func TestWaitsAreBounded(t *testing.T) {
	used := map[string]bool{}
	for _, s := range shipped(t) {
		for _, complaint := range waitComplaints(s) {
			t.Error(complaint)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				switch pkg, name := s.callOf(call); pkg + "." + name {
				case "context.Background", "context.TODO", "context.WithoutCancel":
					used["unended "+s.path] = true
				case "os/exec.Command":
					used["unbound "+s.path] = true
				default:
					if at, is := bounds[pkg+"."+name]; is && at < len(call.Args) {
						used["bounds "+pkg+"."+name] = true
					}
				}
			}
			return true
		})
	}
	for _, path := range sorted(unended) {
		if !used["unended "+path] {
			t.Errorf("%s is in unended, and begins nothing", path)
		}
	}
	for call := range bounds {
		if strings.HasPrefix(call, ".") && !used["bounds "+call] {
			t.Errorf("%s is in bounds, and nothing that ships calls it: a method was renamed, and its bound is not looked at", call)
		}
	}
	for _, path := range sorted(unbound) {
		if !used["unbound "+path] {
			t.Errorf("%s is in unbound, and starts nothing", path)
		}
	}
}

// A check that cannot fail is none.
func TestUnboundedWaitsAreSeen(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"fine", `ctx, cancel := context.WithTimeout(ctx, limit); defer cancel(); <-ctx.Done()`, ""},
		{"sleep", `time.Sleep(limit)`, "time.Sleep"},
		{"nameless", `<-time.After(3 * time.Second)`, "name and a reason"},
		{"nameless in a sum", `ctx, _ = context.WithTimeout(ctx, limit+time.Minute)`, "name and a reason"},
		{"nameless beside the ops", `h.work.InBackground(3*time.Minute, work)`, "name and a reason"},
		{"nobody's context", `ctx = context.Background()`, "what bounds it"},
		{"outlives", `ctx = context.WithoutCancel(ctx)`, "what bounds it"},
		{"process", `_ = exec.Command("etcd").Run()`, "what ends it"},
		{"client", `_, _ = http.DefaultClient.Do(nil)`, "no deadline"},
		{"get", `_, _ = http.Get("x")`, "nobody can end"},
		{"dial", `_, _ = net.Dial("tcp", "x")`, "nobody can end"},
		{"name", `_, _ = net.LookupHost("x")`, "nobody can end"},
		{"lock", `_ = unix.Flock(1, unix.LOCK_EX)`, "LOCK_NB"},
		{"lock that may fail", `_ = unix.Flock(1, unix.LOCK_EX|unix.LOCK_NB)`, ""},
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x\n\nimport (\n\"context\"\n\"net\"\n\"net/http\"\n\"os/exec\"\n\"time\"\n\"golang.org/x/sys/unix\"\n)\n\nfunc f(ctx context.Context) {\n"+c.body+"\n}\n", 0)
		if err != nil {
			t.Fatal(err)
		}
		found := waitComplaints(source{"internal/x/x.go", "internal/x", file, fset})
		if all := strings.Join(found, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("%s: %q", c.name, all)
		}
	}
}

// A constant is a time of what is shipped.
type constant struct {
	value ast.Expr
	in    source
	told  bool // a comment stands by it
}

// durations are the constants that are times, by package and name.
func durations(all []source) map[string]constant {
	out := map[string]constant{}
	for _, s := range all {
		ast.Inspect(s.file, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				return true
			}
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i < len(v.Values) {
						out[s.pkg+"."+name.Name] = constant{v.Values[i], s, hasReason(d, v, name.Name)}
					}
				}
			}
			return true
		})
	}
	for name, c := range out {
		if _, ok := c.evaluate(out); !ok {
			delete(out, name)
		}
	}
	return out
}

// hasReason reports whether a comment stands by this very constant: its own, the one of
// a declaration that holds nothing else, or one beside it in the same declaration that
// names it. A heading over a list of constants gives a reason for none of them.
func hasReason(d *ast.GenDecl, v *ast.ValueSpec, name string) bool {
	if v.Doc != nil || v.Comment != nil || d.Doc != nil && len(d.Specs) == 1 {
		return true
	}
	named := regexp.MustCompile(`\b` + name + `\b`)
	comments := []*ast.CommentGroup{d.Doc}
	for _, spec := range d.Specs {
		comments = append(comments, spec.(*ast.ValueSpec).Doc, spec.(*ast.ValueSpec).Comment)
	}
	return slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return named.MatchString(c.Text()) })
}

var unitOf = map[string]time.Duration{
	"time.Nanosecond": 1, "time.Microsecond": time.Microsecond, "time.Millisecond": time.Millisecond,
	"time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour,
}

// evaluate works out the constant; false: it is no time.
func (c constant) evaluate(all map[string]constant) (time.Duration, bool) {
	value, timed := c.number(c.value, all)
	return time.Duration(value), timed
}

func (c constant) number(x ast.Expr, all map[string]constant) (value float64, timed bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		value, _ = strconv.ParseFloat(strings.ReplaceAll(x.Value, "_", ""), 64)
	case *ast.ParenExpr:
		return c.number(x.X, all)
	case *ast.Ident:
		if other, ok := all[c.in.pkg+"."+x.Name]; ok && other.value != c.value {
			return other.number(other.value, all)
		}
	case *ast.SelectorExpr:
		if d, ok := unitOf[text(x)]; ok {
			return float64(d), true
		}
		if path := c.in.imported(x.X); path != "" {
			if other, ok := all[below(path)+"."+x.Sel.Name]; ok {
				return other.number(other.value, all)
			}
		}
	case *ast.BinaryExpr:
		l, lt := c.number(x.X, all)
		r, rt := c.number(x.Y, all)
		switch x.Op {
		case token.MUL:
			return l * r, lt || rt
		case token.ADD:
			return l + r, lt && rt
		case token.SUB:
			return l - r, lt && rt
		}
	}
	return value, false
}

// Every constant that is given to one of bounds has a comment beside it that says why.
func TestWaitsHaveReasons(t *testing.T) {
	all := shipped(t)
	for _, name := range unreasoned(all, durations(all)) {
		t.Errorf("%s bounds a wait: say beside it why it is as long as it is", name)
	}
}

// unreasoned are the constants that bound a wait and have no comment, sorted.
func unreasoned(all []source, times map[string]constant) []string {
	var found []string
	for _, s := range all {
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			pkg, name := s.callOf(call)
			at, bounding := bounds[pkg+"."+name]
			if !bounding || at >= len(call.Args) {
				return true
			}
			for _, used := range s.constants(call.Args[at], times) {
				if !times[used].told {
					found = append(found, used)
				}
			}
			return true
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

const (
	waitsPage      = "docs/waits.md"
	waitsPageLines = 90 // what somebody on call reads at once
	waitsPageNames = 30 // fewer, and the expression below does not read the page any more
)

// told is a time of docs/waits.md with the constant that it comes from.
var told = regexp.MustCompile("([0-9][0-9.a-z]*) \\(`([a-z0-9/]+\\.[A-Za-z0-9]+)`\\)")

// Every constant that docs/waits.md names has the value that stands before it, every
// name there is read, and the page stays short.
func TestWaitsPageIsTrue(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(waitsPage)))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "\n"); n > waitsPageLines {
		t.Errorf("%s has %d lines, more than %d: it is for somebody on call; the bound of a single call stands in the code", waitsPage, n, waitsPageLines)
	}
	if n := len(told.FindAllString(string(page), -1)); n < waitsPageNames {
		t.Errorf("%s names %d constants, fewer than %d", waitsPage, n, waitsPageNames)
	}
	for _, complaint := range pageComplaints(string(page), durations(shipped(t))) {
		t.Error(complaint)
	}
}

// constantName is what a constant of a package looks like in the page.
var constantName = regexp.MustCompile("`((?:internal/)?[a-z0-9/]+\\.[A-Za-z][A-Za-z0-9]*)`")

// pageComplaints is every constant of the page that does not exist, has another value
// than the page says, or stands there without one.
func pageComplaints(page string, times map[string]constant) (found []string) {
	valued := map[string]bool{}
	for _, m := range told.FindAllStringSubmatch(page, -1) {
		said, name := m[1], m[2]
		valued[name] = true
		c, ok := times[name]
		is, _ := c.evaluate(times)
		switch d, err := time.ParseDuration(said); {
		case !ok:
			found = append(found, fmt.Sprintf("%s names %s, which is no constant that is a time", waitsPage, name))
		case err != nil || d != is:
			found = append(found, fmt.Sprintf("%s says that %s is %s, and it is %s", waitsPage, name, said, is))
		}
	}
	for _, m := range constantName.FindAllStringSubmatch(page, -1) {
		if !valued[m[1]] {
			found = append(found, fmt.Sprintf("%s names %s without its value: write 5s (`%s`)", waitsPage, m[1], m[1]))
		}
	}
	return found
}

// A check that cannot fail is none.
func TestUntoldWaitsAreSeen(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "x.go", `package x

import "time"

// What x waits for.
const (
	// own is what a person takes to answer.
	own = time.Minute
	// first bounds a look, and beside an answer.
	first  = time.Second
	beside = 2 * time.Second

	bare = 3 * time.Second
)

func f() {
	time.After(own)
	time.After(beside)
	time.After(first + bare)
}
`, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := []source{{"internal/x/x.go", "internal/x", file, fset}}
	times := durations(all)
	if found := unreasoned(all, times); !slices.Equal(found, []string{"internal/x.bare"}) {
		t.Errorf("without a reason: %q", found)
	}
	for page, want := range map[string]string{
		"1m (`internal/x.own`)":                "",
		"60s (`internal/x.own`) and 1s":        "",
		"2m (`internal/x.own`)":                "and it is 1m0s",
		"1m (`internal/x.gone`)":               "no constant",
		"a minute, and `internal/x.own` it is": "without its value",
	} {
		if found := strings.Join(pageComplaints(page, times), "\n"); want == "" && found != "" || !strings.Contains(found, want) {
			t.Errorf("%s: %q", page, found)
		}
	}
}

// constants are the times that an expression is made of.
func (s source) constants(x ast.Expr, times map[string]constant) (found []string) {
	ast.Inspect(x, func(n ast.Node) bool {
		var name string
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if path := s.imported(n.X); path != "" {
				name = below(path) + "." + n.Sel.Name
			}
		case *ast.Ident:
			name = s.pkg + "." + n.Name
		}
		if _, ok := times[name]; ok {
			found = append(found, name)
		}
		return true
	})
	return found
}

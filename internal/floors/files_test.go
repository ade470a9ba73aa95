package floors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// plainOpens lists the files that open by package os, which waits at a pipe and reads a
// device for ever, with the reason why no person names what they open. A path that
// somebody types is opened by internal/regular.
var plainOpens = map[string]string{
	"internal/adoption/place.go":       "below the daemon's own state directory",
	"internal/backupstore/tar.go":      "files of a copy that was made just before",
	"internal/blob/file/object.go":     "a directory, to sync it",
	"internal/cli/adopt.go":            "/proc",
	"internal/daemon/process.go":       "the daemon's own record",
	"internal/daemon/sources.go":       "a snapshot that was written just before",
	"internal/durable/durable.go":      "a directory, to sync it",
	"internal/host/fileaside.go":       "its own note",
	"internal/host/filedisk.go":        "its own state directory",
	"internal/host/filepredecessor.go": "what a predecessor's daemon wrote into the data directory",
	"internal/host/walhead.go":         "etcd's own file in the data directory",
	"internal/hostsfile/file.go":       "the new file beside the one that was looked at",
	"internal/journal/journal.go":      "its own directory",
	"internal/peer/peerpb/gen/main.go": "a generator, which a person runs",
	"internal/playground/host.go":      "below the playground's own directory",
	"internal/regular/regular.go":      "the place where it is made sure",
	"internal/release/download.go":     "its own cache, under a lock",
	"internal/release/install.go":      "its own cache, under a lock",
	"internal/runtime/dirlock.go":      "the daemon's own state directory",
	"internal/runtime/exit.go":         "the log that it began",
	"internal/runtime/follow.go":       "the log that it began",
	"internal/runtime/locks.go":        "etcd's own files in the data directory, and /proc",
	"internal/runtime/log.go":          "the log that it begins",
	"internal/runtime/procfs.go":       "/proc",
	"internal/runtime/spawn.go":        "the null device",
	"internal/snapshot/extract.go":     "etcd's own files in a data directory, and their copies",
	"internal/snapshot/freepages.go":   "a database that has been opened before",
	"internal/snapshot/log.go":         "etcd's own files in a data directory",
	"internal/snapshot/raftsnap.go":    "etcd's own files in a data directory",
	"internal/snapshot/restore.go":     "its own mark in the directory that it builds",
	"internal/snapshot/revive.go":      "etcd's own files in a copy",
	"internal/snapshot/server.go":      "the log and the directory that it made",
	"internal/snapshot/site.go":        "the lock of its own directory",
	"internal/snapshot/throwaway.go":   "the directory that it made",
	"internal/snapshot/tree.go":        "a database that is open",
}

// opensPlainly is the calls in a file that open what is there, whatever it is.
func opensPlainly(s source) (found []string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		pkg, name := s.callOf(call)
		switch called := pkg + "." + name; called {
		case "os.OpenFile":
			if flags := text(call.Args[1]); strings.Contains(flags, "O_EXCL") || strings.Contains(flags, "O_NONBLOCK") && s.pkg != "internal/regular" {
				return true // it makes the file, or looks at what it got
			}
			fallthrough
		case "os.Open", "os.ReadFile", "crypto/tls.LoadX509KeyPair":
			found = append(found, fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(n.Pos()).Line, called))
		}
		return true
	})
	return found
}

// What a person names is looked at before it is read: see internal/regular.
func TestNamedFilesAreRegular(t *testing.T) {
	used := map[string]bool{}
	for _, s := range shipped(t) {
		for _, call := range opensPlainly(s) {
			if used[s.path] = true; plainOpens[s.path] == "" {
				t.Errorf("%s waits at a pipe for ever: internal/regular opens what a person names; for what nobody names, say in plainOpens what it is", call)
			}
		}
	}
	for _, path := range sorted(plainOpens) {
		if !used[path] {
			t.Errorf("%s is in plainOpens, and opens nothing so", path)
		}
	}
}

// A check that cannot fail is none.
func TestPlainOpensAreSeen(t *testing.T) {
	for body, want := range map[string]bool{
		`os.Open(x)`:                                     true,
		`os.ReadFile(x)`:                                 true,
		`os.OpenFile(x, os.O_RDONLY, 0)`:                 true,
		`os.OpenFile(x, os.O_WRONLY|os.O_CREATE, 0)`:     true,
		`tls.LoadX509KeyPair(x, x)`:                      true,
		`os.OpenFile(x, os.O_CREATE|os.O_EXCL, 0)`:       false,
		`os.OpenFile(x, os.O_RDONLY|unix.O_NONBLOCK, 0)`: false,
		`os.Stat(x)`:                                     false,
		`regular.Read(x, 1)`:                             false,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x\n\nimport (\n\"crypto/tls\"\n\"os\"\n\"etcdadm.io/internal/regular\"\n)\n\nfunc f() {\n"+body+"\n}\n", 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := opensPlainly(source{"internal/x/x.go", "internal/x", file, fset}); (len(found) == 1) != want {
			t.Errorf("%s: %q", body, found)
		}
	}
}

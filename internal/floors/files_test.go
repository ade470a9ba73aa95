package floors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// plainOpens lists the functions that open by package os, which waits at a pipe and reads a
// device for ever, with the reason why no person names what they open. A path that
// somebody types is opened by internal/regular.
var plainOpens = map[string]string{
	"internal/adoption/place.go:ReadAdmission":         "below the daemon's own state directory",
	"internal/backupstore/tar.go:addFile":              "files of a copy that was made just before",
	"internal/blob/file/object.go:names":               "a directory, to sync it",
	"internal/adoption/runs.go:FlagsOf":                "/proc",
	"internal/adoption/runs.go:UnitOf":                 "/proc",
	"internal/daemon/process.go:NewProcess":            "the daemon's own record",
	"internal/durable/durable.go:SyncDir":              "a directory, to sync it",
	"internal/host/datadir/aside.go:Inventory":         "its own note",
	"internal/host/datadir/dir.go:Data":                "its own state directory",
	"internal/host/datadir/dir.go:HostID":              "its own state directory",
	"internal/host/datadir/dir.go:Load":                "its own state directory",
	"internal/host/datadir/dir.go:ReadRecord":          "its own state directory",
	"internal/host/datadir/predecessor.go:Predecessor": "what a predecessor's daemon wrote into the data directory",
	"internal/host/datadir/predecessor.go:otherMark":   "what a predecessor's daemon wrote into the data directory",
	"internal/host/datadir/walhead.go:readHead":        "etcd's own file in the data directory",
	"internal/hostsfile/file.go:renameOver":            "the new file beside the one that was looked at",
	"internal/journal/journal.go:load":                 "its own directory",
	"internal/journal/journal.go:taken":                "its own directory",
	"internal/peer/peerpb/gen/main.go:run":             "a generator, which a person runs",
	"operator/generate/chart.go:chart":                 "a generator, which a person runs",
	"operator/generate/fields.go:fields":               "a generator, which a person runs",
	"internal/playground/host.go:run":                  "below the playground's own directory",
	"internal/regular/regular.go:open":                 "the place where it is made sure",
	"internal/release/download.go:fetch":               "its own cache, under a lock",
	"internal/release/install.go:install":              "its own cache, under a lock",
	"internal/release/install.go:lockFile":             "its own cache, under a lock",
	"internal/runtime/locks.go:lockHolderByFiles":      "/proc",
	"internal/runtime/dirlock.go:LockStateDir":         "the daemon's own state directory",
	"internal/runtime/exit.go:readTail":                "the log that it began",
	"internal/runtime/copylog.go:Next":                 "the log that it began",
	"internal/runtime/follow.go:grown":                 "the log that it began",
	"internal/runtime/locks.go:checkFlock":             "etcd's own files in the data directory",
	"internal/runtime/locks.go:checkOFD":               "etcd's own files in the data directory",
	"internal/runtime/locks.go:lockHolder":             "/proc",
	"internal/runtime/log.go:openLog":                  "the log that it begins",
	"internal/runtime/log.go:rotateOpen":               "the log that it began",
	"internal/runtime/procfs.go:BootID":                "/proc",
	"internal/runtime/procfs.go:pids":                  "/proc",
	"internal/runtime/procfs.go:readStat":              "/proc",
	"internal/runtime/procfs.go:readStrings":           "/proc",
	"internal/runtime/procfs.go:startedAt":             "/proc",
	"internal/runtime/spawn.go:forkExec":               "the null device",
	"internal/snapshot/extract.go:appendHash":          "etcd's own files in a data directory, and their copies",
	"internal/snapshot/extract.go:copyFile":            "etcd's own files in a data directory, and their copies",
	"internal/snapshot/freepages.go:checkListed":       "a database that has been opened before",
	"internal/snapshot/freepages.go:skipFreePages":     "a database that has been opened before",
	"internal/snapshot/log.go:eachRecordFrom":          "etcd's own files in a data directory",
	"internal/snapshot/raftsnap.go:readRaft":           "etcd's own files in a data directory",
	"internal/snapshot/restore.go:doneBefore":          "its own mark in the directory that it builds",
	"internal/snapshot/revive.go:holdV2":               "etcd's own files in a copy",
	"internal/snapshot/server.go:ask":                  "the directory that it made",
	"internal/snapshot/server.go:lastWords":            "the log that it made",
	"internal/snapshot/server.go:launch":               "the log that it makes",
	"internal/snapshot/site.go:signed":                 "the lock of its own directory",
	"internal/snapshot/site.go:tryOpenSite":            "the lock of its own directory",
	"internal/snapshot/throwaway.go:Dial":              "the directory that it made",
	"internal/snapshot/tree.go:checkPages":             "a database that is open",
	"internal/sources/sources.go:trailer":              "a snapshot that was written just before",
	"internal/staticpod/kubelet.go:Check":              "/proc",
}

// plainOpen is a call that opens what is there, whatever it is.
type plainOpen struct{ in, at string } // the function it is in, and where it is for people

func opensPlainly(s source) (found []plainOpen) {
	for _, decl := range s.file.Decls {
		in := s.path + ":" // a variable's value
		if f, ok := decl.(*ast.FuncDecl); ok {
			in += f.Name.Name
		}
		for _, at := range opensIn(s, decl) {
			found = append(found, plainOpen{in, at})
		}
	}
	return found
}

func opensIn(s source, decl ast.Decl) (at []string) {
	ast.Inspect(decl, func(n ast.Node) bool {
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
			at = append(at, fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(n.Pos()).Line, called))
		}
		return true
	})
	return at
}

// What a person names is looked at before it is read: see internal/regular.
func TestNamedFilesAreRegular(t *testing.T) {
	used := map[string]bool{}
	for _, s := range shipped(t) {
		for _, call := range opensPlainly(s) {
			if used[call.in] = true; plainOpens[call.in] == "" {
				t.Errorf("%s waits at a pipe for ever: internal/regular opens what a person names; for what nobody names, say in plainOpens what it is", call.at)
			}
		}
	}
	for _, in := range sorted(plainOpens) {
		if !used[in] {
			t.Errorf("%s is in plainOpens, and opens nothing so", in)
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
		if found := opensPlainly(source{"internal/x/x.go", "internal/x", file, fset}); (len(found) == 1 && found[0].in == "internal/x/x.go:f") != want || len(found) > 1 {
			t.Errorf("%s: %q", body, found)
		}
	}
}

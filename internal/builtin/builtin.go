// Package builtin makes a program of ours carry an etcd server.
//
// A program that links this package calls [RunIfChild] first thing in main (a
// test calls it first thing in TestMain). Run as
//
//	PROGRAM etcd [etcd's flags]
//
// it is etcd, and nothing else of the program runs; in any other case
// RunIfChild returns and does nothing. The first argument was chosen over
// argv[0] or an environment variable because it can be written in every place
// that starts a member (a child process, a systemd unit, a static pod, a
// shell), it shows in ps, and it is not inherited by accident. etcd's own flags
// follow it unchanged, so the command line names the data directory, which is
// what an adopting daemon looks for.
//
// With etcdutl in the place of etcd it is the tool of the same release that
// restores snapshots.
//
// The invariant: this package brings the whole server into a binary, so only
// cmd/* and tests may import it. Others take the command as data (see
// [Command]).
package builtin

import (
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

// Arg is the first argument that turns the program into etcd, and UtlArg into
// etcdutl.
const (
	Arg    = "etcd"
	UtlArg = "etcdutl"
)

// Version is the etcd release that is linked in, without a leading "v". It is
// what the module's own API package says; a test holds go.mod to it.
var Version = version.Version

// selfExe is the running program whatever has become of its file: it stays
// valid after the file was replaced by an upgrade or deleted (go run, go
// test), and it never turns into another release's etcd behind our back.
const selfExe = "/proc/self/exe"

// Command says how to start the built-in etcd as a child of this process:
// exec path, and append etcd's flags to args. The path only has its meaning in
// this process and in a child between fork and exec; for a unit file or a
// manifest use [os.Executable] and the same args.
func Command() (path string, args []string) {
	return selfExe, []string{Arg}
}

// UtlCommand says how to start the built-in etcdutl, as [Command] does for etcd.
func UtlCommand() (path string, args []string) {
	return selfExe, []string{UtlArg}
}

// IsEtcd says whether a program started with args (args[0] is its name) was
// asked to be etcd.
func IsEtcd(args []string) bool {
	return len(args) > 1 && args[1] == Arg
}

// RunIfChild turns the process into etcd or etcdutl, and does not return, when
// its first argument asks for that. Call it before anything that parses flags,
// opens files or starts goroutines.
func RunIfChild() {
	switch {
	case IsEtcd(os.Args):
		Main()
	case len(os.Args) > 1 && os.Args[1] == UtlArg:
		os.Exit(utl(os.Args[2:]))
	}
}

// utl is etcdutl as far as it is about snapshots. Its other commands work on
// data directories, which is not for a person to do beside a daemon.
func utl(args []string) int {
	root := &cobra.Command{Use: UtlArg, Short: "etcd's tool for snapshots, as of etcd " + Version}
	// The status command reads it as a flag of the root.
	root.PersistentFlags().StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple", "fields, json, protobuf, simple or table")
	root.AddCommand(etcdutl.NewSnapshotCommand(), etcdutl.NewVersionCommand())
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		return 1 // cobra has said it
	}
	return 0
}

// Main runs etcd with the arguments after [Arg] and ends the process. etcd
// ends by the signal that stopped it, not with status 0.
func Main() {
	// ps, top and pgrep show the thread name. A process that cannot rename
	// itself is still etcd, so an error here is of no interest.
	_ = os.WriteFile("/proc/self/comm", []byte("etcd"), 0)

	args := os.Args
	if IsEtcd(args) {
		args = args[1:]
	}
	// etcd's gateway and grpc-proxy commands read os.Args themselves.
	os.Args = append([]string{"etcd"}, args[1:]...)
	etcdmain.Main(os.Args)
	os.Exit(0)
}

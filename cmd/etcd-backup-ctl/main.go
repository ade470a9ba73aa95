// Command etcd-backup-ctl looks into a store of backups, and tries them out.
package main

import (
	"os"

	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/cli"
)

func main() {
	builtin.RunIfChild() // this program is also the etcd that a drill starts
	ctx, stop := cli.SignalContext()
	defer stop()
	program := cli.Program(builtin.Version, builtin.Command, builtin.UtlCommand)
	os.Exit(cli.BackupCtlMain(ctx, os.Args[1:], program, os.Stdout, os.Stderr))
}

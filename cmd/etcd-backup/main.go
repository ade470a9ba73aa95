// Command etcd-backup backs up an etcd that somebody else runs.
package main

import (
	"os"

	"etcdadm.io/internal/cli"
)

func main() {
	ctx, stop := cli.SignalContext()
	defer stop()
	os.Exit(cli.BackupMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

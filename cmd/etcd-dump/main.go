// Command etcd-dump writes the keys and values of a backup or a snapshot.
package main

import (
	"os"

	"etcdadm.io/internal/cli"
)

func main() {
	ctx, stop := cli.SignalContext()
	defer stop()
	os.Exit(cli.DumpMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Command etcd-manager-ctl writes a cluster's spec and commands into its
// backup store, where the leading etcd-manager finds them.
package main

import (
	"os"

	"etcdadm.io/internal/cli"
)

func main() {
	ctx, stop := cli.SignalContext()
	defer stop()
	os.Exit(cli.CtlMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

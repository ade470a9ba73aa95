// Command etcd-manager-ctl writes a cluster's spec and commands into its
// backup store, where the leading etcd-manager finds them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"etcdadm.io/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.CtlMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

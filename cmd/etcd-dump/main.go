// Command etcd-dump writes the keys and values of a backup or a snapshot.
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
	os.Exit(cli.DumpMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

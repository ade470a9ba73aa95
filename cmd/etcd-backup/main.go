// Command etcd-backup backs up an etcd that somebody else runs.
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
	os.Exit(cli.BackupMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

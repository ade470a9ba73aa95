// Command fetch fills the cache of etcd releases that the tests use, so that no
// test has to wait for a build, and prints the directory for --release-dir.
//
//	go run ./internal/testetcd/cmd/fetch            # all that tests use without a flag
//	go run ./internal/testetcd/cmd/fetch 3.4.25
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"etcdadm.io/internal/testetcd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, versions []string) error {
	if len(versions) == 0 {
		versions = append(testetcd.Usual(), testetcd.Aged()...)
	}
	for _, v := range versions {
		began := time.Now()
		r, err := testetcd.Fetch(ctx, v)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "etcd %s: %s (%.0f s)\n", v, r.Dir, time.Since(began).Seconds())
	}
	cache, err := testetcd.CacheDir()
	if err != nil {
		return err
	}
	fmt.Println(cache)
	return nil
}

// Command fetch fills the cache of object stores that the tests use, so that no test has to wait for a build.
//
//	go run ./internal/teststore/cmd/fetch            # all of them
//	go run ./internal/teststore/cmd/fetch versitygw
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"etcdadm.io/internal/teststore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	names := os.Args[1:]
	if len(names) == 0 {
		names = teststore.Programs()
	}
	for _, name := range names {
		began := time.Now()
		path, err := teststore.Fetch(ctx, name)
		if errors.Is(err, teststore.ErrNoNode) {
			fmt.Println(err, "(its tests will be skipped)")
			continue
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "fetch:", err)
			os.Exit(1)
		}
		fmt.Printf("%s: %s (%.0f s)\n", name, path, time.Since(began).Seconds())
	}
}

// Command fetch builds kube-apiserver and the kubelet into the cache of test programs, so that no test has to wait for them. It
// takes nine minutes of processor time and 5 GB of Go's build and module caches.
//
//	go run ./internal/testkube/cmd/fetch
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"etcdadm.io/internal/testkube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, name := range []string{testkube.APIServer, testkube.Kubelet} {
		began := time.Now()
		path, err := testkube.Fetch(ctx, name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "fetch:", err)
			os.Exit(1)
		}
		fmt.Printf("%s (%.0f s)\n", path, time.Since(began).Seconds())
	}
}

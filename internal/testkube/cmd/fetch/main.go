// Command fetch builds kube-apiserver, the kubelet and cert-manager into the cache of test programs, so that no test has to wait for
// them. It takes twelve minutes of processor time and 6 GB of Go's build and module caches; with names, that of those.
//
//	go run ./internal/testkube/cmd/fetch
//	go run ./internal/testkube/cmd/fetch cert-manager
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
	names := os.Args[1:]
	if len(names) == 0 {
		names = []string{testkube.APIServer, testkube.Kubelet, testkube.CertManager}
	}
	for _, name := range names {
		began := time.Now()
		path, err := testkube.Fetch(ctx, name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "fetch:", err)
			os.Exit(1)
		}
		fmt.Printf("%s (%.0f s)\n", path, time.Since(began).Seconds())
	}
}

// Command kubectl-etcdadm is a plugin of kubectl: what etcdadm says and does of a cluster in pods.
package main

import (
	"os"

	"etcdadm.io/operator/plugin"
)

func main() {
	os.Exit(plugin.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Command etcdadm creates, grows, shrinks and repairs etcd clusters.
package main

import (
	"os"

	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/cli"
)

func main() {
	builtin.RunIfChild() // this program is also the etcd that it starts
	os.Exit(cli.Main(os.Args[1:], cli.Program(builtin.Version, builtin.Command, builtin.UtlCommand), os.Stdout, os.Stderr))
}

// Command etcd-manager runs and supervises one member of an etcd cluster on
// this host, together with the etcd-managers of the other hosts.
package main

import (
	"os"

	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/cli"
)

func main() {
	builtin.RunIfChild() // this program is also the etcd that it starts
	os.Exit(cli.ManagerMain(os.Args[1:], cli.Program(builtin.Version, builtin.Command, builtin.UtlCommand), os.Stdout, os.Stderr))
}

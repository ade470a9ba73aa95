package cli

import (
	"fmt"
	"io"

	"etcdadm.io/cluster"
)

// printHolders says which hosts hold the authorities' keys, where one is known not to, and warns before the last one goes.
func printHolders(w io.Writer, o *cluster.Observation) {
	holders, without := o.KeyHolders()
	switch {
	case len(without) == 0:
	case len(holders) == 0:
		fmt.Fprintf(w, "  ! no host in sight holds the authorities' keys, and nobody renews the certificates of %s: start the daemon of one that does\n", join(without))
	case len(holders) == 1:
		fmt.Fprintf(w, "  ! only host %s holds the authorities' keys: without it nobody joins and no certificate is renewed → on %s: etcdadm token create --uses 1 --host %s, and its line on %s with --again\n",
			holders[0], holders[0], cluster.ShellWord(string(without[0])), without[0])
	default:
		fmt.Fprintf(w, "authorities' keys: on %s\n", join(holders))
	}
}

package cli

import (
	"fmt"
	"io"
	"net"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
	"github.com/spf13/cobra"
)

func joinCommand(program daemon.Program) *cobra.Command {
	u := setUp{program: program}
	o := setup.Join{}
	var secret, file string
	c := &cobra.Command{
		Use:   "join ADDRESS:PORT --token TOKEN --ca-hash HASH",
		Short: "Make this machine a host of a cluster",
		Long: `join makes this machine a host of a cluster: "etcdadm token create" on one of its hosts
prints the whole command. It checks this machine, asks that host for the cluster's
authorities and settings, installs and starts the systemd unit etcdadm.service (with
--static-pod a static pod of the kubelet), and waits until its member votes. Nothing is sent before that host has shown that it holds
the authority of the hash. Interrupted, it is run again and goes on.

A token of "token create --leaf-only" gives no authority's key: the key of this host's
certificate is made here, and the cluster signs it. Run again on such a host after its
certificate has ended, join asks for a new one and keeps data and name; with --again it
asks in any case, as by a token that gives the keys.

A token on the command line is seen by everybody on this machine (ps): it may also be in
$ETCDADM_TOKEN, or in a file.`,
		Example: `  etcdadm join 192.0.2.1:8000 --token k3v9qd.SECRET --ca-hash sha256:HASH
  etcdadm join 192.0.2.1:8000 --token-file /run/token --ca-hash sha256:HASH --address 192.0.2.2
  etcdadm join 192.0.2.1:8000 --token-file /run/token --ca-hash sha256:HASH --static-pod
  etcdadm join 192.0.2.1:8000 --token-file /run/token --ca-hash sha256:HASH --adopt`,
		Args: words(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if err := u.mistakes(c); err != nil {
				return err
			}
			if host, port, err := net.SplitHostPort(args[0]); err != nil || host == "" || port == "" {
				return usage("such as 192.0.2.1:8000", "%s is no address with a port", args[0])
			}
			if o.CAHash == "" && u.in.certsDir != "" && !u.in.adopt {
				var err error
				if o.CAHash, err = hashOf(u.in.certsDir); err != nil {
					return usage("give --ca-hash, as etcdadm token create printed it", "--certs-dir: %w", err)
				}
			}
			if !pki.ValidHash(o.CAHash) {
				return usage("copy the line that etcdadm token create printed", "--ca-hash is not sha256: and 64 hexadecimal digits")
			}
			var err error
			if o.Token, err = secretOf(secret, file); err != nil {
				return err
			}
			o.Endpoint, o.HostID, o.Wait, o.DataDir, o.SetAside, o.Priorities = args[0], u.hostID, u.wait, u.in.dataDir, u.in.setAside, u.former.priorities
			o.More, o.Address = u.former.bound(u.address)
			return u.join(c, o)
		},
	}
	f := c.Flags()
	f.StringVar(&secret, "token", "", "the join token ($ETCDADM_TOKEN)")
	f.StringVar(&file, "token-file", "", "file with the join token")
	f.StringVar(&o.CAHash, "ca-hash", "", "hash of the cluster's authority, as token create and init print it")
	f.StringVar(&u.address, "address", "", "how the other hosts reach this one; default: the address of the route to ADDRESS")
	f.BoolVar(&o.Again, "again", false, "on a host without the authorities' keys: ask the cluster once more")
	u.flags(c)
	u.former.flags(c, true)
	c.AddCommand(phaseCommand("join"))
	return c
}

func (u *setUp) join(c *cobra.Command, o setup.Join) error {
	m, err := u.machine(c)
	if err != nil {
		return err
	}
	var atHand cluster.Version
	if u.former.version != "" {
		if atHand, err = cluster.ParseVersion(u.former.version); err != nil {
			return usage("such as --version 3.6.16", "%w", err)
		}
	}
	if o.Existing, err = u.in.existing(c.Context(), u, m, true, false); err != nil {
		return setUpFailure(err)
	}
	report, err := m.CheckJoin(c.Context(), o)
	if err != nil {
		return setUpFailure(err)
	}
	if err := u.checked(c, report); err != nil || u.dryRun {
		return err
	}
	if err := u.in.agreed(c, report, o.Existing); err != nil {
		return err
	}
	if err := u.former.fetch(c.Context(), c, u, atHand); err != nil {
		return err
	}
	o.Aside = report.Aside
	done, err := m.Join(c.Context(), o)
	if err != nil {
		return setUpFailure(err)
	}
	return u.print(c.OutOrStdout(), done, func(w io.Writer) {
		switch {
		case done.Spare:
			fmt.Fprintf(w, "host %s joined cluster %s as a spare: other hosts have all the members that are wanted\n", done.Host, done.Cluster)
			return
		case done.Again:
			fmt.Fprintf(w, "host %s is a host of cluster %s already, and its member votes: %s\n", done.Host, done.Cluster, done.Etcd)
		default:
			fmt.Fprintf(w, "host %s joined cluster %s, and its member votes: %s\n", done.Host, done.Cluster, done.Etcd)
		}
		printTakenOver(w, done.TakenOver, done.Host)
		if done.LeafOnly {
			fmt.Fprintln(w, "it holds no authority's key: others sign its certificates")
		}
		fmt.Fprintf(w, "etcdctl: . %s\n", done.Etcdctl)
		fmt.Fprintln(w, externalEtcd)
	})
}

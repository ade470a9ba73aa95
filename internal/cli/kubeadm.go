package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/certs"
	"etcdadm.io/internal/kubeadm"
	"github.com/spf13/cobra"
)

// kubeadmCommand is about Kubernetes clusters that have this etcd as their external one.
func kubeadmCommand() *cobra.Command {
	var r reach
	c := &cobra.Command{
		Use: "kubeadm", Short: "Give a cluster of kubeadm its external etcd",
		Long: `kubeadm is about Kubernetes clusters that kubeadm makes, with this etcd as their external
one. See docs/operations/kubeadm.md.`,
		Example: "  etcdadm kubeadm print > etcd.yaml",
		Args:    words(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	r.flags(c)
	c.AddCommand(r.kubeadmPrintCommand())
	return c
}

func (r *reach) kubeadmPrintCommand() *cobra.Command {
	var dir string
	var wait time.Duration
	c := &cobra.Command{
		Use: "print", Short: "Print the part of kubeadm's configuration that is about etcd",
		Long: `print writes a ClusterConfiguration for kubeadm (v1beta4, Kubernetes 1.31 and later) with
the endpoints of all voters, and the files of the API server's certificate. Add what else
is wanted, and give it to kubeadm init --config. "etcdadm certs issue --for
kube-apiserver" makes the certificate.`,
		Example: `  etcdadm kubeadm print
  etcdadm kubeadm print --endpoint 192.0.2.1:8000 --cluster-name etcd --credentials ./alice`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := someTime("--wait", wait); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), wait)
			defer cancel()
			look := func(ctx context.Context) (*cluster.Observation, error) {
				report, err := r.status(ctx)
				return report.Observation, err
			}
			var f kubeadm.Files
			f.CA, f.Cert, f.Key = certs.Files(certs.ForAPIServer, dir)
			config, seen, err := kubeadm.Await(ctx, look, f, func(sentence string) { fmt.Fprintf(c.ErrOrStderr(), "waiting up to %s: %s\n", wait, sentence) })
			switch {
			case errors.Is(err, kubeadm.ErrUnknown):
				return &Failure{Code: ExitNotLeader, Err: err, Advice: hintOf(err)}
			case errors.Is(err, kubeadm.ErrQuarantine):
				return &Failure{Code: ExitUnsafe, Err: err, Advice: hintOf(err)}
			case err != nil:
				return err
			}
			text, err := config.YAML()
			if err != nil {
				return err
			}
			if n := kubeadm.Missing(seen); n > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "note: %s to come; print it again when etcdadm status shows all voters\n", counted(n, "voter"))
			}
			if config.Etcd.External.CertFile != "" {
				if _, err := os.Lstat(f.Cert); errors.Is(err, fs.ErrNotExist) {
					fmt.Fprintf(c.ErrOrStderr(), "note: this host has no %s; to make it here: etcdadm certs issue --for %s; for another machine add --out DIR, and copy the files\n", f.Cert, certs.ForAPIServer)
				}
			}
			return r.print(c.OutOrStdout(), config, func(w io.Writer) { fmt.Fprintf(w, "%s", text) })
		},
	}
	c.Flags().StringVar(&dir, "cert-dir", "/etc/kubernetes/pki", "where the API server's machine has its certificates")
	c.Flags().DurationVar(&wait, "wait", kubeadm.DefaultWait, "how long to wait until the members are known")
	return c
}

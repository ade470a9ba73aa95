// Package plugin is kubectl etcdadm: a cluster in pods by the words and tables of etcdadm.
//
// Who looks needs no more than to read the EtcdCluster and the record's ConfigMap. A backup or a restore is an object that the
// operator acts on, so that roles, quotas and the audit log know it by its kind. What only a daemon can do, kubectl exec asks
// of the etcdadm in the pod: there it is the command of the same name and release.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Exit codes, as the same causes have in etcdadm; those of status are in internal/tables.
const (
	exitError       = 1
	exitNoCluster   = 10
	exitUnsafe      = 12
	exitWaiting     = 13
	exitInterrupted = 130
)

// callTimeout bounds one question to the API server.
const callTimeout = 30 * time.Second

// failure is an error for people, with an exit code and the next step.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// ended is a command that has said all, and ends with a code.
type ended int

func (e ended) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// place is where a cluster is, and how it is reached.
type place struct {
	kubeconfig, context, namespace string
	output                         string

	client client.Client
}

// Main is the plugin. It returns the exit code.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := tree(new(place))
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	var f *failure
	var code ended
	var child *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &child) && child.ExitCode() > 0: // it has said why
		return child.ExitCode()
	}
	fmt.Fprintf(errs, "kubectl etcdadm: %v\n", err)
	switch {
	case errors.As(err, &f):
		if f.hint != "" {
			fmt.Fprintf(errs, "  hint: %s\n", f.hint)
		}
		return f.code
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitError
}

// tree is the plugin with all its commands.
func tree(p *place) *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-etcdadm", Short: "Look after etcd clusters in pods", SilenceErrors: true, SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl etcdadm"},
		Long: `kubectl etcdadm shows and looks after the clusters of EtcdClusters, in the words of etcdadm.
NAME is the EtcdCluster's; HOST a host of it, such as main-1.`,
	}
	f := root.PersistentFlags()
	f.StringVar(&p.kubeconfig, "kubeconfig", "", "file that says how the API server is reached")
	f.StringVar(&p.context, "context", "", "context of that file")
	f.StringVarP(&p.namespace, "namespace", "n", "", "namespace of the EtcdCluster")
	root.AddGroup(&cobra.Group{ID: "look", Title: "Look at it:"}, &cobra.Group{ID: "back-up", Title: "Back it up:"}, &cobra.Group{ID: "repair", Title: "Repair it:"})
	root.AddCommand(statusCommand(p), planCommand(p), logsCommand(p), backupCommand(p), restoreCommand(p), defragCommand(p), promoteCommand(p), adoptCommand(p))
	return root
}

// open reaches the API server as kubectl does, once.
func (p *place) open() error {
	if p.client != nil {
		return nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = p.kubeconfig
	c := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: p.context})
	config, err := c.ClientConfig()
	if err == nil && p.namespace == "" {
		p.namespace, _, err = c.Namespace()
	}
	if err == nil && p.context == "" {
		var all api.Config
		all, err = c.RawConfig()
		p.context = all.CurrentContext // kubectl, which is run later, must not read another one
	}
	if err != nil {
		return fmt.Errorf("read how the API server is reached: %w", err)
	}
	config.Timeout, config.QPS = callTimeout, -1 // a person asks seldom
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	p.client, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

// get is the EtcdCluster of a name.
func (p *place) get(ctx context.Context, name string) (*v1alpha1.EtcdCluster, error) {
	if err := p.open(); err != nil {
		return nil, err
	}
	ec := &v1alpha1.EtcdCluster{}
	err := p.client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name}, ec)
	if apierrors.IsNotFound(err) {
		return nil, &failure{exitNoCluster, fmt.Errorf("no EtcdCluster %s in namespace %s", name, p.namespace), "kubectl get etcdclusters.etcdadm.io --all-namespaces lists them; -n names another namespace"}
	}
	return ec, err
}

// outputFlag is -o of a command that prints.
func (p *place) outputFlag(c *cobra.Command) {
	c.Flags().StringVarP(&p.output, "output", "o", "table", "table, json or yaml")
	c.PreRunE = func(*cobra.Command, []string) error {
		switch p.output {
		case "table", "json", "yaml":
			return nil
		}
		return &failure{2, fmt.Errorf("--output=%s is unknown", p.output), "table, json or yaml"}
	}
}

package plugin

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"etcdadm.io/operator/shape"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// inPod runs etcdadm in the pod of the leading daemon, with the flags that a person gave.
func (p *place) inPod(c *cobra.Command, name string, words ...string) error {
	s, err := p.look(c.Context(), name)
	if err != nil {
		return err
	}
	if err := s.inPods(); err != nil {
		return err
	}
	if s.speaker() == "" {
		return &failure{exitNoCluster, fmt.Errorf("EtcdCluster %s/%s has no host that runs", s.cluster.Namespace, name), "kubectl etcdadm status " + name + " says what it waits for"}
	}
	how := []string{"exec", "-i"}
	if f, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		how = append(how, "-t")
	}
	args := append(how, s.speaker(), "-c", shape.ContainerName, "--", shape.Program)
	return p.call(c, append(append(args, words...), "--data-dir="+shape.DataDir)...)
}

// inPods refuses what only a pod can do of a cluster on bare hosts.
func (s *seen) inPods() error {
	if s.cluster.Spec.Hosts == nil {
		return nil
	}
	return &failure{exitUnsafe, fmt.Errorf("EtcdCluster %s/%s is on hosts outside of Kubernetes, which kubectl does not reach", s.cluster.Namespace, s.cluster.Name), "run etcdadm on one of its hosts; the log is the agent's there: journalctl -u etcdadm"}
}

// where are kubectl's flags for the same place.
func (p *place) where() []string {
	words := []string{"--namespace=" + p.namespace}
	if p.kubeconfig != "" {
		words = append(words, "--kubeconfig="+p.kubeconfig)
	}
	if p.context != "" {
		words = append(words, "--context="+p.context)
	}
	return words
}

// call runs kubectl for the same place. It says itself what went wrong.
func (p *place) call(c *cobra.Command, args ...string) error {
	return p.feed(c, c.InOrStdin(), args...)
}

// feed is call with another input.
func (p *place) feed(c *cobra.Command, in io.Reader, args ...string) error {
	cmd := exec.CommandContext(c.Context(), "kubectl", append(p.where(), args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, c.OutOrStdout(), c.ErrOrStderr()
	return cmd.Run()
}

// steps are flags of etcdadm that are handed on as they are.
type steps struct {
	dryRun, yes bool
	wait        time.Duration
}

func (s *steps) flags(c *cobra.Command, wait string, most time.Duration) {
	c.Flags().BoolVar(&s.dryRun, "dry-run", false, "print the first step, and change nothing")
	c.Flags().BoolVar(&s.yes, "yes", false, "do not ask")
	c.Flags().DurationVar(&s.wait, wait, most, "how long to wait for the end")
}

func (s *steps) words(wait string) []string {
	words := []string{"--" + wait + "=" + s.wait.String()}
	if s.dryRun {
		words = append(words, "--dry-run")
	}
	if s.yes {
		words = append(words, "--yes")
	}
	return words
}

func defragCommand(p *place) *cobra.Command {
	var s steps
	c := &cobra.Command{
		Use: "defrag NAME [HOST]", GroupID: "repair", Short: "Defragment the database of a member, or of all voters one after the other", Args: cobra.RangeArgs(1, 2),
		Example: "  kubectl etcdadm defrag main --dry-run\n  kubectl etcdadm defrag main main-2",
		Long: `defrag runs "etcdadm defrag" in the pod of the leading daemon, by kubectl exec. The daemon
takes each step by its own guards: no member while a voter is down, raft's leader last.`,
		RunE: func(c *cobra.Command, args []string) error {
			return p.inPod(c, args[0], append(append([]string{"defrag"}, args[1:]...), s.words("wait")...)...)
		},
	}
	s.flags(c, "wait", 10*time.Minute)
	return c
}

func promoteCommand(p *place) *cobra.Command {
	var s steps
	c := &cobra.Command{
		Use: "promote NAME HOST", GroupID: "repair", Short: "Make a learner that has caught up a voter", Args: cobra.ExactArgs(2),
		Example: "  kubectl etcdadm promote main main-4",
		Long: `promote runs "etcdadm member promote" in the pod of the leading daemon, by kubectl exec.
The daemons promote learners by themselves; this is for a cluster that is paused.`,
		RunE: func(c *cobra.Command, args []string) error {
			return p.inPod(c, args[0], append([]string{"member", "promote", args[1]}, s.words("timeout")...)...)
		},
	}
	s.flags(c, "timeout", time.Minute)
	return c
}

func logsCommand(p *place) *cobra.Command {
	var follow bool
	var since time.Duration
	var tail int
	c := &cobra.Command{
		Use: "logs NAME [HOST]", GroupID: "look", Short: "Print the logs of daemons and members, of one host or of all", Args: cobra.RangeArgs(1, 2),
		Example: "  kubectl etcdadm logs main --since 10m\n  kubectl etcdadm logs main main-2 -f",
		Long: `logs prints, by kubectl logs, what the hosts' pods say: daemon and etcd write to one
output. Each line begins with its pod.`,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), callTimeout)
			defer cancel()
			ec, err := p.get(ctx, args[0])
			if err != nil {
				return err
			}
			if err := (&seen{cluster: ec}).inPods(); err != nil {
				return err
			}
			selector := shape.LabelCluster + "=" + ec.Name
			if len(args) > 1 {
				selector += "," + shape.LabelHost + "=" + args[1]
			}
			return p.call(c, logWords(selector, follow, since, tail)...)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on")
	c.Flags().DurationVar(&since, "since", 0, "only lines that are younger")
	c.Flags().IntVar(&tail, "tail", 100, "so many lines of each host at most; -1: all")
	return c
}

// mostHosts is how many hosts a cluster may have, with those that are exchanged: kubectl follows five at once unless told.
const mostHosts = "20"

func logWords(selector string, follow bool, since time.Duration, tail int) []string {
	words := []string{"logs", "--selector=" + selector, "--prefix", "--max-log-requests=" + mostHosts, "--container=" + shape.ContainerName, "--tail=" + strconv.Itoa(tail)}
	if since > 0 {
		words = append(words, "--since="+since.String())
	}
	if follow {
		words = append(words, "--follow")
	}
	return words
}

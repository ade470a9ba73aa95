package plugin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/internal/control"
	"etcdadm.io/internal/regular"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// adoption is what kubectl etcdadm adopt was asked for.
type adoption struct {
	*place
	endpoints          []string
	user, passwordFile string
	id                 string // the cluster that is meant; empty: whichever was named, or answers
	keep, dryRun, yes  bool
	wait               time.Duration
	next               int // number of the next host
}

func adoptCommand(p *place) *cobra.Command {
	a := &adoption{place: p}
	c := &cobra.Command{
		Use: "adopt NAME", GroupID: "repair", Short: "Have the hosts join a running cluster, and take its own members out of it", Args: cobra.ExactArgs(1),
		Example: "  kubectl etcdadm adopt main --endpoints https://etcd-0.etcd:2379,https://etcd-1.etcd:2379 --dry-run\n  kubectl etcdadm adopt main --endpoints https://192.0.2.7:2379 --user root --password-file FILE",
		Long: `adopt is for an EtcdCluster with spec.bootstrap.adopt. It runs "etcdadm adopt --join" in one pod
after the other, by kubectl exec: each host joins as a learner and is promoted; once as many
vote as spec.size says, the last run removes the members that were there before, one by one.
It stops at the first refusal. Whatever it did stands: run the same again to go on.`,
		RunE: func(c *cobra.Command, args []string) error { return a.run(c, args[0]) },
	}
	f := c.Flags()
	f.StringSliceVar(&a.endpoints, "endpoints", nil, "client URLs of members of the cluster, as pods reach them")
	f.StringVar(&a.user, "user", "", "etcd user of the role root, where authentication is on and has none for the name root of certificates")
	f.StringVar(&a.passwordFile, "password-file", "", "file with that user's password")
	f.StringVar(&a.id, "cluster-id", "", "ID of the cluster that is meant, in hex; another one is refused, and so is another one than spec.bootstrap.adopt.clusterID")
	f.BoolVar(&a.keep, "keep", false, "remove no member")
	f.BoolVar(&a.dryRun, "dry-run", false, "show what would happen, and change nothing")
	f.BoolVar(&a.yes, "yes", false, "do not ask")
	f.DurationVar(&a.wait, "wait", 5*time.Minute, "how long to wait for each step")
	return c
}

func (a *adoption) run(c *cobra.Command, name string) error {
	if len(a.endpoints) == 0 {
		return &failure{2, errors.New("--endpoints names client URLs of members of the cluster that is to be adopted"), "such as --endpoints https://etcd-0.etcd:2379"}
	}
	if (a.user == "") != (a.passwordFile == "") {
		return &failure{2, errors.New("--user and --password-file belong together"), "give both, or none"}
	}
	ctx, cancel := context.WithTimeout(c.Context(), callTimeout)
	ec, pods, err := a.hosts(ctx, name)
	cancel()
	if err != nil {
		return err
	}
	var password []byte
	if a.passwordFile != "" {
		if password, err = regular.Read(a.passwordFile, regular.SmallSize); err != nil {
			return fmt.Errorf("read --password-file: %w", err)
		}
	}
	if a.dryRun || !a.yes {
		if err := a.inHost(c, ec, pods[0], password, "--dry-run"); err != nil || a.dryRun {
			return err
		}
		if err := confirm(c, fmt.Sprintf("Adopt it into EtcdCluster %s/%s? The same is done on %d hosts, one after the other.", ec.Namespace, ec.Name, len(pods))); err != nil {
			return err
		}
	}
	for i, pod := range pods {
		fmt.Fprintf(c.OutOrStdout(), "\nHost %d of %d, in pod %s:\n", i+1, len(pods), pod)
		if err := a.inHost(c, ec, pod, password, "--yes"); err != nil {
			fmt.Fprintf(c.ErrOrStderr(), "stopped at pod %s. What was done stands. The command in the pod ends with its input, and a call to etcd that it has begun may take effect yet: when that is settled, run the same again\n", pod)
			return err
		}
	}
	next := "kubectl etcdadm status " + ec.Name + " shows it once its daemons have told of themselves. Give clients the Service " + shape.Cluster{Name: ec.Name}.ClientName() + ", and take away what ran the members that were removed, before anything empties their directories"
	if a.keep {
		next = "no member was removed (--keep): run the same without --keep to have the others removed"
	}
	fmt.Fprintf(c.OutOrStdout(), "\nDone. Next: %s.\n", next)
	return nil
}

// hosts are the pods of the hosts that are to join, as many as spec.size says, in the order of their numbers; but for the one that
// began last, which comes first: it may have a learner, for whose promotion the others would wait.
func (a *adoption) hosts(ctx context.Context, name string) (*v1alpha1.EtcdCluster, []string, error) {
	ec, err := a.get(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if err := (&seen{place: a.place, cluster: ec}).inPods(); err != nil {
		return nil, nil, err
	}
	if ec.DeletionTimestamp != nil {
		return nil, nil, &failure{exitUnsafe, fmt.Errorf("EtcdCluster %s/%s is deleted: what it adopts would be ended with it", ec.Namespace, name), "kubectl etcdadm status " + name + " says how to let it go, so that all runs on and another EtcdCluster takes it up"}
	}
	written := &corev1.ConfigMap{} // which says it, too, where spec.bootstrap was taken away since
	if err := a.client.Get(ctx, client.ObjectKey{Namespace: ec.Namespace, Name: shape.Cluster{Name: name}.ControlName()}, written); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read how far it is: %w", err)
	}
	if _, is := written.Annotations[shape.AnnotationAdopt]; adopts(ec) == nil && !is {
		return nil, nil, &failure{exitUnsafe, fmt.Errorf("EtcdCluster %s/%s has no spec.bootstrap.adopt: it is to adopt no cluster", ec.Namespace, name), "make an EtcdCluster with it; it cannot be added later"}
	}
	if err := a.means(ec, written.Annotations[shape.AnnotationAdopt]); err != nil {
		return nil, nil, err
	}
	a.next, _ = strconv.Atoi(written.Annotations[shape.AnnotationNext])
	pods := &corev1.PodList{}
	if err := a.client.List(ctx, pods, client.InNamespace(ec.Namespace), client.MatchingLabels{shape.LabelCluster: ec.Name}); err != nil {
		return nil, nil, fmt.Errorf("look for the pods: %w", err)
	}
	names := shape.Cluster{Namespace: ec.Namespace, Name: ec.Name}
	byNumber := map[int]string{}
	for i := range pods.Items {
		p := &pods.Items[i]
		running := slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == shape.ContainerName && s.State.Running != nil
		})
		if n, is := names.Number(p.Labels[shape.LabelHost]); is && running && p.DeletionTimestamp == nil && p.Name == names.Host(n)+"-0" {
			byNumber[n] = p.Name
		}
	}
	joined, err := joinedHosts(ctx, names, written)
	if err != nil {
		return nil, nil, fmt.Errorf("read how far it is: %w", err)
	}
	numbers := inOrder(slices.Sorted(maps.Keys(byNumber)), joined)
	var out []string
	for _, n := range numbers {
		out = append(out, byNumber[n])
	}
	size := int(ec.Spec.Size)
	if len(out) < size {
		return nil, nil, &failure{exitWaiting, fmt.Errorf("%d of %d hosts run", len(out), size), "kubectl etcdadm plan " + name + " says what is waited for; run this again then"}
	}
	return ec, out[:size], nil
}

// inOrder has the host first that began to join last, since the others wait for it, then those that had begun before, and then others.
func inOrder(numbers, joined []int) []int {
	rank := func(n int) int {
		switch i := slices.Index(joined, n); {
		case i < 0:
			return 2
		case i < len(joined)-1:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(numbers, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return numbers
}

// joinedHosts are the numbers of the hosts that have begun to join, by what is written, the last one last.
func joinedHosts(ctx context.Context, names shape.Cluster, m *corev1.ConfigMap) (numbers []int, err error) {
	j, _, err := control.New(record.Of(m, nil), "").Known().ReadJoining(ctx)
	if err != nil || j == nil {
		return nil, err
	}
	for _, urls := range j.Ours {
		for _, raw := range urls {
			u, err := url.Parse(raw)
			if err != nil {
				continue
			}
			pod, _, _ := strings.Cut(u.Hostname(), ".")
			if n, is := names.Number(strings.TrimSuffix(pod, "-0")); is && u.Hostname() == names.HostDNS(n) {
				numbers = append(numbers, n)
				break
			}
		}
	}
	return numbers, nil
}

// means settles which cluster is meant: a person's word here and those that were written before are the same, or nothing is done.
func (a *adoption) means(ec *v1alpha1.EtcdCluster, written string) error {
	_, named, _ := strings.Cut(written, " ")
	if is := adopts(ec); is != nil {
		if named != "" && is.ClusterID != "" && !sameID(named, is.ClusterID) {
			return &failure{exitWaiting, fmt.Errorf("spec.bootstrap.adopt.clusterID is %s, and cluster %s is written down as the one that is meant", is.ClusterID, named), "until a host has joined, the operator takes the change up in a moment: run this again then. Else set it back: kubectl etcdadm status " + ec.Name}
		}
		named = cmp.Or(named, is.ClusterID)
	}
	is, err := strconv.ParseUint(cmp.Or(a.id, named, "0"), 16, 64)
	if err != nil || a.id != "" && is == 0 {
		return &failure{2, fmt.Errorf("--cluster-id=%s is no ID of a cluster", a.id), "it is as etcdctl prints it with --hex, such as cdf818194e3a8c32"}
	}
	if was, err := strconv.ParseUint(cmp.Or(named, "0"), 16, 64); named != "" && (err != nil || was != is) {
		return &failure{exitUnsafe, fmt.Errorf("--cluster-id is %s, and the EtcdCluster was told that cluster %s is meant", a.id, named), "look at both"}
	}
	a.id = cmp.Or(a.id, named)
	return nil
}

func sameID(a, b string) bool {
	first, err := strconv.ParseUint(a, 16, 64)
	second, other := strconv.ParseUint(b, 16, 64)
	return err == nil && other == nil && first == second
}

func adopts(ec *v1alpha1.EtcdCluster) *v1alpha1.Adopt {
	if ec.Spec.Bootstrap == nil {
		return nil
	}
	return ec.Spec.Bootstrap.Adopt
}

// inHost runs the command in a pod, whose daemon knows the rest.
func (a *adoption) inHost(c *cobra.Command, ec *v1alpha1.EtcdCluster, pod string, password []byte, how string) error {
	words := []string{"exec", "-i", pod, "-c", shape.ContainerName, "--", shape.Program, "adopt", "--join", "--data-dir=" + shape.DataDir,
		"--endpoints=" + strings.Join(a.endpoints, ","), fmt.Sprintf("--members=%d", ec.Spec.Size), "--etcd-version=" + ec.Spec.Version, "--wait=" + a.wait.String(), "--while-input"}
	if a.id != "" {
		words = append(words, "--cluster-id="+a.id)
	}
	names := shape.Cluster{Namespace: ec.Namespace, Name: ec.Name}
	for n := 1; n < a.next; n++ {
		words = append(words, fmt.Sprintf("--host-url=https://%s:%d", names.HostDNS(n), shape.PortPeer))
	}
	options := shape.Options(ec.Spec)
	for _, name := range slices.Sorted(maps.Keys(options)) {
		words = append(words, "--option="+name+"="+options[name])
	}
	if a.user != "" {
		words = append(words, "--user="+a.user, "--password-file=/dev/stdin")
	}
	if a.keep {
		words = append(words, "--keep")
	}
	in, hold, err := os.Pipe() // which ends with this process, and with it the command in the pod
	if err != nil {
		return err
	}
	defer in.Close()
	defer hold.Close()
	if _, err := hold.Write(append(bytes.TrimRight(password, "\r\n"), '\n')); err != nil {
		return fmt.Errorf("hand the password on: %w", err)
	}
	return a.feed(c, in, append(words, how)...)
}

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookEvery is how often a request that is waited for is looked at.
const lookEvery = time.Second

// request is an EtcdBackup or EtcdRestore that is made here.
type request struct {
	*place
	object client.Object
	status func() v1alpha1.RequestStatus
	what   string // EtcdBackup main-x7k2p, without its name before it has one

	would  string // what it does, for who only asks; empty: what it is says it
	dryRun bool
	wait   time.Duration
}

func (r *request) flags(c *cobra.Command) {
	c.Flags().BoolVar(&r.dryRun, "dry-run", false, "have the API server check it, and make nothing")
	c.Flags().DurationVar(&r.wait, "wait", 0, "wait so long for the end")
	r.outputFlag(c)
}

// make asks for it, and waits for its end.
func (r *request) make(ctx context.Context, out, say io.Writer) error {
	var how []client.CreateOption
	if r.dryRun {
		how = append(how, client.DryRunAll)
	}
	if err := r.client.Create(ctx, r.object, how...); err != nil {
		return fmt.Errorf("make the %s: %w", r.what, err)
	}
	r.object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(r.what))
	r.object.SetManagedFields(nil)
	err := r.print(out, r.object, func(w io.Writer) {
		if r.dryRun {
			fmt.Fprintf(w, "the API server would take this %s; nothing was made%s\n", r.what, r.would)
		} else {
			fmt.Fprintf(w, "made %s %s\n", r.what, r.object.GetName())
		}
	})
	if err != nil || r.dryRun || r.wait <= 0 {
		return err
	}
	fmt.Fprintf(say, "waiting up to %s; Ctrl-C is safe, it goes on\n", r.wait)
	return r.end(ctx, say)
}

// end waits until it is done or has failed.
func (r *request) end(ctx context.Context, say io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	key, said := client.ObjectKeyFromObject(r.object), ""
	for {
		err := r.client.Get(ctx, key, r.object)
		s := r.status()
		why := s.Reason
		if err != nil { // the API server may come back
			why = "it cannot be read: " + err.Error()
		}
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			return err
		case err == nil && s.Phase == v1alpha1.Done:
			fmt.Fprintf(say, "done: %s\n", s.Backup)
			return nil
		case err == nil && s.Phase == v1alpha1.Failed:
			return &failure{exitUnsafe, fmt.Errorf("%s %s failed: %s", r.what, key.Name, s.Reason), ""}
		case why != said && ctx.Err() == nil:
			said = why
			fmt.Fprintf(say, "waiting: %s\n", said)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return &failure{exitInterrupted, errors.New("stopped waiting; it goes on"), ""}
			}
			return &failure{exitWaiting, fmt.Errorf("%s %s has not ended within %s", r.what, key.Name, r.wait), "it goes on: kubectl describe says what it waits for"}
		}
	}
}

func backupCommand(p *place) *cobra.Command {
	b := &v1alpha1.EtcdBackup{}
	r := &request{place: p, object: b, what: "EtcdBackup", status: func() v1alpha1.RequestStatus { return b.Status }}
	var keep string
	c := &cobra.Command{
		Use: "backup NAME", GroupID: "back-up", Short: "Have the leading daemon take a backup now", Args: cobra.ExactArgs(1),
		Example: "  kubectl etcdadm backup main --wait 5m\n  kubectl etcdadm backup main --keep-for 90d",
		Long:    `backup makes an EtcdBackup, which the operator hands to the leading daemon.`,
		RunE: func(c *cobra.Command, args []string) error {
			ec, err := p.get(c.Context(), args[0])
			if err != nil {
				return err
			}
			b.ObjectMeta = metav1.ObjectMeta{Namespace: ec.Namespace, GenerateName: ec.Name + "-"}
			b.Spec = v1alpha1.BackupSpec{Cluster: ec.Name, KeepFor: v1alpha1.Duration(keep)}
			return r.make(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	r.flags(c)
	c.Flags().StringVar(&keep, "keep-for", "", "keep it at least so long, such as 90d, whatever the cluster's retention")
	return c
}

func restoreCommand(p *place) *cobra.Command {
	o := &v1alpha1.EtcdRestore{}
	r := &request{place: p, object: o, what: "EtcdRestore", status: func() v1alpha1.RequestStatus { return o.Status }}
	source := &o.Spec.Source
	var yes bool
	c := &cobra.Command{
		Use: "restore NAME [BACKUP]", GroupID: "repair", Short: "Make the cluster what it was in a backup", Args: cobra.RangeArgs(1, 2),
		Example: "  kubectl etcdadm restore main 2026-11-20T03:00:00Z-000001 --dry-run\n  kubectl etcdadm restore main --newest-proven --yes --wait 10m\n" +
			"  kubectl etcdadm restore main --survivor main-2 --lost main-1 --lost main-3",
		Long: `restore makes an EtcdRestore, by which the leading daemon makes a new generation of the
cluster. Clients are not served meanwhile, and writes since the backup are not in it.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				put(&source.Backup, args[1])
			}
			ec, err := p.get(c.Context(), args[0])
			if err != nil {
				return err
			}
			o.ObjectMeta = metav1.ObjectMeta{Namespace: ec.Namespace, GenerateName: ec.Name + "-"}
			o.Spec.Cluster, o.Spec.Replaces, o.Spec.ClusterID = ec.Name, ec.Status.Generation, ec.Status.ClusterID
			r.would = fmt.Sprintf(". It would restore %s/%s from %s and give up generation %d, with all that was written since; whether that can be used is looked at once it is made, before anything is stopped", ec.Namespace, ec.Name, sourceWords(*source), o.Spec.Replaces)
			if !r.dryRun && !yes {
				if err := confirm(c, fmt.Sprintf("Restore %s/%s from %s? Generation %d is given up, with all that was written since.", ec.Namespace, ec.Name, sourceWords(*source), o.Spec.Replaces)); err != nil {
					return err
				}
			}
			return r.make(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	r.flags(c)
	f := c.Flags()
	f.BoolVar(&source.NewestProven, "newest-proven", false, "from the newest backup that was found good")
	f.StringVar(&source.Survivor, "survivor", "", "from the data of this host")
	f.StringSliceVar(&o.Spec.Lost, "lost", nil, "a host that is gone for good (repeatable); data that only it had is lost")
	f.BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func sourceWords(s v1alpha1.RestoreSource) string {
	switch {
	case s.NewestProven:
		return "its newest proven backup"
	case s.Survivor != "":
		return "the data of host " + s.Survivor
	}
	return fmt.Sprintf("backup %s", s.Backup)
}

// put gives a field of any kind of text a person's word. The API server says whether it can be one.
func put[T ~string](field *T, word string) { *field = T(word) }

// confirm asks a person before a step, and is nil for a yes.
func confirm(c *cobra.Command, question string) error {
	fmt.Fprint(c.ErrOrStderr(), question+" [y/N] ")
	answers := make(chan string, 1)
	go func() {
		var answer string
		_, _ = fmt.Fscanln(c.InOrStdin(), &answer) // no answer is a no
		answers <- answer
	}()
	select {
	case <-c.Context().Done():
		return &failure{exitInterrupted, errors.New("interrupted at the question; nothing was changed"), ""}
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
	}
	return &failure{exitUnsafe, errors.New("not confirmed; nothing was changed"), "add --yes to skip the question"}
}

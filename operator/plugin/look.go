package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"etcdadm.io/internal/control"
	"etcdadm.io/internal/tables"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	"etcdadm.io/operator/show"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// seen is a cluster as the API server has it.
type seen struct {
	*place
	cluster *v1alpha1.EtcdCluster
	told    *control.Status // nil: the daemons have told nothing yet, or what is there was copied from another cluster
	now     time.Time
}

// look reads the EtcdCluster, and what the leading daemon wrote of itself.
func (p *place) look(ctx context.Context, name string) (*seen, error) {
	ec, err := p.get(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &seen{place: p, cluster: ec, now: time.Now()}
	if ec.Spec.Hosts != nil {
		return s, nil // what the daemons tell lies in their store, and the operator shows it
	}
	names := shape.Cluster{Name: ec.Name}
	m, own := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	for name, into := range map[string]*corev1.ConfigMap{names.StatusName(): m, names.ControlName(): own} {
		if err := p.client.Get(ctx, client.ObjectKey{Namespace: ec.Namespace, Name: name}, into); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read what the daemons tell: %w", err)
		}
	}
	status, there, err := control.New(record.Of(&corev1.ConfigMap{}, m), "").Known().ReadStatus(ctx)
	if there && !shape.IsCopy(own) {
		s.told = &status
	}
	return s, err
}

// health is what the daemons told, and no better than degraded where the operator does not call the cluster ready.
func (s *seen) health() control.Health {
	if s.cluster.Spec.Hosts != nil {
		return s.shown()
	}
	if s.told == nil {
		return control.Unknown
	}
	h := s.told.Health(s.now)
	if c := meta.FindStatusCondition(s.cluster.Status.Conditions, v1alpha1.Ready); h == control.Well && c != nil && c.Status != "True" {
		return control.Degraded
	}
	return h
}

// shown is the health of a cluster on bare hosts, by the conditions of its EtcdCluster.
func (s *seen) shown() control.Health {
	is := func(kind string) metav1.ConditionStatus {
		if c := meta.FindStatusCondition(s.cluster.Status.Conditions, kind); c != nil {
			return c.Status
		}
		return metav1.ConditionUnknown
	}
	switch {
	case is(v1alpha1.Reporting) != metav1.ConditionTrue || is(v1alpha1.Available) == metav1.ConditionUnknown:
		return control.Unknown
	case is(v1alpha1.Available) == metav1.ConditionFalse:
		return control.NoQuorum
	case is(v1alpha1.Ready) != metav1.ConditionTrue:
		return control.Degraded
	}
	return control.Well
}

// outside prints the hosts of a cluster that is not in pods, as the operator shows them.
func (s *seen) outside(w io.Writer) {
	is := &s.cluster.Status
	if len(is.Hosts) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nHOST\tMEMBER\tROLE\tSTATE")
	for _, h := range is.Hosts {
		state := "free"
		switch {
		case h.Up:
			state = "up"
		case h.Role != "":
			state = "not up"
		case h.SilentSince != nil:
			state = "silent"
		}
		if h.Why != "" {
			state += ": " + h.Why
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", h.Name, cmp.Or(h.Member, "-"), cmp.Or(h.Role, "-"), state)
	}
	_ = t.Flush() // to a person's screen
	fmt.Fprintf(w, "etcd %s, generation %d\n", cmp.Or(is.Version, "of no known version"), is.Generation)
	if b := is.LastBackup; b != nil {
		fmt.Fprintf(w, "last backup: %s\n", b.Name)
	}
}

// view is what the daemons told in words for Kubernetes, with the operator's word on what lifts a blocker where it has one of its own.
// What they do themselves is nothing to type.
func (s *seen) view() tables.View {
	told := *s.told
	told.Blockers, told.Command = show.Told(s.cluster, s.told), ""
	for i, b := range told.Blockers {
		for _, shown := range s.cluster.Status.Blockers {
			if shown.Code == b.Code && shown.Sentence == b.Sentence {
				told.Blockers[i].Command = shown.Command
			}
		}
	}
	return tables.View{Status: told, Now: s.now, Again: s.again}
}

// again makes of a command for a host of the cluster one for where this runs.
func (s *seen) again(command string) string {
	return shape.InPod(s.where(), s.speaker(), command)
}

// speaker is the pod of the leading daemon, where that is known, or else of a host that has one: each daemon hands on what
// it is asked. It is a host of the operator's list: what the daemons tell, any of the cluster's pods may have written. Empty:
// there is none.
func (s *seen) speaker() (pod string) {
	for _, h := range s.cluster.Status.Hosts {
		switch {
		case s.told != nil && s.told.Health(s.now) != control.Unknown && h.Name == string(s.told.Leader):
			return h.Name + "-0"
		case h.Node != "" && pod == "":
			pod = h.Name + "-0"
		}
	}
	return pod
}

// own prints what the operator itself says: the condition, what it waits for, and hosts without a member.
func (s *seen) own(w io.Writer) {
	fmt.Fprintf(w, "EtcdCluster %s/%s: ", s.cluster.Namespace, s.cluster.Name)
	switch c := meta.FindStatusCondition(s.cluster.Status.Conditions, v1alpha1.Ready); {
	case c == nil:
		fmt.Fprintln(w, "the operator has not looked at it yet")
	case c.Status == "True":
		fmt.Fprintln(w, "ready")
	default:
		fmt.Fprintf(w, "not ready, %s: %s\n", c.Reason, c.Message)
	}
	for _, b := range s.cluster.Status.Blockers {
		code := strings.ToLower(b.Code)
		page := "docs/operator/reasons.md#" + code
		if code == b.Code { // a daemon's
			page = "docs/operations/" + code + ".md"
		}
		if code != b.Code || s.told == nil {
			tables.Blocker(w, b.Code, page, b.Sentence, "", b.Command)
		}
	}
	for _, h := range s.cluster.Status.Hosts {
		if h.Role == "" && h.Why != "" {
			fmt.Fprintf(w, "host %s: %s\n", h.Name, h.Why)
		}
	}
}

// seenJSON is a cluster for programs.
type seenJSON struct {
	Healthy bool                   `json:"healthy"`
	Health  control.Health         `json:"health"`
	Status  v1alpha1.ClusterStatus `json:"status"`
	Told    *control.Status        `json:"told,omitempty"`
}

func (s *seen) print(w io.Writer, table func(io.Writer)) error {
	return s.place.print(w, seenJSON{s.health() == control.Well, s.health(), s.cluster.Status, s.told}, table)
}

// print writes a value as -o says; table is what people read.
func (p *place) print(w io.Writer, v any, table func(io.Writer)) error {
	if p.output == "table" {
		table(w)
		return nil
	}
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil && p.output == "yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(data), "\n"))
	return err
}

func statusCommand(p *place) *cobra.Command {
	c := &cobra.Command{
		Use: "status NAME", GroupID: "look", Short: "Show hosts, members, the leader and what is being done", Args: cobra.ExactArgs(1),
		Example: "  kubectl etcdadm status main\n  kubectl etcdadm status main -n prod -o json",
		Long: `status shows what the operator waits for, and what the leading daemon told last: at every
change, and every five minutes. It ends with 0 when the cluster is well, 14 when something
needs a look or the operator does not call it ready, 15 when no quorum is up, 11 when no daemon told anything for 12 minutes and
10 when none has told anything yet.`,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := p.look(c.Context(), args[0])
			if err != nil {
				return err
			}
			err = s.print(c.OutOrStdout(), func(w io.Writer) {
				s.own(w)
				if s.cluster.Spec.Hosts != nil {
					s.outside(w)
				}
				if s.told != nil {
					fmt.Fprintln(w)
					s.view().Print(w)
				}
			})
			switch code := tables.ExitCodes[s.health()]; {
			case err != nil:
				return err
			case s.told == nil && (s.cluster.Spec.Hosts == nil || s.cluster.Status.Generation == 0):
				return ended(exitNoCluster)
			case code != 0:
				return ended(code)
			}
			return nil
		},
	}
	p.outputFlag(c)
	return c
}

func planCommand(p *place) *cobra.Command {
	c := &cobra.Command{
		Use: "plan NAME", GroupID: "look", Short: "Show what is done next, why, and what blocks it", Args: cobra.ExactArgs(1),
		Example: "  kubectl etcdadm plan main",
		Long:    `plan prints what the operator waits for, and the leading daemon's decision as it told it last.`,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := p.look(c.Context(), args[0])
			if err != nil {
				return err
			}
			return s.print(c.OutOrStdout(), func(w io.Writer) {
				s.own(w)
				if c := meta.FindStatusCondition(s.cluster.Status.Conditions, v1alpha1.Progressing); c != nil && s.cluster.Spec.Hosts != nil {
					fmt.Fprintln(w, c.Message)
				}
				if s.told != nil {
					s.view().Plan(w)
				}
			})
		},
	}
	p.outputFlag(c)
	return c
}

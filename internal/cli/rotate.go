package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/certs"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/pki"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// rotateWait is how long rotate-ca waits for a step: two looks and 5 s a member, and a host that is slow to follow.
const rotateWait = 10 * time.Minute

// rotatePoll is how often it looks.
const rotatePoll = time.Second

// rotateAsk is how long the leading daemon may take to write down what is asked.
const rotateAsk = time.Minute

func (h *certsHost) rotateCommand() *cobra.Command {
	var sign, finish, undo, noWait, dryRun, yes bool
	within := rotateWait
	c := &cobra.Command{
		Use: "rotate-ca [--sign|--finish|--undo|--no-wait]", Short: "Replace the authorities of the cluster while it serves",
		Long: `rotate-ca replaces the three authorities of the cluster (of daemons, of etcd's peers and of
its clients) in three steps, and waits for a person between them:

  rotate-ca           new authorities are made, and every host and member trusts both
  rotate-ca --sign    all hosts and members use certificates of the new ones
  rotate-ca --finish  the old ones are trusted no more

The daemons do the work: members restart one at a time, at the first and the last step.
Clients of etcd are yours. Before --sign they have to trust both certificates of
etcd-clients-ca, and before --finish they need certificates of the new one: on hosts
etcdadm certs renew does both for what certs issue made. Some programs read an authority
at their start only, such as kube-apiserver: restart them before --sign.

--undo leads back to the old authorities, until --finish. --no-wait takes all three steps
at once, for a cluster without clients beside its own hosts. Run again it goes on, and
interrupted the daemons go on. A host that does not answer holds the step up.`,
		Example: `  etcdadm certs rotate-ca
  etcdadm certs rotate-ca --sign
  etcdadm certs rotate-ca --finish
  etcdadm certs rotate-ca --undo`,
		Args: words(cobra.NoArgs),
		PreRunE: func(*cobra.Command, []string) error {
			h.reach.dataDir = h.dataDir
			return someTime("--timeout", within)
		},
		RunE: func(c *cobra.Command, _ []string) error {
			asked := plan.RotateAsked{Until: cluster.RotateTrust, Undo: undo, Begin: !sign && !finish && !undo}
			switch {
			case finish, noWait:
				asked.Until = cluster.RotateDrop
			case sign:
				asked.Until = cluster.RotateSign
			}
			goal := plan.Goal{Kind: plan.RotateAuthorities, Rotate: &asked}
			if dryRun {
				return h.takeQuietly(c, manager.GoalRequest{Goal: goal, DryRun: true, Within: rotateAsk})
			}
			report, err := h.led(c.Context())
			if err != nil {
				return err
			}
			before := plan.RotationOf(report.Observation)
			if !yes {
				if err := h.askAboutRotation(c, goal, report.Observation, before); err != nil {
					return err
				}
			}
			if err := h.writeRotation(c, goal); err != nil {
				return err
			}
			return h.awaitRotation(c, within, func(now *plan.Rotation) bool { return written(asked, before, now) })
		},
	}
	f := c.Flags()
	f.BoolVar(&sign, "sign", false, "go on: use certificates of the new authorities")
	f.BoolVar(&finish, "finish", false, "go on to the end: trust the old authorities no more")
	f.BoolVar(&undo, "undo", false, "go back to the old authorities")
	f.BoolVar(&noWait, "no-wait", false, "begin, and go on to the end without waiting for a person")
	c.MarkFlagsMutuallyExclusive("sign", "finish", "undo", "no-wait")
	f.BoolVar(&dryRun, "dry-run", false, "print the first step, and change nothing")
	f.BoolVar(&yes, "yes", false, "do not ask")
	f.DurationVar(&within, "timeout", within, "how long to wait for the step")
	f.StringSliceVar(&h.endpoints, "endpoint", nil, "host:port of daemons")
	f.StringVar(&h.clusterName, "cluster-name", "", "name of the cluster, with --endpoint")
	f.StringVar(&h.credentials, "credentials", "", "directory with the operator's me.crt, me.key and ca.crt, with --endpoint")
	return c
}

// askAboutRotation has the leading daemon say whether it would be refused, and asks.
func (h *certsHost) askAboutRotation(c *cobra.Command, goal plan.Goal, o *cluster.Observation, is *plan.Rotation) error {
	if err := h.wouldBeRefused(c, goal); err != nil {
		return err
	}
	over := is == nil || is.Phase == cluster.RotateDone
	var what []string
	switch asked := goal.Rotate; {
	case over && !asked.Begin:
		return nil // nothing comes of it
	case asked.Undo:
		what = append(what, "Certificates of the old authorities are used again.")
	case over:
		what = append(what, "New authorities are made. Each member restarts now, one at a time, and once more at the end.")
		if roster, _ := o.Roster(); len(roster.Voters()) < 3 {
			what = append(what, fmt.Sprintf("With %s clients are interrupted for some seconds each time.", counted(len(roster.Voters()), "voter")))
		}
	case asked.Until == cluster.RotateTrust:
		return nil // it is looked on
	}
	if until := goal.Rotate.Until; until.Reaches(cluster.RotateSign) && (over || is.Phase == cluster.RotateTrust) {
		what = append(what, "Clients that trust only the old etcd-clients-ca cannot connect any more.")
	}
	if goal.Rotate.Until == cluster.RotateDrop {
		what = append(what, "Clients with certificates of the authorities that go cannot connect any more. There is no way back.")
	}
	if goal.Rotate.Until == cluster.RotateDrop {
		what = append(what, h.stillOld(c.Context())...)
	}
	fmt.Fprintln(c.ErrOrStderr(), strings.Join(what, "\n"))
	return confirm(c, "Go on?")
}

// stillOld names what certs issue made on this host and another authority signed than the one that signs now. Of other
// hosts nobody knows it here.
func (h *certsHost) stillOld(ctx context.Context) (lines []string) {
	host, err := h.host(ctx)
	if err != nil {
		return nil
	}
	now := time.Now()
	a, err := pki.LoadAuthority(host.PKI, pki.ClientsCA, now)
	if err != nil || a.Signing() == nil {
		return nil
	}
	all, err := host.List(now)
	if err != nil {
		return nil
	}
	for _, one := range all {
		if one.Renews == certs.ByPerson && one.IssuedBy != "" && one.IssuedBy != pki.Fingerprint(a.Signing()) {
			lines = append(lines, fmt.Sprintf("On this host %s is not of the authority that stays: etcdadm certs renew", one.File))
		}
	}
	return lines
}

// writeRotation has the leading daemon write down what is asked.
func (h *certsHost) writeRotation(c *cobra.Command, goal plan.Goal) error {
	result, err := h.carryOut(c.Context(), manager.GoalRequest{Goal: goal, Within: rotateAsk}, c.ErrOrStderr())
	if err != nil {
		return err
	}
	if result.Outcome == manager.GoalDone {
		return nil
	}
	if err := h.print(c.OutOrStdout(), result, func(w io.Writer) { h.printResult(w, result) }); err != nil {
		return err
	}
	return outcome(result)
}

// written tells whether what is seen now is of after the write of what was asked: the leading daemon's newest look may
// be from before it.
func written(asked plan.RotateAsked, before, now *plan.Rotation) bool {
	switch {
	case now == nil:
		return false
	case before != nil && before.Phase == cluster.RotateDone && now.ID == before.ID && asked.Begin:
		return false
	case now.Phase == cluster.RotateDone:
		return true
	case asked.Undo:
		return now.Undo
	}
	return now.Until.Reaches(asked.Until)
}

// awaitRotation looks on until a person is wanted again, or all is done.
func (h *certsHost) awaitRotation(c *cobra.Command, within time.Duration, seen func(*plan.Rotation) bool) error {
	ctx, cancel := context.WithTimeout(c.Context(), within)
	defer cancel()
	var last *plan.Rotation
	said := ""
	for {
		report, err := h.led(ctx)
		if now := plan.RotationOf(report.Observation); err == nil && seen(now) {
			last = now
		}
		if last != nil && (last.Person || last.Phase == cluster.RotateDone) {
			return h.print(c.OutOrStdout(), last, func(w io.Writer) { printRotation(w, last) })
		}
		if now := progressOf(last); now != said && c.Context().Err() == nil {
			fmt.Fprintln(c.ErrOrStderr(), now)
			said = now
		}
		select {
		case <-ctx.Done():
			if c.Context().Err() != nil {
				return &Failure{Code: ExitInterrupted, Err: errors.New("interrupted; the daemons go on"), Advice: "run it again to look on"}
			}
			return &Failure{Code: ExitWaiting, Err: fmt.Errorf("not done within %s: %s", tookWords(within), said), Advice: "the daemons go on; run it again to look on"}
		case <-time.After(rotatePoll):
		}
	}
}

// progressOf is one line about what is waited for.
func progressOf(r *plan.Rotation) string {
	switch {
	case r == nil:
		return "waiting: for the leading daemon to tell how far it is"
	case len(r.Lacking) > 0:
		var out []string
		for _, l := range r.Lacking {
			out = append(out, fmt.Sprintf("host %s (%s)", l.Host, l.Why))
		}
		return fmt.Sprintf("%s; waiting for %s", r.What, strings.Join(out, ", "))
	case len(r.Restarts) > 0:
		return fmt.Sprintf("%s; %s to restart", r.What, counted(len(r.Restarts), "member"))
	}
	return r.What
}

func printRotation(w io.Writer, r *plan.Rotation) {
	switch {
	case r.Phase == cluster.RotateDone && r.Undo:
		fmt.Fprintln(w, "the authorities are as they were before; the new ones are trusted nowhere")
	case r.Phase == cluster.RotateDone:
		fmt.Fprintln(w, "the authorities are rotated; the old ones are trusted nowhere")
		fmt.Fprintln(w, "their keys lie beside the new ones, as NAME.before-*.key: remove them once nothing else needs them")
	default:
		fmt.Fprintf(w, "%s: every host and member is ready\n", r.What)
		fmt.Fprintf(w, "next: %s\nthen: %s\n", r.Advice, r.Command)
	}
}

package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// managing is whether self-management is on, for programs.
type managing struct {
	On      bool            `json:"on"`
	Off     *cluster.Manual `json:"off,omitempty"`
	Unknown string          `json:"unknown,omitempty"` // why it is not known
	// Waits is what etcdadm would do, and waits for a person.
	Waits []plan.Blocker `json:"waits"`
}

func autoManageCommand() *cobra.Command {
	var r reach
	var dryRun bool
	var within time.Duration
	c := &cobra.Command{
		Use:   "auto-manage on|off|status",
		Short: "Turn self-management of the cluster on or off",
		Long: `auto-manage off has the daemons begin nothing by themselves: no dead member is replaced,
no hung one restarted, no full database cured, no backup taken by the clock, nothing
recovered or deleted. For each thing that they would do, status and the log have the
command that does it: etcdadm apply. What goes on: a process that crashed starts again;
what a person asked for (the spec, commands, hosts that join) is done and finished; and
whatever keeps the cluster from harm.

auto-manage on has them look after the cluster again, at once. It is a setting of the
whole cluster and outlives every daemon.`,
		Example: `  etcdadm auto-manage status
  etcdadm auto-manage off
  etcdadm auto-manage on --dry-run`,
		Args:      words(cobra.ExactArgs(1)),
		ValidArgs: []string{"on", "off", "status"},
		PreRunE:   func(*cobra.Command, []string) error { return someTime("--timeout", within) },
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "status":
				return r.printManaging(c)
			case "on", "off":
				goal := plan.Goal{Kind: plan.AutoManage, Manage: &plan.ManageAsked{On: args[0] == "on", By: whoTypes()}}
				return r.takeQuietly(c, manager.GoalRequest{Goal: goal, DryRun: dryRun, Within: within})
			}
			return usage("on, off or status", "auto-manage %s: that is no such thing", args[0])
		},
	}
	r.flags(c)
	pauseFlags(c, &dryRun, &within, time.Minute)
	return c
}

func (r *reach) printManaging(c *cobra.Command) error {
	o, err := r.observation(c.Context(), "")
	if err != nil {
		return err
	}
	m := managing{On: o.SelfManaged(), Off: o.Manual, Unknown: o.ManualUnknown, Waits: waiting(o)}
	return r.print(c.OutOrStdout(), m, func(w io.Writer) {
		if m.On {
			fmt.Fprintln(w, "self-management: on")
			return
		}
		printManual(w, o, time.Now())
		printBlockers(w, r.pasteable(plan.Decision{Blockers: m.Waits}))
	})
}

// waiting is what etcdadm would do, and waits for a person.
func waiting(o *cluster.Observation) []plan.Blocker {
	d := plan.Next(plan.Goal{Kind: plan.Converge}, o)
	return slices.DeleteFunc(slices.Clone(d.Blockers), func(b plan.Blocker) bool { return b.Rule == "" })
}

func applyCommand() *cobra.Command {
	var r reach
	var u upkeepFlags
	c := &cobra.Command{
		Use:   "apply [RULE]",
		Short: "Have etcdadm do what it would do by itself, while self-management is off",
		Long: `apply has the leading daemon do the work of one rule that waits for a person, because
self-management is off (etcdadm auto-manage). It shows the first step and asks. The work
is planned anew with each step, by the same rules and guards as ever; if the first step
is another one by then, nothing is done. It ends when the rule has nothing more to do,
or when --wait is over.

Without RULE it takes the one that waits, or lists them where there are several.`,
		Example: `  etcdadm apply --dry-run
  etcdadm apply replace-dead --wait 10m`,
		Args: words(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			goal := plan.Goal{Kind: plan.Apply}
			if len(args) == 1 {
				goal.Rule = args[0]
			} else {
				rule, err := r.oneWaiting(c)
				if rule == "" {
					return err
				}
				goal.Rule = rule
			}
			return r.apply(c, &u, goal)
		},
	}
	r.flags(c)
	u.add(c, 2*time.Minute)
	c.Flags().BoolVar(&u.yes, "yes", false, "do not ask")
	return c
}

// oneWaiting is the rule whose work waits for a person; empty: none is, which it says, or there are several.
func (r *reach) oneWaiting(c *cobra.Command) (string, error) {
	o, err := r.observation(c.Context(), "")
	if err != nil {
		return "", err
	}
	var rules []string
	for _, b := range waiting(o) {
		if !slices.Contains(rules, b.Rule) {
			rules = append(rules, b.Rule)
		}
	}
	switch len(rules) {
	case 0:
		return "", r.print(c.OutOrStdout(), waiting(o), func(w io.Writer) { fmt.Fprintln(w, "nothing waits for a person") })
	case 1:
		return rules[0], nil
	}
	return "", usage("such as etcdadm apply "+rules[0]+"; etcdadm auto-manage status says what each would do", "the work of several rules waits: %s", strings.Join(rules, ", "))
}

// apply shows the first step and asks, and hands the work over.
func (r *reach) apply(c *cobra.Command, u *upkeepFlags, goal plan.Goal) error {
	if u.dryRun || u.yes {
		return r.take(c, manager.GoalRequest{Goal: goal, DryRun: u.dryRun, Within: u.wait})
	}
	planned, err := r.carryOut(c.Context(), manager.GoalRequest{Goal: goal, DryRun: true, Within: askTimeout}, c.ErrOrStderr())
	if err != nil {
		return err
	}
	d := planned.Decision
	if d.Refused || d.Action == nil {
		if err := r.tell(c, planned); err != nil || d.Done {
			return err
		}
		return &Failure{Code: ExitWaiting, Err: errors.New("nothing was begun: " + d.Reason.String()), Advice: "run it again once that is over"}
	}
	goal.Shown = d.Action.String()
	fmt.Fprintf(c.ErrOrStderr(), "first: %s\n  step: %s\n", d.Reason, d.Action)
	if err := confirm(c, "Have it done, by rule "+goal.Rule+"?"); err != nil {
		return err
	}
	return r.take(c, manager.GoalRequest{Goal: goal, DryRun: u.dryRun, Within: u.wait})
}

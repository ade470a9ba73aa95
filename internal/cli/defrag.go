package cli

import (
	"context"
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

// upkeepFlags are those of a person's step that nobody's count depends on.
type upkeepFlags struct {
	dryRun, yes bool
	wait        time.Duration
}

func (u *upkeepFlags) add(c *cobra.Command, wait time.Duration) {
	f := c.Flags()
	f.BoolVar(&u.dryRun, "dry-run", false, "print the first step, and change nothing")
	f.DurationVar(&u.wait, "wait", wait, "how long to wait; a step that has begun runs to its end, and no other begins")
	c.PreRunE = func(*cobra.Command, []string) error { return someTime("--wait", u.wait) }
}

// defragCommand has members write their databases anew, by the leading daemon and
// with all its guards.
func defragCommand() *cobra.Command {
	var r reach
	var u upkeepFlags
	c := &cobra.Command{
		Use:   "defrag [HOST|MEMBER]",
		Short: "Defragment the database of a member, or of all voters one after the other",
		Long: `defrag rewrites a member's database without the free pages that etcd keeps after a
compaction. The member serves nothing meanwhile: seconds, or up to a minute per
gigabyte on a slow disk. Without a name every voter is defragmented, one after the
other.

The leading daemon does it as it does automatically (--defrag-threshold): raft's
leader last, after handing over, and no member while a voter is down or behind, a
learner catches up, a backup runs, or the membership changes. It prints what it waits
for. It refuses during a version change.`,
		Args: words(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			o, err := r.observation(c.Context(), "")
			if err != nil {
				return err
			}
			goal := plan.Goal{Kind: plan.Defragment}
			if len(args) == 1 {
				if goal, err = r.goal(c.Context(), plan.Defragment, args[0]); err != nil {
					return err
				}
			}
			roster, seen := o.Roster()
			if !seen {
				return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was changed: no member answers, so the voters are unknown"), Advice: "run etcdadm status to see what the members are doing"}
			}
			if ask := defragPrice(len(roster.Voters())); ask != "" && !u.dryRun && !u.yes {
				if err := confirm(c, ask); err != nil {
					return err
				}
			}
			return r.take(c, manager.GoalRequest{Goal: goal, DryRun: u.dryRun, Within: u.wait})
		},
	}
	r.flags(c)
	u.add(c, 10*time.Minute)
	c.Flags().BoolVar(&u.yes, "yes", false, "do not ask, where fewer than three voters make clients wait")
	return c
}

// defragPrice is what clients notice; empty: a moment at most.
func defragPrice(voters int) string {
	switch voters {
	case 1:
		return "There is one voter: the cluster serves nothing while it is defragmented. Continue?"
	case 2:
		return "There are two voters: requests through the one being defragmented wait, and if it dies meanwhile the quorum is lost until it is back. Continue?"
	}
	return ""
}

// raised is an alarm as alarm list prints it for programs.
type raised struct {
	Alarm  string           `json:"alarm"`
	Member cluster.MemberID `json:"member,omitempty"` // none: of all
	Host   cluster.HostID   `json:"host,omitempty"`
}

// alarmCommand lists etcd's alarms, and takes them back.
func alarmCommand() *cobra.Command {
	var r reach
	c := group("alarm", "List and clear etcd's alarms")
	r.flags(c)
	c.AddCommand(&cobra.Command{
		Use: "list", Short: "List the alarms that are raised", Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			alarms, err := r.alarms(c.Context())
			if err != nil {
				return err
			}
			return r.print(c.OutOrStdout(), alarms, func(w io.Writer) { printAlarms(w, alarms) })
		},
	}, r.disarmCommand())
	return c
}

func (r *reach) disarmCommand() *cobra.Command {
	var u upkeepFlags
	var accept bool
	c := &cobra.Command{
		Use: "disarm [NOSPACE|CORRUPT]", Short: "Clear alarms whose cause is gone",
		Long: `disarm clears etcd's alarms, one after the other. The leading daemon does it by itself
once the cause is gone; etcdadm status shows what it waits for. NOSPACE is not cleared
while a database is at its quota, since the next write would raise it again; the daemon
waits until a tenth of the quota is free, this command does not. CORRUPT is cleared
only if a comparison made since then found the members' keys equal, if there is a
single voter, or with --accept-difference: writes then continue on top of whatever keys
each member has.`,
		Args: words(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			goal := plan.Goal{Kind: plan.Disarm, AcceptDifference: accept}
			if len(args) == 1 {
				goal.Alarm = strings.ToUpper(args[0])
				if goal.Alarm != cluster.AlarmNoSpace && goal.Alarm != cluster.AlarmCorrupt {
					return usage("NOSPACE or CORRUPT", "no alarm %q is known", args[0])
				}
			}
			return r.take(c, manager.GoalRequest{Goal: goal, DryRun: u.dryRun, Within: u.wait})
		},
	}
	u.add(c, time.Minute)
	c.Flags().BoolVar(&accept, "accept-difference", false, "disarm CORRUPT although the members' keys are not known to be equal")
	return c
}

// alarms are those that the leading daemon sees.
func (r *reach) alarms(ctx context.Context) ([]raised, error) {
	o, err := r.observation(ctx, "")
	if err != nil {
		return nil, err
	}
	roster, seen := o.Roster()
	if !seen || !slices.ContainsFunc(roster.Voters(), func(s cluster.Seat) bool { return s.Host != nil && s.Host.Status != nil }) {
		return nil, &Failure{Code: ExitNoCluster, Err: errors.New("no member tells how it is, so nobody knows whether an alarm is raised"), Advice: "run etcdadm status to see what the members are doing"}
	}
	out := []raised{}
	for _, kind := range []string{cluster.AlarmNoSpace, cluster.AlarmCorrupt} {
		for _, a := range roster.Alarms(kind) {
			s, _ := roster.Seat(a.Member)
			out = append(out, raised{Alarm: a.Kind, Member: a.Member, Host: s.HostID})
		}
	}
	return out, nil
}

func printAlarms(w io.Writer, alarms []raised) {
	for _, a := range alarms {
		of := "all members"
		if a.Member != 0 {
			of = "member " + a.Member.String()
		}
		if a.Host != "" {
			of += " of host " + string(a.Host)
		}
		fmt.Fprintf(w, "%s: %s\n", a.Alarm, of)
	}
	if len(alarms) == 0 {
		fmt.Fprintln(w, "no alarm is raised")
	}
}

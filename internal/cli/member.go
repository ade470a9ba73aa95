package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/wake"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// memberCommand is a person's steps. Each is a goal that is handed to the
// leading daemon, which takes it by the same rules as its own.
func memberCommand() *cobra.Command {
	var r reach
	c := group("member", "List, add, remove, promote and restart members, and move raft's leadership")
	r.flags(c)
	c.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the members", Args: words(cobra.NoArgs),
			RunE: func(c *cobra.Command, _ []string) error {
				return r.members(c.Context(), c.OutOrStdout())
			},
		},
		r.step("add HOST", "Make a host that runs a daemon a voter", plan.Join, true),
		r.step("remove HOST|MEMBER", "Take a member out; its host sets the data aside", plan.Leave, true),
		r.step("replace HOST|MEMBER", "Have another host's member, or a new one on the same host, take a member's place", plan.Replace, false),
		r.step("promote HOST|MEMBER", "Make a learner that has caught up a voter", plan.Promote, true),
		r.step("restart HOST|MEMBER", "Restart a member that waits for it, so that its host's settings take effect", plan.Restart, false),
		r.step("move-leader HOST|MEMBER", "Give raft's leadership to a member", plan.MoveLeader, false),
	)
	return c
}

// listedMember is a member as member list prints it for programs.
type listedMember struct {
	ID         cluster.MemberID  `json:"id"`
	Host       cluster.HostID    `json:"host,omitempty"`
	Name       string            `json:"name,omitempty"`
	Learner    bool              `json:"learner,omitempty"`
	Leader     bool              `json:"leader,omitempty"` // of raft
	Up         bool              `json:"up"`
	Condition  cluster.Condition `json:"condition"`
	Why        string            `json:"why,omitempty"` // it is not up
	Version    string            `json:"version,omitempty"`
	DBSize     int64             `json:"dbSize,omitempty"` // bytes
	PeerURLs   []string          `json:"peerURLs"`
	ClientURLs []string          `json:"clientURLs"`
	Paused     *cluster.Pause    `json:"paused,omitempty"` // its host is, now
}

func listed(roster cluster.Roster, paused ...cluster.Pause) []listedMember {
	out := []listedMember{}
	for _, s := range roster.Seats {
		m := listedMember{
			ID: s.ID, Host: s.HostID, Name: s.Name, Learner: s.Learner, Leader: s.RaftLeader,
			Up: s.Up, Condition: s.Condition, Why: s.Why, PeerURLs: s.PeerURLs, ClientURLs: s.ClientURLs,
		}
		if s.Host != nil && s.Host.Status != nil {
			m.Version, m.DBSize = s.Host.Status.Version.String(), s.Host.Status.DBSize
		}
		if i := slices.IndexFunc(paused, func(p cluster.Pause) bool { return p.Host == s.HostID }); i >= 0 {
			m.Paused = &paused[i]
		}
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b listedMember) int { return cmp.Compare(a.Host, b.Host) })
	return out
}

// members prints the list of the leading daemon's newest look.
func (r *reach) members(ctx context.Context, w io.Writer) error {
	report, err := r.led(ctx)
	if err != nil {
		return err
	}
	roster, _ := report.Observation.Roster()
	return r.print(w, listed(roster, report.Observation.Pauses()...), func(w io.Writer) { printMembers(w, report.Observation, report.Now()) })
}

// step is one command that hands a goal over.
func (r *reach) step(use, short string, kind plan.GoalKind, holdable bool) *cobra.Command {
	var hold, dryRun, yes, noStore, noBackup bool
	var by string
	var within time.Duration
	c := &cobra.Command{
		Use: use, Short: short, Args: words(cobra.ExactArgs(1)),
		PreRunE: func(*cobra.Command, []string) error { return someTime("--timeout", within) },
		RunE: func(c *cobra.Command, args []string) error {
			goal, err := r.goal(c.Context(), kind, args[0])
			if err != nil {
				return err
			}
			goal.Hold, goal.NoStore, goal.NoBackup, goal.By = hold, noStore, noBackup, cluster.HostID(by)
			if question := question(goal, args[0]); question != "" && !dryRun && !yes {
				if err := r.wouldBeRefused(c, goal); err != nil {
					return err
				}
				if err := confirm(c, question); err != nil {
					return err
				}
			}
			return r.take(c, manager.GoalRequest{Goal: goal, DryRun: dryRun, Within: within})
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the first step, and change nothing")
	most := time.Minute
	if kind == plan.Replace {
		most = replaceWait
	}
	c.Flags().DurationVar(&within, "timeout", most, "how long to wait for the end")
	if holdable {
		c.Flags().BoolVar(&hold, "hold", false, "take the step against the spec, and put the spec's member count on hold")
		c.Flags().BoolVar(&noStore, "no-store", false, "take the step even while the backup store cannot be read: the hosts keep the record of the voters until it can")
	}
	if kind == plan.Leave || kind == plan.Replace {
		c.Flags().BoolVar(&noBackup, "no-backup", false, "do not wait for a backup before the member is taken out")
	}
	if holdable || kind == plan.Replace {
		c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	}
	if kind == plan.Replace {
		c.Long = `replace gives a member a successor, after a backup: on a host that runs a daemon and
has no member, else on the member's own host. On another host the successor votes
before the member is removed, if etcd accepts that. On its own host a member is
replaced only while it is down and every other voter is up: for a new disk, stop
daemon and etcd, and start the daemon on the empty disk. The data is set aside, not
deleted. The spec does not change.`
		c.Flags().StringVar(&by, "by", "", "the host that is to take its place")
	}
	return c
}

// replaceWait is how long a replacement is waited for: a backup, a copy of the whole
// database, and the removal.
const replaceWait = 10 * time.Minute

// wouldBeRefused asks the leading daemon before the person is asked: who says yes to
// what is then refused was asked for nothing. What would be done first is told.
func (r *reach) wouldBeRefused(c *cobra.Command, goal plan.Goal) error {
	planned, err := r.carryOut(c.Context(), manager.GoalRequest{Goal: goal, DryRun: true, Within: askTimeout}, c.ErrOrStderr())
	switch {
	case err != nil:
		return err
	case planned.Decision.Refused:
		return r.tell(c, planned)
	}
	fmt.Fprintf(c.ErrOrStderr(), "first: %s\n", planned.Decision.Reason)
	return nil
}

// unstoredPrice is what a person gives up with --no-store.
const unstoredPrice = `While the backup store cannot be read, only the hosts keep the record of the voters.
Until it can be read again, keep all their disks, do not found or recover anything
from unreachable hosts, and do not name any of them lost: hosts that missed this
change could otherwise continue as a second cluster.
`

// question is what to ask before a step; empty: nothing.
func question(g plan.Goal, word string) string {
	ask, price := "", ""
	if g.NoStore {
		price = unstoredPrice
	}
	switch {
	case g.Kind == plan.Leave:
		ask = fmt.Sprintf("Remove the member of %s? Its data is set aside, not deleted.", word)
	case g.Kind == plan.Replace:
		ask = fmt.Sprintf("Replace the member of %s? Its data is set aside, not deleted.", word)
	case g.NoStore:
		ask = "Continue?"
	}
	return price + ask
}

// goal names the member by host, or by ID where that is what was typed.
func (r *reach) goal(ctx context.Context, kind plan.GoalKind, word string) (plan.Goal, error) {
	g := plan.Goal{Kind: kind}
	o, err := r.observation(ctx, "")
	if err != nil {
		return g, err
	}
	roster, _ := o.Roster()
	for _, s := range roster.Seats {
		if string(s.HostID) == word {
			g.Host = s.HostID
			return g, nil
		}
		if s.ID.String() == word {
			g.Member = s.ID
			return g, nil
		}
	}
	if id, err := cluster.ParseMemberID(word); err == nil && kind != plan.Join {
		if _, isHost := o.Host(cluster.HostID(word)); !isHost {
			g.Member = id
			return g, nil
		}
	}
	g.Host = cluster.HostID(word)
	return g, nil
}

// carryOut has the leading daemon take a step, and says meanwhile what it waits for.
func (r *reach) carryOut(ctx context.Context, request manager.GoalRequest, say io.Writer) (manager.GoalResult, error) {
	c, err := r.open()
	if err != nil {
		return manager.GoalResult{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, request.Within+askTimeout)
	defer cancel()
	if !request.DryRun {
		defer beside(ctx, func(ctx context.Context) { retell(ctx, say, r.status) })()
	}
	return noCluster(c.Goal(ctx, request))
}

// take has the leading daemon take a step, and prints what became of it.
func (r *reach) take(c *cobra.Command, request manager.GoalRequest) error {
	if !request.DryRun {
		fmt.Fprintf(c.ErrOrStderr(), "waiting: the leading daemon takes the step; this waits %s at most\n", request.Within)
	}
	result, err := r.carryOut(c.Context(), request, c.ErrOrStderr())
	if err != nil {
		return err
	}
	return r.tell(c, result)
}

// tell prints what became of a step.
func (r *reach) tell(c *cobra.Command, result manager.GoalResult) error {
	if err := r.print(c.OutOrStdout(), result, func(w io.Writer) { r.printResult(w, result) }); err != nil {
		return err
	}
	return outcome(result)
}

// beside runs something until what it returns is called, which waits for its end.
func beside(ctx context.Context, run func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// retell says what the leading daemon does or waits for, each thing once, until the
// context ends. A daemon that does not answer is asked again.
func retell(ctx context.Context, say io.Writer, look func(context.Context) (console.Report, error)) {
	said := ""
	for {
		if !wake.After(ctx, queueEvery) {
			return
		}
		r, err := look(ctx)
		if err != nil || r.Decision == nil || r.Decision.Done || ctx.Err() != nil {
			continue
		}
		if why := r.Decision.Reason.String(); why != said {
			said = why
			fmt.Fprintf(say, "waiting: %s\n", why)
		}
	}
}

func (r *reach) printResult(w io.Writer, result manager.GoalResult) {
	for _, s := range result.Steps {
		fmt.Fprintf(w, "%s\n", s.Reason)
	}
	printDecision(w, r.pasteable(result.Decision))
}

func outcome(r manager.GoalResult) error {
	switch err := r.Err(); {
	case errors.Is(err, manager.ErrRefused):
		return &Failure{Code: ExitUnsafe, Err: err}
	case errors.Is(err, manager.ErrExpired) && len(r.Steps) == 0:
		return &Failure{Code: ExitError, Err: err, Advice: "nothing was begun and nothing will be; see etcdadm status, then run the command again, with a longer --timeout if it only needs more time"}
	case errors.Is(err, manager.ErrExpired):
		return &Failure{Code: ExitWaiting, Err: err, Advice: "steps already begun continue, but the replacement itself does not: run the command again; see etcdadm status"}
	}
	return nil
}

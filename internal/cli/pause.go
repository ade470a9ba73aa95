package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/wake"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// longestReason is how many characters a pause's reason may have: it stands in a line of
// status.
const longestReason = 120

func (r *reach) pauseCommand() *cobra.Command {
	var asked plan.PauseAsked
	var dryRun, yes bool
	var within time.Duration
	c := &cobra.Command{
		Use: "pause HOST --for TIME --reason REASON", Short: "Wait until a host may be taken down, and have it neither replaced nor another one restarted",
		Long: `pause asks the daemons to let a host go, and waits until they do: every other voter is
up, raft's leadership has moved away, and the host's own daemon has written the pause
down. From then on, for the time that --for says, 24 hours at most, no other voter is
restarted or removed on purpose, whoever leads, and the host's silence makes nobody
replace its member; then --dead-after starts to count. host resume ends it earlier: do
that once the host is back, since changes wait for it. The voter still counts for the
quorum, and a learner is removed after 20 seconds of silence. The command prints how many
voters remain, and asks if the cluster would not survive one more failure. --force waits
for nothing, and keeps nobody from being restarted; it is needed where too few voters
would remain to serve. A host that returns with an empty disk is replaced at once, paused
or not. Exit code 0: the host may be taken down; 13: not yet.`,
		Args: words(cobra.ExactArgs(1)),
		PreRunE: func(*cobra.Command, []string) error {
			if err := someTime("--timeout", within); err != nil {
				return err
			}
			return pauseMistake(&asked)
		},
		RunE: func(c *cobra.Command, args []string) error {
			asked.By = whoTypes()
			if !asked.Force {
				asked.ID = host.Mint()
			}
			goal := plan.Goal{Kind: plan.Pause, Host: cluster.HostID(args[0]), Pause: &asked}
			if !dryRun && !yes {
				if err := r.askAboutPause(c, goal); err != nil {
					return err
				}
			}
			if err := r.takeQuietly(c, manager.GoalRequest{Goal: goal, DryRun: dryRun, Within: within}); err != nil || dryRun || asked.Force {
				return err
			}
			return r.awaitPause(c, goal.Host, asked.ID, within)
		},
	}
	c.Flags().Var(dayDuration{&asked.For}, "for", "how long, such as 30m or 2h; 24h at most")
	c.Flags().StringVar(&asked.Reason, "reason", "", "what for; status shows it to others")
	c.Flags().BoolVar(&asked.Force, "force", false, "wait for nothing, also where too few voters would be left to serve; others may be restarted meanwhile")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	pauseFlags(c, &dryRun, &within, pauseWait)
	return c
}

func (r *reach) resumeCommand() *cobra.Command {
	var dryRun bool
	var within time.Duration
	c := &cobra.Command{
		Use: "resume HOST", Short: "End a host's pause before its time",
		Args:    words(cobra.ExactArgs(1)),
		PreRunE: func(*cobra.Command, []string) error { return someTime("--timeout", within) },
		RunE: func(c *cobra.Command, args []string) error {
			return r.takeQuietly(c, manager.GoalRequest{Goal: plan.Goal{Kind: plan.Resume, Host: cluster.HostID(args[0])}, DryRun: dryRun, Within: within})
		},
	}
	pauseFlags(c, &dryRun, &within, time.Minute)
	return c
}

// pauseWait is how long the word that a host may go is waited for: a member that is being
// restarted or joins comes first.
const pauseWait = 5 * time.Minute

func pauseFlags(c *cobra.Command, dryRun *bool, within *time.Duration, most time.Duration) {
	c.Flags().BoolVar(dryRun, "dry-run", false, "print what would be done, and change nothing")
	c.Flags().DurationVar(within, "timeout", most, "how long to wait for the end")
}

// pauseMistake refuses what no daemon would take.
func pauseMistake(p *plan.PauseAsked) error {
	p.Reason = strings.TrimSpace(p.Reason)
	switch {
	case p.For <= 0:
		return usage("such as --for 30m", "say how long: --for")
	case p.For > cluster.MaxPause:
		return usage("pause it again before that is over", "--for=%s is longer than a pause may be, which is %s", tookWords(p.For), tookWords(cluster.MaxPause))
	case p.Reason == "":
		return usage(`such as --reason "new kernel"`, "say what for: --reason")
	case len([]rune(p.Reason)) > longestReason || strings.ContainsFunc(p.Reason, unicode.IsControl):
		return usage(fmt.Sprintf("one line of %d characters at most", longestReason), "--reason is too long, or has more than one line")
	}
	return nil
}

// whoTypes is who asks, as others may know them. It is told, and nothing hangs on it.
func whoTypes() string {
	name, host := "somebody", "somewhere"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return name + "@" + host
}

// askAboutPause has the leading daemon say what would be left, and asks where that survives
// no further failure.
func (r *reach) askAboutPause(c *cobra.Command, goal plan.Goal) error {
	planned, err := r.carryOut(c.Context(), manager.GoalRequest{Goal: goal, DryRun: true, Within: askTimeout}, c.ErrOrStderr())
	if err != nil {
		return err
	}
	d := planned.Decision
	if d.Refused {
		return r.tell(c, planned)
	}
	fmt.Fprintln(c.ErrOrStderr(), d.Reason)
	p := (*cluster.Projection)(nil)
	if d.Action != nil {
		p = d.Action.Projection
	}
	if p == nil || p.Voters == 0 || p.MarginAfter() > 0 || p.UpAfter == p.Up && p.Margin() >= 0 {
		return nil
	}
	return confirm(c, fmt.Sprintf("Pause host %s?", goal.Host))
}

// takeQuietly hands over a step that is taken in a moment, and prints what became of it.
func (r *reach) takeQuietly(c *cobra.Command, request manager.GoalRequest) error {
	result, err := r.carryOut(c.Context(), request, c.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := r.print(c.OutOrStdout(), result, func(w io.Writer) {
		if result.Outcome == manager.GoalDone {
			fmt.Fprintln(w, result.Decision.Reason)
			return
		}
		r.printResult(w, result)
	}); err != nil {
		return err
	}
	return outcome(result)
}

// awaitPause waits for the word that a host may be taken down, and says what it waits for.
func (r *reach) awaitPause(c *cobra.Command, on cluster.HostID, id string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(c.Context(), within)
	defer cancel()
	said, seen := "", false
	for {
		report, err := r.led(ctx)
		if err == nil {
			p, there := pauseByID(report.Observation, id)
			if seen && !there {
				return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("the pause of host %s was ended, or is over", on)}
			}
			seen = there
			goes, why, off := false, "the daemons hear of the pause", false
			if there {
				goes, why, off = mayGo(report.Observation, p)
			}
			switch {
			case off:
				return &Failure{Code: ExitWaiting, Err: fmt.Errorf("host %s does not answer, so it was not asked: its silence does not count until %s", on, p.Until.UTC().Format(time.RFC3339)),
					Advice: "where it is off already that is all; once it is back it may be taken down again only when status says that it may"}
			case goes:
				fmt.Fprintf(c.ErrOrStderr(), "host %s may be taken down now; once it is back: etcdadm host resume %s\n", on, cluster.ShellWord(string(on)))
				return nil
			case why != said:
				said = why
				fmt.Fprintf(c.ErrOrStderr(), "waiting: %s\n", why)
			}
		}
		if !wake.After(ctx, queueEvery) {
			return &Failure{Code: ExitWaiting, Err: fmt.Errorf("host %s may not be taken down yet: %s", on, cmp.Or(said, "the leading daemon does not say that it may")),
				Advice: "the pause is still asked for, and status shows when it begins; etcdadm host resume " + cluster.ShellWord(string(on)) + " takes it back"}
		}
	}
}

func pauseByID(o *cluster.Observation, id string) (cluster.Pause, bool) {
	for _, p := range o.Paused {
		if p.ID == id && !p.Ended {
			return p, true
		}
	}
	return cluster.Pause{}, false
}

// mayGo reports whether a host may be taken down by a pause; else why not yet. off: it carries
// a voter and does not answer, so that nobody can ask it.
func mayGo(o *cluster.Observation, p cluster.Pause) (goes bool, why string, off bool) {
	roster, _ := o.Roster()
	h, there := o.Host(p.Host)
	votes := false
	for _, s := range roster.Voters() {
		switch {
		case s.HostID == p.Host:
			votes = true
		case !s.Up && why == "":
			why = fmt.Sprintf("voter %s is not up: %s", s.HostID, s.Why)
		}
	}
	switch {
	case !there && votes:
		return false, "", true
	case !votes && !roster.Seated(p.Host):
		return true, "", false
	case !there || !h.Granted(p.ID):
		return false, cmp.Or(why, "every other voter has to be up for some seconds, and nothing under way; see etcdadm status"), false
	}
	return why == "", why, false
}

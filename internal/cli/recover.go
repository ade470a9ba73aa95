package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
	"github.com/spf13/cobra"
)

// recovery is a person's wish to go on from one survivor.
type recovery struct {
	queue
	from    string
	members int
}

// recoverCommand makes a new generation from a survivor, without a backup.
func recoverCommand() *cobra.Command {
	var r recovery
	c := &cobra.Command{
		Use:   "recover --from HOST [--lost HOST]…",
		Short: "Go on from one survivor when a majority is gone for good",
		Long: `recover restarts the cluster as a new generation from one host's data, after a
majority of the voters was lost for good. Without --yes it only shows what each
reachable host holds; --dry-run also tells whether the command would be refused.
Recover from the host whose log goes furthest; any other is refused. Writes that only
lost hosts had are lost. Name hosts that are gone with --lost; never name one that
still runs.`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("members") && !membersOf(r.members) {
				return usage("a cluster has 1, 3, 5, 7 or 9 members", "--members %d is no number of members", r.members)
			}
			if r.from != "" && slices.Contains(r.lost, r.from) {
				return usage("name those that are gone with --lost, and another one with --from", "host %s cannot be lost and be what the cluster goes on from", r.from)
			}
			if !r.yes || r.dryRun || r.from == "" {
				return r.show(c.Context(), c.OutOrStdout())
			}
			return r.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	r.queueFlags(c)
	r.lostFlag(c)
	c.Flags().StringVar(&r.from, "from", "", "the host whose data the cluster goes on from")
	c.Flags().IntVar(&r.members, "members", 0, "number of members wanted from then on")
	return c
}

// show tells what each host holds, and with --dry-run what would be queued.
func (r *recovery) show(ctx context.Context, out io.Writer) error {
	if r.dryRun && r.from != "" {
		o, _ := r.look(ctx) // what is wrong with it is said below
		if err := r.remake(ctx, o, out, true); err != nil {
			return err
		}
		if err := r.tryMembers(ctx); err != nil {
			return err
		}
	}
	s, err := r.survivors(ctx)
	if err != nil {
		return err
	}
	var found plan.Objection
	if r.from != "" {
		if found = s.against(cluster.HostID(r.from), r.lostHosts()); r.dryRun && found.Why == "" {
			s.Would = &wouldQueue{Command: cluster.CommandRecover, Of: "host " + r.from, Lost: r.lostHosts(), Members: r.members}
		}
	}
	if err := r.print(out, s, s.print); err != nil {
		return err
	}
	switch {
	case found.Why != "" && r.dryRun:
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("it would be %s: %s", wouldBe(found), found.Why)}
	case r.dryRun:
		return nil
	case found.Why != "":
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("nothing was queued: with --yes the command would be %s: %s", wouldBe(found), found.Why)}
	case r.from != "":
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued"), Advice: "add --yes to go on"}
	case s.GivesUpIncompatible():
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued"), Advice: "find out why this side cannot read how far these hosts' logs go: " + join(s.Incompatible)}
	}
	return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued")} // what is to be done has just been printed
}

// tryMembers is the look at --members that comes before a command is queued.
func (r *recovery) tryMembers(ctx context.Context) error {
	if r.members == 0 {
		return nil
	}
	f, _, err := r.storeFolder(ctx, toRead)
	if err != nil {
		return err
	}
	_, err = askForMembers(ctx, f, r.members)
	return err
}

// run queues the command.
func (r *recovery) run(ctx context.Context, out, say io.Writer) error {
	f, o, err := r.storeFolder(ctx, toWrite)
	if err != nil {
		return err
	}
	if err := r.judge(ctx, say); err != nil {
		return err
	}
	if err := r.remake(ctx, o, say, false); err != nil {
		return err
	}
	count, err := askForMembers(ctx, f, r.members)
	if err != nil {
		return err
	}
	return r.wish(ctx, f, control.Wish{Kind: cluster.CommandRecover, Host: cluster.HostID(r.from), Lost: r.lostHosts(), Count: count, By: whoTypes()}, out, say)
}

// judge refuses a recovery that would be rejected, by the same look as --dry-run, and
// says what it would wait for. Where only the store is named, or no daemon answers, nobody
// is asked.
func (r *recovery) judge(ctx context.Context, say io.Writer) error {
	if r.dataDir == "" && len(r.endpoints) == 0 {
		return nil
	}
	s, err := r.survivors(ctx)
	switch {
	case err != nil && r.store == "":
		return err
	case err != nil:
		return nil
	}
	switch found := s.against(cluster.HostID(r.from), r.lostHosts()); {
	case found.Rejected:
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued: " + found.Why)}
	case found.Why != "":
		fmt.Fprintf(say, "it will wait: %s\n", found.Why)
	}
	return nil
}

// against is what speaks against a recovery, with the command that would be taken.
func (s *survivors) against(from cluster.HostID, lost []cluster.HostID) plan.Objection {
	found := s.Against(from, lost)
	if found.Further != "" {
		found.Why += ": " + s.by.again("etcdadm recover --from "+string(found.Further))
	}
	return found
}

// wouldBe says what would become of a command that something speaks against.
func wouldBe(o plan.Objection) string {
	if o.Rejected {
		return "refused"
	}
	return "queued, and would wait"
}

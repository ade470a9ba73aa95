package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
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
		Long: `recover makes a new generation of the cluster from the data of one host, after
a majority of the voters was lost for good. Without --yes it only shows what each
host in sight holds; --dry-run says beside it whether this one would be refused.
The host that is furthest in raft's order is the right one, and another one is
refused. What only the lost hosts had is lost. Hosts that are gone are named with
--lost; one that still runs must not be.`,
		Args: words(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("members") && r.members < 1 {
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
		if err := r.tryMembers(ctx); err != nil {
			return err
		}
	}
	s, err := r.survivors(ctx)
	if err != nil {
		return err
	}
	against := ""
	if r.dryRun && r.from != "" {
		if against = s.against(cluster.HostID(r.from), r.lostHosts()); against == "" {
			s.Would = &wouldQueue{Command: cluster.CommandRecover, Of: "host " + r.from, Lost: r.lostHosts(), Members: r.members}
		}
	}
	if err := r.print(out, s, s.print); err != nil {
		return err
	}
	switch {
	case against != "":
		return &Failure{Code: ExitUnsafe, Err: errors.New("it would be refused, or wait: " + against)}
	case r.dryRun:
		return nil
	}
	if s.Furthest != "" && s.Command == "" {
		return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued"), Advice: "see why nothing tells here how far the logs of " + join(s.AtOdds) + " go"}
	}
	return &Failure{Code: ExitUnsafe, Err: errors.New("nothing was queued"), Advice: "name the furthest host with --from, those that are gone with --lost, and say --yes"}
}

// tryMembers is the look at --members that comes before a command is queued.
func (r *recovery) tryMembers(ctx context.Context) error {
	if r.members == 0 {
		return nil
	}
	o, err := r.look(ctx)
	if err != nil && r.store == "" {
		return err
	}
	f, err := r.folder(ctx, o, toRead)
	if err != nil {
		return err
	}
	_, err = askForMembers(ctx, f, r.members)
	return err
}

// run queues the command.
func (r *recovery) run(ctx context.Context, out, say io.Writer) error {
	o, err := r.look(ctx)
	if err != nil && r.store == "" {
		return err
	}
	f, err := r.folder(ctx, o, toWrite)
	if err != nil {
		return err
	}
	count, err := askForMembers(ctx, f, r.members)
	if err != nil {
		return err
	}
	if err := r.refuseAlive(ctx); err != nil {
		return err
	}
	return r.wish(ctx, f, control.Wish{Kind: cluster.CommandRecover, Host: cluster.HostID(r.from), Lost: r.lostHosts(), Count: count}, out, say)
}

// against is why a recovery from a host would not be carried out as things are; the
// planner, which decides, sees more than what was asked here.
func (s *survivors) against(from cluster.HostID, lost []cluster.HostID) string {
	i := slices.IndexFunc(s.Hosts, func(h console.LogEnd) bool { return h.Host == from })
	switch {
	case s.Quorum:
		return "the cluster has a quorum, and nothing has to be recovered"
	case i < 0:
		return fmt.Sprintf("host %s, from whose data the cluster is to be recovered, is out of sight", from)
	case !s.Hosts[i].HasData || s.Hosts[i].State != cluster.MemberStarted:
		return fmt.Sprintf("host %s holds no data of a member that could be recovered from", from)
	case slices.ContainsFunc(s.Reading, func(id cluster.HostID) bool { return !slices.Contains(lost, id) }):
		return fmt.Sprintf("the log of %s is still being read: ask again when that is through", join(s.Reading))
	case s.Hosts[i].Log == nil:
		return fmt.Sprintf("the log of host %s cannot be read", from)
	}
	for _, h := range s.Hosts {
		if h.HasData && h.Log != nil && h.Generation == s.Hosts[i].Generation && h.Cluster == s.Hosts[i].Cluster && s.Hosts[i].Log.Before(*h.Log) {
			return fmt.Sprintf("host %s is further than %s: etcdadm recover --from %s", h.Host, from, h.Host)
		}
	}
	if why := s.aliveLost(lost); why != "" {
		return why
	}
	missing := slices.DeleteFunc(slices.Clone(s.Gone), func(id cluster.HostID) bool { return slices.Contains(lost, id) })
	if n := len(s.Voters); n-len(missing) < n-n/2 {
		return fmt.Sprintf("the logs of too few voters can be read to know that host %s is the furthest: bring %s back, or name with --lost what is gone for good", from, join(missing))
	}
	for _, id := range lost {
		if slices.ContainsFunc(s.Hosts, func(h console.LogEnd) bool { return h.Host == id && h.HasData }) {
			return fmt.Sprintf("host %s is named as lost, and its daemon answers and has the data of a member: stop it for good first", id)
		}
	}
	return ""
}

package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"github.com/spf13/cobra"
)

// storeSet is a person's wish to have the record kept elsewhere.
type storeSet struct {
	reach
	url         string
	none        bool
	dryRun, yes bool
	reclaim     bool
	lost        []string
	within      time.Duration
	environment map[string]string
	leader      cluster.Contact
	told        int // steps that were printed
}

// wouldMove is what is shown before, and all that a dry run prints.
type wouldMove struct {
	Store     string           `json:"store,omitempty"` // empty: the hosts
	From      string           `json:"from,omitempty"`  // the store that it leaves
	Hosts     []cluster.HostID `json:"hosts"`
	Variables []string         `json:"variables"` // by their names
}

const (
	// movePoll is how often it is asked how far the move is.
	movePoll = 500 * time.Millisecond
	// moveAsk bounds one question.
	moveAsk = 10 * time.Second
)

func storeSetCommand() *cobra.Command {
	s := storeSet{}
	c := &cobra.Command{
		Use:   "set URL|--none",
		Short: "Move the control record between the hosts and a shared store while the cluster runs",
		Long: `set has the control record of a cluster without a shared store kept in one from now on.
etcd goes on meanwhile. Every known host has to be there: each opens the store by itself,
tries it out and keeps its URL and variables, in a file for root only. Then the record
that the hosts keep is ended, once, and goes on in the store; a host that was off just
then follows when it is back. What goes wrong before that leaves the record where it is.

The variables of the store, such as S3_ACCESS_KEY_ID, are taken from this command's
environment and given to all hosts. Run it again after an interruption: it goes on.
Backups that the hosts have stay there; new ones go to the store. With --none it goes
the other way: from a store to the hosts.`,
		Example: `  etcdadm store set s3://BUCKET/FOLDER --dry-run
  etcdadm store set s3://BUCKET/FOLDER
  etcdadm store set --none`,
		Args: words(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				s.url = args[0]
			}
			if err := s.mistake(); err != nil {
				return err
			}
			if s.reclaim {
				return s.claimAgain(c)
			}
			if s.none {
				return s.run(c)
			}
			if err := s.take(open.Environment(os.Environ())); err != nil {
				return err
			}
			return s.run(c)
		},
	}
	s.flags(c)
	c.Flags().BoolVar(&s.none, "none", false, "have the hosts keep the record, and no store")
	c.Flags().BoolVar(&s.dryRun, "dry-run", false, "look whether it can be moved now, and change nothing")
	c.Flags().BoolVar(&s.reclaim, "claim-again", false, "on a host that says record-moved: replace a void that a recovery left in the store, or put the claim into a store that was emptied, so that the record comes there")
	c.Flags().StringSliceVar(&s.lost, "lost", nil, "with --claim-again: hosts that are gone for good")
	c.Flags().BoolVar(&s.yes, "yes", false, "do not ask")
	c.Flags().DurationVar(&s.within, "timeout", 3*time.Minute, "how long to wait for the end")
	return c
}

func (s *storeSet) mistake() error {
	_, hosts := kept.DataDir(s.url)
	switch {
	case s.none && s.reclaim:
		return usage("name the store", "--claim-again is for a store")
	case s.none && s.url != "":
		return usage("a URL for a shared store, or --none", "--none and a URL are two places")
	case s.none || hosts:
		s.none, s.url = true, ""
		return someTime("--timeout", s.within)
	case s.url == "":
		return usage("such as etcdadm store set s3://BUCKET/FOLDER", "say where the record is to go")
	case open.InKubernetes(s.url):
		return usage("give a folder of an object store, or a directory that all hosts share", "ConfigMaps hold a record and no backups, and this release keeps both in the place that a move goes to")
	case daemon.SecretIn(s.url):
		return usage("set the variables of the store instead, such as S3_SECRET_ACCESS_KEY", "the URL seems to have a credential in it")
	}
	if err := open.CheckURL(s.url); err != nil {
		return usage(hintOf(err), "%w", err)
	}
	return someTime("--timeout", s.within)
}

// passing are variables that reach a store for some hours, or on the machine that they were set on: they are not a cluster's.
var passing = []string{"AWS_SESSION_TOKEN", "AWS_PROFILE"}

// take has the variables that all hosts are given.
func (s *storeSet) take(found map[string]string) error {
	s.environment = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		switch {
		case slices.Contains(passing, name) || strings.HasPrefix(name, "AWS_CONTAINER_"):
			return usage("set keys that last, such as S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY, and unset "+name, "%s is of this session or this machine: in some hours no host would reach the store", name)
		case !strings.HasSuffix(name, "_PROXY"): // a proxy is each host's own
			s.environment[name] = found[name]
		}
	}
	return nil
}

// claimAgain has the daemon that answers put the claim of its sealed record into the store again.
func (s *storeSet) claimAgain(c *cobra.Command) error {
	con, err := s.open()
	if err != nil {
		return err
	}
	defer con.Close()
	report, err := noCluster(con.Status(c.Context()))
	if err != nil {
		return err
	}
	s.leader = cluster.Contact{Host: report.Host}
	for _, known := range report.Contacts {
		if known.Host == report.Host {
			s.leader = known
		}
	}
	tried, err := con.Move(c.Context(), s.leader, s.request(""))
	switch {
	case err != nil:
		return notMovable(err)
	case tried.Refused != "":
		return &Failure{Code: ExitUnsafe, Err: errors.New(tried.Refused), Advice: "nothing was changed"}
	}
	fmt.Fprintf(c.ErrOrStderr(), "The claim of this cluster's sealed record is put into %s again, by host %s, and every host brings the record there\n", daemon.ShownURL(s.url), report.Host)
	if s.dryRun {
		return nil
	}
	if !s.yes {
		if err := confirm(c, "Has no recovery with --lost made the record again on a host that does not answer?"); err != nil {
			return err
		}
	}
	return s.move(c, con)
}

func (s *storeSet) run(c *cobra.Command) error {
	con, err := s.open()
	if err != nil {
		return err
	}
	defer con.Close()
	report, err := noCluster(con.Status(c.Context()))
	if err != nil {
		return err
	}
	at := report.Whereabouts()
	switch {
	case at.In == "":
		return &Failure{Code: ExitNotLeader, Err: errors.New(at.Why), Advice: "etcdadm status says who is there"}
	case s.none && at.In == console.KeptByHosts, at.In == console.KeptInStore && at.Store == daemon.ShownURL(s.url):
		return s.print(c.OutOrStdout(), at, func(w io.Writer) { printWhereabouts(w, at) })
	case at.In == console.KeptInStore && !s.none:
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("%s: it does not go from one store to another", at), Advice: "move it to the hosts first: etcdadm store set --none"}
	}
	s.leader = cluster.Contact{Host: report.Leader, Endpoint: report.LeaderEndpoint}
	would := wouldMove{Store: daemon.ShownURL(s.url), From: at.Store, Variables: slices.Sorted(maps.Keys(s.environment))}
	for _, h := range at.Hosts {
		would.Hosts = append(would.Hosts, h.Host)
	}
	tried, err := con.Move(c.Context(), s.leader, s.request(""))
	switch {
	case err != nil:
		return notMovable(err)
	case tried.Refused != "":
		return &Failure{Code: ExitUnsafe, Err: errors.New(tried.Refused), Advice: "nothing was changed"}
	case s.dryRun:
		return s.print(c.OutOrStdout(), would, would.print)
	case !s.yes:
		would.print(c.ErrOrStderr())
		if err := confirm(c, "Move the control record there?"); err != nil {
			return err
		}
	}
	return s.move(c, con)
}

// request asks for a move by its name, or for a look without one.
func (s *storeSet) request(name string) peer.MoveRequest {
	r := peer.MoveRequest{Name: name, URL: s.url, Hosts: s.none, Variables: s.environment, DryRun: name == "", Reclaim: s.reclaim}
	for _, h := range s.lost {
		r.Lost = append(r.Lost, cluster.HostID(h))
	}
	return r
}

// notMovable is the failure of a daemon that does not know of moves, or does not answer.
func notMovable(err error) error {
	return &Failure{Code: ExitError, Err: fmt.Errorf("ask the leading daemon for the move: %w", err), Advice: cmp.Or(hintOf(err), "update the agents to this release of etcdadm")}
}

func (w wouldMove) print(out io.Writer) {
	if w.Store == "" {
		fmt.Fprintf(out, "The control record goes from %s to the hosts, and etcd goes on meanwhile:\n", w.From)
		fmt.Fprintf(out, "  each of these hosts keeps what it is offered: %s\n", joined(w.Hosts))
		fmt.Fprintln(out, "  the record in the store is ended for good, and goes on at the hosts of the voters")
		fmt.Fprintln(out, "  backups in the store stay there; new ones go to the disks of the hosts")
		return
	}
	fmt.Fprintf(out, "The control record goes from the hosts to %s, and etcd goes on meanwhile:\n", w.Store)
	fmt.Fprintf(out, "  each of these hosts opens the store and tries it out: %s\n", joined(w.Hosts))
	if len(w.Variables) > 0 {
		fmt.Fprintf(out, "  each gets, for root only: %s\n", strings.Join(w.Variables, ", "))
	}
	fmt.Fprintln(out, "  the record that the hosts keep is ended for good, and goes on in the store")
	fmt.Fprintln(out, "  backups that the hosts have stay there; new ones go to the store")
}

func joined(hosts []cluster.HostID) string {
	var out []string
	for _, h := range hosts {
		out = append(out, string(h))
	}
	return strings.Join(out, ", ")
}

// move begins the move, and follows it to its end.
func (s *storeSet) move(c *cobra.Command, con *console.Console) error {
	ctx, cancel := context.WithTimeout(c.Context(), s.within)
	defer cancel()
	name := rand.Text()
	for {
		asking, stop := context.WithTimeout(ctx, moveAsk)
		reply, err := con.Move(asking, s.leader, s.request(name))
		stop()
		s.tell(c.ErrOrStderr(), reply.Steps)
		switch {
		case reply.Refused != "" && reply.Unknown:
			return &Failure{Code: ExitError, Err: errors.New(reply.Refused), Advice: "etcdadm store status says where the record is"}
		case reply.Refused != "":
			return &Failure{Code: ExitUnsafe, Err: errors.New(reply.Refused), Advice: "the record is where it was; run the command again once that is mended"}
		case reply.Done:
			return s.end(ctx, c, con)
		}
		select {
		case <-time.After(movePoll):
		case <-ctx.Done():
			return s.stopped(c.Context(), err)
		}
	}
}

// tell prints the steps that are new.
func (s *storeSet) tell(out io.Writer, steps []string) {
	for ; s.told < len(steps); s.told++ {
		fmt.Fprintln(out, steps[s.told])
	}
}

// stopped is the end of a wait that saw no end of the move.
func (s *storeSet) stopped(ctx context.Context, err error) error {
	code, what := ExitWaiting, "the time to wait is up"
	if ctx.Err() != nil {
		code, what = ExitInterrupted, "interrupted"
	}
	if err != nil {
		what = fmt.Sprintf("%s (%v)", what, err)
	}
	return &Failure{Code: code, Err: fmt.Errorf("%s; host %s goes on with the move while its agent runs", what, s.leader.Host), Advice: "run the command again, or etcdadm store status"}
}

// end waits until the record is read in the store, and shows that.
func (s *storeSet) end(ctx context.Context, c *cobra.Command, con *console.Console) error {
	for {
		report, err := con.Status(ctx)
		at := report.Whereabouts()
		if err == nil && at.Read && (at.In == console.KeptByHosts) == s.none {
			return s.print(c.OutOrStdout(), at, func(w io.Writer) { printWhereabouts(w, at) })
		}
		select {
		case <-time.After(movePoll):
		case <-ctx.Done():
			return &Failure{Code: ExitWaiting, Err: errors.New("the record is where it was to go, and no leading daemon is known to read it yet"), Advice: "etcdadm store status"}
		}
	}
}

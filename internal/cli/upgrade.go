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
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
	"etcdadm.io/plan/path"
	"github.com/spf13/cobra"
)

// upgrade is what a person asks of the version of a running cluster.
type upgrade struct {
	queue
	dryRun, pause, resume, rollback, outage, noBackup bool

	line *cluster.Line // was named in place of a version: its newest patch is meant

	loss string // the digest of the list of losses, or lastList
	word string // that was written for the outage

	spec   control.SpecRead // when the way was looked for; what came to be later is not written over
	unread error
}

func upgradeCommand() *cobra.Command {
	var u upgrade
	c := &cobra.Command{
		Use:   "upgrade VERSION|LINE | upgrade --resume | upgrade --rollback",
		Short: "Change the etcd version of a running cluster, up or down",
		Long: `upgrade changes the etcd version. The daemons restart one member after the other,
followers first, each only while every other member is up: to another patch, up one
release line after another, or down with etcd's own downgrade from 3.6 on. --dry-run
prints each hop, its checks and backups, what clients notice, and what is missing.

Where members cannot be restarted one by one (a release line in between is not
installed, or a downgrade from 3.5), all members stop, a new cluster of the other
release is made from their data, and clients are let in again. That needs
--accept-outage; --dry-run estimates how long it takes.

LINE, such as 3.7, is the newest patch of that release line that this etcdadm or a host
of the cluster knows; which one it is, is printed.

Between versions 2 and 3, and to a release that cannot read the data, the keys are
copied one by one. The copy is tested first, with nothing stopped, and lists what
cannot be carried over. If anything would be lost, the change waits until you accept
the list: --accept-loss accepts the newest, --accept-loss=DIGEST the one you name. If
the final copy gives another list, the members go on as they were.

--pause-before-last keeps one voter on the old release line as a way back: --resume
continues, --rollback returns to the lowest version that a member runs.`,
		Example: `  etcdadm upgrade 3.7 --dry-run
  etcdadm upgrade 3.7.3 --pause-before-last --wait 30m
  etcdadm upgrade --rollback`,
		Args: words(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			asked := 0
			for _, on := range []bool{len(args) == 1, u.resume, u.rollback} {
				if on {
					asked++
				}
			}
			if asked != 1 || (u.pause || u.outage || u.noBackup || u.loss != "") && len(args) == 0 || u.dryRun && u.resume {
				return usage(upgradeExample, "give one of: a version, --resume, --rollback")
			}
			if c.Flags().Changed("accept-loss") && u.loss == "" {
				return usage("the digest stands above the list; --accept-loss alone takes the one that was made last", "--accept-loss= names no list")
			}
			var to cluster.Version
			if len(args) == 1 {
				var err error
				if l, ok := cluster.ParseLine(args[0]); ok {
					u.line = &l
				} else if to, err = cluster.ParseVersion(args[0]); err != nil {
					return usage(upgradeExample, "%w", err)
				}
			}
			return u.run(c.Context(), to, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	u.queueFlags(c)
	c.Flags().Lookup("wait").Usage = "wait so long until every member runs the version, and tell each step"
	c.Flags().BoolVar(&u.dryRun, "dry-run", false, "print the steps, and change nothing")
	c.Flags().BoolVar(&u.pause, "pause-before-last", false, "keep one voter on the old release line until --resume or --rollback")
	c.Flags().BoolVar(&u.outage, "accept-outage", false, "stop all members for a while, where the version cannot be reached otherwise")
	c.Flags().StringVar(&u.loss, "accept-loss", "", "accept the list of what cannot be carried over key by key, by its digest; without one, the list that was made last, which is printed")
	c.Flags().Lookup("accept-loss").NoOptDefVal = lastList
	c.Flags().BoolVar(&u.noBackup, "no-backup", false, "do not wait for a backup before the first restart, such as while the store takes none")
	c.Flags().BoolVar(&u.resume, "resume", false, "go on after a pause")
	c.Flags().BoolVar(&u.rollback, "rollback", false, "go back to the lowest version that a member runs")
	return c
}

func (u *upgrade) run(ctx context.Context, to cluster.Version, out, say io.Writer) error {
	o, err := u.look(ctx)
	if err != nil && (u.store == "" && u.control == "" || !u.resume) {
		return err
	}
	if o == nil && !u.resume {
		return usage("--data-dir or --endpoints name a daemon", "which versions the members run is known to a daemon only")
	}
	if u.rollback {
		if to, err = rollbackTo(o); err != nil {
			return err
		}
	}
	if u.line != nil {
		to = newestPatch(o, *u.line, say)
	}
	var f *control.Folder
	var unopened error // is told after what the way lacks
	if !u.dryRun {
		if f, unopened = u.folder(ctx, o, toWrite); unopened == nil {
			u.spec, u.unread = readSpecOnce(ctx, f)
		}
	}
	if !u.resume {
		path := plan.VersionPath(o, to)
		if u.dryRun {
			way := upgradeWay{Path: path, Survey: surveyOn(path, o)}
			if err := u.print(out, way, func(w io.Writer) { fmt.Fprint(w, way.String()) }); err != nil || !path.Barred() {
				return err
			}
			return &Failure{Code: ExitUnsafe, Err: errors.New("the upgrade cannot start: see what is missing or refused above")}
		}
		if why := unready(path, u.outage); why != "" {
			return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("nothing was changed: %s", why), Advice: fmt.Sprintf("etcdadm upgrade %s --dry-run prints every step", to)}
		}
		for _, w := range path.Warnings {
			fmt.Fprintf(say, "warning: %s\n", w)
		}
	}
	if err := u.takeLoss(o, to, out); err != nil {
		return err
	}
	if unopened == nil && u.unread != nil && !specUnusable(u.unread) {
		unopened = u.unread
	}
	if unopened != nil {
		return unopened
	}
	if err := u.write(ctx, f, to, out); err != nil {
		return err
	}
	if u.wait <= 0 || o == nil {
		return nil
	}
	return u.follow(ctx, to, out)
}

// newestPatch is the release that a line stands for, which is said.
func newestPatch(o *cluster.Observation, l cluster.Line, say io.Writer) cluster.Version {
	newest, common := o.NewestPatch(l)
	fmt.Fprintf(say, "%s means etcd %s, the newest patch that is known here\n", l, newest)
	if !common.IsZero() && common != newest {
		fmt.Fprintf(say, "  the newest that every host has is %s: to run that, name it\n", common)
	}
	return newest
}

// rollbackTo is the lowest version that a member runs, where several run.
func rollbackTo(o *cluster.Observation) (cluster.Version, error) {
	roster, seen := o.Roster()
	run := roster.Running()
	switch {
	case !seen:
		return cluster.Version{}, &Failure{Code: ExitUnsafe, Err: errors.New("no member answers, so nobody knows what runs")}
	case !run.Mixed():
		return cluster.Version{}, &Failure{Code: ExitUnsafe, Err: fmt.Errorf("every member runs etcd %s already: a rollback at no cost is no longer possible", run.High), Advice: "etcdadm upgrade VERSION downgrades with etcd's own downgrade, from 3.6 on"}
	}
	return run.Low, nil
}

// unready says why a way cannot be begun; empty: it can.
func unready(p path.Path, outage bool) string {
	why := p.Problems
	for _, m := range p.Missing {
		why = append(why, m.String())
	}
	for _, h := range p.Hops {
		switch {
		case h.Kind.Rolls(), outage:
			continue
		}
		why = append(append(why, fmt.Sprintf("the way goes through an outage%s, which --accept-outage takes: %s", howLong(h), h.Why)), p.Warnings...)
		break
	}
	return strings.Join(why, "; ")
}

// howLong a hop's outage is about; key by key that is known when it was tried out.
func howLong(h path.Hop) string {
	if h.Kind == path.Logical {
		return " that lasts as long as every key is copied"
	}
	return fmt.Sprintf(" of about %s", h.Outage)
}

// write puts the wish into the store: the pause before the version, so that no
// daemon sees the version alone.
func (u *upgrade) write(ctx context.Context, f *control.Folder, to cluster.Version, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if u.resume {
		switch read, err := f.ReadSpec(ctx); {
		case err != nil:
			return err
		case read.Spec == nil || !read.Spec.PauseBeforeLast:
			return &Failure{Code: ExitUnsafe, Err: errors.New("no change of version is paused"), Advice: "etcdadm status tells what runs and what is wanted"}
		}
	}
	if !u.resume {
		if err := stillShown(ctx, f, u.spec, u.unread); err != nil {
			return changedBefore(err, to)
		}
	}
	if err := f.Settings().PauseBeforeLast(ctx, u.pause); err != nil {
		return err
	}
	if u.resume {
		fmt.Fprintln(out, "the last voter follows")
		return nil
	}
	if u.outage {
		var err error
		if u.word, err = f.Settings().AcceptOutage(ctx, to); err != nil {
			return err
		}
	}
	if u.loss != "" {
		if err := f.Settings().AcceptLoss(ctx, to, u.loss); err != nil {
			return err
		}
	}
	if u.noBackup {
		if err := f.Settings().NoBackup(ctx, to); err != nil {
			return err
		}
	}
	spec, warnings, err := f.AmendSpec(ctx, control.Amend{EtcdVersion: to, Shown: &u.spec})
	if err != nil {
		return changedBefore(err, to)
	}
	for _, w := range warnings {
		fmt.Fprintln(out, "warning:", w)
	}
	fmt.Fprintf(out, "spec saved: %s, etcd %s\n", counted(spec.MemberCount, "member"), spec.EtcdVersion)
	return nil
}

// readSpecOnce reads the spec; an error that is not about the spec is told when it would
// be written.
func readSpecOnce(ctx context.Context, f *control.Folder) (control.SpecRead, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return f.ReadSpec(ctx)
}

// changedBefore: another spec than the one that the way was looked for is there, and stays.
func changedBefore(err error, to cluster.Version) error {
	if !errors.Is(err, control.ErrConflict) && !errors.Is(err, errChangedWhileAsked) {
		return err
	}
	return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("somebody else changed the spec meanwhile; etcd %s was not written", to), Advice: "look, and give the command again"}
}

// heard: the leader looked after the wish was written. Until then it tells of the
// word before, such as that its outage was taken back.
func (u *upgrade) heard(spec *cluster.Spec, to cluster.Version) bool {
	switch {
	case spec == nil || spec.PauseBeforeLast != u.pause || !to.IsZero() && spec.EtcdVersion != to:
		return false
	case u.word != "" && spec.Consents() != u.word:
		return false
	}
	return u.loss == "" || spec.AcceptedLoss() == u.loss
}

// follow tells what the leader decides until every member runs the version, and
// there are as many of them as before an outage.
func (u *upgrade) follow(ctx context.Context, to cluster.Version, out io.Writer) error {
	var rest strength
	looked := false
	waits := func() string {
		switch {
		case !looked && to.IsZero():
			return "the leading daemon has not told yet what the members run"
		case !looked:
			return fmt.Sprintf("the leading daemon has not told yet whether every member runs etcd %s", to)
		case rest.begun:
			return fmt.Sprintf("every member runs etcd %s, and not all that the spec asks for are up", to)
		case to.IsZero():
			return "not every member runs the version that the spec asks for"
		}
		return "not every member runs etcd " + to.String()
	}
	return u.queue.follow(ctx, out, waits, func(o *cluster.Observation, d *plan.Decision) told {
		if !u.heard(o.Spec, to) {
			return told{}
		}
		looked = true
		roster, _ := o.Roster()
		run := roster.Running()
		if to.IsZero() && o.Spec != nil {
			to = o.Spec.EtcdVersion
		}
		in := o.Intent()
		open := in == nil || in.State == cluster.IntentFounded && !in.Quarantined && in.Halted() == nil
		if open && run.Low == to && run.High == to && !run.Downgrade && len(run.Unseen) == 0 {
			return rest.look(o, d, roster, to)
		}
		if in != nil && in.Halt != nil && in.Halt.Ended != "" && in.Halt.Wanted == to && in.Halt.Consent == o.Spec.Consents() && len(run.Unseen) == 0 && run.Low == in.Halt.From {
			return told{why: in.Halt.Ended, err: &Failure{Code: ExitError, Err: fmt.Errorf("the change to etcd %s was taken back, and every member runs %s: %s", to, run.Low, in.Halt.Ended)}}
		}
		why := d.Reason.String()
		for _, b := range d.Blockers {
			switch b.Code {
			case "version-paused":
				return told{done: true, why: b.Sentence.String()}
			case "version-loss":
				return told{done: true, why: b.Sentence.String(), err: &Failure{Code: ExitUnsafe, Err: errors.New(b.Sentence.String()), Advice: b.Remedy()}}
			case "version", "version-outage":
				why = b.Sentence.String()
			}
		}
		return told{why: why, say: slices.Contains([]string{"converge-version", "downgrading", "generation", "lift", "open-up"}, d.Rule) || why != d.Reason.String()}
	})
}

// upgradeExample names no version, as [seedExample] does not.
const upgradeExample = "such as etcdadm upgrade VERSION, with a release that etcdadm versions lists, or a line of releases, such as 3.7"

// strengthSettles is how long nothing more has to be done before a wait ends below
// full strength: a host that could join may be away for a look or two.
const strengthSettles = 20 * time.Second

// strength is what is left to do once every member runs the version. A change
// through an outage begins again with one member, and the others join it: whoever
// waited would go home with a cluster that no failure may touch.
type strength struct {
	begun bool
	idle  time.Time // since when nothing is being done about it; zero: something is
}

func (s *strength) look(o *cluster.Observation, d *plan.Decision, roster cluster.Roster, to cluster.Version) told {
	s.begun = true
	voters, up := roster.Count()
	quarantined := slices.ContainsFunc(o.Hosts, func(h cluster.HostReport) bool { return h.Local.Quarantined && h.Process.Runs() })
	if o.Spec == nil || voters >= o.Spec.MemberCount && up == voters && !quarantined {
		return told{done: true, why: fmt.Sprintf("every member runs etcd %s", to)}
	}
	if !d.Done && (d.Action != nil || d.Again != 0 || len(d.Blockers) == 0) {
		s.idle = time.Time{}
		return told{why: d.Reason.String(), say: true}
	}
	if s.idle.IsZero() {
		s.idle = time.Now()
	}
	why := d.Reason.String()
	for _, b := range d.Blockers {
		if b.Code == "no-host" {
			why = b.Sentence.String()
		}
	}
	if time.Since(s.idle) < strengthSettles {
		return told{why: why, say: true}
	}
	return told{done: true, why: fmt.Sprintf("every member runs etcd %s; %d of %d voters are up, and nothing more is done: %s", to, up, o.Spec.MemberCount, why)}
}

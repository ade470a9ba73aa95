package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/tables"
	"etcdadm.io/plan"
)

// printData says what there is beside the members: backups, the queue, a new
// generation on its way, quarantine, and what was set aside.
func printData(w io.Writer, r console.Report) {
	o := r.Observation
	fmt.Fprintln(w)
	printLastBackup(w, r)
	if in := o.Intent(); in != nil && in.Source.FromData() {
		fmt.Fprintf(w, "generation: %d, made from %s\n", in.Generation, madeFrom(in.Source))
	}
	printQuarantine(w, o)
	printEnds(w, r)
	printHolders(w, o)
	var queue []control.CommandStatus
	for _, q := range r.Queue {
		queue = append(queue, control.CommandStatus(q))
	}
	tables.Queue(w, queue)
	printSteps(w, r.Steps)
	for _, a := range r.Aside {
		a.Age += r.Now().Sub(o.At)
		printOneAside(w, a, r.Now())
	}
}

// printOneAside says what a directory is that was set aside, and whether it goes
// by itself.
func printOneAside(w io.Writer, a plan.Aside, now time.Time) {
	facts := []string{a.Reason, sizeWords(a.Bytes)}
	if !a.At.IsZero() {
		facts = append(facts, tookWords(a.Age)+" old")
	}
	fmt.Fprintf(w, "set aside on %s: %s (%s)\n", a.Host, a.Name(), strings.Join(facts, ", "))
	if a.Undo != "" {
		fmt.Fprintf(w, "  to go back to it: %s\n", a.Undo)
	}
	switch {
	case a.OnlyWay:
		fmt.Fprintln(w, "  kept: the only known way back; \"etcdadm host prune\" says what its removal gives up")
	case a.ByHand != "":
		fmt.Fprintf(w, "  kept until you delete it, as %s: %s\n", a.ByHand, a.Command)
	case !a.After.IsZero():
		fmt.Fprintf(w, "  will be removed automatically in %s at the earliest, once a newer backup is proven\n", tookWords(a.After.Sub(now)))
	case a.Waits != "":
		fmt.Fprintf(w, "  will be removed automatically; waiting: %s\n", a.Waits)
	default:
		fmt.Fprintln(w, "  is being removed automatically")
	}
}

func madeFrom(s cluster.Source) string {
	switch s.Kind {
	case cluster.SourceBackup:
		return "backup " + s.Backup
	case cluster.SourceSetAside:
		return "what was set aside as " + filepath.Base(s.Dir)
	case cluster.SourceSurvivor:
		return "the data of a survivor"
	}
	return s.Kind
}

// authorityLeft is how long before its end an authority is told of: nothing renews one,
// and with it ends all that it signed.
const authorityLeft = 30 * duration.Day

// printEnds tells of authorities that end soon, and of certificates that have ended. What
// ends soon of the others is renewed by itself.
func printEnds(w io.Writer, r console.Report) {
	for _, c := range r.Certificates {
		switch left := c.NotAfter.Sub(r.Now()); {
		case left <= 0:
			fmt.Fprintf(w, "  ! certificate %s has ended on %s\n", c.Name, c.NotAfter.Format(time.RFC3339))
		case left < authorityLeft && (c.Name == pki.ManagerCA || c.Name == pki.PeersCA || c.Name == pki.ClientsCA):
			fmt.Fprintf(w, "  ! authority %s ends in %s, and every certificate under it: rotate it before, see docs/operations/tls.md\n", c.Name, tookWords(left))
		}
	}
}

func printLastBackup(w io.Writer, r console.Report) {
	b := r.Backups
	switch {
	case b == nil:
		fmt.Fprintln(w, "last backup: not known, the store was not listed yet")
		return
	case b.Last == nil && r.Observation.Backups.Interval <= 0:
		fmt.Fprintln(w, "last backup: none; periodic backups are off (--backup-interval is 0)")
	case b.Last == nil:
		fmt.Fprintln(w, "last backup: none")
	default:
		size := "of unknown size" // as of etcd-manager's
		if b.Last.Bytes > 0 {
			size = sizeWords(b.Last.Bytes)
		}
		fmt.Fprintf(w, "last backup: %s, %s old, %s, %s\n", b.Last.Name, tookWords(max(r.Now().Sub(b.Last.At), 0)), size, provenWords(*b, r.Now()))
	}
	if b.On != "" {
		fmt.Fprintf(w, "  host %s takes one now\n", b.On)
	}
	if b.Failed != "" {
		fmt.Fprintf(w, "  ! the last try failed: %s\n", b.Failed)
	}
	if b.DrillFailed != "" {
		fmt.Fprintf(w, "  ! the last drill did not end well: %s\n", b.DrillFailed)
	}
}

func provenWords(b console.Backups, now time.Time) string {
	words := ""
	if b.Last.Encrypted {
		words = "encrypted, "
	}
	if b.Last.Doubt != "" {
		words += "BAD (" + b.Last.Doubt + "), "
	}
	switch p := b.Proven; {
	case p == nil:
		words += "not proven"
	case p.Name == b.Last.Name:
		words += "proven"
	default:
		words += fmt.Sprintf("not proven; %s is, %s old", p.Name, tookWords(now.Sub(p.At)))
	}
	if !b.Drilled.IsZero() {
		words += fmt.Sprintf(", last drill %s ago", tookWords(now.Sub(b.Drilled)))
	}
	return words
}

func printQuarantine(w io.Writer, o *cluster.Observation) {
	if in := o.Intent(); in != nil && in.Quarantined {
		fmt.Fprintln(w, "quarantine: members serve on their quarantine client URLs only, until a majority of the spec has joined")
		return
	}
	for _, h := range o.Hosts {
		if h.Local.Quarantined && h.Process.Runs() {
			fmt.Fprintf(w, "quarantine: the member of host %s still listens on its quarantine client URLs only\n", h.Host)
		}
	}
}

// printSteps shows how far a new generation is.
func printSteps(w io.Writer, steps []plan.Step) {
	if len(steps) == 0 {
		return
	}
	fmt.Fprintln(w, "new generation:")
	for _, s := range steps {
		fmt.Fprintf(w, "  %s %s\n", map[plan.StepState]string{plan.StepDone: "✓", plan.StepNow: "•", plan.StepNext: " "}[s.State], s.What)
	}
}

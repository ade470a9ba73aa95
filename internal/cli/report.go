package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/tables"
	"etcdadm.io/plan"
)

func printReport(w io.Writer, r console.Report) {
	fmt.Fprintf(w, "cluster %s, its daemons led by host %s\n", r.Cluster, orNone(string(r.Leader)))
	if r.Observation == nil {
		if r.Unfit != "" {
			fmt.Fprintf(w, "host %s must not lead: %s\n", r.Host, r.Unfit)
		}
		fmt.Fprintf(w, "host %s does not lead and cannot reach the daemon that does; it knows of:\n", r.Host)
		for _, c := range r.Contacts {
			fmt.Fprintf(w, "  %s at %s\n", c.Host, c.Endpoint)
		}
		return
	}
	o := r.Observation
	if spec := o.Wanted(); spec != nil {
		hold := ""
		if spec.Hold {
			hold = fmt.Sprintf(" (on hold; etcdadm seed %s --nodes N, or configure-cluster, lifts it)", cluster.ShellWord(cmp.Or(o.Store.URL, "STORE")))
		}
		fmt.Fprintf(w, "wanted: %s of etcd %s%s\n", counted(spec.MemberCount, "member"), spec.EtcdVersion, hold)
	}
	printManual(w, o, r.Now())
	fmt.Fprintln(w)
	printMembers(w, o, r.Now())
	if d := r.Decision; d != nil {
		fmt.Fprintf(w, "\n%s\n", d.Reason)
		printBlockers(w, *d)
	}
	printData(w, r)
}

// printManual says that self-management is off, since when and by whom; nothing where it is on.
func printManual(w io.Writer, o *cluster.Observation, now time.Time) {
	if m := o.Manual; m != nil {
		by := ""
		if m.By != "" {
			by = ", by " + m.By
		}
		fmt.Fprintf(w, "self-management: off since %s%s\n", untilWords(m.Since, now), by)
	}
	if o.ManualUnknown != "" {
		fmt.Fprintf(w, "self-management: whether it is off is not known, and nothing is begun by itself: %s\n", o.ManualUnknown)
	}
}

func printMembers(w io.Writer, o *cluster.Observation, now time.Time) {
	roster, _ := o.Roster()
	seen := map[cluster.HostID]bool{}
	var rows []tables.Row
	for _, s := range roster.Seats {
		seen[s.HostID] = true
		r := tables.Row{Host: s.HostID, Member: s.ID.String(), Role: tables.Role(s.Learner, s.RaftLeader), State: "healthy", ClientURL: first(s.ClientURLs)}
		if !s.Up {
			r.State = s.State()
		}
		if s.Host != nil && s.Host.Status != nil {
			r.Version, r.DB = s.Host.Status.Version.String(), sizeWords(s.Host.Status.DBSize)
		}
		rows = append(rows, r)
	}
	for _, h := range o.Hosts {
		if !seen[h.Host] {
			state := "free"
			if !h.Free() {
				state = "not free"
			}
			rows = append(rows, tables.Row{Host: h.Host, Member: "-", Role: "-", State: state, ClientURL: first(h.URLs.Client)})
		}
	}
	for _, g := range o.Gaps {
		if g.Host != "" && !seen[g.Host] {
			rows = append(rows, tables.Row{Host: g.Host, Member: "-", Role: "-", State: fmt.Sprintf("%s: %s", g.Kind, g.Detail)})
		}
	}
	tables.Hosts(w, rows)
	printPauses(w, o, now)
}

// printPauses tells which hosts are paused, for how long from now on.
func printPauses(w io.Writer, o *cluster.Observation, now time.Time) {
	for _, p := range o.Pauses() {
		left := p.Until.Sub(now)
		if left <= 0 {
			continue
		}
		by := ""
		if p.By != "" {
			by = ", by " + p.By
		}
		fmt.Fprintf(w, "host %s is paused until %s (in %s): %s%s\n", p.Host, untilWords(p.Until, now), leftWords(left), p.Reason, by)
	}
	for _, p := range o.Paused {
		h, there := o.Host(p.Host)
		switch {
		case there && h.Granted(p.ID):
			fmt.Fprintf(w, "host %s may be taken down by that pause: no other voter is restarted or removed meanwhile\n", p.Host)
		case p.Asked(o.Clock()) && p.Until.IsZero():
			fmt.Fprintf(w, "host %s is to be paused for %s and has to stay yet: %s\n", p.Host, tookWords(p.For), p.Reason)
		}
	}
	if o.PausesUnread != "" {
		fmt.Fprintf(w, "which hosts are paused is not known: %s\n", o.PausesUnread)
	}
}

func printBlockers(w io.Writer, d plan.Decision) {
	for _, b := range d.Blockers {
		sentence := b.Sentence.String()
		if sentence == d.Reason.String() {
			sentence = ""
		}
		tables.Blocker(w, b.Code, "docs/operations/"+b.Code+".md", sentence, b.Advice, b.Command)
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

func printDecision(w io.Writer, d plan.Decision) {
	fmt.Fprintf(w, "%s  (rule %s)\n", d.Reason, d.Rule)
	if a := d.Action; a != nil {
		fmt.Fprintf(w, "  step: %s\n", a)
		if a.Projection != nil {
			fmt.Fprintf(w, "  voters: %s\n", a.Projection)
		}
		if a.Command != "" {
			fmt.Fprintf(w, "  command: %s\n", a.Command)
		}
	}
	printBlockers(w, d)
}

// Package tables prints what a leading daemon says of its cluster: the tables of etcdadm status and plan, also of the status
// that it writes into the store, for those who reach the store and no daemon.
package tables

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

// ExitCodes are those of status, by the cluster's health. The table of all codes is in internal/cli.
var ExitCodes = map[control.Health]int{control.Well: 0, control.Degraded: 14, control.NoQuorum: 15, control.Unknown: 11}

// asks are the commands that ask a daemon, and so take the flags that say which.
var asks = []string{"alarm", "backup", "config", "defrag", "host", "member", "plan", "queue", "recover", "restart", "restore", "status", "upgrade"}

// AsksDaemons tells whether a command of etcdadm's, by its first word, is one of those.
func AsksDaemons(word string) bool { return slices.Contains(asks, word) }

// Row is a host, or a member, in the table of a cluster.
type Row struct {
	Host                   cluster.HostID
	Member, Role, State    string
	Version, DB, ClientURL string
}

// Role is a member's, in words.
func Role(learner, leads bool) string {
	switch {
	case learner:
		return "learner"
	case leads:
		return "voter, raft leader"
	}
	return "voter"
}

// Hosts prints hosts and members, by host. Columns that nobody tells of are left out.
func Hosts(w io.Writer, rows []Row) {
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.Host, b.Host) })
	wide := slices.ContainsFunc(rows, func(r Row) bool { return r.DB+r.ClientURL != "" })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(host, member, role, state, version, db, url string) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s", host, member, role, state, version)
		if wide {
			fmt.Fprintf(t, "\t%s\t%s", db, url)
		}
		fmt.Fprintln(t)
	}
	line("HOST", "MEMBER", "ROLE", "STATE", "VERSION", "DB", "CLIENT URL")
	for _, r := range rows {
		line(cmp.Or(string(r.Host), "none"), r.Member, r.Role, r.State, r.Version, r.DB, r.ClientURL)
	}
	_ = t.Flush()
}

// Blocker prints what keeps a daemon from a step, its page, and what lifts it. The sentence may be empty, where it was said.
func Blocker(w io.Writer, code, page, sentence, advice, command string) {
	if sentence != "" {
		sentence = ": " + sentence
	}
	fmt.Fprintf(w, "  ! %s%s (%s)\n", code, sentence, page)
	if advice != "" {
		fmt.Fprintf(w, "    %s\n", advice)
	}
	if command != "" {
		fmt.Fprintf(w, "    → %s\n", command)
	}
}

// Queue prints the commands of the queue, and what each waits for.
func Queue(w io.Writer, all []control.CommandStatus) {
	if len(all) > 0 {
		fmt.Fprintln(w, "queue:")
	}
	for _, q := range all {
		state := "waits for"
		if q.Running {
			state = "runs"
		}
		fmt.Fprintf(w, "  %s  %s %s\n    %s: %s\n", q.Command, q.Kind, q.What, state, q.For)
	}
}

// View is a status as it was read from the store, and how it is shown.
type View struct {
	control.Status
	Now time.Time
	// Again makes of a command one that can be pasted where this is read; nil: it can.
	Again func(command string) string
}

func (v View) again(command string) string {
	if v.Again == nil || command == "" {
		return command
	}
	return v.Again(command)
}

func (v View) age(t time.Time) time.Duration { return max(0, v.Now.Sub(t)).Round(time.Second) }

// Print prints all of it, as etcdadm status does.
func (v View) Print(w io.Writer) {
	fmt.Fprintf(w, "cluster %s, its daemons led by host %s, which told this %s ago\n", v.Cluster, cmp.Or(string(v.Leader), "none"), v.age(v.At))
	if v.Now.Sub(v.At) > control.Fresh {
		fmt.Fprintln(w, "  ! no daemon told anything since: what follows was so then, and nobody knows what is so now")
	}
	if s := v.Spec; s != nil {
		hold := ""
		if s.Hold {
			hold = " (on hold)"
		}
		members := "members"
		if s.MemberCount == 1 {
			members = "member"
		}
		fmt.Fprintf(w, "wanted: %d %s of etcd %s%s\n", s.MemberCount, members, s.EtcdVersion, hold)
	}
	fmt.Fprintln(w)
	Hosts(w, v.rows())
	for _, p := range v.Pauses {
		if p.MayGo {
			fmt.Fprintf(w, "host %s may be taken down by its pause: no other voter is restarted or removed meanwhile\n", p.Host)
		}
	}
	fmt.Fprintf(w, "\n%s\n", v.Reason)
	v.blockers(w)
	fmt.Fprintln(w)
	v.backup(w)
	if v.Generation > 0 {
		fmt.Fprintf(w, "generation: %d\n", v.Generation)
	}
	Queue(w, v.Commands)
}

// Plan prints what is done next, why, and what blocks it, as etcdadm plan does.
func (v View) Plan(w io.Writer) {
	fmt.Fprintf(w, "%s  (rule %s)\n", v.Reason, v.Rule)
	if v.Command != "" {
		fmt.Fprintf(w, "  command: %s\n", v.again(v.Command))
	}
	v.blockers(w)
}

func (v View) rows() []Row {
	var rows []Row
	seen := map[cluster.HostID]bool{}
	for _, m := range v.Members {
		seen[m.Host] = true
		r := Row{Host: m.Host, Member: m.Member.String(), Role: Role(m.Learner, m.Leads), State: "healthy"}
		if !m.Version.IsZero() {
			r.Version = m.Version.String()
		}
		if !m.Up {
			r.State = cluster.Seat{Condition: m.Condition, Why: m.Why}.State()
		}
		if m.Quarantined {
			r.State += ", in quarantine"
		}
		rows = append(rows, r)
	}
	for _, h := range v.Hosts {
		if seen[h.Host] {
			continue
		}
		r := Row{Host: h.Host, Member: "-", Role: "-", State: "free"}
		if h.Data == cluster.DataMember || h.Data == cluster.DataOther {
			r.State = "not free"
		}
		rows = append(rows, r)
	}
	return rows
}

func (v View) blockers(w io.Writer) {
	for _, b := range v.Blockers {
		sentence := b.Sentence
		if sentence == v.Reason {
			sentence = ""
		}
		Blocker(w, b.Code, "docs/operations/"+b.Code+".md", sentence, "", v.again(b.Command))
	}
}

func (v View) backup(w io.Writer) {
	b, p := v.Backup, v.Proven
	switch {
	case b == nil:
		fmt.Fprintln(w, "last backup: none that the leading daemon knows of")
	case p == nil:
		fmt.Fprintf(w, "last backup: %s, %s old, not proven\n", b.Name, v.age(b.At))
	case p.Name == b.Name:
		fmt.Fprintf(w, "last backup: %s, %s old, proven\n", b.Name, v.age(b.At))
	default:
		fmt.Fprintf(w, "last backup: %s, %s old, not proven; %s is, %s old\n", b.Name, v.age(b.At), p.Name, v.age(p.At))
	}
}

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"etcdadm.io/cluster"
)

func (s *survivors) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tMEMBER\tGENERATION\tLOG TERM\tLOG INDEX\tREVISION\tDATA")
	for _, h := range s.Hosts {
		member, term, index, data := "-", "-", "-", "none"
		if h.Member != 0 {
			member = h.Member.String()
		}
		if h.Log != nil {
			term, index = fmt.Sprint(h.Log.Term), fmt.Sprint(h.Log.Index)
		}
		if h.HasData {
			data = "yes"
			if h.Log == nil && h.Reading != nil {
				data = "its log is being read: " + h.Reading.String()
			} else if h.Log == nil {
				data = "its log cannot be read"
			} else if h.Runs {
				data = "yes, its member runs"
			}
		}
		if h.Host == s.Furthest {
			data += "  ← furthest"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%d\t%s\n", h.Host, member, h.Generation, term, index, h.Highest.Revision, data)
	}
	for _, id := range s.Unseen {
		data := "unreachable"
		if slices.Contains(s.Incompatible, id) {
			data = "something answers there without telling how far its log goes"
		}
		if why := s.Why[id]; why != "" {
			data += ": " + why
		}
		fmt.Fprintf(t, "%s\t-\t-\t-\t-\t-\t%s\n", id, data)
	}
	_ = t.Flush()
	s.printPrice(w)
}

// printPrice says what a recovery keeps and what it may lose.
func (s *survivors) printPrice(w io.Writer) {
	i := slices.IndexFunc(s.Hosts, func(h cluster.LogEnd) bool { return h.Host == s.Furthest })
	switch {
	case s.Quorum && s.Would == nil:
		fmt.Fprintln(w, "\nThe cluster has a quorum: no recovery is needed.")
	case len(s.Reading) > 0:
		fmt.Fprintf(w, "\nThe log of %s is still being read: run this again in a few minutes, when it is known which host is\nthe furthest. If its disk cannot be read at all, power that host off first.\n", join(s.Reading))
	case i < 0 && len(s.Unseen) > 0:
		fmt.Fprintf(w, "\nNo host that answers holds the data of a member, and %s may: the table says why they do not\nanswer. Bring them back first. Only if their data is gone for good, a backup is the way, and what was\nwritten since it was taken is lost:\n\n%s", join(s.Unseen), s.fromBackup())
	case i < 0:
		fmt.Fprintf(w, "\nNo host holds the data of a member that could be read; a backup is the way, and what was written\nsince it was taken is lost:\n\n%s", s.fromBackup())
	default:
		s.printKept(w, s.Hosts[i])
		s.printWay(w)
	}
}

// fromBackup are the commands where no data is left but backups.
func (s *survivors) fromBackup() string {
	return fmt.Sprintf("  %s\n  %s\n", s.by.again("etcdadm backup list"), s.by.again("etcdadm restore NAME"))
}

// printKept says what is known of the writes that clients were told are done: whether the
// furthest log has all of them.
func (s *survivors) printKept(w io.Writer, best cluster.LogEnd) {
	fmt.Fprintf(w, "\nA recovery from host %s keeps its whole log, up to term %d, index %d, writes that were never\nacknowledged included.\n", best.Host, best.Log.Term, best.Log.Index)
	lost := fmt.Sprintf("Acknowledged writes that only %s had ARE LOST; how many they are is unknown.\n", join(s.Gone))
	switch recorded := s.Recorded; {
	case best.Log.Before(recorded):
		fmt.Fprintf(w, "IT LOSES WRITES: the cluster is on record with term %d, index %d, and revision %d, and no log that\ncan be read goes so far. Bring back a host that has them before going on.\n", recorded.Term, recorded.Index, recorded.Revision)
	case len(s.Voters) == 0:
		fmt.Fprintln(w, "No host that answers knows who the voters are, so nobody can say what is lost by it.")
	case len(s.Gone) == 0:
		fmt.Fprintln(w, "The data of every voter is reachable, so no acknowledged write is lost.")
	case s.Unread != "":
		fmt.Fprintf(w, "How far the cluster got cannot be looked up in the backup store: %s\n%s", s.Unread, lost)
	case recorded.Term == 0:
		fmt.Fprintf(w, "The backup store has no record of how far the cluster got.\n%s", lost)
	default:
		fmt.Fprintf(w, "The backup store's record of the cluster goes to term %d, index %d, revision %d: all of that is\nkept. Of what was written later: %s", recorded.Term, recorded.Index, recorded.Revision, strings.ToLower(lost[:1])+lost[1:])
	}
}

// printWay says how to go on, and what has to be so before.
func (s *survivors) printWay(w io.Writer) {
	const atOdds = `
No recovery is offered: it would give up %s, where something answers without telling how far
its log goes, so these hosts may still serve. The table shows why for each. For a certificate,
authority, clock, TLS or --cluster-name, check this side first. If the host is starting or waits
for its disk, try again when it is up, or power it off if it never will be.
`
	switch {
	case s.Would != nil:
		fmt.Fprintln(w)
		s.Would.print(w)
	case s.GivesUpIncompatible():
		fmt.Fprintf(w, atOdds, join(s.Incompatible))
	case s.Elsewhere != "":
		fmt.Fprintf(w, "\nDo not recover from here: %s.\n", s.Elsewhere)
	case s.Command == "":
		s.printMissing(w)
		fmt.Fprintf(w, "They may serve without this side: look at them, and at the network between, first. A recovery\nwithout them is offered once the loss has lasted %s (--dead-after), in %s; one that you ask for\nbegins at once.\n", s.After, s.Early.Round(time.Second))
	case len(s.Missing()) > 0:
		s.printMissing(w)
		fmt.Fprintf(w, "Name a host with --lost only if its disk is gone for good or unreadable; a host that is\npowered off comes back with its writes:\n\n  %s --lost HOST …\n", s.by.again(s.Command))
	default:
		fmt.Fprintf(w, "\nWhere the members cannot be brought back to a quorum:\n\n  %s\n", s.by.again(s.Command))
	}
}

func (s *survivors) printMissing(w io.Writer) {
	fmt.Fprintln(w)
	for _, m := range s.Missing() {
		fmt.Fprintf(w, "Host %s.\n", m)
	}
}

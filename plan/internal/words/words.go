package words

import (
	"fmt"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// Are counts in words: "1 host is", "3 hosts are".
func Are(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

func Because(why []string) string {
	if len(why) == 0 {
		return ""
	}
	return " (" + strings.Join(why, "; ") + ")"
}

func Verb(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func IsAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func Failures(n int) string {
	if n == 1 {
		return "1 failure"
	}
	return fmt.Sprintf("%d failures", n)
}

func Among(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

func IdList(ids []cluster.HostID) string {
	var s []string
	for _, id := range ids {
		s = append(s, string(id))
	}
	return strings.Join(s, ", ")
}

func HostNames(hosts []*cluster.HostReport) string {
	var names []string
	for _, h := range hosts {
		names = append(names, string(h.Host))
	}
	return strings.Join(names, ", ")
}

func MembersWords(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}

func OrElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func SeatName(s cluster.Seat) string {
	if s.HostID != "" {
		return string(s.HostID)
	}
	return s.ID.String()
}

// Shortly is a time as people write it, such as 30m and not 30m0s.
func Shortly(d time.Duration) string {
	s := d.String()
	if d >= time.Minute && strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if d >= time.Hour && strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ClockWords is a time as a sentence has it that does not change from look to look.
func ClockWords(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

func Versions(vs []cluster.Version) string {
	if len(vs) == 0 {
		return "none"
	}
	var s []string
	for _, v := range vs {
		s = append(s, v.String())
	}
	return strings.Join(s, ", ")
}

func VersionWords(r cluster.Version) string {
	if r.IsZero() {
		return "of an unknown version"
	}
	return r.String()
}

func NotYet(hosts []string) []string {
	if len(hosts) == 0 {
		return nil
	}
	return []string{"not yet: " + strings.Join(hosts, ", ")}
}

// RevisionOf is how far a backup goes; the predecessor writes nothing beside its own that
// says so.
func RevisionOf(b cluster.Backup) string {
	if b.Revision == 0 {
		return "unknown revision"
	}
	return fmt.Sprintf("revision %d", b.Revision)
}

func Named(hosts []*cluster.HostReport) string {
	if len(hosts) == 0 {
		return ""
	}
	return " (" + HostNames(hosts) + ")"
}

func AnyHosts(hosts []cluster.HostID) string {
	if len(hosts) == 0 {
		return "any host"
	}
	var b strings.Builder
	for i, h := range hosts {
		b.WriteString([]string{"", ", "}[min(i, 1)] + string(h))
	}
	return b.String()
}

func SaidToBe(id cluster.HostID) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf(", as it seems of host %s,", id)
}

func Have(hosts int) string {
	if hosts == 1 {
		return "1 host has"
	}
	return fmt.Sprintf("%d hosts have", hosts)
}

func AlarmWords(alarms []cluster.Alarm) string {
	var of []string
	for _, a := range alarms {
		if a.Member == 0 {
			return "all of them"
		}
		of = append(of, a.Member.String())
	}
	return strings.Join(of, ", ")
}

// BytesWords is a size for people.
func BytesWords(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func ProcessWords(p cluster.Process) string { return p.Words() }

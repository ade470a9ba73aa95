package playground

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"etcdadm.io/cluster"
)

// environmentFile is what a shell reads to reach the cluster, in the
// playground's directory.
const environmentFile = "env"

// writeEnvironment leaves the environment as a file for shells, so that one
// short line is enough to reach the cluster.
func writeEnvironment(s Scene) error {
	var b strings.Builder
	for _, e := range s.Environment() {
		b.WriteString(export(e) + "\n")
	}
	return os.WriteFile(filepath.Join(s.Dir, environmentFile), []byte(b.String()), 0o600)
}

// export is a KEY=VALUE as a shell takes it.
func export(e string) string {
	key, value, _ := strings.Cut(e, "=")
	return "export " + key + "=" + cluster.ShellWord(value)
}

// reachIt are the lines that a person pastes to reach the cluster: all of
// them, or only the one that reads them from a file.
func reachIt(s Scene, whole bool) []string {
	lines := []string{"reach it:", "  . " + cluster.ShellWord(filepath.Join(s.Dir, environmentFile)) + "   # then etcdctl, or " + s.Shown + " status"}
	if !whole {
		return lines
	}
	lines[1] = "  . " + cluster.ShellWord(filepath.Join(s.Dir, environmentFile)) + "   # the same as these lines; then etcdctl, or " + s.Shown + " status"
	for _, e := range s.Environment() {
		lines = append(lines, "  "+export(e))
	}
	return lines
}

// whereIs says where things are.
func whereIs(s Scene) []string {
	return []string{
		"find it in " + cluster.ShellWord(s.Dir) + ":",
		"  store/, hosts/N.log (daemons), hosts/N/logs/etcd.log, hosts/N/data",
	}
}

// hurtIt are commands that hurt the cluster as it is now.
func hurtIt(s Scene) []string {
	var o *cluster.Observation
	if s.Report != nil {
		o = s.Report.Observation
	}
	h := s.Hosts[len(s.Hosts)-1]
	for _, x := range s.Hosts {
		if r := report(o, x); r != nil && r.Process.PID > 0 && r.Status != nil && !r.Status.Learner {
			h = x
		}
	}
	pid := "PID"
	if r := report(o, h); r != nil && r.Process.PID > 0 {
		pid = fmt.Sprint(r.Process.PID)
	}
	nodes, change := 5, "more members"
	switch {
	case o == nil || o.Spec == nil:
	case o.Spec.MemberCount < 3:
		nodes = 3
	case o.Spec.MemberCount >= 5:
		nodes, change = 3, "fewer members"
	}
	return []string{
		"hurt it:",
		fmt.Sprintf("  kill -9 %s   # etcd of %s dies", pid, h.Name),
		fmt.Sprintf("  kill -9 %d   # its daemon dies; etcd goes on and is adopted", h.PID()),
		fmt.Sprintf("  rm -rf %s; kill -9 %s   # its disk is wiped", cluster.ShellWord(filepath.Join(h.Dir, "data")), pid),
		fmt.Sprintf("  %s seed %s --member-count %d   # %s", s.Shown, cluster.ShellWord(s.Store), nodes, change),
	}
}

// leastSaid is how many of the last decisions a picture has at the least.
const leastSaid = 3

// picture lays everything out in the room that the terminal has. What people
// paste is never cut; where it would leave no room for the hosts and the last
// decisions, it gives way to its short form, and the end of it at last.
func picture(s Scene, said []string, width, height int) string {
	hosts := strings.Split(table(s, false), "\n")
	if rows(hosts, width) > len(hosts) {
		hosts = strings.Split(table(s, true), "\n")
	}
	top := append([]string{"etcdadm playground   " + summary(s), ""}, hosts...)
	for i, l := range top {
		top[i] = cut(l, width)
	}
	last := "Ctrl-C ends everything."
	bottom := append(append(append(reachIt(s, true), whereIs(s)...), hurtIt(s)...), last)
	if len(top)+leastSaid+rows(bottom, width) > height {
		bottom = append(append(append(reachIt(s, false), whereIs(s)...), hurtIt(s)...), last)
		for i, l := range bottom {
			if at := strings.Index(l, "   # "); at > 0 && len([]rune(l)) > width {
				bottom[i] = l[:at]
			}
		}
	}
	room := max(height-len(top)-rows(bottom, width), leastSaid)
	lines := top
	for _, l := range said[max(0, len(said)-room):] {
		lines = append(lines, cut(l, width))
	}
	lines = append(lines, bottom...)
	for len(lines) > 1 && rows(lines, width) > height {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}

// rows is how many rows of the terminal the lines take, with those that are
// longer than a row.
func rows(lines []string, width int) int {
	n := 0
	for _, l := range lines {
		n += max(1, (len([]rune(l))+width-1)/max(width, 1))
	}
	return n
}

// cut makes a line that nobody pastes fit a row.
func cut(line string, width int) string {
	if r := []rune(line); len(r) > width && width > 1 {
		return string(r[:width-1]) + "…"
	}
	return line
}

// ShownName is how people call this program from any directory: go run has no
// lasting name, and a program that was built may not be in the path.
func ShownName() string {
	exe, err := os.Executable()
	if err != nil {
		return "etcdadm"
	}
	if strings.Contains(exe, "go-build") {
		if dir, err := os.Getwd(); err == nil {
			return "go -C " + cluster.ShellWord(dir) + " run etcdadm.io/cmd/etcdadm"
		}
	}
	if found, err := exec.LookPath("etcdadm"); err == nil && found == exe {
		return "etcdadm"
	}
	return cluster.ShellWord(exe)
}

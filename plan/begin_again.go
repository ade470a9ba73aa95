package plan

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// beginAgain makes a further generation of the same command, because what was
// staged for this one is gone with its disk. When the source is gone as well,
// nobody but a person can say what the cluster is to be made from.
func (v *view) beginAgain(h *cluster.HostReport) *Decision {
	for i := range v.obs.Commands {
		if c := &v.obs.Commands[i]; c.Name == v.intent.CommandID {
			return v.beginGeneration(c)
		}
	}
	command, words := v.otherSource()
	return wait(true, "founder-forgot", command, "host %s does not have what generation %d was to be made from any more (%s), and its command is not in the queue%s",
		h.Host, v.intent.Generation, sourceWords(v.intent.Source), words)
}

// giveUp ends a command whose source cannot be made ready. One whose generation
// is written down already has not left everything as it was.
func (v *view) giveUp(c *cluster.Command, why string) *Decision {
	if !v.queued(c.Name) {
		return wait(true, "no-founder", "", "%s", why)
	}
	if !v.wasRun(c.Name) {
		return endCommand(c.Name, CommandRejected, why)
	}
	_, words := v.otherSource()
	return endCommand(c.Name, CommandFailed, fmt.Sprintf("generation %d was written down for it, its founder lost what it had made ready, and that cannot be made again: %s%s", v.intent.Generation, why, words))
}

// otherSource is what else the cluster could be made from, as a command, and in
// words that say what each would lose. Data of the generation that was to be
// superseded comes first, since it has more than any backup.
func (v *view) otherSource() (command, words string) {
	var ways []string
	add := func(c string, what string) {
		if command == "" {
			command = c
		}
		ways = append(ways, what)
	}
	if h := v.furthestData(); h != nil {
		c := cluster.Command{Kind: cluster.CommandRecover, Host: h.Host, Lost: v.wiped()}
		add(v.generationCommand(&c), fmt.Sprintf("host %s still holds the data of generation %d, from which a recovery goes on with everything that was written until it was stopped", h.Host, h.Local.Generation))
	}
	for _, b := range v.obs.Backups.Newest {
		if b.Name != v.intent.Source.Backup {
			add("etcdadm restore "+b.Name, fmt.Sprintf("there is backup %s", b.Name))
			break
		}
	}
	for i := range v.obs.Hosts {
		if h := &v.obs.Hosts[i]; len(h.SetAside) > 0 {
			dir := h.SetAside[len(h.SetAside)-1].Name()
			add(v.generationCommand(&cluster.Command{Kind: cluster.CommandUndo, Host: h.Host, Dir: dir}), fmt.Sprintf("host %s has set %s aside", h.Host, dir))
			break
		}
	}
	if len(ways) == 0 {
		return "", "; queue the command again once there is something that it can be made from"
	}
	return command, "; nothing of it goes on by itself, and a command that names another source makes a generation in its place: " + strings.Join(ways, "; ")
}

// furthestData is the host that still holds data of the newest generation that
// served, and of those the one that is known to be the furthest; nil: none does.
func (v *view) furthestData() *cluster.HostReport {
	var best *cluster.HostReport
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if h.Local.State != cluster.MemberStarted || !h.Local.HasData || h.Local.Generation >= v.intent.Generation {
			continue
		}
		if best == nil || best.Local.Generation < h.Local.Generation || best.Local.Generation == h.Local.Generation && best.Highest.Before(h.Highest) {
			best = h
		}
	}
	return best
}

// wiped are the recorded voters' hosts that are in sight and hold nothing of
// them any more. One that is out of sight is for a person to judge.
func (v *view) wiped() (out []cluster.HostID) {
	for _, g := range append(v.open(false), v.past()) {
		for _, set := range g.Voters {
			for _, w := range set {
				kept := slices.ContainsFunc(v.obs.Hosts, func(h cluster.HostReport) bool { return h.Local.Member == w.Member && h.Local.HasData })
				if _, ok := v.obs.Host(w.Host); ok && !kept {
					out = union(out, []cluster.HostID{w.Host})
				}
			}
		}
	}
	return out
}

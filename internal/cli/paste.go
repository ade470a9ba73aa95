package cli

import (
	"os"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/tables"
	"etcdadm.io/plan"
)

// again is a command with the flags by which the person reached the daemon that said it,
// so that it can be pasted as it stands. What is no such command stays what it is.
func (r *reach) again(command string) string {
	words := strings.Fields(command)
	if len(words) < 2 || words[0] != "etcdadm" || !tables.AsksDaemons(words[1]) {
		return command
	}
	add := func(flag, value string) {
		if value != "" && !slices.Contains(words, flag) {
			command += " " + flag + " " + cluster.ShellWord(value)
		}
	}
	if r.dataDir != os.Getenv("ETCDADM_DATA_DIR") {
		add("--data-dir", r.dataDir)
	}
	add("--endpoint", strings.Join(r.endpoints, ","))
	add("--cluster-name", r.clusterName)
	add("--credentials", r.credentials)
	return command
}

// pasteable is a decision whose commands can be pasted.
func (r *reach) pasteable(d plan.Decision) plan.Decision {
	d.Blockers = slices.Clone(d.Blockers)
	for i := range d.Blockers {
		d.Blockers[i].Command = r.again(d.Blockers[i].Command)
	}
	if d.Action != nil {
		a := *d.Action
		a.Command = r.again(a.Command)
		d.Action = &a
	}
	return d
}

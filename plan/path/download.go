package path

import (
	"strings"

	"etcdadm.io/cluster"
)

// Download is how a release comes to a host: the command there, and in words what else
// does. Daemons look again every few seconds.
func Download(versions ...cluster.Version) (command, elsewise string) {
	var names, dirs []string
	for _, v := range versions {
		names, dirs = append(names, v.String()), append(dirs, "/opt/etcd-v"+v.String())
	}
	return "etcdadm download " + strings.Join(names, " "),
		"download it there, or unpack the release into " + strings.Join(dirs, ", ") + "; the daemon finds it within ten seconds"
}

package daemon

import (
	"strings"

	"etcdadm.io/internal/blob/open"
)

// atHome refuses to start in a pod of the operator's that is in another namespace than the cluster's record: what copies a namespace
// copies the daemons' flags with it, and their volumes, and a copy that spoke or served would be the original's hosts once more
// (docs/adr/045-copies-of-namespaces.md). The operator names a cluster after its namespace. Who makes a record by hand may keep it in
// another namespace than its account's.
func (c *Config) atHome() error {
	pod, named := open.PodNamespace(c.RecordStore())
	if pod == "" || pod == named || !strings.HasPrefix(c.ClusterName, named+".") {
		return nil
	}
	return mistake("begin a new EtcdCluster with the copied claims, or with a backup of the original: docs/operator/copied.md",
		"this pod is in namespace %s, and its cluster in %s: the daemon does not start in a copy of that namespace", pod, named)
}

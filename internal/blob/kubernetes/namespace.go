package kubernetes

import (
	"path/filepath"
	"strings"

	"etcdadm.io/internal/regular"
)

// PodNamespace is the namespace of the pod in which this process runs, by the file that Kubernetes puts beside the token that a store
// of this URL is reached with; empty: it runs in none, or that is not known. And it is the namespace that the URL names.
func PodNamespace(storeURL string) (pod, named string) {
	c, err := parse(storeURL)
	if err != nil {
		return "", ""
	}
	data, err := regular.Read(filepath.Join(c.account, "namespace"), maxFile)
	if err != nil {
		return "", c.namespace
	}
	return strings.TrimSpace(string(data)), c.namespace
}

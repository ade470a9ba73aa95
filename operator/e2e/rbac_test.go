package e2e

import (
	"bytes"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// asked notes what an operator asks an API server for, as a role would have it.
type asked struct {
	http.RoundTripper
	mu  sync.Mutex
	all map[string]bool // "verb group/resource"
}

// RoundTrip implements http.RoundTripper.
func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	if what := of(r); what != "" {
		a.mu.Lock()
		a.all[what] = true
		a.mu.Unlock()
	}
	return a.RoundTripper.RoundTrip(r)
}

// of is what a request asks for; empty: nothing that a role is about.
func of(r *http.Request) string {
	words := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	switch {
	case words[0] == "apis" && len(words) > 3:
		group, words = words[1], words[3:]
	case words[0] == "api" && len(words) > 2:
		words = words[2:]
	default:
		return "" // what kinds there are
	}
	if words[0] == "namespaces" && len(words) > 2 {
		words = words[2:]
	}
	resource := words[0]
	if len(words) > 2 {
		resource += "/" + words[2]
	}
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	switch {
	case verb != "":
	case len(words) > 1:
		verb = "get"
	case r.URL.Query().Has("watch"):
		verb = "watch"
	default:
		verb = "list"
	}
	return verb + " " + group + "/" + resource
}

// roles are what the operator's manifests allow it.
func roles(t *testing.T) map[string]bool {
	t.Helper()
	data, err := os.ReadFile("../config/operator/rbac.yaml")
	must(t, err)
	allowed := map[string]bool{}
	for _, part := range bytes.Split(data, []byte("\n---\n")) {
		role := rbacv1.ClusterRole{}
		if err := yaml.Unmarshal(part, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						allowed[verb+" "+group+"/"+resource] = true
					}
				}
			}
		}
	}
	return allowed
}

// byApply: what a patch makes has to be allowed as made, too.
const byApply = "a server-side apply"

// seldom are rules that no test of a cluster's life comes to, with the reason.
var seldom = map[string]string{
	"create /serviceaccounts": byApply, "create /services": byApply, "create networking.k8s.io/networkpolicies": byApply,
	"create policy/poddisruptionbudgets": byApply, "create rbac.authorization.k8s.io/rolebindings": byApply, "create rbac.authorization.k8s.io/roles": byApply,
	"list etcdadm.io/etcdclusters":          "where a server cannot stream what a watch begins with",
	"list etcdadm.io/etcdbackups":           "likewise",
	"list etcdadm.io/etcdbackupschedules":   "likewise",
	"create etcdadm.io/etcdbackups":         "the time of a schedule",
	"delete etcdadm.io/etcdbackups":         "many times later",
	"list etcdadm.io/etcdrestores":          "likewise",
	"update /secrets":                       "leaves are renewed after four months",
	"update /services":                      "one rule with configmaps",
	"update /serviceaccounts":               "one rule with configmaps",
	"patch /persistentvolumeclaims":         "a volume that is given up",
	"delete /persistentvolumeclaims":        "a volume that is given up",
	"delete /secrets":                       "leaves of a deleted cluster, where there are any",
	"delete /configmaps":                    "the record of a cluster whose volumes go",
	"get /persistentvolumeclaims":           "a name that is taken",
	"get /serviceaccounts":                  "a name that is taken",
	"get /services":                         "a name that is taken",
	"get apps/statefulsets":                 "a name that is taken",
	"get batch/jobs":                        "a copy from another store",
	"create batch/jobs":                     "a copy from another store",
	"list batch/jobs":                       "where a server cannot stream what a watch begins with",
	"get policy/poddisruptionbudgets":       "a name that is taken",
	"patch /events":                         "an event of the Lease that repeats",
	"patch events.k8s.io/events":            "an event that repeats",
	"get coordination.k8s.io/leases":        "the Lease",
	"create coordination.k8s.io/leases":     "the Lease",
	"get etcdadm.io/etcdclusters":           "a second look",
	"patch apps/statefulsets":               "a host that stops",
	"delete /pods":                          "a pod that does not run",
	"patch /pods":                           "a pause that is ended while a deletion by it may be on its way",
	"delete policy/poddisruptionbudgets":    "one member",
	"get rbac.authorization.k8s.io/roles":   "a name that is taken",
	"patch etcdadm.io/etcdclusters":         "the finalizer",
	"get networking.k8s.io/networkpolicies": "a name that is taken",
}

// held compares what was asked for with the roles.
func (a *asked) held(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	allowed := roles(t)
	var more, less []string
	for what := range a.all {
		if !allowed[what] {
			more = append(more, what)
		}
	}
	for what := range allowed {
		if !a.all[what] && seldom[what] == "" {
			less = append(less, what)
		}
	}
	slices.Sort(more)
	slices.Sort(less)
	if len(more)+len(less) > 0 {
		t.Errorf("asked for and not allowed: %q; allowed and never asked for: %q", more, less)
	}
}

package e2e

import (
	"bytes"
	"os"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// rights are the manifests of what the operator may do, with what is on as in the rig.
var rights = []string{"../config/operator/rbac.yaml", "../config/client-issuer/rbac.yaml"}

// roles are what they allow it.
func roles(t *testing.T) map[string]bool {
	t.Helper()
	allowed := map[string]bool{}
	for _, file := range rights {
		data, err := os.ReadFile(file)
		must(t, err)
		for _, part := range bytes.Split(data, []byte("\n---\n")) {
			role := rbacv1.ClusterRole{}
			if err := yaml.Unmarshal(part, &role); err != nil {
				t.Fatal(err)
			}
			allow(allowed, role.Rules)
		}
	}
	return allowed
}

func allow(allowed map[string]bool, rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					allowed[verb+" "+group+"/"+resource] = true
				}
			}
		}
	}
}

// byApply: what a patch makes has to be allowed as made, too.
const byApply = "a server-side apply"

// seldom are rules that no test of a cluster's life comes to, with the reason.
var seldom = map[string]string{
	"create /serviceaccounts": byApply, "create /services": byApply, "create networking.k8s.io/networkpolicies": byApply,
	"create policy/poddisruptionbudgets": byApply, "create rbac.authorization.k8s.io/rolebindings": byApply, "create rbac.authorization.k8s.io/roles": byApply,
	"list etcdadm.io/etcdbackups":         "where a server cannot stream what a watch begins with",
	"list etcdadm.io/etcdbackupschedules": "likewise",
	"create etcdadm.io/etcdbackups":       "the time of a schedule",
	"delete etcdadm.io/etcdbackups":       "many times later",
	"list etcdadm.io/etcdrestores":        "likewise",
	"update /secrets":                     "leaves are renewed after four months",
	"patch /persistentvolumeclaims":       "a volume that is given up",
	"delete /persistentvolumeclaims":      "a volume that is given up",
	"get /persistentvolumeclaims":         "a name that is taken",
	"get apps/statefulsets":               "a name that is taken",
	"patch /events":                       "an event of the Lease that repeats",
	"patch events.k8s.io/events":          "an event that repeats",
	"delete /pods":                        "a pod that does not run",
	"patch /pods":                         "a pause that is ended while a deletion by it may be on its way",
	"get batch/jobs":                      "a copy from another store",
	"create batch/jobs":                   "a copy from another store",
	"list batch/jobs":                     "where a server cannot stream what a watch begins with",
}

// held compares what operators asked for with the roles. The Helm chart's are made of the same file.
func (g *rig) held() {
	g.t.Helper()
	asked, allowed := g.asked(0), roles(g.t)
	var more, less []string
	for what := range asked {
		if !allowed[what] {
			more = append(more, what)
		}
	}
	for what := range allowed {
		if asked[what] == 0 && seldom[what] == "" {
			less = append(less, what)
		}
	}
	slices.Sort(more)
	slices.Sort(less)
	if len(more)+len(less) > 0 {
		g.t.Errorf("asked for and not allowed: %q; allowed and never asked for: %q", more, less)
	}
}

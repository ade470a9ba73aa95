package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const generated = "{{- /* Made of %s by go generate ./operator/generate. */}}\n"

// part is a file of config that becomes a template.
type part struct {
	from, to string
	when     string // the values that it depends on; empty: it is always there
	edits    []edit
}

// clientIssuer: issuers may be asked to sign, and the operator has the right to it.
const clientIssuer = ".Values.issuers"

// arguments are those of the operator.
const arguments = "        - --image=$(HOST_IMAGE)\n"

// edit is a text that stands in a manifest once at least, and what the template has in its place.
type edit struct{ old, new string }

var inNamespace = edit{"namespace: etcdadm-system\n", "namespace: {{ .Release.Namespace }}\n"}

// parts say what of the manifests a user of the chart sets. All else is as it is applied by kustomize.
func parts() []part {
	all := []part{
		{"operator/rbac.yaml", "rbac.yaml", "", []edit{inNamespace}},
		{"client-issuer/rbac.yaml", "client-issuer.yaml", clientIssuer, []edit{inNamespace}},
		{"operator/protected.yaml", "protected.yaml", ".Values.protected", nil},
		{"operator/networkpolicy.yaml", "networkpolicy.yaml", ".Values.networkPolicy", []edit{inNamespace}},
		{"monitoring/podmonitor.yaml", "podmonitor.yaml", ".Values.podMonitor", []edit{inNamespace}},
		{"operator/deployment.yaml", "deployment.yaml", "", []edit{
			inNamespace,
			{"replicas: 2\n", "replicas: {{ .Values.replicas }}\n"},
			{"image: etcdadm-operator\n", "image: {{ .Values.image | quote }}\n"},
			{"value: etcdadm}\n", "value: {{ .Values.hostImage | quote }}}\n"},
			{arguments, arguments + `        {{- with ` + clientIssuer + ` }}
        - {{ join "," . | printf "--issuers=%s" | quote }}
        {{- end }}
        {{- range .Values.args }}
        - {{ . | quote }}
        {{- end }}
`},
			{"        resources:\n          requests: {cpu: 50m, memory: 64Mi}\n          limits: {memory: 512Mi}\n", "        resources: {{- toYaml .Values.resources | nindent 10 }}\n"},
			{"      serviceAccountName: etcdadm-operator\n", "      serviceAccountName: etcdadm-operator\n      {{- with .Values.pod }}\n      {{- toYaml . | nindent 6 }}\n      {{- end }}\n"},
		}},
	}
	for _, crd := range crds {
		// Who takes the chart away keeps the kinds, and so the clusters.
		all = append(all, part{"crd/etcdadm.io_" + crd + ".yaml", "crd-" + crd + ".yaml", ".Values.crds", []edit{
			{"metadata:\n  annotations:\n", "metadata:\n  annotations:\n    helm.sh/resource-policy: keep\n"},
		}})
	}
	return all
}

// chart makes the templates of the Helm chart of what kustomize applies.
func chart(dir string) (map[string]string, error) {
	made := map[string]string{}
	for _, p := range parts() {
		data, err := os.ReadFile(filepath.Join(dir, "config", p.from))
		if err != nil {
			return nil, err
		}
		text := withoutNamespace(string(data))
		if strings.Contains(text, "{{") {
			return nil, fmt.Errorf("%s has {{, which a template would take for its own", p.from)
		}
		for _, e := range p.edits {
			if !strings.Contains(text, e.old) {
				return nil, fmt.Errorf("%s does not have %q any more", p.from, e.old)
			}
			text = strings.ReplaceAll(text, e.old, e.new)
		}
		if strings.Contains(text, "etcdadm-system") {
			return nil, fmt.Errorf("%s names the namespace where the chart does not say another one", p.from)
		}
		if p.when != "" {
			text = "{{- if " + p.when + " }}\n" + text + "{{- end }}\n"
		}
		made["chart/templates/"+p.to] = fmt.Sprintf(generated, "config/"+p.from) + text
	}
	return made, nil
}

// withoutNamespace leaves the Namespace out: that of a release is its user's.
func withoutNamespace(text string) string {
	var kept []string
	for _, doc := range strings.Split(text, "---\n") {
		if strings.TrimSpace(doc) != "" && !strings.Contains(doc, "\nkind: Namespace\n") {
			kept = append(kept, doc)
		}
	}
	return strings.Join(kept, "---\n")
}

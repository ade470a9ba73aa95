package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const operator = "../../operator"

// namespace is that of the manifests.
const namespace = "etcdadm-system"

type object = map[string]any

// set are values that a person gives; the images are required.
func set(more object) object {
	values := object{"image": "etcdadm-operator", "hostImage": "etcdadm"}
	maps.Copy(values, more)
	return values
}

// helm renders the chart as helm template does.
func helm(values object) (map[string]object, error) {
	c, err := loader.Load(operator + "/chart")
	if err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.31.0", Major: "1", Minor: "31"}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "any", Namespace: namespace, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var text []string
	for name, file := range files {
		if strings.HasSuffix(name, ".yaml") {
			text = append(text, file)
		}
	}
	return objects(strings.Join(text, "\n---\n"))
}

// kustomize renders directories of config together.
func kustomize(t *testing.T, dirs ...string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for _, dir := range dirs {
		maps.Copy(all, render(t, filepath.Join(operator, "config", dir)))
	}
	return all
}

func render(t *testing.T, dir string) map[string]object {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	all, err := objects(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// objects are those of a YAML text, by kind and name.
func objects(text string) (map[string]object, error) {
	out := map[string]object{}
	for _, doc := range strings.Split(text, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			return nil, err
		}
		if len(o) == 0 {
			continue
		}
		meta, _ := o["metadata"].(object)
		key := fmt.Sprint(o["kind"], " ", meta["name"])
		if out[key] != nil {
			return nil, fmt.Errorf("%s is there twice", key)
		}
		out[key] = o
	}
	return out, nil
}

// What Helm installs is what kustomize applies, but for the Namespace, which Helm's user makes, and the mark by which the kinds
// stay when the chart goes.
func TestSameAsKustomize(t *testing.T) {
	got, err := helm(set(object{"podMonitor": true}))
	if err != nil {
		t.Fatal(err)
	}
	for key, o := range got {
		if strings.HasPrefix(key, "CustomResourceDefinition ") {
			notes := o["metadata"].(object)["annotations"].(object)
			if notes["helm.sh/resource-policy"] != "keep" {
				t.Errorf("%s goes with the chart, and all clusters with it", key)
			}
			delete(notes, "helm.sh/resource-policy")
		}
	}
	want := kustomize(t, "default", "monitoring")
	delete(want, "Namespace "+namespace)
	if len(want) < 10 {
		t.Fatalf("kustomize renders %q only", slices.Sorted(maps.Keys(want)))
	}
	for _, key := range keys(want, got) {
		if diff := cmp.Diff(want[key], got[key]); diff != "" {
			t.Errorf("kustomize (-) and Helm (+) differ in %s:\n%s", key, diff)
		}
	}
}

// An overlay with the component for issuers applies what Helm installs with the value, and one that asks for more changes the flags.
func TestClientIssuer(t *testing.T) {
	dir := t.TempDir()
	config, err := filepath.Abs(filepath.Join(operator, "config"))
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		config, err = filepath.Rel(dir, config)
	}
	if err != nil {
		t.Fatal(err)
	}
	overlay := fmt.Sprintf("resources: [%[1]s/default]\ncomponents: [%[1]s/client-issuer]\n", config)
	for _, test := range []struct {
		more   string
		values object
	}{
		{"", object{"issuers": []any{"Issuer/*"}}},
		{`patches:
- target: {kind: Deployment, name: etcdadm-operator}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/args/1, value: "--issuers=Issuer/*,ClusterIssuer/etcd"}
`, object{"issuers": []any{"Issuer/*", "ClusterIssuer/etcd"}}},
	} {
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay+test.more), 0o600); err != nil {
			t.Fatal(err)
		}
		test.values["crds"] = false
		got, err := helm(set(test.values))
		if err != nil {
			t.Fatal(err)
		}
		want := render(t, dir)
		for key := range want {
			if strings.HasPrefix(key, "CustomResourceDefinition ") || strings.HasPrefix(key, "Namespace ") {
				delete(want, key)
			}
		}
		for _, key := range keys(want, got) {
			if diff := cmp.Diff(want[key], got[key]); diff != "" {
				t.Errorf("kustomize (-) and Helm (+) differ in %s:\n%s", key, diff)
			}
		}
	}
}

// The right to ask issuers is there with the value alone.
func TestRightToAskIssuers(t *testing.T) {
	for _, issuers := range [][]any{nil, {"Issuer/*"}} {
		got, err := helm(set(object{"issuers": issuers}))
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if is, want := strings.Contains(string(text), "certificaterequests"), len(issuers) > 0; is != want {
			t.Errorf("with %v the operator may make CertificateRequests: %v", issuers, is)
		}
	}
}

// keys are those of two renderings, sorted.
func keys(a, b map[string]object) []string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return slices.Sorted(maps.Keys(both))
}

// Each value changes what it says, and nothing else.
func TestValues(t *testing.T) {
	plain, err := helm(set(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		values object
		want   []string // differs
	}{
		{object{"image": "x/operator:1"}, []string{"Deployment etcdadm-operator"}},
		{object{"hostImage": "x/etcdadm:1"}, []string{"Deployment etcdadm-operator"}},
		{object{"replicas": 1}, []string{"Deployment etcdadm-operator"}},
		{object{"args": []any{"--workers=64"}}, []string{"Deployment etcdadm-operator"}},
		{object{"alpha": []any{"ClientIssuer", "Adopt"}}, nil}, // of earlier operators
		{object{"issuers": []any{"ClusterIssuer/etcd"}}, []string{"ClusterRole etcdadm-operator-client-issuer", "ClusterRoleBinding etcdadm-operator-client-issuer", "Deployment etcdadm-operator"}},
		{object{"resources": object{"limits": object{"memory": "1Gi"}}}, []string{"Deployment etcdadm-operator"}},
		{object{"pod": object{"nodeSelector": object{"a": "b"}, "tolerations": []any{object{"operator": "Exists"}}}}, []string{"Deployment etcdadm-operator"}},
		{object{"protected": false}, []string{"ValidatingAdmissionPolicy etcdadm-protected", "ValidatingAdmissionPolicyBinding etcdadm-protected"}},
		{object{"networkPolicy": false}, []string{"NetworkPolicy etcdadm-operator"}},
		{object{"podMonitor": true}, []string{"PodMonitor etcdadm-hosts", "PodMonitor etcdadm-operator"}},
		{object{"crds": false}, []string{
			"CustomResourceDefinition etcdbackups.etcdadm.io", "CustomResourceDefinition etcdbackupschedules.etcdadm.io",
			"CustomResourceDefinition etcdclusters.etcdadm.io", "CustomResourceDefinition etcdrestores.etcdadm.io",
		}},
	} {
		got, err := helm(set(test.values))
		if err != nil {
			t.Errorf("%v: %v", test.values, err)
			continue
		}
		var differ []string
		for _, key := range keys(plain, got) {
			if !cmp.Equal(plain[key], got[key]) {
				differ = append(differ, key)
			}
		}
		if !slices.Equal(differ, test.want) {
			t.Errorf("%v changes %q, want %q", test.values, differ, test.want)
		}
	}
}

// What the schema refuses.
func TestRefusedValues(t *testing.T) {
	for says, values := range map[string]object{
		"hostImage":          {"image": "x"},
		"image":              {"hostImage": "x"},
		"hostimage":          set(object{"hostimage": "a slip"}),
		"replicas":           set(object{"replicas": "two"}),
		"args":               set(object{"args": []any{"--image=x"}}),
		"args/0":             set(object{"args": []any{"--issuers=Issuer/*"}}),
		"issuers":            set(object{"issuers": []any{"etcd"}}),
		"serviceAccountName": set(object{"pod": object{"serviceAccountName": "admin"}}),
		"podMonitor":         set(object{"podMonitor": "yes"}),
	} {
		if _, err := helm(values); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want a word of %s", values, err, says)
		}
	}
}

// helm lint --strict.
func TestLint(t *testing.T) {
	found := lint.All(operator+"/chart", set(object{"podMonitor": true}), namespace, true)
	for _, m := range found.Messages {
		if m.Severity >= support.WarningSev {
			t.Error(m)
		}
	}
}

package show

import (
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// What is shown to be pasted is one object of a name of its own, of these very words, whatever they are.
func TestRestoreIsPasted(t *testing.T) {
	ec := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "123", Name: "no"}}
	s := Seen{Cluster: ec, World: &decide.World{Intent: &cluster.Intent{Generation: 4, Cluster: 0xab}}}
	for what, way := range map[string]decide.WayOut{
		"survivor": {Survivor: "no-1", Lost: []string{"no-2", "on"}},
		"proven":   {Proven: true},
		"backup":   {Backup: "b\nEND\nrm -r $HOME"},
	} {
		text := s.restore(&way)
		manifest, is := strings.CutPrefix(text, "kubectl create -f - <<'END'\n")
		manifest, _, ends := strings.Cut(manifest, "\nEND")
		if !is || !ends || strings.Count(text, "\nEND") != 1 {
			t.Fatalf("%s: it is no command\n%s", what, text)
		}
		var o v1alpha1.EtcdRestore
		if err := yaml.UnmarshalStrict([]byte(manifest), &o); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, text)
		}
		if o.Name != "" || o.GenerateName != "no-after-4-" || o.Namespace != "123" || o.Spec.Cluster != "no" || o.Spec.Replaces != 4 || o.Spec.ClusterID != "ab" {
			t.Errorf("%s: %+v", what, o)
		}
		from := o.Spec.Source
		if from.Survivor != way.Survivor || string(from.Backup) != way.Backup || from.NewestProven != way.Proven || strings.Join(o.Spec.Lost, " ") != strings.Join(way.Lost, " ") {
			t.Errorf("%s: %+v", what, o.Spec)
		}
	}
}

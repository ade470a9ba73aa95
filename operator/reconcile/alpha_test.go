package reconcile

import (
	"strings"
	"testing"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
)

// What is not finished is on by its name alone, and a name that nobody knows is refused rather than left out.
func TestParseAlpha(t *testing.T) {
	for list, want := range map[string]Alpha{"": {}, "Adopt": {}, "Adopt,ClientIssuer": {ClientIssuer: true}, "ClientIssuer": {ClientIssuer: true}, " ClientIssuer ,": {ClientIssuer: true}} {
		if is, err := ParseAlpha(list); err != nil || is != want {
			t.Errorf("%q: %+v %v", list, is, err)
		}
	}
	for _, list := range []string{"clientissuer", "ClientIssuer,Other", "*"} {
		if is, err := ParseAlpha(list); err == nil || is != (Alpha{}) || !strings.Contains(err.Error(), "--alpha=") {
			t.Errorf("%q: %+v %v", list, is, err)
		}
	}
}

// Without the flag the field is not acted on, and the sentence names the flag.
func TestAlphaIsOff(t *testing.T) {
	for name, test := range map[string]struct {
		tls *v1alpha1.TLS
		on  bool
		off int
	}{
		"off":           {&v1alpha1.TLS{Clients: &v1alpha1.TLSClients{IssuerRef: v1alpha1.IssuerRef{Name: "corp"}}}, false, 1},
		"on":            {&v1alpha1.TLS{Clients: &v1alpha1.TLSClients{IssuerRef: v1alpha1.IssuerRef{Name: "corp"}}}, true, 0},
		"not asked for": {&v1alpha1.TLS{Rotate: 1}, false, 0},
	} {
		s := &sight{cluster: &v1alpha1.EtcdCluster{Spec: v1alpha1.ClusterSpec{TLS: test.tls}}}
		s.want(Alpha{ClientIssuer: test.on}, nil)
		if len(s.world.Want.Unsupported) != test.off {
			t.Errorf("%s: %v", name, s.world.Want.Unsupported)
		}
		if test.off > 0 && s.world.Want.Unsupported[0] != (decide.Field{Name: "spec.tls.clients", Alpha: "ClientIssuer"}) {
			t.Errorf("%s: %+v", name, s.world.Want.Unsupported)
		}
	}
}
